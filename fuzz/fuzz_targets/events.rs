//! Any trace of operations: the index answers as the literal model does.

#![no_main]

use kv_index::{Config, model};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&first, rest)) = bytes.split_first() else { return };
    // Half of the traces run in narrow bounds.
    let config = if first % 2 == 0 {
        Config::default()
    } else {
        Config::default().max_blocks(usize::from(first)).max_blocks_per_pod(40).max_pods(3)
    };
    model::replay::<1>(config, &model::decode(rest));
});
