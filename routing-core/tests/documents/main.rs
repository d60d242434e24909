//! Documents: what is read, what is refused and where, what is built, and what is written again.

mod build;
#[path = "../common/mod.rs"]
mod common;
mod format;
mod limits;
mod located;
mod plugins;
mod refuse;
mod reload;
mod round_trip;
mod schema;
mod values;

/// One document in three formats.
const YAML: &str = include_str!("sample.yaml");
const JSON: &str = include_str!("sample.json");
const TOML: &str = include_str!("sample.toml");
