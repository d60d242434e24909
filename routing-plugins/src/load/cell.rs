//! Every pod's figures: written under a lock of the pod's, read without one.
//!
//! Whoever writes holds the lock, so what a guard takes back is what it added, and from the pod that it added it to.
//! Readers take the figures one by one: each is right, and two of them may be from moments a write apart.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use kv_index::PodId;
use parking_lot::{Mutex, MutexGuard};
use routing_core::Load;

use super::InFlight;

/// The cells of all pods.
///
/// In two arrays. Requests come and go on one, where each pod has a line to itself: pods do not disturb each other. Only
/// reports write the other, and seldom, so it is packed: there is less to read for a decision, which reads it all.
#[derive(Debug)]
pub(super) struct Cells {
    own: Box<[Own]>,
    reported: Box<[Reported]>,
}

impl Cells {
    pub(super) fn new(pods: usize) -> Self {
        let own = (0..pods).map(|_| Own::default()).collect();
        Self { own, reported: (0..pods).map(|_| Reported::default()).collect() }
    }

    #[inline]
    pub(super) fn get(&self, pod: PodId) -> Option<Cell<'_>> {
        let (own, reported) = (self.own.get(pod.index())?, self.reported.get(pod.index())?);
        Some(Cell { own, reported })
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Cell<'_>> {
        self.own.iter().zip(&self.reported).map(|(own, reported)| Cell { own, reported })
    }
}

/// The figures of whichever pod has the id now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell<'c> {
    own: &'c Own,
    reported: &'c Reported,
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
}

#[derive(Debug, Default)]
struct Reported {
    known: AtomicBool,
    running: AtomicU32,
    waiting: AtomicU32,
    /// The bits of a float.
    kv_used: AtomicU32,
    others: AtomicU32,
    other_tokens: AtomicU64,
    at: AtomicI64,
}

/// An engine's report, as far as it is needed later.
#[derive(Clone, Copy, Debug)]
pub(super) struct Report {
    pub(super) running: u32,
    pub(super) waiting: u32,
    pub(super) kv_used: f32,
    /// Requests that were not from here.
    pub(super) others: u32,
    /// Their tokens.
    pub(super) other_tokens: u64,
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
    pub(super) fn report(self) -> Option<Report> {
        let reported = self.reported;
        // Acquire: the figures of a report are there. Pairs with `Writer::report`.
        reported.known.load(Ordering::Acquire).then(|| Report {
            running: reported.running.load(Ordering::Relaxed),
            waiting: reported.waiting.load(Ordering::Relaxed),
            kv_used: f32::from_bits(reported.kv_used.load(Ordering::Relaxed)),
            others: reported.others.load(Ordering::Relaxed),
            other_tokens: reported.other_tokens.load(Ordering::Relaxed),
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
    pub(super) fn report(&self, load: Load, at: i64) -> bool {
        let reported = self.cell.reported;
        if reported.known.load(Ordering::Relaxed) && at < reported.at.load(Ordering::Relaxed) {
            return false;
        }
        let own = self.cell.in_flight();
        let requests = u64::from(load.running) + u64::from(load.waiting);
        let others = requests.saturating_sub(u64::from(own.requests));
        reported.running.store(load.running, Ordering::Relaxed);
        reported.waiting.store(load.waiting, Ordering::Relaxed);
        reported.kv_used.store(load.kv_used.to_bits(), Ordering::Relaxed);
        reported.others.store(u32::try_from(others).unwrap_or(u32::MAX), Ordering::Relaxed);
        reported.other_tokens.store(load.tokens.saturating_sub(own.tokens()), Ordering::Relaxed);
        reported.at.store(at, Ordering::Relaxed);
        // Release: publishes the figures above. Pairs with `Cell::report`.
        reported.known.store(true, Ordering::Release);
        true
    }

    fn restart(&self, generation: u32) {
        self.take(self.cell.in_flight());
        self.cell.reported.known.store(false, Ordering::Relaxed);
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
    }
}

// What the layout promises.
const _: () = assert!(size_of::<Own>() == 64 && size_of::<Reported>() == 40);
