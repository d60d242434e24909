//! Per-pod atomic counters: written under the pod's lock, read without one.
//!
//! Whoever writes holds the lock, so what a guard takes back is what it added, and from the pod that it added it to.
//! Readers take the figures one by one: each is right, and two of them may be from moments a write apart.

mod peer_share;
mod shown;
mod shown_block;

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use kv_index::{Pod, PodId};
use parking_lot::{Mutex, MutexGuard};
use routing_core::Load;

use super::{InFlight, LANES};
use shown::{Shown, ShownBacklog};
use shown_block::ShownBlock;

pub(super) use shown::Summary;

/// The cells of all pods.
///
/// In arrays. Requests come and go on one, where each pod has a line to itself: pods do not disturb each other. Only
/// reports write the others, and seldom, so they are packed: there is less to read for a decision that needs them. Most do
/// with what is merged already ([`shown`]), and packed as well: eight pods a line, and four pods' backlogs in three.
#[derive(Debug)]
pub(super) struct Cells {
    own: Box<[Own]>,
    reported: Box<[Reported]>,
    seen: Box<[Seen]>,
    shown: Box<[Shown]>,
    backlogs: Box<[ShownBacklog]>,
    /// For which fleet, by its stamp, what is shown of each pod is merged; 0 for none.
    shown_for: Box<[AtomicU64]>,
    blocks: Box<[ShownBlock]>,
    /// Counts changes of what is shown to whom.
    turns: AtomicU64,
}

impl Cells {
    pub(super) fn new(pods: usize) -> Self {
        let own = (0..pods).map(|_| Own::default()).collect();
        let reported = (0..pods).map(|_| Reported::default()).collect();
        Self {
            own,
            reported,
            seen: (0..pods).map(|_| Seen::default()).collect(),
            shown: (0..pods).map(|_| Shown::default()).collect(),
            backlogs: (0..pods).map(|_| ShownBacklog::default()).collect(),
            shown_for: (0..pods).map(|_| AtomicU64::new(0)).collect(),
            blocks: (0..pods.div_ceil(LANES)).map(|_| ShownBlock::default()).collect(),
            turns: AtomicU64::new(0),
        }
    }

    #[inline]
    pub(super) fn get(&self, pod: PodId) -> Option<Cell<'_>> {
        let at = pod.index();
        let (own, reported) = (self.own.get(at)?, self.reported.get(at)?);
        let (shown, backlog, shown_for) = (self.shown.get(at)?, self.backlogs.get(at)?, self.shown_for.get(at)?);
        let (block, lane) = (self.blocks.get(at / LANES)?, at % LANES);
        Some(Cell { own, reported, shown, backlog, shown_for, block, lane, turns: &self.turns })
    }

    /// What of figures from elsewhere is not from here, as of when they were first seen. `own` is what is in flight now.
    #[inline]
    pub(super) fn others(&self, pod: Pod, own: InFlight, load: Load) -> Others {
        let (Some(cell), Some(seen)) = (self.get(pod.id()), self.seen.get(pod.id().index())) else {
            return Others::of(load, own);
        };
        let key = key(pod, load);
        if seen.is(key) { seen.others() } else { seen.see(key, cell, Others::of(load, own)) }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Cell<'_>> {
        (0..self.own.len()).filter_map(|at| self.get(PodId::new(at as u16)))
    }
}

/// The figures of whichever pod has the id now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell<'c> {
    own: &'c Own,
    reported: &'c Reported,
    shown: &'c Shown,
    backlog: &'c ShownBacklog,
    shown_for: &'c AtomicU64,
    block: &'c ShownBlock,
    lane: usize,
    turns: &'c AtomicU64,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Own {
    writer: Mutex<()>,
    /// Whose figures these are; 0 for nobody's, since generations count from 1.
    generation: AtomicU32,
    requests: AtomicU32,
    prefilling: AtomicU32,
    prompt_tokens: AtomicU64,
    uncached_tokens: AtomicU64,
    output_tokens: AtomicU64,
    /// Requests of others that are shown, from the pod's report or else as a fleet says.
    others: AtomicU32,
    /// Those of them that wait.
    others_waiting: AtomicU32,
    /// The tokens of all of them.
    other_tokens: AtomicU64,
    /// How much of the cache is shown as in use, from there as well: the bits of a float in 0..=1.
    kv_used: AtomicU32,
}

