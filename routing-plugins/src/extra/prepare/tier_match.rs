//! Tier lookup: in which cache tiers pods keep their prefix of the prompt.

use std::num::NonZeroU16;
use std::sync::Arc;

use kv_index::{DEFAULT_POD_WORDS, Index, PodId, Tier, TierSpan};
use routing_core::{Declare, PluginError, PrefixMatches, PrepareContext, Preparer, Read, Slot, Write};

use crate::parameters::parameters;
use crate::prepare::HashedPrefix;

/// In which tiers pods keep the leading blocks that they hold.
#[derive(Debug)]
pub struct HeldTiers;

impl Slot for HeldTiers {
    type Value = TierCountsByPod;
    const NAME: &'static str = "kv.prefix_tiers";

    fn clear(value: &mut TierCountsByPod) {
        value.pods.clear();
    }
}

/// Leading blocks by tier, for each pod.
#[derive(Debug, Default)]
pub struct TierCountsByPod {
    pods: Vec<TierCounts>,
    // Memory that is used again.
    runs: Vec<TierSpan>,
    seen: Vec<bool>,
}

impl TierCountsByPod {
    /// A pod's blocks; none, if it holds nothing.
    #[must_use]
    #[inline]
    pub fn of(&self, pod: PodId) -> TierCounts {
        self.pods.get(pod.index()).copied().unwrap_or_default()
    }

    /// Enters a pod that was looked at: of what it holds so much was found, in the runs.
    fn enter(&mut self, pod: PodId, held: usize, located: usize) {
        let mut counts = TierCounts { speculated: count(held.saturating_sub(located)), ..TierCounts::default() };
        self.seen.clear();
        self.seen.resize(located, false);
        // Fastest tier first: whoever sees a block first has its best copy.
        for run in &self.runs {
            let (tier, blocks) = (run.tier as usize, run.from..run.to.min(located));
            if run.from == counts.leading[tier] as usize {
                counts.leading[tier] = count(run.to);
            }
            for seen in self.seen.get_mut(blocks).unwrap_or_default() {
                counts.best[tier] += u32::from(!std::mem::replace(seen, true));
            }
        }
        self.set(pod, counts);
    }

    fn set(&mut self, pod: PodId, counts: TierCounts) {
        self.pods.resize(self.pods.len().max(pod.index() + 1), TierCounts::default());
        self.pods[pod.index()] = counts;
    }
}

/// How many of a pod's leading blocks lie in which tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TierCounts {
    best: [u32; 4],
    leading: [u32; 4],
    /// Blocks that it holds and that are in no tier yet: they were speculated.
    pub speculated: u32,
    /// Blocks that it holds of which the tier is not known: the pod was not looked at.
    pub unseen: u32,
}

impl TierCounts {
    /// Blocks whose fastest copy is in this tier. With [`Self::speculated`] and [`Self::unseen`] they add up to what the pod
    /// holds.
    #[must_use]
    #[inline]
    pub fn best(&self, tier: Tier) -> u32 {
        self.best[tier as usize]
    }

    /// Blocks from the first on that have a copy in this tier, up to the first that has none.
    #[must_use]
    pub fn leading(&self, tier: Tier) -> u32 {
        self.leading[tier as usize]
    }

    /// Leading blocks that it holds, in whatever tier.
    #[must_use]
    pub fn held(&self) -> u32 {
        self.best.iter().sum::<u32>() + self.speculated + self.unseen
    }
}

parameters! {
    /// What [`TierMatchPreparer`] takes.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TierMatchParameters {
        /// How many pods are looked at, those first that hold most; 16, unless given.
        pub most_pods: NonZeroU16 = const { NonZeroU16::new(16).expect("not 0") },
    }
}

/// Writes [`HeldTiers`], of the pods that hold something of the prompt.
///
/// A search does not tell tiers apart; this looks each held block up in its pod, under that pod's lock, which a feed may
/// hold meanwhile. So it costs as many look-ups as blocks are held, and only
/// [`most_pods`](TierMatchParameters::most_pods) pods are looked at, deepest first and whether or not they will be candidates:
/// preparers run before filters. What others hold counts as [unseen](TierCounts::unseen). Speculated blocks are in no
/// tier yet and count [apart](TierCounts::speculated).
#[derive(Debug)]
pub struct TierMatchPreparer<const W: usize = DEFAULT_POD_WORDS> {
    index: Arc<Index<W>>,
    most_pods: NonZeroU16,
    held: Read<PrefixMatches<W>>,
    hashed: Read<HashedPrefix>,
    tiers: Write<HeldTiers>,
}

impl<const W: usize> TierMatchPreparer<W> {
    /// Declares that it reads who holds the prompt and writes where.
    pub fn declare(declare: &mut Declare<'_>, parameters: TierMatchParameters, index: Arc<Index<W>>) -> Self {
        let (held, hashed) = (declare.reads(), declare.reads());
        Self { index, most_pods: parameters.most_pods, held, hashed, tiers: declare.writes() }
    }
}

