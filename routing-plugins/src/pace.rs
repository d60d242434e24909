//! Learned pace: how much longer each pod takes for first tokens and for those after it than the cost model says.
//!
//! A table of costs is of one GPU, one model and one engine. What differs elsewhere is mostly a factor for prefill and one for decoding, and both
//! are seen: a recorder notes what it expects of a decision, the host tells when the first token came and when the last one did. A
//! pod's factors are learned by their logarithms, a little from each answer, and forgotten where none comes: what a pod is not asked it
//! cannot prove.

mod decoding;
mod factors;
mod prefill_share;
mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use kv_index::{DEFAULT_POD_WORDS, Pod, PodId, PodSet};
use parking_lot::Mutex;

use crate::cost_model::CostModel;

pub use decoding::DecodeSample;
use factors::{Factors, Known};
use prefill_share::RecentPrefills;
pub(crate) use prefill_share::{PrefillShare, PrefillShares};
pub(crate) use table::{Pace, PaceBlock, PaceTable, ShareBlock};

/// How much longer than by the cost model each pod takes; owned by the host.
///
/// A [`PrefillQueueRecorder`](crate::record::PrefillQueueRecorder) that [learns](crate::record::PrefillQueueParameters::learns)
/// notes what is expected, and [`TotalLatencyScorer`](crate::score::TotalLatencyScorer) goes by what came of it. Pods that nothing
/// is known of have the pace of the fleet: that of all answers lately. Paces are told in steps of six percent, so that pods which
/// are alike stay alike.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use kv_index::{Config, Index};
/// use routing_plugins::{CostModel, ExpectedPrefill, PodPaces};
///
/// let index: Index = Index::new(Config::default());
/// let (pod, mut now) = (index.join("a")?, Instant::now());
/// let paces: PodPaces = PodPaces::default();
/// let expected = ExpectedPrefill::new(CostModel::FUSED, 0.5);
/// for _ in 0..100 {
///     paces.expect(pod, expected, now);
///     let sample = paces.sample(pod, now).expect("the last decision about the pod");
///     paces.first_token(sample, Duration::from_millis(1_500), now + Duration::from_millis(1_500));
///     now += Duration::from_secs(2);
/// }
/// assert!((paces.of(pod.id()) - 3.0).abs() < 0.15);
/// // Of its decoding nothing was seen: it is taken to be as much slower.
/// assert!((paces.decoding(pod.id()) - 3.0).abs() < 0.3);
/// # Ok::<(), kv_index::JoinError>(())
/// ```
#[derive(Debug)]
pub struct PodPaces<const W: usize = DEFAULT_POD_WORDS> {
    prefill: Factors,
    decoding: Factors,
    /// Both once more, as decisions read them of all pods.
    table: ArcSwap<PaceTable>,
    /// Held by whoever makes a table, so that the last one made has all that was learned before.
    publishing: Mutex<()>,
    /// When shares of prefill were looked at last.
    looked: Mutex<Option<Instant>>,
    learners: Box<[Mutex<Learner>]>,
    /// Prefill that was sent to each pod ever, in µs at pace 1.
    sent: Box<[AtomicU64]>,
    /// Whose turn it is to be looked at for what was forgotten.
    turn: AtomicU32,
}

/// What is known of a pod.
#[derive(Clone, Copy, Debug, Default)]
struct Learner {
    generation: u32,
    prefill: Known,
    decoding: Known,
    recent: RecentPrefills,
    /// When it was learned or last forgotten a little.
    at: Option<Instant>,
    /// The last decision: when, and what was expected.
    expected: Option<(Instant, ExpectedPrefill)>,
}

/// What a cost model says of a request that is sent to a pod, in seconds at pace 1.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ExpectedPrefill {
    /// Until its first token: the wait for others, and its own prefill. None where others' are not known.
    pub first_token: Option<f64>,
    /// Its own prefill.
    pub own: f64,
    /// The model: what decoding takes is known when it begins.
    pub cost_model: CostModel,
}

impl ExpectedPrefill {
    /// On an idle pod.
    #[must_use]
    pub const fn new(cost_model: CostModel, seconds: f64) -> Self {
        Self { first_token: Some(seconds), own: seconds, cost_model }
    }

    /// The same behind others, so that the first token takes longer; none where it is not known how long.
    #[must_use]
    pub const fn first_token(self, seconds: Option<f64>) -> Self {
        Self { first_token: seconds, ..self }
    }

    /// What it adds to the steps of those that decode beside it: they have a step in any case.
    fn work(&self) -> f64 {
        (self.own - self.cost_model.fixed.get()).max(0.0)
    }
}

/// What was expected of a request on a pod.
#[derive(Clone, Copy, Debug)]
pub struct PaceSample {
    pod: Pod,
    expected: ExpectedPrefill,
}

impl PaceSample {
    /// The pod.
    #[must_use]
    pub fn pod(&self) -> Pod {
        self.pod
    }
}

