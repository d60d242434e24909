//! Circuit breakers by pod, as decisions see them: written where requests fail, read by filters.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use kv_index::{DEFAULT_POD_WORDS, PodId, PodSet};

use crate::scores::mix;

/// The pods that are given nothing for now, because requests to them failed, and those that are given less than others.
///
/// Shared between an executor's breakers and a filter; reading it takes no lock. When an id goes to another pod, close it.
///
/// # Examples
///
/// ```
/// use kv_index::{PodId, PodSet};
/// use routing_core::OpenBreakers;
///
/// let circuits: OpenBreakers = OpenBreakers::new();
/// circuits.open(PodId::new(3));
/// assert!(circuits.opened().contains(PodId::new(3)));
/// circuits.close(PodId::new(3));
/// assert!(circuits.opened().is_empty());
///
/// // One fails every now and then: half of the requests go elsewhere.
/// circuits.withhold(PodId::new(3), 128);
/// let pods: PodSet = [2, 3].map(PodId::new).into_iter().collect();
/// let elsewhere = (0..1_000).filter(|seed| circuits.left_out(pods, *seed).contains(PodId::new(3))).count();
/// assert!((450..550).contains(&elsewhere));
/// ```
#[derive(Debug)]
pub struct OpenBreakers<const W: usize = DEFAULT_POD_WORDS> {
    open: AtomicWords<W>,
    /// Those of which some requests are withheld, and how many of 256.
    withheld: AtomicWords<W>,
    shares: Box<[AtomicU8]>,
}

impl<const W: usize> OpenBreakers<W> {
    /// No open circuit.
    #[must_use]
    pub fn new() -> Self {
        let shares = (0..PodSet::<W>::CAPACITY).map(|_| AtomicU8::new(0)).collect();
        Self { open: AtomicWords::new(), withheld: AtomicWords::new(), shares }
    }

    /// Opens a pod's circuit: nothing new goes there.
    pub fn open(&self, pod: PodId) {
        self.open.set(pod, true);
    }

    /// Closes a pod's circuit.
    pub fn close(&self, pod: PodId) {
        self.open.set(pod, false);
    }

    /// The pods whose circuits are open.
    #[must_use]
    pub fn opened(&self) -> PodSet<W> {
        self.open.all()
    }

    /// Withholds so many of 256 requests from a pod whose circuit is closed, where others are no worse.
    pub fn withhold(&self, pod: PodId, of_256: u8) {
        if let Some(share) = self.shares.get(pod.index()) {
            share.store(of_256, Ordering::Relaxed);
            self.withheld.set(pod, of_256 > 0);
        }
    }

    /// How many of 256 requests are withheld from a pod.
    #[must_use]
    pub fn withheld(&self, pod: PodId) -> u8 {
        self.shares.get(pod.index()).map_or(0, |share| share.load(Ordering::Relaxed))
    }

    /// Whether any pod has requests withheld from it.
    #[must_use]
    pub fn withholds(&self) -> bool {
        !self.withheld.all().is_empty()
    }

    /// Which of these pods a request is not sent to: those whose circuits are open, and by chance those it is withheld from. What is
    /// withheld from more than half of them counts for nobody: a fault that most have is hardly theirs, and those that are left, or have just
    /// come, are not to answer for all.
    ///
    /// The same seed leaves out the same pods. All of them only if all circuits are open.
    #[must_use]
    pub fn left_out(&self, pods: PodSet<W>, seed: u64) -> PodSet<W> {
        let opened = self.opened();
        let withheld = self.withheld.all();
        if withheld.is_empty() {
            return opened;
        }
        let closed = pods - opened;
        let some = closed & withheld;
        let common = self.common(some, closed.len());
        // Half of them have no more than that, and so never are all left out.
        let is_drawn = |pod: &PodId| chance(seed, *pod) < self.withheld(*pod).saturating_sub(common);
        opened | some.iter().filter(is_drawn).collect::<PodSet<W>>()
    }

    /// The share that is withheld from half of so many pods at most, `some` of which have one.
    fn common(&self, some: PodSet<W>, of: usize) -> u8 {
        // How many may have more, and how many have: mostly one or two.
        let may = of / 2;
        if some.len() <= may {
            return 0;
        }
        let mut pods_by_share = [0_u16; 256];
        some.iter().for_each(|pod| pods_by_share[usize::from(self.withheld(pod))] += 1);
        let mut more = 0;
        let common = (0..=u8::MAX).rev().find(|share| {
            more += usize::from(pods_by_share[usize::from(*share)]);
            more > may
        });
        common.unwrap_or(0)
    }
}

/// What a request draws for a pod. Of another kind than the draws that ties are decided by.
fn chance(seed: u64, pod: PodId) -> u8 {
    (mix(seed.rotate_left(32) ^ (pod.index() as u64 + 1).wrapping_mul(0xd6e8_feb8_6659_fd93)) >> 56) as u8
}

impl<const W: usize> Default for OpenBreakers<W> {
    fn default() -> Self {
        Self::new()
    }
}

/// A set of pods that changes one by one.
#[derive(Debug)]
struct AtomicWords<const W: usize>([AtomicU64; W]);

impl<const W: usize> AtomicWords<W> {
    fn new() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }

    fn set(&self, pod: PodId, is_in: bool) {
        let (Some(word), bit) = (self.0.get(pod.index() / 64), 1 << (pod.index() % 64)) else { return };
        // Relaxed, here and elsewhere: a bit stands for itself, nothing is published by it.
        if is_in {
            word.fetch_or(bit, Ordering::Relaxed);
        } else {
            word.fetch_and(!bit, Ordering::Relaxed);
        }
    }

    fn all(&self) -> PodSet<W> {
        PodSet::from_words(std::array::from_fn(|at| self.0[at].load(Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// By the literal rule: of closed pods each is left out as often as more is withheld of it than of the one in the middle, or of two the better.
        #[test]
        fn each_pod_is_left_out_as_often_as_it_is_worse_than_most(
            pods in prop::collection::btree_map(0_u16..200, (prop_oneof![Just(0), 0_u8..=230], prop::bool::weighted(0.2)), 1..6),
        ) {
            let breakers = OpenBreakers::<4>::new();
            for (pod, (withheld, is_open)) in &pods {
                breakers.withhold(PodId::new(*pod), *withheld);
                if *is_open {
                    breakers.open(PodId::new(*pod));
                }
            }
            const REQUESTS: u64 = 2_000;
            let (offered, mut times) = (pods.keys().map(|pod| PodId::new(*pod)).collect::<PodSet<4>>(), BTreeMap::new());
            for seed in 0..REQUESTS {
                breakers.left_out(offered, seed).iter().for_each(|pod| *times.entry(pod.index() as u16).or_insert(0) += 1);
            }
            let mut shares: Vec<u8> = pods.values().filter(|(_, is_open)| !is_open).map(|(withheld, _)| *withheld).collect();
            shares.sort_unstable();
            let middle = shares.get(shares.len().saturating_sub(1) / 2).copied().unwrap_or(0);
            for (pod, (withheld, is_open)) in &pods {
                let share = if *is_open { 1.0 } else { f64::from(withheld.saturating_sub(middle)) / 256.0 };
                let times = f64::from(times.get(pod).copied().unwrap_or(0)) / REQUESTS as f64;
                prop_assert!((times - share).abs() < 0.06, "{pod}: {times}, and not {share}");
            }
        }
    }
}
