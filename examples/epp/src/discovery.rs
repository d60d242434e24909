//! Pods from where clusters list them.
