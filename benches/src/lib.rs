//! Workloads that every system under test is filled with and asked about alike.

pub mod fleet;
pub mod systems;
