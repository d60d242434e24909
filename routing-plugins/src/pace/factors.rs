//! Learned factors: one of each pod and that of the fleet, as decisions read them and as they are learned.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use kv_index::PodId;

/// One kind of factor of all pods, as decisions read them: side by side, in words.
#[derive(Debug)]
pub(super) struct Factors {
    /// The bits of a float each; 0 where nothing is known.
    shown: Box<[AtomicU32]>,
    /// The bits of the fleet's, as a logarithm, and as decisions read it: 0 until something was learned.
    fleet: AtomicU64,
    typical: AtomicU32,
}

impl Factors {
    pub(super) fn new(pods: usize) -> Self {
        Self {
            shown: (0..pods).map(|_| AtomicU32::new(0)).collect(),
            fleet: AtomicU64::new(0),
            typical: AtomicU32::new(0),
        }
    }

    /// A pod's, or else the fleet's.
    #[inline]
    pub(super) fn of(&self, pod: PodId, typical: f64) -> f64 {
        self.shown.get(pod.index()).map_or(typical, |bits| known_or(bits, typical))
    }

    #[inline]
    pub(super) fn iter(&self, typical: f64) -> impl Iterator<Item = f64> + '_ {
        self.shown.iter().map(move |bits| known_or(bits, typical))
    }

    /// The fleet's, if anything was learned.
    #[inline]
    pub(super) fn typical_or(&self, unknown: f64) -> f64 {
        known_or(&self.typical, unknown)
    }

    /// The logarithm of the fleet's, if anything was learned.
    pub(super) fn fleet(&self) -> Option<f64> {
        (self.typical.load(Ordering::Relaxed) != 0).then(|| f64::from_bits(self.fleet.load(Ordering::Relaxed)))
    }

    /// Whether that changes what is shown.
    pub(super) fn show(&self, at: usize, logarithm: f64) -> bool {
        let bits = rounded(logarithm);
        self.shown[at].swap(bits, Ordering::Relaxed) != bits
    }

    /// Whether anything was shown.
    pub(super) fn hide(&self, at: usize) -> bool {
        self.shown[at].swap(0, Ordering::Relaxed) != 0
    }

    /// The fleet's share of what was learned of a pod, which had it that the fleet's is so much `before`; whether it changes what is
    /// shown.
    pub(super) fn learn(&self, seen: f64, weight: f64, before: f64) -> bool {
        // An estimate that publishes nothing: of two at once one may be lost.
        let fleet = stepped(before, seen, weight * FLEET_GAIN);
        self.fleet.store(fleet.to_bits(), Ordering::Relaxed);
        let bits = rounded(fleet);
        self.typical.swap(bits, Ordering::Relaxed) != bits
    }
}

/// What is known of one pod.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Known {
    /// The logarithm of its factor.
    pub(super) pace: f64,
    /// Answers that were learned from, by what they said, up to as many as matter.
    pub(super) seen: f64,
}

impl Known {
    /// Learns from the logarithm of what was seen over what was expected; `weight` is how much it says, up to 1.
    pub(super) fn learn(&mut self, seen: f64, weight: f64) {
        self.seen = (self.seen + weight).min(MOST_SEEN);
        self.pace = stepped(self.pace, seen, weight / (self.seen + PRIOR));
    }

    /// Keeps a part of what is known, and is as the fleet is for the rest.
    pub(super) fn forget(&mut self, kept: f64, fleet: f64) {
        self.pace = fleet + (self.pace - fleet) * kept;
        self.seen *= kept;
    }
}

fn stepped(known: f64, seen: f64, gain: f64) -> f64 {
    (known + gain * (seen - known).clamp(-LARGEST_SURPRISE, LARGEST_SURPRISE)).clamp(-FARTHEST, FARTHEST)
}

/// The bits of a factor, in steps of some percent: pods that are alike are the same, and share what nothing else decides.
fn rounded(logarithm: f64) -> u32 {
    (((logarithm * STEPS).round() / STEPS).exp() as f32).to_bits()
}

#[inline]
fn known_or(bits: &AtomicU32, typical: f64) -> f64 {
    match bits.load(Ordering::Relaxed) {
        0 => typical,
        bits => f64::from(f32::from_bits(bits)),
    }
}

/// Steps from one factor to the next, for each e-fold.
const STEPS: f64 = 16.0;

/// How much one answer says: as one of so many, and what a pod begins with counts as so many more.
const MOST_SEEN: f64 = 21.0;
const PRIOR: f64 = 3.0;
const FLEET_GAIN: f64 = 1.0 / 64.0;

/// An answer that comes four times as late as expected says no less than one that comes forty times as late. Logarithms.
const LARGEST_SURPRISE: f64 = 1.4;
const FARTHEST: f64 = 4.2;
