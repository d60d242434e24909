//! Any bytes as an engine's stream of events: whatever they say, the index's structures agree with each other, and a
//! batch that comes again changes nothing.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| kv_index::engine::laws::any_stream(bytes));
