//! The endpoint picker program.

fn main() {}
