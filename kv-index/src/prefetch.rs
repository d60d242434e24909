//! Software prefetch of cache lines, so that the misses of a batch overlap.

/// Fetches the cache line at `at`, if the processor has a way to. `at` need not be valid to read.
#[inline(always)]
pub(crate) fn prefetch<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing the program can see and faults on no address; SSE is part of
        // every x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) }
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}

/// The same for a line that will be written: no other core keeps a copy of it that would have to be taken back then.
#[inline(always)]
pub(crate) fn prefetch_to_write<T>(at: *const T) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: as above. Processors without the instruction take its encoding for a no-op.
    unsafe {
        std::arch::asm!("prefetchw byte ptr [{}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = at;
}
