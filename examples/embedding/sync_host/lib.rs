//! A host without futures: `cargo run -p pointsman-sync-host --example sync_host`.

#![forbid(unsafe_code)]
