//! Store of numbered elements: they never move, are read without a lock, and are made and freed by the chunk.
//!
//! Ids are given out from the lowest chunk that has one, so that what is in use crowds there and the others come free. A chunk that
//! nobody uses is freed once no reader can see it, unless it is the only one with room: an id whose chunk is gone names nothing.

use std::collections::BTreeSet;
use std::fmt;

use crate::reclamation::Pin;
use crate::sync::{AtomicPtr, Mutex, Ordering};

pub(crate) struct Chunks<T: Send + Sync + 'static> {
    /// Each chunk's first element; null if there is no such chunk.
    chunks: Box<[AtomicPtr<T>]>,
    ids: Mutex<Ids>,
}

/// Which ids are in use.
#[derive(Debug, Default)]
struct Ids {
    chunks: Vec<ChunkIds>,
    /// Chunks with ids that nobody uses, of those that there ever were.
    open: BTreeSet<usize>,
    used: usize,
    /// Chunks that there are.
    made: usize,
}

#[derive(Debug, Default)]
struct ChunkIds {
    /// Ids that were used and are not, by their place in the chunk.
    free: Vec<u16>,
    /// Ids that were ever used since the chunk was made.
    made: u16,
}

impl ChunkIds {
    fn used(&self) -> usize {
        usize::from(self.made) - self.free.len()
    }
}

impl<T: Send + Sync + 'static> Chunks<T> {
    pub(crate) fn new() -> Self {
        let chunks = (0..CHUNKS).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect();
        Self { chunks, ids: Mutex::new(Ids::default()) }
    }

    /// The element of an id, for as long as the reader is pinned; none if its chunk was never made, or is gone.
    #[inline]
    pub(crate) fn get<'p>(&'p self, id: u32, _pin: &'p Pin) -> Option<&'p T> {
        let (chunk, at) = (id as usize / CHUNK, id as usize % CHUNK);
        // Acquire: makes the elements visible; pairs with `claim`.
        let first = self.chunks.get(chunk)?.load(Ordering::Acquire);
        // SAFETY: a pointer that is not null is that of a boxed slice of `CHUNK` elements, see `claim`. It lives until the pin
        // ends: `give_back` frees it through `Pin::later` only, after taking it out, and we were pinned when we loaded it.
        (!first.is_null()).then(|| unsafe { &*first.add(at) })
    }

    /// An id that nobody uses. Never zero.
    pub(crate) fn claim(&self, new: impl Fn() -> T) -> u32 {
        let mut ids = self.ids.lock();
        let next = ids.chunks.len();
        let chunk = ids.open.first().copied().unwrap_or(next);
        if chunk == next {
            assert!(next < CHUNKS, "elements are bounded by the configured blocks");
            // No element has the id zero.
            ids.chunks.push(ChunkIds { made: u16::from(chunk == 0), free: Vec::new() });
            ids.used += usize::from(chunk == 0);
            ids.open.insert(chunk);
        }
        if self.chunks[chunk].load(Ordering::Relaxed).is_null() {
            let elements: Box<[T]> = (0..CHUNK).map(|_| new()).collect();
            // Release: publishes the elements; pairs with `get`.
            self.chunks[chunk].store(Box::into_raw(elements).cast(), Ordering::Release);
            ids.made += 1;
        }
        ids.used += 1;
        let of = &mut ids.chunks[chunk];
        let at = of.free.pop().unwrap_or_else(|| {
            of.made += 1;
            of.made - 1
        });
        if of.used() == CHUNK {
            ids.open.remove(&chunk);
        }
        (chunk * CHUNK) as u32 + u32::from(at)
    }

    /// Nobody uses an id any more. If its chunk goes, `leave` is told of each of its elements.
    pub(crate) fn give_back(&self, id: u32, leave: impl Fn(&T), pin: &Pin) {
        let (chunk, at) = (id as usize / CHUNK, id as usize % CHUNK);
        let mut ids = self.ids.lock();
        ids.used -= 1;
        if ids.chunks[chunk].used() == CHUNK {
            ids.open.insert(chunk);
        }
        ids.chunks[chunk].free.push(at as u16);
        // Elsewhere there is room for a chunk's elements: it is not made anew at once.
        let spare = ids.made * CHUNK - ids.used >= CHUNK + CHUNK / 2;
        if ids.chunks[chunk].used() == 0 && spare {
            ids.chunks[chunk] = ChunkIds::default();
            ids.made -= 1;
            let first = self.chunks[chunk].swap(std::ptr::null_mut(), Ordering::AcqRel);
            // SAFETY: (1) not null, since it had an element; (2) the swap took it out.
            let elements = unsafe { Chunk::from_raw(first) };
            elements.0.iter().for_each(leave);
            pin.later(move || drop(elements));
        }
    }

    /// Ids in use.
    pub(crate) fn len(&self) -> usize {
        // The id zero is not one.
        self.ids.lock().used.saturating_sub(1)
    }

    pub(crate) fn bytes(&self) -> usize {
        let ids = self.ids.lock();
        let free: usize = ids.chunks.iter().map(|chunk| chunk.free.capacity() * 2 + size_of::<ChunkIds>()).sum();
        ids.made * CHUNK * size_of::<T>() + free + CHUNKS * size_of::<usize>()
    }

    /// Ids whose chunks there are, in use or not.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn ids(&self) -> Vec<u32> {
        let there = (0..CHUNKS).filter(|&chunk| !self.chunks[chunk].load(Ordering::Acquire).is_null());
        there.flat_map(|chunk| (chunk * CHUNK) as u32..((chunk + 1) * CHUNK) as u32).filter(|id| *id > 0).collect()
    }
}

