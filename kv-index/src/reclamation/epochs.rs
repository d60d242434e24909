//! Epoch counters of readers and garbage: what is retired is freed two epochs later.
//!
//! The epoch moves on only while every reader that is there came in the present one. So a reader that came before
//! something was taken out of sight keeps the epoch from moving on twice, and whoever comes after the first move no
//! longer finds it. Only writers move the epoch and free: a search writes its own place and nothing else, so that
//! searches of any number of threads do not disturb each other. That is what the common crate for this does not
//! do: there every 128th search looks at every thread.

use std::collections::VecDeque;
use std::fmt;

use crossbeam_utils::CachePadded;

use crate::reclamation::slab::Slab;
use crate::sync::{AtomicU64, Mutex, Ordering, fence};

/// What is done when nobody can read something any more.
type Free = Box<dyn FnOnce() + Send>;

pub(crate) struct Epochs {
    now: CachePadded<AtomicU64>,
    /// By reader: the epoch it came in, or [`AWAY`].
    places: Slab<CachePadded<AtomicU64>, FIRST>,
    shared: CachePadded<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    /// Places that were ever made, and those of them that nobody has.
    made: u32,
    vacant: Vec<u32>,
    /// What became garbage in which epoch, in that order.
    garbage: VecDeque<(u64, Free)>,
    since_collected: usize,
}

impl Epochs {
    pub(crate) fn new() -> Self {
        Self {
            now: CachePadded::new(AtomicU64::new(1)),
            places: Slab::new(),
            shared: CachePadded::new(Mutex::new(Shared::default())),
        }
    }

    /// A place for a reader.
    pub(crate) fn join(&self) -> u32 {
        let mut shared = self.shared.lock();
        shared.vacant.pop().unwrap_or_else(|| {
            shared.made += 1;
            self.places.make(shared.made - 1, || CachePadded::new(AtomicU64::new(AWAY)));
            shared.made - 1
        })
    }

    /// A reader that is away gives its place up.
    #[cfg(not(all(test, routing_loom)))]
    pub(crate) fn leave_for_good(&self, place: u32) {
        self.shared.lock().vacant.push(place);
    }

    /// A reader comes.
    #[inline]
    pub(crate) fn enter(&self, place: u32) {
        // Relaxed: a stale epoch keeps the present one from moving on, and does no harm else.
        let now = self.now.load(Ordering::Relaxed);
        announce(self.place(place), now);
    }

    /// A reader goes.
    #[inline]
    pub(crate) fn leave(&self, place: u32) {
        // Release: what it read was read before; pairs with `collect`.
        self.place(place).store(AWAY, Ordering::Release);
    }

    /// Segments `free` once nobody can read what the caller has taken out of sight.
    pub(crate) fn retire(&self, free: Free) {
        let due = {
            let mut shared = self.shared.lock();
            // Relaxed: it changes under this lock only.
            let now = self.now.load(Ordering::Relaxed);
            shared.garbage.push_back((now, free));
            shared.since_collected += 1;
            shared.since_collected >= OFTEN
        };
        if due {
            self.collect();
        }
    }

    /// Moves the epoch on if it can, and frees what nobody can read any more.
    pub(crate) fn collect(&self) {
        let mut freed = Vec::new();
        {
            let mut shared = self.shared.lock();
            shared.since_collected = 0;
            // SeqCst: see `enter`.
            fence(Ordering::SeqCst);
            let mut now = self.now.load(Ordering::Relaxed);
            // Acquire: pairs with `leave` and `announce`: what a reader that went has read, it read before what we free.
            let came = |place| self.place(place).load(Ordering::Acquire);
            if (0..shared.made).all(|place| [AWAY, now].contains(&came(place))) {
                now += 1;
                // Release: who comes in this epoch comes after our fence; see `enter`.
                self.now.store(now, Ordering::Release);
            }
            while shared.garbage.front().is_some_and(|(then, _)| then + 2 <= now) {
                freed.extend(shared.garbage.pop_front().map(|(_, free)| free));
            }
        }
        // Not under the lock: what is freed may be anything.
        freed.into_iter().for_each(|free| free());
    }

    #[cfg(all(test, not(routing_loom)))]
    pub(super) fn places(&self) -> u32 {
        self.shared.lock().made
    }

    #[inline]
    fn place(&self, place: u32) -> &AtomicU64 {
        self.places.get(place).expect("a place that was made")
    }
}

impl fmt::Debug for Epochs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epochs").field("now", &self.now.load(Ordering::Relaxed)).finish_non_exhaustive()
    }
}

/// Says in which epoch a reader came, before anything that it reads.
#[inline]
fn announce(place: &AtomicU64, epoch: u64) {
    if cfg!(all(target_arch = "x86_64", not(miri), not(routing_loom))) {
        // An exchange is a full barrier there, and cheaper than the `mfence` that a fence is. Acquire, so that the compiler lets
        // nothing pass either.
        place.swap(epoch, Ordering::SeqCst);
        return;
    }
    // Release: whoever finds this epoch knows what was written as a reader of the one before; pairs with `collect`.
    place.store(epoch, Ordering::Release);
    // SeqCst: a collection whose fence comes before this one sees us not, but then what it is about to free was
    // out of sight before its fence, and we read after ours. One whose fence comes after sees us.
    fence(Ordering::SeqCst);
}

/// The epoch of a reader that is not there. The first one is 1.
const AWAY: u64 = 0;

/// Pieces of garbage after which a writer collects.
const OFTEN: usize = if cfg!(routing_loom) { usize::MAX } else { 64 };

/// Places of the first chunk.
const FIRST: usize = if cfg!(routing_loom) { 2 } else { 64 };

/// A thing behind a pointer is replaced while a reader looks at it: what the reader has found is not freed under it.
#[cfg(all(test, routing_loom))]
mod loom_tests {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;
    use crate::loom_tests::model;

    #[test]
    fn loom_a_reader_against_what_is_freed() {
        model(|| {
            let epochs = Arc::new(Epochs::new());
            let pointer = Arc::new(AtomicU64::new(0));
            let freed = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
            let place = epochs.join();
            let reader = {
                let (epochs, pointer, freed) = (Arc::clone(&epochs), Arc::clone(&pointer), Arc::clone(&freed));
                thread::spawn(move || {
                    epochs.enter(place);
                    let found = pointer.load(Ordering::Acquire) as usize;
                    if found < 2 {
                        assert_eq!(freed[found].load(Ordering::Relaxed), 0, "freed under a reader");
                    }
                    epochs.leave(place);
                })
            };
            for old in 0..2 {
                pointer.store(old + 1, Ordering::Release);
                let freed = Arc::clone(&freed);
                epochs.retire(Box::new(move || freed[old as usize].store(1, Ordering::Relaxed)));
                epochs.collect();
                epochs.collect();
            }
            reader.join().unwrap();
            epochs.collect();
            epochs.collect();
            assert_eq!(freed[1].load(Ordering::Relaxed), 1, "nobody is there: it goes");
        });
    }
}
