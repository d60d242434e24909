//! Any bytes as what an engine sends: a payload, frames, or TensorRT-LLM's JSON. The laws of the decoders hold, and
//! nothing takes more memory than a multiple of its length.

#![no_main]

use kv_index::BlockSize;
use kv_index::engine::laws::Input;
use kv_index::engine::{decode_batch, decode_trtllm};
use libfuzzer_sys::fuzz_target;
use pointsman_test_support::alloc::{CountingAllocator, peak_bytes};

fuzz_target!(|bytes: &[u8]| {
    let input = Input::new(bytes);
    match &input {
        Input::Payload(bytes) => bounded(bytes, 128, || drop(decode_batch(bytes))),
        Input::Json(bytes, tokens) => {
            let size = BlockSize::new(*tokens).expect("not zero");
            bounded(bytes, 1_024, || drop(decode_trtllm(bytes, size)));
        }
        _ => {}
    }
    input.check();
});

/// Runs the work and makes sure that what it had allocated at any time is no more than so many times the bytes.
fn bounded(bytes: &[u8], times: usize, work: impl FnOnce()) {
    let (peak, ()) = peak_bytes(work);
    // The first room of a list is for a few elements, however few bytes there are.
    assert!(peak <= 4_096 + times * bytes.len(), "{peak} bytes for a payload of {}", bytes.len());
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();
