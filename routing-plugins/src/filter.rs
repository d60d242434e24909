//! Filters: who may be chosen at all.
