//! Routing on real traffic, in virtual time: the real index, profiles and load tracker among modelled pods.

pub mod chains;
pub mod config;
pub mod engine;
mod error;
pub mod online;
pub mod outcome;
pub mod policy;
mod router;
mod series;
mod world;

pub use error::SimulateError;
