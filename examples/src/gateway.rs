//! (to come)

pub mod page;
