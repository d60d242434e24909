//! Small examples of embedding the crates, one file each: `cargo run -p pointsman-embedding --example NAME`.

#![forbid(unsafe_code)]

/// The README's example is compiled and run with the tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[derive(Debug)]
pub struct Readme;
