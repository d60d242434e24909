//! State of an engine feed: names, incarnations, and the replay that may bring what is missing.

use super::EngineFeedConfig;
use crate::blocks::ChangeObserver;
use crate::engine::incarnations::{BatchStamp, Incarnations};
use crate::engine::translate::Translator;
use crate::engine::verify::Verifier;

/// What a feed knows beside the index.
#[derive(Debug)]
pub(super) struct State {
    pub(super) translator: Translator,
    pub(super) incarnations: Incarnations,
    pub(super) verifier: Option<Verifier>,
    pub(super) replay: Replay,
    /// How often the pod had been cleared when the translator last saw it.
    pub(super) clears: u64,
    /// Whether the engine may hold what is not known here, because events were lost for good.
    pub(super) forgot: bool,
    /// Whether the observer was told of a gap.
    pub(super) gap_told: bool,
}

/// Gap recovery: what is missing, and the replay that may bring it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Replay {
    /// The request whose replies are awaited.
    pub(super) pending: Option<ReplayRequest>,
    /// Whether the batch that was applied last has come again.
    pub(super) overlapped: bool,
    /// Whether the replay has brought a batch, whatever became of it.
    pub(super) brought: bool,
    /// Batches that could not be applied since the request.
    pub(super) waiting: u32,
    /// The highest sequence seen in this incarnation.
    pub(super) newest: Option<u64>,
    /// The last replay brought nothing: what is missing will not come.
    pub(super) exhausted: bool,
    /// The replay that is coming showed that the engine restarted: it does not begin where it should.
    pub(super) outdated: bool,
}

/// A request for what may be missing.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReplayRequest {
    /// The last batch applied before it.
    pub(super) last: Option<BatchStamp>,
    /// Whether a later batch had been seen: then there is something to replay.
    pub(super) missing: bool,
}

impl State {
    pub(super) fn new(
        config: &EngineFeedConfig,
        translator: Translator,
        incarnations: Incarnations,
        clears: u64,
    ) -> Self {
        let verifier = config.verify.clone().map(Verifier::new);
        Self { translator, incarnations, verifier, replay: Replay::default(), clears, forgot: false, gap_told: false }
    }

    pub(super) fn begin_incarnation(&mut self, time: Option<f64>) {
        self.incarnations.begin(time);
        self.replay = Replay::default();
        self.forgot = false;
    }

    /// Notes the number of a batch that nothing speaks against, before its time is noted.
    pub(super) fn note_newest(&mut self, batch: BatchStamp) {
        let sequence = Some(batch.sequence);
        if self.incarnations.is_later(batch) {
            // Later than all, so that what is numbered beyond it is not of this engine.
            self.replay.newest = sequence;
        } else if !self.incarnations.is_earlier(batch) {
            self.replay.newest = self.replay.newest.max(sequence);
        }
    }

    /// Something is missing before a batch: where to ask from, unless an answer is awaited.
    pub(super) fn gap(&mut self, from: u64, first: u64) -> Option<u64> {
        if self.incarnations.last().is_some_and(|last| from <= last.sequence) {
            // Another stream of the pod forgot everything: this one has to begin anew.
            self.incarnations.forget();
            self.replay.pending = None;
        }
        self.replay.waiting += 1;
        let unanswered = self.replay.waiting % REPLAY_RETRY == 0;
        let asks = (self.replay.pending.is_none() || unanswered) && !self.replay.outdated;
        asks.then(|| self.ask(first))
    }

    /// Tells of a gap that opened or closed: whether a batch was seen behind the last one that was applied.
    pub(super) fn tell_gap(&mut self, observer: Option<&dyn ChangeObserver>) {
        let is_open = self.replay.newest > self.incarnations.last().map(|last| last.sequence);
        if std::mem::replace(&mut self.gap_told, is_open) != is_open {
            observer.iter().for_each(|observer| observer.gap(is_open));
        }
    }

    pub(super) fn ask(&mut self, first: u64) -> u64 {
        let last = self.incarnations.last();
        self.replay.pending =
            Some(ReplayRequest { last, missing: self.replay.newest > last.map(|last| last.sequence) });
        self.replay.overlapped = false;
        self.replay.brought = false;
        self.replay.waiting = 0;
        self.incarnations.resume_from(first)
    }
}

/// After so many batches that wait for a replay, it is requested again.
const REPLAY_RETRY: u32 = 256;
