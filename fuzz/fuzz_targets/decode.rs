//! Any bytes as what an engine sends: a payload, frames, or TensorRT-LLM's JSON. The laws of the decoders hold, and
//! nothing takes more memory than a multiple of its length.

#![no_main]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use kv_index::BlockSize;
use kv_index::engine::laws::Input;
use kv_index::engine::{decode_batch, decode_trtllm};
use libfuzzer_sys::fuzz_target;

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
    let before = LIVE.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    work();
    let peak = PEAK.load(Ordering::Relaxed).saturating_sub(before);
    // The first room of a list is for a few elements, however few bytes there are.
    assert!(peak <= 4_096 + times * bytes.len(), "{peak} bytes for a payload of {}", bytes.len());
}

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(live, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
