//! Learned pace: how much longer each pod takes for a first token than the cost model says.
//!
//! A table of costs is of one GPU, one model and one engine. What differs elsewhere is mostly a factor, and that is seen: a recorder
//! notes what it expects of a decision, the host tells when the first token came. The factor of a pod is learned by its
//! logarithm, a little from each first token, and forgotten where none comes: what a pod is not asked it cannot prove.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kv_index::{DEFAULT_POD_WORDS, Pod, PodId, PodSet};
use parking_lot::Mutex;

/// How much longer than by the cost model each pod takes; owned by the host.
///
/// A [`PrefillQueueRecorder`](crate::record::PrefillQueueRecorder) that [learns](crate::record::PrefillQueueParameters::learns)
/// notes what is expected, and [`TotalLatencyScorer`](crate::score::TotalLatencyScorer) goes by what came of it. Pods that nothing
/// is known of have the pace of the fleet: that of all first tokens lately. Paces are told in steps of six percent, so that pods which
/// are alike stay alike.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use kv_index::{Config, Index};
/// use routing_plugins::PodPaces;
///
/// let index: Index = Index::new(Config::default());
/// let (pod, mut now) = (index.join("a")?, Instant::now());
/// let paces: PodPaces = PodPaces::default();
/// for _ in 0..100 {
///     paces.expect(pod, 0.5, now);
///     let sample = paces.sample(pod, now).expect("the last decision about the pod");
///     paces.first_token(sample, Duration::from_millis(1_500));
///     now += Duration::from_secs(2);
/// }
/// assert!((paces.of(pod.id()) - 3.0).abs() < 0.15);
/// # Ok::<(), kv_index::JoinError>(())
/// ```
#[derive(Debug)]
pub struct PodPaces<const W: usize = DEFAULT_POD_WORDS> {
    /// What decisions read: the bits of a float each, side by side; 0 where nothing is known.
    factors: Box<[AtomicU32]>,
    learners: Box<[Mutex<Learner>]>,
    /// The bits of the fleet's pace, as a logarithm, and as decisions read it.
    fleet: AtomicU64,
    typical: AtomicU32,
    /// Whose turn it is to be looked at for what was forgotten.
    turn: AtomicU32,
}

/// What is known of a pod.
#[derive(Clone, Copy, Debug, Default)]
struct Learner {
    generation: u32,
    /// First tokens that were learned from, up to as many as matter.
    seen: u32,
    /// The logarithm of its pace.
    pace: f64,
    /// When it was learned or last forgotten a little.
    at: Option<Instant>,
    /// The last decision: when, and seconds to the first token at pace 1.
    expected: Option<(Instant, f64)>,
}

/// What was expected of a request on a pod.
#[derive(Clone, Copy, Debug)]
pub struct PaceSample {
    pod: Pod,
    decided: Instant,
    seconds: f64,
}

impl<const W: usize> Default for PodPaces<W> {
    fn default() -> Self {
        Self {
            factors: (0..PodSet::<W>::CAPACITY).map(|_| AtomicU32::new(0)).collect(),
            learners: (0..PodSet::<W>::CAPACITY).map(|_| Mutex::default()).collect(),
            fleet: AtomicU64::new(0),
            typical: AtomicU32::new(1.0_f32.to_bits()),
            turn: AtomicU32::new(0),
        }
    }
}

impl<const W: usize> PodPaces<W> {
    /// How much longer than by the cost model a pod takes; 1 at first.
    #[must_use]
    #[inline]
    pub fn of(&self, pod: PodId) -> f64 {
        let typical = self.typical();
        self.factors.get(pod.index()).map_or(typical, |bits| known_or(bits, typical))
    }

    /// That of the fleet: of all first tokens lately, whichever pod's.
    #[must_use]
    #[inline]
    pub fn typical(&self) -> f64 {
        f64::from(f32::from_bits(self.typical.load(Ordering::Relaxed)))
    }

