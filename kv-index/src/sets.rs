//! Interned pod sets: each distinct set of holders is stored once, and a table slot names it by id.
//!
//! Neighbouring blocks mostly have the same holders, so one id serves thousands of slots, comparing two
//! slots' holders is comparing two integers, and a reader can never see half a set. A set is immutable
//! while anybody can see its id: the id goes back for another set only after every search that might
//! have read it has ended ([`crate::reclaim`]).
//!
//! The empty set and the sets of one pod have fixed ids and are not counted; most blocks have one of those.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::map::FixedMap;
use crate::pod::PodId;
use crate::podset::PodSet;
use crate::prefetch::prefetch;
use crate::reclaim::pin;
use crate::slab::Slab;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// The name of an interned set. Equal ids name equal sets for as long as a search lasts.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct SetId(u32);

impl SetId {
    /// Nobody.
    pub(crate) const EMPTY: Self = Self(0);

    /// Bits an id takes in a slot.
    pub(crate) const BITS: u32 = 25;

    /// The set of one pod.
    pub(crate) fn of_one(pod: PodId) -> Self {
        Self(pod.index() as u32 + 1)
    }

    pub(crate) const fn from_raw(raw: u32) -> Self {
        Self(raw)
    }

    pub(crate) const fn raw(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for SetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "set {}", self.0)
    }
}

/// Every interned set, readable without a lock.
pub(crate) struct Sets<const W: usize> {
    slab: Slab<[AtomicU64; W], FIRST>,
    interner: Mutex<Interner<W>>,
}

impl<const W: usize> Sets<W> {
    pub(crate) fn new() -> Self {
        let sets = Self {
            slab: Slab::new(),
            interner: Mutex::new(Interner {
                ids: FixedMap::default(),
                holds: Vec::new(),
                next: Self::UNCOUNTED,
                free: Vec::new(),
                resting: VecDeque::new(),
            }),
        };
        for index in 0..PodSet::<W>::CAPACITY {
            let pod = PodId::from_index(index);
            sets.write(SetId::of_one(pod), [pod].into_iter().collect());
        }
        sets
    }

    /// The pods of a set. The caller is pinned since before it learned the id.
    #[inline]
    pub(crate) fn pods(&self, set: SetId) -> PodSet<W> {
        let Some(record) = self.slab.get(set.0) else { return PodSet::EMPTY };
        let mut words = [0; W];
        for (word, stored) in words.iter_mut().zip(record) {
            // Relaxed: the words were written before the id was published in a slot, and the slot was
            // read with Acquire.
            *word = stored.load(Ordering::Relaxed);
        }
        PodSet::from_words(words)
    }

    /// Moves the pods of a set from `left` to `taken`, which is empty; false if there were none. The caller is
    /// pinned as for `pods`.
    ///
    /// Word by word, so that nothing written as words is read back wider at once, which processors dislike.
    #[inline]
    pub(crate) fn take(&self, set: SetId, left: &mut PodSet<W>, taken: &mut PodSet<W>) -> bool {
        let Some(record) = self.slab.get(set.0) else { return false };
        let mut any = 0;
        for (word, stored) in record.iter().enumerate() {
            let moved = stored.load(Ordering::Relaxed) & left.words()[word];
            left.words_mut()[word] ^= moved;
            taken.words_mut()[word] = moved;
            any |= moved;
        }
        any != 0
    }

    /// The only pod of `set` that is not in `next`, if there is just one and `next` has no other. The caller
    /// keeps both from being forgotten.
    pub(crate) fn leaver(&self, set: SetId, next: SetId) -> Option<PodId> {
        let (set, next) = (self.pods(set), self.pods(next));
        let gone = set - next;
        (gone.len() == 1 && next.is_subset(&set)).then(|| gone.first()).flatten()
    }

    /// Fetches a set that will be read.
    #[inline]
    pub(crate) fn prefetch(&self, set: SetId) {
        if let Some(record) = self.slab.get(set.0) {
            prefetch(record.as_ptr());
        }
    }

