//! (to come)

pub mod inbox;
pub mod page;
pub mod source;