impl<const W: usize> Preparer<W> for TierMatchPreparer<W> {
    fn prepare(&self, context: &mut PrepareContext<'_, W>) -> Result<(), PluginError> {
        let fleet = context.fleet();
        let (reads, table) = context.write(self.tiers)?;
        let (held, hashes) = (reads.read(self.held)?, reads.read(self.hashed)?.hashes());
        let mut left = self.most_pods.get();
        for group in held.groups() {
            let chain = &hashes[..group.depth.min(hashes.len())];
            for info in (group.pods & fleet.pods()).iter().filter_map(|id| fleet.pod(id)) {
                let Some(rest) = left.checked_sub(1) else {
                    table.set(info.pod.id(), TierCounts { unseen: count(group.depth), ..TierCounts::default() });
                    continue;
                };
                left = rest;
                table.runs.clear();
                // A pod that left since the search holds nothing.
                if let Ok(located) = self.index.locate(info.pod, chain, &mut table.runs) {
                    table.enter(info.pod.id(), group.depth, located);
                }
            }
        }
        Ok(())
    }
}

fn count(blocks: usize) -> u32 {
    u32::try_from(blocks).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use kv_index::Location;
    use parking_lot::Mutex;
    use routing_core::{RoutingContext, Scorer, Scores};

    use super::*;
    use crate::score::testing::{BLOCK, Scene};

    /// Keeps what it reads.
    struct Keep(Read<HeldTiers>, Arc<Mutex<Vec<TierCounts>>>);

    impl Scorer for Keep {
        fn score(&self, context: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
            let table = context.read(self.0)?;
            *self.1.lock() = scores.candidates().iter().map(|pod| table.of(pod)).collect();
            Ok(())
        }
    }

    fn counts(scene: &Scene) -> Vec<TierCounts> {
        let kept = Arc::new(Mutex::new(Vec::new()));
        let keep = Arc::clone(&kept);
        scene.scores(move |d| Keep(d.reads(), keep));
        std::mem::take(&mut *kept.lock())
    }

    fn tiers(count: impl Fn(Tier) -> u32) -> [u32; 4] {
        Tier::ALL.map(count)
    }

    #[test]
    fn blocks_count_in_their_fastest_tier_and_lead_in_each() {
        let scene = Scene::new(2).prompt(6 * BLOCK, &[3]);
        scene.store(0, 1..5, Tier::Host);
        scene.store(0, 0..2, Tier::Disk);
        let counts = counts(&scene);
        assert_eq!(tiers(|tier| counts[0].best(tier)), [3, 2, 0, 0]);
        assert_eq!(tiers(|tier| counts[0].leading(tier)), [3, 0, 2, 0]);
        assert_eq!((counts[0].held(), counts[0].speculated, counts[0].unseen), (5, 0, 0));
        assert_eq!(counts[1], TierCounts::default());
    }

    #[test]
    fn speculated_blocks_are_in_no_tier() {
        let scene = Scene::new(1).prompt(6 * BLOCK, &[2]);
        scene.index.speculate(scene.pod(0), &scene.hashes()[..4], scene.now + Duration::from_secs(9)).unwrap();
        let counts = counts(&scene);
        assert_eq!((tiers(|tier| counts[0].best(tier)), counts[0].speculated), ([2, 0, 0, 0], 2));
        assert_eq!((counts[0].held(), counts[0].unseen), (4, 0));
    }

    #[test]
    fn the_deepest_pods_are_looked_at_first_and_no_more_than_allowed() {
        let counts = counts(&Scene::new(3).prompt(6 * BLOCK, &[1, 4, 2]).most_pods(2));
        assert_eq!(counts.iter().map(|counts| counts.unseen).collect::<Vec<_>>(), [1, 0, 0]);
        assert!(counts.iter().all(|counts| counts.speculated == 0));
        assert_eq!(counts.iter().map(TierCounts::held).collect::<Vec<_>>(), [1, 4, 2]);
    }

    #[test]
    fn nothing_of_an_earlier_request_shows() {
        let mut table = TierCountsByPod::default();
        let run = |tier, from, to, location| {
            let mut run = probe();
            (run.tier, run.from, run.to, run.location) = (tier, from, to, location);
            run
        };
        let place = Location { device: 0, offset: 0, length: 1 };
        // Runs of one tier may adjoin: their locations do not.
        table.runs = vec![run(Tier::Gpu, 0, 2, Some(place)), run(Tier::Gpu, 2, 3, Some(place))];
        table.enter(PodId::new(3), 3, 3);
        assert_eq!((table.of(PodId::new(3)).leading(Tier::Gpu), table.of(PodId::new(3)).best(Tier::Gpu)), (3, 3));
        HeldTiers::clear(&mut table);
        assert_eq!(table.of(PodId::new(3)), TierCounts::default());
    }

    /// Some run, to make others of: they are made by an index only.
    fn probe() -> TierSpan {
        let scene = Scene::new(1).prompt(BLOCK, &[1]);
        let mut runs = Vec::new();
        scene.index.locate(scene.pod(0), &scene.hashes(), &mut runs).unwrap();
        runs[0]
    }

    #[cfg(feature = "serde")]
    #[test]
    fn somebody_is_looked_at() {
        let read = |text| serde_json::from_str::<TierMatchParameters>(text);
        assert_eq!(read("{}").unwrap().most_pods.get(), 16);
        assert!(read(r#"{"most_pods": 0}"#).is_err());
    }
}
