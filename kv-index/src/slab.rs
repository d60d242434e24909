//! A growing array whose elements never move, readable without a lock.

use std::fmt;
use std::sync::OnceLock;

/// Chunk `k` holds `FIRST << k` elements; a chunk is made when one of its elements is first needed.
pub(crate) struct Slab<T> {
    chunks: [OnceLock<Box<[T]>>; CHUNKS],
}

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Self { chunks: [const { OnceLock::new() }; CHUNKS] }
    }

    /// The element, if its chunk was ever needed.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let (chunk, at) = place(index);
        self.chunks[chunk].get()?.get(at)
    }

    /// The element, made with its whole chunk if need be.
    pub(crate) fn make(&self, index: u32, new: impl Fn() -> T) -> &T {
        let (chunk, at) = place(index);
        &self.chunks[chunk].get_or_init(|| (0..FIRST << chunk).map(|_| new()).collect())[at]
    }

    pub(crate) fn bytes(&self) -> usize {
        self.chunks.iter().filter_map(|chunk| chunk.get()).map(|chunk| size_of_val(&**chunk)).sum()
    }
}

impl<T> fmt::Debug for Slab<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slab({} bytes)", self.bytes())
    }
}

/// Chunk `k` starts at `FIRST * (2^k - 1)`.
#[inline]
fn place(index: u32) -> (usize, usize) {
    let shifted = index as usize + FIRST;
    let chunk = (shifted / FIRST).ilog2() as usize;
    (chunk, shifted - (FIRST << chunk))
}

/// Elements of the first chunk; a power of two.
const FIRST: usize = if cfg!(routing_loom) { 4 } else { 512 };

/// Enough for every index below 2^25 and beyond.
const CHUNKS: usize = 26;

#[cfg(all(test, not(routing_loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_its_place() {
        let mut expected = (0, 0);
        for index in 0..100_000 {
            assert_eq!(place(index), expected);
            expected.1 += 1;
            if expected.1 == FIRST << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert!(place((1 << 25) - 1).0 < CHUNKS);
    }

    #[test]
    fn an_element_stays_where_it_is() {
        let slab = Slab::new();
        assert!(slab.get(3).is_none());
        let first: *const u64 = slab.make(3, || 7);
        slab.make(5_000, || 8);
        assert_eq!(slab.get(3).map(std::ptr::from_ref), Some(first));
        assert_eq!((slab.get(3), slab.get(5_000)), (Some(&7), Some(&8)));
    }
}
