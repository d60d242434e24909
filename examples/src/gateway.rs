//! (to come)

pub mod page;
pub mod source;
