//! Any bytes as a snapshot, and any bytes as the body of one with a good header: an error or a sound index.

#![no_main]

use kv_index::{Config, Index, model};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    model::restore_any(bytes);
    let _ = Index::<1>::restore(Config::default(), bytes);
});