impl<T: Send + Sync + 'static> Drop for Chunks<T> {
    fn drop(&mut self) {
        for chunk in &self.chunks {
            let first = chunk.load(Ordering::Relaxed);
            if !first.is_null() {
                // SAFETY: (1) as was just seen; (2) the slab ends here, and readers borrow it.
                drop(unsafe { Chunk::from_raw(first) });
            }
        }
    }
}

impl<T: Send + Sync + 'static> fmt::Debug for Chunks<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Chunks({} bytes)", self.bytes())
    }
}

/// A chunk that is out of sight.
struct Chunk<T>(Box<[T]>);

impl<T> Chunk<T> {
    /// Takes a chunk back.
    ///
    /// # Safety
    ///
    /// 1. The pointer is one that `Chunks::claim` stored.
    /// 2. It is taken back once, and dropped only when nobody reads it any more.
    unsafe fn from_raw(first: *mut T) -> Self {
        let elements = std::ptr::slice_from_raw_parts_mut(first, CHUNK);
        // SAFETY: by (1) `claim` leaked exactly this boxed slice; by (2) nobody else owns it.
        Self(unsafe { Box::from_raw(elements) })
    }
}

/// Elements of a chunk: 320 KB of segments of 256 pods. Modelled, few, since loom keeps an eye on every one.
const CHUNK: usize = if cfg!(all(test, routing_loom)) { 4 } else { 1024 };

/// Enough for every id below 2^25.
const CHUNKS: usize = if cfg!(all(test, routing_loom)) { 4 } else { (1 << 25) / CHUNK };

#[cfg(all(test, not(routing_loom)))]
mod tests {
    use super::*;
    use crate::collect_garbage;
    use crate::reclamation::pin;

    #[test]
    fn an_element_stays_where_it_is_and_ids_are_used_again_from_the_lowest() {
        let (chunks, pin) = (Chunks::<u64>::new(), pin());
        assert!(chunks.get(3, &pin).is_none());
        let ids: Vec<u32> = (0..3_000).map(|_| chunks.claim(|| 7)).collect();
        assert_eq!((ids[0], ids[2_999], chunks.len()), (1, 3_000, 3_000));
        let first: *const u64 = chunks.get(ids[5], &pin).expect("made");
        chunks.give_back(ids[2_900], |_| {}, &pin);
        chunks.give_back(ids[5], |_| {}, &pin);
        assert_eq!(chunks.claim(|| 8), ids[5], "the lowest chunk's first");
        assert_eq!(chunks.get(ids[5], &pin).map(std::ptr::from_ref), Some(first));
    }

    #[test]
    fn chunks_that_nobody_uses_are_freed_but_one() {
        let chunks = Chunks::<u64>::new();
        let ids: Vec<u32> = (0..10_000).map(|_| chunks.claim(|| 7)).collect();
        let full = chunks.bytes();
        for &id in &ids {
            chunks.give_back(id, |_| {}, &pin());
        }
        collect_garbage();
        let spared = chunks.bytes() - CHUNKS * 8;
        assert!(chunks.len() == 0 && spared < (full - CHUNKS * 8) / 3, "{spared} of {full} bytes stay");
        assert!(chunks.get(ids[9_999], &pin()).is_none());
        assert!(chunks.claim(|| 8) < CHUNK as u32, "the lowest chunk is there");
    }
}