    /// Those of pods 0, 1 and so on.
    #[inline]
    pub(crate) fn iter(&self) -> impl Iterator<Item = f64> + '_ {
        let typical = self.typical();
        self.factors.iter().map(move |bits| known_or(bits, typical))
    }

    /// A request is sent to a pod at an instant, and so many seconds to its first token are expected by the cost model alone.
    pub fn expect(&self, pod: Pod, seconds: f64, now: Instant) {
        let Some(learner) = self.learners.get(pod.id().index()) else { return };
        let mut learner = learner.lock();
        if learner.generation != pod.generation() {
            // Another pod has the id. What is known of the fleet is the best guess of it.
            *learner = Learner { generation: pod.generation(), pace: self.fleet(), ..Learner::default() };
            self.factors[pod.id().index()].store(0, Ordering::Relaxed);
        }
        learner.expected = seconds.is_finite().then_some((now, seconds));
        drop(learner);
        self.forget_next(now);
    }

    /// What was expected of the decision of this instant; nothing, where the pod was decided for again since.
    #[must_use]
    pub fn sample(&self, pod: Pod, decided: Instant) -> Option<PaceSample> {
        let learner = self.learners.get(pod.id().index())?.lock();
        let (at, seconds) = learner.expected.filter(|_| learner.generation == pod.generation())?;
        (at == decided).then_some(PaceSample { pod, decided, seconds })
    }

    /// A request's first token came, so long after the decision. Only of streams: a whole answer takes as long as its decoding.
    pub fn first_token(&self, sample: PaceSample, took: Duration) {
        let PaceSample { pod, decided, seconds } = sample;
        let Some(learner) = self.learners.get(pod.id().index()) else { return };
        let mut learner = learner.lock();
        if learner.generation != pod.generation() || took.is_zero() {
            return;
        }
        let seen = (took.as_secs_f64() / seconds.max(LEAST_SECONDS)).ln();
        // Short ones are mostly what a network and the step under way take.
        let weight = seconds / (seconds + SHORT_SECONDS);
        let gain = weight * (1.0 / f64::from(learner.seen + PRIOR)).max(LEAST_GAIN);
        let step = |known: f64, gain: f64| {
            (known + gain * (seen - known).clamp(-LARGEST_SURPRISE, LARGEST_SURPRISE)).clamp(-FARTHEST, FARTHEST)
        };
        learner.pace = step(learner.pace, gain);
        learner.seen = learner.seen.saturating_add(1).min(MOST_SEEN);
        learner.at = Some(learner.at.map_or(decided, |at| at.max(decided)));
        self.show(pod.id().index(), &learner);
        drop(learner);
        // An estimate that publishes nothing: of two at once one may be lost.
        let fleet = step(self.fleet(), weight * FLEET_GAIN);
        self.fleet.store(fleet.to_bits(), Ordering::Relaxed);
        self.typical.store(shown(fleet), Ordering::Relaxed);
    }

    fn fleet(&self) -> f64 {
        f64::from_bits(self.fleet.load(Ordering::Relaxed))
    }

    fn show(&self, at: usize, learner: &Learner) {
        self.factors[at].store(shown(learner.pace), Ordering::Relaxed);
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
        learner.pace = self.fleet() + (learner.pace - self.fleet()) * kept;
        learner.seen = (f64::from(learner.seen) * kept) as u32;
        learner.at = Some(now);
        self.show(at, &learner);
    }
}

/// The bits of a pace, in steps of some percent: pods that are alike are the same, and share what nothing else decides.
fn shown(logarithm: f64) -> u32 {
    (((logarithm * STEPS).round() / STEPS).exp() as f32).to_bits()
}

#[inline]
fn known_or(bits: &AtomicU32, typical: f64) -> f64 {
    match bits.load(Ordering::Relaxed) {
        0 => typical,
        bits => f64::from(f32::from_bits(bits)),
    }
}

/// Steps from one pace to the next, for each e-fold.
const STEPS: f64 = 16.0;

/// Nothing takes less; and what takes less than the second is not much of a sign.
const LEAST_SECONDS: f64 = 1e-4;
const SHORT_SECONDS: f64 = 0.02;

/// How much one first token says: as one of so many, and then a share.
const PRIOR: u32 = 4;
const LEAST_GAIN: f64 = 1.0 / 24.0;
const FLEET_GAIN: f64 = 1.0 / 64.0;
const MOST_SEEN: u32 = 64;

/// A first token that comes four times as late as expected says no less than one that comes forty times as late. Logarithms.
const LARGEST_SURPRISE: f64 = 1.4;
const FARTHEST: f64 = 4.2;

/// What was learned lasts so long, and then fades.
const PATIENCE: Duration = Duration::from_secs(10);
const FORGET_SECONDS: f64 = 60.0;

#[cfg(test)]
mod tests;
