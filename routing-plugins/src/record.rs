//! Recorders: what later decisions should know of this one.