impl<const W: usize> Default for PodPaces<W> {
    fn default() -> Self {
        Self {
            prefill: Factors::new(PodSet::<W>::CAPACITY),
            decoding: Factors::new(PodSet::<W>::CAPACITY),
            table: ArcSwap::from_pointee(PaceTable::new(PodSet::<W>::CAPACITY, Pace::ONE, std::iter::empty())),
            publishing: Mutex::default(),
            looked: Mutex::default(),
            learners: (0..PodSet::<W>::CAPACITY).map(|_| Mutex::default()).collect(),
            sent: (0..PodSet::<W>::CAPACITY).map(|_| AtomicU64::new(0)).collect(),
            turn: AtomicU32::new(0),
        }
    }
}

impl<const W: usize> PodPaces<W> {
    /// How much longer than by the cost model a pod takes for first tokens; 1 at first.
    #[must_use]
    #[inline]
    pub fn of(&self, pod: PodId) -> f64 {
        self.prefill.of(pod, self.typical())
    }

    /// The same for the tokens after the first. Where nothing was seen of that, it is taken to be as much slower than the fleet as it is for
    /// first tokens.
    #[must_use]
    #[inline]
    pub fn decoding(&self, pod: PodId) -> f64 {
        self.decoding.of(pod, self.typical_decoding())
    }

    /// That of the fleet for first tokens: of all lately, whichever pod's.
    #[must_use]
    #[inline]
    pub fn typical(&self) -> f64 {
        self.prefill.typical_or(1.0)
    }

    /// The same for the tokens after the first.
    #[must_use]
    #[inline]
    pub fn typical_decoding(&self) -> f64 {
        self.decoding.typical_or(self.typical())
    }

    /// Those of all pods.
    #[inline]
    pub(crate) fn table(&self) -> arc_swap::Guard<Arc<PaceTable>> {
        self.table.load()
    }

    /// A request is sent to a pod at an instant.
    pub fn expect(&self, pod: Pod, expected: ExpectedPrefill, now: Instant) {
        let at = pod.id().index();
        let Some((learner, sent)) = self.learners.get(at).zip(self.sent.get(at)) else { return };
        // Relaxed: a figure that publishes nothing. A cast from a float saturates, and no number is 0.
        sent.fetch_add((expected.work() * 1e6) as u64, Ordering::Relaxed);
        let mut learner = learner.lock();
        if learner.generation != pod.generation() {
            // Another pod has the id. What is known of the fleet is the best guess of it.
            let (prefill, decoding) = self.fleet();
            let [prefill, decoding] = [prefill, decoding].map(|pace| Known { pace, seen: 0.0 });
            *learner = Learner { generation: pod.generation(), prefill, decoding, ..Learner::default() };
            let was_known = self.prefill.hide(at) | self.decoding.hide(at);
            self.publish(was_known);
        }
        learner.recent.sent(self.of(pod.id()) * expected.own, &expected.cost_model, now);
        learner.expected = Some((now, expected));
        drop(learner);
        self.forget_next(now);
    }

    /// A peer sent a pod prompts that take so many microseconds there: who decodes there waits for them.
    pub(crate) fn sent_by_peer(&self, pod: Pod, micros: u64, now: Instant) {
        if let Some(sent) = self.sent.get(pod.id().index()) {
            // Queues are by the pod's pace, and what was sent is not.
            sent.fetch_add((micros as f64 / self.of(pod.id())) as u64, Ordering::Relaxed);
        }
        if let Some(mut learner) = self.learner(pod) {
            // Of a pod that nothing is sent from here the model is not known, nor is it asked for.
            let model = learner.expected.map(|(_, expected)| expected.cost_model);
            model.iter().for_each(|model| learner.recent.sent_by_peer(micros as f64 / 1e6, model, now));
        }
    }

    /// What was expected of the decision of this instant; nothing, where the pod was decided for again since.
    #[must_use]
    pub fn sample(&self, pod: Pod, decided: Instant) -> Option<PaceSample> {
        let learner = self.learners.get(pod.id().index())?.lock();
        let (at, expected) = learner.expected.filter(|_| learner.generation == pod.generation())?;
        (at == decided).then_some(PaceSample { pod, expected })
    }

    /// A request's first token came, so long after the decision; `now` is when it is told, be it later. Only of streams: a whole
    /// answer takes as long as its decoding.
    pub fn first_token(&self, sample: PaceSample, took: Duration, now: Instant) {
        let PaceSample { pod, expected } = sample;
        let Some(seconds) = expected.first_token.filter(|seconds| seconds.is_finite() && !took.is_zero()) else {
            return;
        };
        let Some(mut learner) = self.learner(pod) else { return };
        let seen = (took.as_secs_f64() / seconds.max(LEAST_SECONDS)).ln();
        // Short ones are mostly what a network and the step under way take.
        let weight = seconds / (seconds + SHORT_SECONDS);
        learner.prefill.learn(seen, weight);
        learner.learned(now);
        self.show(pod.id().index(), &learner);
        drop(learner);
        let is_changed = self.prefill.learn(seen, weight, self.fleet().0);
        self.publish(is_changed);
        self.tick(now);
    }