#[derive(Debug, Default)]
struct Reported {
    known: AtomicBool,
    running: AtomicU32,
    waiting: AtomicU32,
    /// The bits of a float.
    kv_used: AtomicU32,
    others: AtomicU32,
    others_waiting: AtomicU32,
    other_tokens: AtomicU64,
    at: AtomicI64,
}

/// Figures from elsewhere that were last seen of a pod.
#[derive(Debug, Default)]
struct Seen {
    key: [AtomicU64; 3],
    others: AtomicU32,
    others_waiting: AtomicU32,
    other_tokens: AtomicU64,
}

/// Which pod's figures, and which: compared whole, so that no two are taken for the same.
type Key = [u64; 3];

#[inline]
fn key(pod: Pod, load: Load) -> Key {
    let both = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
    [both(load.running, load.waiting), load.tokens, both(load.kv_used.to_bits(), pod.generation())]
}

impl Seen {
    #[inline]
    fn is(&self, key: Key) -> bool {
        // Acquire: what was not from here is there as well. Pairs with `see`.
        self.key.iter().zip(key).all(|(seen, key)| seen.load(Ordering::Acquire) == key)
    }

    #[inline]
    fn others(&self) -> Others {
        Others {
            requests: self.others.load(Ordering::Relaxed),
            waiting: self.others_waiting.load(Ordering::Relaxed),
            tokens: self.other_tokens.load(Ordering::Relaxed),
        }
    }

    /// Remembers figures. If somebody else writes, they are seen by the next: no reader waits.
    #[cold]
    fn see(&self, key: Key, cell: Cell<'_>, others: Others) -> Others {
        if let Some(_alone) = cell.own.writer.try_lock() {
            self.enter(key, others);
            cell.hide();
        }
        others
    }

    /// Only for who has the lock.
    fn enter(&self, key: Key, others: Others) {
        self.others.store(others.requests, Ordering::Relaxed);
        self.others_waiting.store(others.waiting, Ordering::Relaxed);
        self.other_tokens.store(others.tokens, Ordering::Relaxed);
        // Release: publishes the figures above. Pairs with `is`.
        self.key.iter().zip(key).for_each(|(seen, key)| seen.store(key, Ordering::Release));
    }
}

/// What of reported figures is not from here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Others {
    pub(super) requests: u32,
    pub(super) waiting: u32,
    pub(super) tokens: u64,
}

impl Others {
    /// What is reported beyond what is in flight from here at the same time.
    fn of(load: Load, own: InFlight) -> Self {
        let requests = u64::from(load.running) + u64::from(load.waiting);
        let requests = u32::try_from(requests.saturating_sub(u64::from(own.requests))).unwrap_or(u32::MAX);
        // Each of those from here without a first token may be one that waits: they count once, as from here.
        let waiting = load.waiting.saturating_sub(own.prefilling).min(requests);
        Self { requests, waiting, tokens: load.tokens.saturating_sub(own.tokens()) }
    }
}

/// An engine's report, as far as it is needed later.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadReport {
    pub(super) running: u32,
    pub(super) waiting: u32,
    pub(super) kv_used: f32,
    pub(super) others: Others,
    /// When it was made, on the tracker's scale.
    pub(super) at: i64,
}

