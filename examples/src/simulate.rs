//! Routing on real traffic, in virtual time: the real index, profiles and load tracker among modelled pods.

pub mod capacity;
pub mod chains;
pub mod config;
pub mod engine;
mod error;
pub mod offline;
pub mod online;
pub mod options;
pub mod outcome;
pub mod policy;
pub mod pool;
pub mod report;
mod router;
mod series;
pub mod study;
mod world;

pub use error::SimulateError;
