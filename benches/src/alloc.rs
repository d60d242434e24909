//! How many bytes does a system really take? A global allocator that counts, while it is told to.
//!
//! The rule: while it is not counting it costs one load and a branch, so timed sections of the same binary
//! run as they would without it.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};

/// Passes every call to the system's allocator.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counting;

static ON: AtomicBool = AtomicBool::new(false);
static LIVE: AtomicIsize = AtomicIsize::new(0);
static CALLS: AtomicUsize = AtomicUsize::new(0);

/// Starts counting from zero. What was allocated before must not be freed until [`stop`].
pub fn start() {
    LIVE.store(0, Ordering::Relaxed);
    CALLS.store(0, Ordering::Relaxed);
    ON.store(true, Ordering::Relaxed);
}

/// Stops counting.
pub fn stop() {
    ON.store(false, Ordering::Relaxed);
}

/// Bytes allocated since [`start`] and not freed.
#[must_use]
pub fn live() -> usize {
    LIVE.load(Ordering::Relaxed).max(0) as usize
}

/// Allocations since [`start`], growths of one included.
#[must_use]
pub fn calls() -> usize {
    CALLS.load(Ordering::Relaxed)
}

#[inline]
fn count(bytes: isize) {
    if ON.load(Ordering::Relaxed) {
        LIVE.fetch_add(bytes, Ordering::Relaxed);
        CALLS.fetch_add(usize::from(bytes > 0), Ordering::Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator with the caller's own arguments; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps `alloc_zeroed`'s contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps `dealloc`'s contract, and `at` came from the system's allocator.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize - layout.size() as isize);
        // SAFETY: the caller keeps `realloc`'s contract, and `at` came from the system's allocator.
        unsafe { System.realloc(at, layout, size) }
    }
}