impl<'c> Cell<'c> {
    /// To bring something to a pod. A newer generation than was here begins with nothing; there is no entry for an older.
    pub(super) fn enter(self, generation: u32) -> Option<Writer<'c>> {
        let writer = self.lock();
        let known = self.own.generation.load(Ordering::Relaxed);
        if generation > known {
            writer.restart(generation);
        }
        (generation >= known).then_some(writer)
    }

    /// To change what was brought to a pod, if it still has the id.
    pub(super) fn enter_again(self, generation: u32) -> Option<Writer<'c>> {
        let writer = self.lock();
        (self.own.generation.load(Ordering::Relaxed) == generation).then_some(writer)
    }

    /// Whether the figures are of this generation.
    #[inline]
    pub(super) fn is_of(self, generation: u32) -> bool {
        // Acquire: who sees a generation sees none of the figures before it. Pairs with `Writer::restart`.
        self.own.generation.load(Ordering::Acquire) == generation
    }

    #[inline]
    pub(super) fn in_flight(self) -> InFlight {
        let own = self.own;
        InFlight {
            requests: own.requests.load(Ordering::Relaxed),
            prefilling: own.prefilling.load(Ordering::Relaxed),
            prompt_tokens: own.prompt_tokens.load(Ordering::Relaxed),
            uncached_tokens: own.uncached_tokens.load(Ordering::Relaxed),
            output_tokens: own.output_tokens.load(Ordering::Relaxed),
        }
    }

    #[inline]
    pub(super) fn report(self) -> Option<LoadReport> {
        let reported = self.reported;
        // Acquire: the figures of a report are there. Pairs with `Writer::report`.
        reported.known.load(Ordering::Acquire).then(|| LoadReport {
            running: reported.running.load(Ordering::Relaxed),
            waiting: reported.waiting.load(Ordering::Relaxed),
            kv_used: f32::from_bits(reported.kv_used.load(Ordering::Relaxed)),
            others: Others {
                requests: reported.others.load(Ordering::Relaxed),
                waiting: reported.others_waiting.load(Ordering::Relaxed),
                tokens: reported.other_tokens.load(Ordering::Relaxed),
            },
            at: reported.at.load(Ordering::Relaxed),
        })
    }

    fn lock(self) -> Writer<'c> {
        Writer { cell: self, _alone: self.own.writer.lock() }
    }
}

/// The right to change a cell.
#[derive(Debug)]
pub(super) struct Writer<'c> {
    cell: Cell<'c>,
    _alone: MutexGuard<'c, ()>,
}

impl Writer<'_> {
    pub(super) fn add(&self, share: InFlight) {
        // Nobody holds four thousand million guards; if so many leaked, a wrong count is better than a panic.
        self.change(share, u32::wrapping_add, u64::wrapping_add);
    }

    pub(super) fn take(&self, share: InFlight) {
        self.change(share, u32::wrapping_sub, u64::wrapping_sub);
    }

    /// Takes a report; false if a later one is here.
    pub(super) fn report(&self, load: Load, queued: InFlight, at: i64) -> bool {
        let reported = self.cell.reported;
        if reported.known.load(Ordering::Relaxed) && at < reported.at.load(Ordering::Relaxed) {
            return false;
        }
        let others = Others::of(load, self.cell.in_flight().without(&queued));
        reported.running.store(load.running, Ordering::Relaxed);
        reported.waiting.store(load.waiting, Ordering::Relaxed);
        reported.kv_used.store(load.kv_used.to_bits(), Ordering::Relaxed);
        reported.others.store(others.requests, Ordering::Relaxed);
        reported.others_waiting.store(others.waiting, Ordering::Relaxed);
        reported.other_tokens.store(others.tokens, Ordering::Relaxed);
        reported.at.store(at, Ordering::Relaxed);
        // Release: publishes the figures above. Pairs with `Cell::report`.
        reported.known.store(true, Ordering::Release);
        self.cell.hide();
        true
    }

    /// Forgets the report; false if there is none.
    pub(super) fn forget(&self) -> bool {
        self.cell.hide();
        self.cell.reported.known.swap(false, Ordering::Relaxed)
    }

    fn restart(&self, generation: u32) {
        self.take(self.cell.in_flight());
        self.forget();
        // Release: publishes that nothing is left. Pairs with `Cell::is_of`.
        self.cell.own.generation.store(generation, Ordering::Release);
    }

    /// Alone with the cell, so reading and storing are one step; no read-modify-write is needed.
    fn change(&self, share: InFlight, short: fn(u32, u32) -> u32, long: fn(u64, u64) -> u64) {
        let change_short = |counter: &AtomicU32, by| {
            counter.store(short(counter.load(Ordering::Relaxed), by), Ordering::Relaxed);
        };
        let change_long = |counter: &AtomicU64, by| {
            counter.store(long(counter.load(Ordering::Relaxed), by), Ordering::Relaxed);
        };
        let own = self.cell.own;
        change_short(&own.requests, share.requests);
        change_short(&own.prefilling, share.prefilling);
        change_long(&own.prompt_tokens, share.prompt_tokens);
        change_long(&own.uncached_tokens, share.uncached_tokens);
        change_long(&own.output_tokens, share.output_tokens);
        self.cell.show();
    }
}

// What the layout promises.
const _: () = assert!(size_of::<Own>() == 64 && size_of::<Reported>() == 40 && size_of::<Seen>() == 40);
