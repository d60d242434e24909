//! Counting global allocator: allocations and bytes of one thread, or of the whole process between two calls.
//!
//! A test counts its own thread, whatever other tests do meanwhile; a benchmark counts the [`Process`].
//!
//! ```
//! use pointsman_test_support::alloc::{CountingAllocator, allocations};
//!
//! #[global_allocator]
//! static ALLOCATOR: CountingAllocator = CountingAllocator::new();
//!
//! assert_eq!(allocations(|| drop(vec![1, 2, 3])), 1);
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::fmt;
use std::hint::black_box;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicUsize, Ordering};

/// Passes every call to the system's allocator, and counts it.
pub struct CountingAllocator<C = Thread>(PhantomData<C>);

impl<C> CountingAllocator<C> {
    /// What a `#[global_allocator]` starts as.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "a static has no use for it")]
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<C> fmt::Debug for CountingAllocator<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CountingAllocator")
    }
}

/// Where calls of the allocator are counted; must not allocate.
pub trait Counter {
    /// So many bytes were allocated.
    fn allocated(bytes: usize);

    /// So many bytes were freed.
    fn freed(bytes: usize);

    /// An allocation changed its size.
    fn resized(from: usize, to: usize);
}

/// Counts for each thread, all the time.
#[derive(Clone, Copy, Debug)]
pub struct Thread;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

impl Counter for Thread {
    // `try_with`, because a thread that ends may free after its counters are gone.
    #[inline]
    fn allocated(bytes: usize) {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        let _ = LIVE.try_with(|live| live.set(live.get() + bytes as isize));
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(live_bytes())));
    }

    #[inline]
    fn freed(bytes: usize) {
        let _ = LIVE.try_with(|live| live.set(live.get() - bytes as isize));
    }

    // At worst the system copies: for a moment both are there.
    #[inline]
    fn resized(from: usize, to: usize) {
        Self::allocated(to);
        Self::freed(from);
    }
}

/// Allocations of this thread during `work`, growths of one included.
///
/// # Panics
///
/// Panics where [`CountingAllocator`] is not the global allocator: zero would say nothing.
pub fn allocations(work: impl FnOnce()) -> usize {
    assert_installed();
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// The most bytes that this thread had allocated at any one time during `work`, beyond those before.
///
/// # Panics
///
/// As [`allocations`].
pub fn peak_bytes<T>(work: impl FnOnce() -> T) -> (usize, T) {
    assert_installed();
    let before = live_bytes();
    PEAK.set(before);
    let result = work();
    ((PEAK.get() - before) as usize, result)
}

/// Bytes that this thread has allocated and not freed; below zero where it freed those of others.
#[must_use]
pub fn live_bytes() -> isize {
    LIVE.try_with(Cell::get).unwrap_or_default()
}

fn assert_installed() {
    let before = ALLOCATIONS.get();
    drop(black_box(Box::new(0_u8)));
    assert_ne!(ALLOCATIONS.get(), before, "CountingAllocator is not the global allocator here");
}

/// Counts for all threads together, between [`start`](Self::start) and [`stop`](Self::stop).
///
/// Outside of that it costs one load and a branch, so that timed sections of the same binary run as they would
/// without it.
#[derive(Clone, Copy, Debug)]
pub struct Process;

static COUNTING: AtomicBool = AtomicBool::new(false);
static PROCESS_LIVE: AtomicIsize = AtomicIsize::new(0);
static PROCESS_ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

impl Process {
    /// Starts counting from zero. What was allocated before must not be freed until [`stop`](Self::stop).
    pub fn start() {
        PROCESS_LIVE.store(0, Ordering::Relaxed);
        PROCESS_ALLOCATIONS.store(0, Ordering::Relaxed);
        COUNTING.store(true, Ordering::Relaxed);
    }

    /// Stops counting.
    pub fn stop() {
        COUNTING.store(false, Ordering::Relaxed);
    }

    /// Bytes allocated since [`start`](Self::start) and not freed.
    #[must_use]
    pub fn live_bytes() -> usize {
        PROCESS_LIVE.load(Ordering::Relaxed).max(0) as usize
    }

    /// Allocations since [`start`](Self::start), growths of one included.
    #[must_use]
    pub fn allocations() -> usize {
        PROCESS_ALLOCATIONS.load(Ordering::Relaxed)
    }

    #[inline]
    fn count(bytes: isize) {
        if COUNTING.load(Ordering::Relaxed) {
            PROCESS_LIVE.fetch_add(bytes, Ordering::Relaxed);
            PROCESS_ALLOCATIONS.fetch_add(usize::from(bytes > 0), Ordering::Relaxed);
        }
    }
}

impl Counter for Process {
    #[inline]
    fn allocated(bytes: usize) {
        Self::count(bytes as isize);
    }

    #[inline]
    fn freed(bytes: usize) {
        Self::count(-(bytes as isize));
    }

    #[inline]
    fn resized(from: usize, to: usize) {
        Self::count(to as isize - from as isize);
    }
}

// SAFETY: every call goes to the system's allocator with the caller's own arguments; counters allocate nothing.
unsafe impl<C: Counter> GlobalAlloc for CountingAllocator<C> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        C::allocated(layout.size());
        // SAFETY: the caller keeps `alloc`'s contract.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        C::allocated(layout.size());
        // SAFETY: the caller keeps `alloc_zeroed`'s contract.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        C::freed(layout.size());
        // SAFETY: the caller keeps `dealloc`'s contract, and `at` came from the system's allocator.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        C::resized(layout.size(), size);
        // SAFETY: the caller keeps `realloc`'s contract, and `at` came from the system's allocator.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static ALLOCATOR: CountingAllocator = CountingAllocator::new();

    #[test]
    fn allocations_growths_and_peaks_are_counted() {
        assert_eq!(allocations(|| ()), 0);
        assert_eq!(allocations(|| drop(Vec::<u64>::with_capacity(8))), 1);
        let before = live_bytes();
        let (peak, list) = peak_bytes(|| {
            let mut list: Vec<u64> = Vec::with_capacity(8);
            list.reserve_exact(16);
            list
        });
        assert_eq!((peak, live_bytes() - before), ((8 + 16) * 8, 16 * 8), "both are there for a moment");
        drop(list);
        assert_eq!(live_bytes(), before);
    }

    #[test]
    fn other_threads_do_not_count() {
        let worker = std::thread::spawn(|| allocations(|| drop(vec![0_u8; 100])));
        assert_eq!(worker.join().expect("it ends"), 1);
    }
}