    /// Starts a batch of changes to slots' sets.
    pub(crate) fn moves(&self) -> Moves<'_, W> {
        Moves { sets: self, rows: SmallVec::new() }
    }

    /// Sets interned now, beyond the fixed ones.
    pub(crate) fn len(&self) -> usize {
        self.interner.lock().ids.len()
    }

    /// Bytes of the store, an estimate for the interner's map.
    pub(crate) fn bytes(&self) -> usize {
        let interner = self.interner.lock();
        self.slab.bytes()
            + interner.holds.capacity() * 4
            + interner.ids.capacity() * (size_of::<(PodSet<W>, u32)>() + 1)
    }

    /// Panics unless the holds are exactly these, by id.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn audit(&self, holds: &std::collections::BTreeMap<u32, u32>) {
        let interner = self.interner.lock();
        let counted = holds.iter().filter(|(id, _)| **id >= Self::UNCOUNTED);
        for (id, holds) in counted.clone() {
            assert_eq!(interner.holds[(id - Self::UNCOUNTED) as usize], *holds, "a set knows its slots");
            assert_eq!(interner.ids.get(&self.pods(SetId(*id))), Some(id), "a set is found by its pods");
        }
        assert_eq!(interner.ids.len(), counted.count(), "no set is lost");
    }

    const UNCOUNTED: u32 = PodSet::<W>::CAPACITY as u32 + 1;

    fn is_counted(set: SetId) -> bool {
        set.0 >= Self::UNCOUNTED
    }

    /// Writes the pods of an id nobody can see yet.
    fn write(&self, set: SetId, pods: PodSet<W>) {
        let record = self.slab.make(set.0, || std::array::from_fn(|_| AtomicU64::new(0)));
        for (stored, word) in record.iter().zip(pods.words()) {
            stored.store(*word, Ordering::Relaxed);
        }
    }

    /// The id of `pods`, with `holds` more slots announced.
    fn acquire(&self, pods: PodSet<W>, holds: u32) -> SetId {
        match pods.len() {
            0 => return SetId::EMPTY,
            1 => return SetId::of_one(pods.first().expect("one pod")),
            _ => {}
        }
        let mut interner = self.interner.lock();
        if let Some(&id) = interner.ids.get(&pods) {
            interner.holds[(id - Self::UNCOUNTED) as usize] += holds;
            return SetId(id);
        }
        interner.wake();
        let id = interner.free.pop().unwrap_or_else(|| {
            let id = interner.next;
            // Ids in use have a slot each, of which `Config` allows 2^24; as many again may be resting, but what
            // rests is flushed as it gathers, so that only a thread that stays pinned for long could get there.
            assert!(id < 1 << SetId::BITS, "set ids are bounded by the configured blocks");
            interner.next += 1;
            interner.holds.push(0);
            id
        });
        self.write(SetId(id), pods);
        interner.ids.insert(pods, id);
        interner.holds[(id - Self::UNCOUNTED) as usize] = holds;
        SetId(id)
    }

    /// Takes back holds of each set; a set without any is forgotten, its id reused when no search can
    /// know it any more.
    fn release(&self, rows: impl Iterator<Item = (SetId, u32)>) {
        let mut dead = Vec::new();
        let mut interner = self.interner.lock();
        for (set, holds) in rows.filter(|&(set, holds)| Self::is_counted(set) && holds > 0) {
            let left = &mut interner.holds[(set.0 - Self::UNCOUNTED) as usize];
            *left -= holds;
            if *left == 0 {
                interner.ids.remove(&self.pods(set));
                dead.push(set.0);
            }
        }
        if !dead.is_empty() {
            // The closure may run in a search, so all it does is raise a flag.
            let rested = Arc::new(AtomicU64::new(0));
            interner.resting.push_back((Arc::clone(&rested), dead));
            // Release: whoever sees the flag reuses the ids after every search that knew them has ended.
            let pin = pin();
            pin.later(move || rested.store(1, Ordering::Release));
            if interner.resting.len() > LONG_REST {
                pin.flush();
            }
        }
    }
}

impl<const W: usize> fmt::Debug for Sets<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sets").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// A batch of changes to slots' sets, such as one event's: each distinct change is looked up once.
///
/// Holds of the sets that slots left are given back at the end, so that a set seen in this batch keeps
/// its id until then.
pub(crate) struct Moves<'a, const W: usize> {
    sets: &'a Sets<W>,
    rows: SmallVec<[Row; 4]>,
}

struct Row {
    pod: PodId,
    join: bool,
    from: SetId,
    to: SetId,
    /// Holds of `to` announced and not yet used.
    spare: u32,
    used: u32,
}

