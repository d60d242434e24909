//! A fleet with given loads, whose pods hold given blocks of one prompt.

use std::collections::BTreeMap;
use std::sync::Arc;

use kv_index::{
    BlockHash, BlockSize, ChainHasher, ChainSeed, Event, EventSemantics, Index, Parent, Pod, PodId, Removed, Stored,
    Tier,
};
use routing_core::{Declare, Fleet, PodInfo, ProfileBuilder, Request, Scorer};
use routing_plugins::Hashing;
use routing_plugins::extra::{TierMatchParameters, TierMatchPreparer};
use routing_plugins::load::PodLoad;
use routing_plugins::prepare::{
    BlockHashParameters, BlockHashPreparer, GivenTokensPreparer, Loads, PrefixMatchPreparer,
};

use crate::case;
use crate::plugins::{Best, Given};

pub(crate) struct Setup {
    pub(crate) index: Arc<Index>,
    pub(crate) fleet: Fleet,
    pub(crate) loads: Vec<PodLoad>,
    tokens: Vec<u32>,
    block: u32,
}

impl Setup {
    pub(crate) fn new(pods: usize) -> Self {
        Self::of(pods, |_, info| info)
    }

    pub(crate) fn of(pods: usize, info: impl Fn(usize, PodInfo) -> PodInfo) -> Self {
        let (index, fleet) = case::fleet(pods, info);
        Self { index, fleet, loads: vec![PodLoad::default(); pods], tokens: Vec::new(), block: 1 }
    }

    pub(crate) fn prompt(self, tokens: usize, block: u32) -> Self {
        Self { tokens: (0..tokens as u32).collect(), block, ..self }
    }

    pub(crate) fn loads<T>(mut self, figures: &[T], set: impl Fn(&T, &mut PodLoad)) -> Self {
        self.loads.iter_mut().zip(figures).for_each(|(load, figure)| set(figure, load));
        self
    }

    pub(crate) fn pod(&self, at: usize) -> Pod {
        self.fleet.pod(PodId::new(at as u16)).expect("a pod of the fleet").pod
    }

    pub(crate) fn hashes(&self) -> Vec<BlockHash> {
        ChainHasher::new(ChainSeed::new("m"), self.size()).hash(&self.tokens)
    }

    /// A pod holds the prompt's blocks at these positions, in a tier: those in between came and left again.
    pub(crate) fn store(&self, pod: usize, tier: Tier, positions: &[usize]) {
        let Some(last) = positions.iter().max() else { return };
        let hashes = self.hashes();
        let apply = |event| self.index.apply(self.pod(pod), EventSemantics::Membership, &event).expect("a live pod");
        apply(Event::Stored(Stored::new(Parent::Root, &hashes[..=*last]).in_tier(tier)));
        let left: Vec<BlockHash> = (0..*last).filter(|at| !positions.contains(at)).map(|at| hashes[at]).collect();
        apply(Event::Removed(Removed { blocks: &left, tier }));
    }

    /// A pod holds the prompt's first blocks.
    pub(crate) fn hold(&self, pod: usize, blocks: usize) {
        self.store(pod, Tier::Gpu, &(0..blocks).collect::<Vec<_>>());
    }

    pub(crate) fn request(&self) -> Request<'_> {
        case::request().tokens(&self.tokens)
    }

    /// A profile that prepares everything that scorers read.
    pub(crate) fn profile(&self) -> ProfileBuilder {
        let (searched, located, size) = (Arc::clone(&self.index), Arc::clone(&self.index), self.size());
        let loads: Vec<_> = self.loads.iter().enumerate().map(|(at, load)| (PodId::new(at as u16), *load)).collect();
        ProfileBuilder::new("case")
            .preparer("tokens", GivenTokensPreparer::declare)
            .preparer("chain", move |d: &mut Declare<'_>| {
                BlockHashPreparer::declare(d, BlockHashParameters::default(), Hashing::Native(size))
            })
            .preparer("held", move |d: &mut Declare<'_>| PrefixMatchPreparer::declare(d, searched))
            .preparer("tiers", move |d: &mut Declare<'_>| {
                TierMatchPreparer::declare(d, TierMatchParameters::default(), located)
            })
            .preparer("loads", move |d: &mut Declare<'_>| {
                Given::<Loads, _>(d.writes(), move || loads.iter().copied().collect())
            })
    }

    /// What a scorer gives each pod.
    pub(crate) fn scores<S>(
        &self,
        scorer: impl FnOnce(&mut Declare<'_>) -> S + Send + 'static,
    ) -> Result<Vec<f64>, String>
    where
        S: Scorer + 'static,
    {
        self.scores_of(&self.request(), self.profile().scorer("scorer", 1.0, scorer))
    }

    pub(crate) fn scores_of(&self, request: &Request<'_>, profile: ProfileBuilder) -> Result<Vec<f64>, String> {
        if self.fleet.pods().is_empty() {
            // Nobody is scored; ours does not ask a scorer then.
            return Ok(Vec::new());
        }
        let profile = profile.picker("best", |_: &mut Declare<'_>| Best);
        Ok(case::scores(&case::trace(profile, request, &self.fleet)?.2))
    }

    fn size(&self) -> BlockSize {
        BlockSize::new(self.block).expect("not 0")
    }
}

/// Who holds the keys of a chain: positions by pod and tier.
pub(crate) type Holders = BTreeMap<(String, String), Vec<usize>>;
