//! Append-only slab: elements never move, and are read without a lock.

use std::fmt;
use std::sync::OnceLock;

/// Chunk `k` holds `FIRST << k` elements; a chunk is made when one of its elements is first needed. `FIRST` is a
/// power of two: what is read most should fit the first chunk.
pub(crate) struct Slab<T, const FIRST: usize> {
    chunks: [OnceLock<Box<[T]>>; CHUNKS],
}

impl<T, const FIRST: usize> Slab<T, FIRST> {
    pub(crate) fn new() -> Self {
        Self { chunks: [const { OnceLock::new() }; CHUNKS] }
    }

    /// The element, if its chunk was ever needed.
    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        let index = index as usize;
        if index < FIRST {
            return self.chunks[0].get()?.get(index);
        }
        let (chunk, at) = Self::place(index);
        self.chunks[chunk].get()?.get(at)
    }

    /// The element, made with its whole chunk if need be.
    pub(crate) fn make(&self, index: u32, new: impl Fn() -> T) -> &T {
        let (chunk, at) = Self::place(index as usize);
        &self.chunks[chunk].get_or_init(|| (0..FIRST << chunk).map(|_| new()).collect())[at]
    }

    /// Chunk `k` starts at `FIRST * (2^k - 1)`.
    fn place(index: usize) -> (usize, usize) {
        let shifted = index + FIRST;
        let chunk = (shifted / FIRST).ilog2() as usize;
        (chunk, shifted - (FIRST << chunk))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.chunks.iter().filter_map(|chunk| chunk.get()).map(|chunk| size_of_val(&**chunk)).sum()
    }
}

impl<T, const FIRST: usize> fmt::Debug for Slab<T, FIRST> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Slab({} bytes)", self.bytes())
    }
}

/// Enough for every index below 2^25 and beyond.
const CHUNKS: usize = 26;

#[cfg(all(test, not(routing_loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_index_has_its_place() {
        let mut expected = (0, 0);
        for index in 0..100_000 {
            assert_eq!(Slab::<u8, 64>::place(index), expected);
            expected.1 += 1;
            if expected.1 == 64 << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert!(Slab::<u8, 64>::place((1 << 25) - 1).0 < CHUNKS);
    }

    #[test]
    fn an_element_stays_where_it_is() {
        let slab = Slab::<u64, 64>::new();
        assert!(slab.get(3).is_none());
        let first: *const u64 = slab.make(3, || 7);
        slab.make(5_000, || 8);
        assert_eq!(slab.get(3).map(std::ptr::from_ref), Some(first));
        assert_eq!((slab.get(3), slab.get(5_000)), (Some(&7), Some(&8)));
    }
}
