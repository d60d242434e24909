//! The hole ledger: where a pod's blocks are not closed under prefixes.
//!
//! A *hole* is a block the pod lacks while it holds a child of it. Along any chain, a pod's blocks go from
//! absent to present exactly at a hole, so a search that knows the holes on its chain knows how far it may
//! trust a search by position. Each pod's holes are published whole, behind one pointer.
//!
//! The ledger lists at most [`LEDGER_MAX`] holes. A pod with more, with a hole whose position is unknown, or
//! with blocks whose parent is unknown is marked for scanning instead: slower, never wrong.

use crate::block::BlockHash;
use crate::map::FixedMap;
use crate::pod::PodId;
use crate::podset::PodSet;
use crate::reclaim::Pin;
use crate::shared::SharedPodSet;
use crate::sync::{AtomicPtr, AtomicU64, Ordering};

/// The most holes a search will check for one pod before it scans instead.
pub(crate) const LEDGER_MAX: usize = 32;

/// One pod's holes, as its writer knows them: exact, whatever their number.
#[derive(Debug, Default)]
pub(crate) struct Holes {
    by_hash: FixedMap<BlockHash, Hole>,
    /// Holes whose position is not known.
    unplaced: usize,
    /// Holes with no child left, kept until the table no longer shows the children.
    healed: Vec<BlockHash>,
    changed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Hole {
    position: Option<u32>,
    children: u32,
}

impl Holes {
    /// A block left while `children` of its children stay.
    pub(crate) fn open(&mut self, hash: BlockHash, position: Option<u32>, children: u32) {
        self.changed = true;
        let hole = self.by_hash.entry(hash).or_insert_with(|| {
            self.unplaced += 1;
            Hole { position: None, children: 0 }
        });
        if hole.position.is_none() && position.is_some() {
            self.unplaced -= 1;
            hole.position = position;
        }
        hole.children += children;
    }

    /// A block came under a parent the pod lacks; the parent's position, if known.
    pub(crate) fn add_child(&mut self, hash: BlockHash) -> Option<u32> {
        self.open(hash, None, 1);
        self.by_hash[&hash].position
    }

    /// A child of a hole left.
    pub(crate) fn drop_child(&mut self, hash: BlockHash) {
        let Some(hole) = self.by_hash.get_mut(&hash) else { return };
        hole.children = hole.children.saturating_sub(1);
        if hole.children == 0 {
            self.healed.push(hash);
        }
    }

    /// The missing block came: how many of its children are already there.
    pub(crate) fn fill(&mut self, hash: BlockHash) -> u32 {
        let Some(hole) = self.by_hash.get_mut(&hash) else { return 0 };
        let children = std::mem::take(&mut hole.children);
        if children > 0 {
            self.healed.push(hash);
        }
        children
    }

    /// Every child of every hole left.
    pub(crate) fn heal_all(&mut self) {
        for (&hash, hole) in &mut self.by_hash {
            hole.children = 0;
            self.healed.push(hash);
        }
    }

    /// Forgets healed holes, once the table shows what healed them.
    pub(crate) fn settle(&mut self) {
        for hash in self.healed.drain(..) {
            let std::collections::hash_map::Entry::Occupied(entry) = self.by_hash.entry(hash) else { continue };
            if entry.get().children == 0 {
                self.unplaced -= usize::from(entry.remove().position.is_none());
                self.changed = true;
            }
        }
        if self.by_hash.is_empty() && self.by_hash.capacity() > 1024 {
            self.by_hash = FixedMap::default();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_hash.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_hash.is_empty()
    }

    /// What searches should know, if it is not what they know already.
    pub(crate) fn news(&mut self, unlinked: usize) -> Option<Ledger> {
        if !std::mem::take(&mut self.changed) {
            return None;
        }
        Some(if self.need_scan(unlinked) {
            Ledger::Scan
        } else {
            Ledger::Holes(self.by_hash.iter().filter_map(|(&hash, hole)| hole.position.map(|p| (p, hash))).collect())
        })
    }

    /// Whether the holes are too many to list, or not all placed.
    pub(crate) fn need_scan(&self, unlinked: usize) -> bool {
        unlinked > 0 || self.unplaced > 0 || self.len() > LEDGER_MAX
    }

    /// Makes the next [`Self::news`] speak up.
    pub(crate) fn touch(&mut self) {
        self.changed = true;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.by_hash.capacity() * 25
    }
}

/// One pod's holes, as searches read them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ledger {
    /// Position and hash of every hole.
    Holes(Box<[(u32, BlockHash)]>),
    /// Too many to list, or not all are placed.
    Scan,
}

/// Every pod's ledger.
#[derive(Debug)]
pub(crate) struct Ledgers<const W: usize> {
    /// Changes begun; a search in whose course it moves starts again.
    changes: AtomicU64,
    holed: SharedPodSet<W>,
    by_pod: Box<[AtomicPtr<Ledger>]>,
}

impl<const W: usize> Ledgers<W> {
    pub(crate) fn new(pods: usize) -> Self {
        Self {
            changes: AtomicU64::new(0),
            holed: SharedPodSet::new(),
            by_pod: (0..pods).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect(),
        }
    }

    /// Shows searches a pod's ledger; the caller holds the pod's lock.
    pub(crate) fn publish(&self, pod: PodId, ledger: Ledger, pin: &Pin) {
        let none = ledger == Ledger::Holes([].into());
        if self.of(pod, pin) == Some(&ledger).filter(|_| !none) {
            return;
        }
        let new = if none { std::ptr::null_mut() } else { Box::into_raw(Box::new(ledger)) };
        // Before the change, so that a search which read slots before it and reads the ledger after it notices
        // that it has two moments in hand. Release: whoever starts from this count sees the slots that led to it;
        // pairs with `changes`.
        self.changes.fetch_add(1, Ordering::Release);
        // Release: publishes the ledger; pairs with `of`. A search that reads a slot written after this
        // reads this or later: `holed` is read after the slots.
        let old = self.by_pod[pod.index()].swap(new, Ordering::AcqRel);
        if none {
            self.holed.remove(pod);
        } else {
            self.holed.insert(pod);
        }
        let old = Garbage(old);
        pin.later(move || drop(old));
    }

    /// Changes to any ledger so far.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Pods with a ledger.
    #[inline]
    pub(crate) fn holed(&self) -> PodSet<W> {
        self.holed.get()
    }

    /// The pod's ledger.
    pub(crate) fn of<'p>(&self, pod: PodId, _pin: &'p Pin) -> Option<&'p Ledger> {
        let ledger = self.by_pod[pod.index()].load(Ordering::Acquire);
        // SAFETY: (1) null, or leaked by `publish` as a valid box. (2) It lives until the pin ends: `publish`
        // frees what it replaced only through `Pin::later`. (3) Nobody writes a published ledger.
        unsafe { ledger.as_ref() }
    }
}

impl<const W: usize> Drop for Ledgers<W> {
    fn drop(&mut self) {
        for ledger in &self.by_pod {
            drop(Garbage(ledger.load(Ordering::Relaxed)));
        }
    }
}

/// A ledger no search can reach any more.
struct Garbage(*mut Ledger);

// SAFETY: it is the ledger's only owner, and a ledger is plain data.
unsafe impl Send for Garbage {}

impl Drop for Garbage {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: `publish` leaked this box, and `Garbage` is made once per ledger: when it was replaced
            // and the pins are over, or when the ledgers are dropped.
            drop(unsafe { Box::from_raw(self.0) });
        }
    }
}
