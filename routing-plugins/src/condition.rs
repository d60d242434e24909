//! Conditions: whether a step of a workflow is taken.