impl<const W: usize> Moves<'_, W> {
    /// The set `from` with `pod`, held by the slot the caller now writes. `more` slots may follow.
    #[inline]
    pub(crate) fn with(&mut self, from: SetId, pod: PodId, more: u32) -> SetId {
        if from == SetId::EMPTY {
            return SetId::of_one(pod);
        }
        self.change(from, pod, true, more)
    }

    /// The set `from` without `pod`, held by the slot the caller now writes. `more` slots may follow.
    #[inline]
    pub(crate) fn without(&mut self, from: SetId, pod: PodId, more: u32) -> SetId {
        if from == SetId::of_one(pod) {
            return SetId::EMPTY;
        }
        self.change(from, pod, false, more)
    }

    fn change(&mut self, from: SetId, pod: PodId, join: bool, more: u32) -> SetId {
        let known = self.rows.iter_mut().rev().take(8).find(|r| r.from == from && r.pod == pod && r.join == join);
        if let Some(row) = known {
            if row.spare > 0 {
                row.spare -= 1;
                row.used += 1;
                return row.to;
            }
        }
        let mut pods = self.sets.pods(from);
        let changed = if join { pods.insert(pod) } else { pods.remove(pod) };
        if !changed {
            return from;
        }
        let to = self.sets.acquire(pods, more + 1);
        self.rows.push(Row { pod, join, from, to, spare: more, used: 1 });
        to
    }
}

impl<const W: usize> Drop for Moves<'_, W> {
    fn drop(&mut self) {
        if self.rows.iter().any(|r| Sets::<W>::is_counted(r.from) || Sets::<W>::is_counted(r.to)) {
            self.sets.release(self.rows.iter().flat_map(|r| [(r.to, r.spare), (r.from, r.used)]));
        }
    }
}

/// Batches of resting ids from which on each new one asks for a collection.
const LONG_REST: usize = 64;

/// Sets of the first chunk.
const FIRST: usize = if cfg!(routing_loom) { 4 } else { 2048 };

struct Interner<const W: usize> {
    ids: FixedMap<PodSet<W>, u32>,
    /// By counted id: slots that name the set, and holds announced for slots about to.
    holds: Vec<u32>,
    next: u32,
    /// Ids that name nothing.
    free: Vec<u32>,
    /// Ids that name nothing but that a search may still know, until their flag is raised.
    resting: VecDeque<(Arc<AtomicU64>, Vec<u32>)>,
}

impl<const W: usize> Interner<W> {
    /// Frees the ids that no search can know any more.
    fn wake(&mut self) {
        // A few at a time, going round: one that a parked thread keeps from waking must not keep the others.
        for _ in 0..4 {
            let Some((rested, ids)) = self.resting.pop_front() else { return };
            if rested.load(Ordering::Acquire) == 1 {
                self.free.extend(ids);
            } else {
                self.resting.push_back((rested, ids));
            }
        }
    }
}

#[cfg(all(test, not(routing_loom)))]
mod tests {
    use super::*;

    fn set(pods: &[u16]) -> PodSet<4> {
        pods.iter().map(|&p| PodId::new(p)).collect()
    }

    #[test]
    fn equal_sets_share_an_id_and_an_unheld_set_is_forgotten() {
        let sets = Sets::<4>::new();
        let one = SetId::of_one(PodId::new(1));
        let two = {
            let mut moves = sets.moves();
            let two = moves.with(one, PodId::new(2), 5);
            assert_eq!(moves.with(one, PodId::new(2), 4), two);
            two
        };
        assert_eq!(sets.pods(two), set(&[1, 2]));
        assert_eq!(sets.moves().with(SetId::of_one(PodId::new(2)), PodId::new(1), 0), two);
        assert_eq!(sets.len(), 1);
        for left in [1, 1, 0] {
            assert_eq!(sets.moves().without(two, PodId::new(1), 0), SetId::of_one(PodId::new(2)));
            assert_eq!(sets.len(), left);
        }
    }

    #[test]
    fn ids_come_back_once_no_search_can_know_them() {
        let sets = Sets::<4>::new();
        for round in 0..2_000u16 {
            let (a, b) = (PodId::new(round % 7), PodId::new(10 + round % 200));
            let pair = sets.moves().with(SetId::of_one(a), b, 0);
            assert_eq!(sets.pods(pair), [a, b].into_iter().collect());
            sets.moves().without(pair, b, 0);
            // Other tests' searches may keep ids from coming back for a while.
            while sets.interner.lock().resting.len() > 100 {
                crate::collect();
                sets.interner.lock().wake();
                std::thread::yield_now();
            }
        }
        assert!(sets.interner.lock().next < Sets::<4>::UNCOUNTED + 200, "2,000 sets came and went");
        assert_eq!(sets.len(), 0);
    }
}