    /// Looks at what was sent lately, ten times a second at most: it changes with every prompt, and says something after some. To be called now
    /// and then; a first token calls it as well. It takes memory, and so is no part of a decision.
    pub fn tick(&self, now: Instant) {
        let Some(mut looked) = self.looked.try_lock() else { return };
        if looked.is_some_and(|before| now.saturating_duration_since(before) < LOOKS_EVERY) {
            return;
        }
        *looked = Some(now);
        // One after the other, and none held while the table is made: who learns of a pod may wait for that.
        let recent: Vec<RecentPrefills> = self.learners.iter().map(|learner| learner.lock().recent).collect();
        let (fleet, shares) = prefill_share::shares(&recent, now);
        let _alone = self.publishing.lock();
        self.publish_with(fleet, shares.into_iter());
    }

    /// The logarithms of the fleet's paces. Where nobody decoded yet, it is taken to be as slow at that as at prompts.
    fn fleet(&self) -> (f64, f64) {
        let prefill = self.prefill.fleet().unwrap_or(0.0);
        (prefill, self.decoding.fleet().unwrap_or(prefill))
    }

    /// What decoding on a pod is taken for that was never seen to decode: who is slow at one is mostly slow at the other.
    fn unseen_decoding(&self, learner: &Learner) -> f64 {
        let (prefill, decoding) = self.fleet();
        decoding + learner.prefill.pace - prefill
    }

    /// What is known of a pod, if it still has its id.
    fn learner(&self, pod: Pod) -> Option<parking_lot::MutexGuard<'_, Learner>> {
        let learner = self.learners.get(pod.id().index())?.lock();
        (learner.generation == pod.generation()).then_some(learner)
    }

    fn show(&self, at: usize, learner: &Learner) {
        let is_seen = learner.decoding.seen > 0.0;
        let decoding = if is_seen { learner.decoding.pace } else { self.unseen_decoding(learner) };
        let is_changed = self.prefill.show(at, learner.prefill.pace) | self.decoding.show(at, decoding);
        self.publish(is_changed);
    }

    /// Makes the table anew if something changed that decisions read: seldom, since what they read is rounded.
    ///
    /// It allocates. A decision gets here where a pod is new or was not learned of for long, and mostly even then nothing changes.
    fn publish(&self, is_changed: bool) {
        if is_changed {
            let _alone = self.publishing.lock();
            let table = self.table.load();
            self.publish_with(table.typical.shares, table.shares());
        }
    }

    /// The same with these shares of prefill: that of the fleet, and of all pods. Whoever does it has `publishing`.
    fn publish_with(&self, fleet: PrefillShares, shares: impl Iterator<Item = PrefillShares>) {
        let typical = Pace { prefill: self.typical(), decoding: self.typical_decoding(), shares: fleet };
        let both = self.prefill.iter(typical.prefill).zip(self.decoding.iter(typical.decoding));
        let paces = both.zip(shares).map(|((prefill, decoding), shares)| Pace { prefill, decoding, shares });
        self.table.store(Arc::new(PaceTable::new(self.learners.len(), typical, paces)));
    }

    /// Looks at one pod more: who was not learned of for a while is taken to be as the fleet is. One for each decision, so that
    /// none has to look at all.
    fn forget_next(&self, now: Instant) {
        let at = self.turn.fetch_add(1, Ordering::Relaxed) as usize % self.learners.len().max(1);
        let Some(mut learner) = self.learners.get(at).and_then(Mutex::try_lock) else { return };
        let Some(since) = learner.at.map(|at| now.saturating_duration_since(at)).filter(|since| *since > PATIENCE)
        else {
            return;
        };
        let kept = (-since.as_secs_f64() / FORGET_SECONDS).exp();
        let (prefill, decoding) = self.fleet();
        learner.prefill.forget(kept, prefill);
        learner.decoding.forget(kept, decoding);
        learner.at = Some(now);
        self.show(at, &learner);
    }
}

impl Learner {
    fn learned(&mut self, now: Instant) {
        self.at = Some(self.at.map_or(now, |at| at.max(now)));
    }
}

/// Nothing takes less; and what takes less than the second is not much of a sign.
const LEAST_SECONDS: f64 = 1e-4;
const SHORT_SECONDS: f64 = 0.02;

/// What was learned lasts so long, and then fades, soon: where others are idle, a pod that was slow for a while is sent nothing that would say that it no longer is.
const PATIENCE: Duration = Duration::from_secs(10);
const FORGET_SECONDS: f64 = 5.0;

const LOOKS_EVERY: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests;
