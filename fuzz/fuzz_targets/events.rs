//! Any trace of operations: the index answers as the literal model does.

#![no_main]

use kv_index::model;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| model::replay_any(bytes));
