//! Arrays of cache lines for the sharded tables: published by one pointer, replaced whole, freed when no reader can see them.

#[cfg(not(all(test, routing_loom)))]
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};

use crate::reclamation::Pin;
use crate::sync::{AtomicPtr, Ordering};

/// A cache line of a table.
///
/// # Safety
///
/// 1. It has a size, and one whose bytes are all zero is a line without entries.
pub(crate) unsafe trait Line: Send + Sync + 'static {
    /// A line without entries: a modelled atomic is not of bytes.
    #[cfg(all(test, routing_loom))]
    fn vacant() -> Self;
}

/// One shard's array, its size class in the low bits of the address.
pub(crate) struct ShardArray<T: Line>(AtomicPtr<T>);

impl<T: Line> ShardArray<T> {
    /// An array of the smallest class.
    pub(crate) fn new() -> Self {
        Self(AtomicPtr::new(Fresh::<T>::new(0).into_tagged()))
    }

    /// The lines, for as long as the reader is pinned.
    #[inline]
    pub(crate) fn lines<'p>(&self, _pin: &'p Pin) -> &'p [T] {
        // Acquire: makes what `replace` was given visible.
        let (lines, class) = untag(self.0.load(Ordering::Acquire));
        // SAFETY: (1) the pointer came from `Fresh::into_tagged`, which tags an array with the class that it has: every store to
        // the cell does. (2) It lives until the pin ends: `replace` frees it through `Pin::later` only, after taking it out of
        // the cell, and we were pinned when we loaded it. (3) Lines are `Sync`: shared access is all that anybody gets.
        unsafe { std::slice::from_raw_parts(lines, CLASSES[class]) }
    }

    /// Where the lines are and how many, to be asked for ahead of their use and not to be read.
    #[inline]
    pub(crate) fn address(&self) -> (*const T, usize) {
        // Relaxed: the address is not read through, and a stale one costs a useless fetch.
        let (lines, class) = untag(self.0.load(Ordering::Relaxed));
        (lines, CLASSES[class])
    }

    pub(crate) fn class(&self) -> usize {
        untag(self.0.load(Ordering::Relaxed)).1
    }

    pub(crate) fn bytes(&self) -> usize {
        size_of::<T>() * CLASSES[self.class()]
    }

    /// Publishes another array; this one is freed once nobody can be reading it.
    pub(crate) fn replace(&self, fresh: Fresh<T>, pin: &Pin) {
        // Release: publishes the new lines; pairs with `lines`.
        let old = self.0.swap(fresh.into_tagged(), Ordering::AcqRel);
        // SAFETY: (1) only tagged arrays are stored in the cell; (2) the swap took this one out.
        let old = unsafe { Fresh::from_tagged(old) };
        pin.later(move || drop(old));
    }
}

impl<T: Line> Drop for ShardArray<T> {
    fn drop(&mut self) {
        // SAFETY: (1) as in `replace`; (2) the cell ends here, and readers borrow it.
        drop(unsafe { Fresh::from_tagged(self.0.load(Ordering::Relaxed)) });
    }
}

/// An array that nobody else sees: not yet, or no more.
pub(crate) struct Fresh<T: Line> {
    lines: Box<[T]>,
    class: usize,
}

impl<T: Line> Fresh<T> {
    /// All vacant.
    pub(crate) fn new(class: usize) -> Self {
        Self { lines: vacant(CLASSES[class]), class }
    }

    pub(crate) fn lines(&self) -> &[T] {
        &self.lines
    }

    fn into_tagged(self) -> *mut T {
        Box::into_raw(self.lines).cast::<T>().map_addr(|address| address | self.class)
    }

    /// Takes an array back from a cell.
    ///
    /// # Safety
    ///
    /// 1. The pointer came from `into_tagged`.
    /// 2. It is taken back once, and freed only when nobody reads it any more.
    unsafe fn from_tagged(tagged: *mut T) -> Self {
        let (lines, class) = untag(tagged);
        let lines = std::ptr::slice_from_raw_parts_mut(lines.cast_mut(), CLASSES[class]);
        // SAFETY: by (1) `into_tagged` leaked exactly this boxed slice; by (2) nobody else owns it.
        Self { lines: unsafe { Box::from_raw(lines) }, class }
    }
}

#[inline]
fn untag<T>(tagged: *mut T) -> (*const T, usize) {
    let class = tagged.addr() & (CLASS_COUNT - 1);
    (tagged.map_addr(|address| address & !(CLASS_COUNT - 1)).cast_const(), class)
}

/// So many vacant lines. Zeroed by the allocator: some need not touch what comes fresh from the system.
#[cfg(not(all(test, routing_loom)))]
fn vacant<T: Line>(count: usize) -> Box<[T]> {
    let layout = Layout::array::<T>(count).expect("a class is below what memory can be");
    // SAFETY: neither the count nor, by (1) of `Line`, the size of a line is zero.
    let lines = unsafe { alloc_zeroed(layout) }.cast::<T>();
    if lines.is_null() {
        handle_alloc_error(layout);
    }
    // SAFETY: the global allocator gave us room for so many lines, and by (1) of `Line` they are vacant ones.
    unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(lines, count)) }
}

#[cfg(all(test, routing_loom))]
fn vacant<T: Line>(count: usize) -> Box<[T]> {
    (0..count).map(|_| T::vacant()).collect()
}

/// The smallest class whose arrays have `slots` slots of `per_line` a line.
pub(crate) fn class_for(slots: usize, per_line: usize) -> usize {
    CLASSES.iter().position(|lines| lines * per_line >= slots).unwrap_or(CLASS_COUNT - 1)
}

/// Shards of a table.
pub(crate) const SHARDS: usize = 1 << SHARD_BITS;
pub(crate) const SHARD_BITS: u32 = if cfg!(all(test, routing_loom)) { 0 } else { 8 };

/// The shard from the top bits of a spread hash, and what follows them.
#[inline]
pub(crate) fn shard(mixed: u64) -> (usize, u64) {
    // Twice: a shift by all bits is none.
    ((mixed >> 1 >> (63 - SHARD_BITS)) as usize, mixed << SHARD_BITS)
}

/// A class fits in the address bits that a line's alignment leaves zero.
const CLASS_COUNT: usize = 64;

/// Lines by size class: each a quarter more than the one before, up to two million.
pub(crate) const CLASSES: [usize; CLASS_COUNT] = {
    let mut classes = [1; CLASS_COUNT];
    let mut class = 1;
    while class < CLASS_COUNT {
        let before = classes[class - 1];
        classes[class] = before + if before < 4 { 1 } else { before / 4 };
        class += 1;
    }
    classes
};
