//! A small fleet to try scorers on: pods with given loads, that hold given stretches of one prompt.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Instant;

use kv_index::{
    BlockHash, BlockSize, ChainHasher, ChainSeed, Config, Event, EventSemantics, Index, Pod, PodSet, Stored, Tier,
};
use routing_core::{
    Declare, Fleet, Picker, PluginError, PodInfo, PrepareContext, Preparer, ProfileBuilder, Ranking, Recorder, Request,
    RoutingContext, RoutingInput, RoutingPlan, Scorer, Slot, Totals, Trace, Write,
};

use crate::extra::{TierMatchParameters, TierMatchPreparer};
use crate::load::PodLoad;
use crate::plugin_state::{Hashing, PluginState};
use crate::prepare::{BlockHashParameters, BlockHashPreparer, GivenTokensPreparer, Loads, PrefixMatchPreparer};

/// Tokens in a block of a scene's prompt.
pub(crate) const BLOCK: usize = 16;

pub(crate) struct Scene {
    pub(crate) index: Arc<Index>,
    pub(crate) infos: Vec<PodInfo>,
    pub(crate) now: Instant,
    loads: Vec<PodLoad>,
    tokens: Vec<u32>,
    most_pods: NonZeroU16,
    excluded: PodSet,
}

impl Scene {
    /// So many idle pods, and an empty prompt.
    #[expect(clippy::disallowed_methods, reason = "a request has some instant; which one does not matter")]
    pub(crate) fn new(pods: usize) -> Self {
        let index = Arc::new(Index::new(Config::default()));
        let info = |at: usize| PodInfo::new(index.join(&format!("pod-{at}")).unwrap(), &format!("pod-{at}"));
        let infos = (0..pods).map(info).collect();
        let (loads, tokens) = (vec![PodLoad::default(); pods], Vec::new());
        let most_pods = TierMatchParameters::default().most_pods;
        Self { index, infos, now: Instant::now(), loads, tokens, most_pods, excluded: PodSet::EMPTY }
    }

    /// A prompt of so many tokens; each pod holds so many blocks of it in GPU memory, those not named none.
    pub(crate) fn prompt(mut self, tokens: usize, held: &[usize]) -> Self {
        self.tokens = (0..tokens as u32).collect();
        for (pod, held) in held.iter().enumerate().filter(|(_, held)| **held > 0) {
            self.store(pod, 0..*held, Tier::Gpu);
        }
        self
    }

    /// Blocks of the prompt come to a tier of a pod.
    pub(crate) fn store(&self, pod: usize, blocks: std::ops::Range<usize>, tier: Tier) {
        let hashes = self.hashes();
        let parent = match blocks.start {
            0 => kv_index::Parent::Root,
            start => kv_index::Parent::Block(hashes[start - 1]),
        };
        let stored = Stored::new(parent, &hashes[blocks]).in_tier(tier);
        self.index.apply(self.pod(pod), EventSemantics::Membership, &Event::Stored(stored)).unwrap();
    }

    pub(crate) fn hashes(&self) -> Vec<BlockHash> {
        ChainHasher::new(ChainSeed::new("m"), size()).hash(&self.tokens)
    }

    pub(crate) fn loads(mut self, load: impl Fn(usize) -> PodLoad) -> Self {
        self.loads = (0..self.infos.len()).map(load).collect();
        self
    }

    pub(crate) fn infos(mut self, info: impl Fn(usize, PodInfo) -> PodInfo) -> Self {
        self.infos = self.infos.into_iter().enumerate().map(|(at, old)| info(at, old)).collect();
        self
    }

    pub(crate) fn most_pods(self, most_pods: u16) -> Self {
        Self { most_pods: NonZeroU16::new(most_pods).unwrap(), ..self }
    }

    /// Retires a pod; another takes its id.
    pub(crate) fn replace(&mut self, at: usize) {
        let old = self.pod(at);
        self.index.retire(old);
        while self.index.sweep(usize::MAX).pending > 0 {}
        let new = self.index.join("new").unwrap();
        assert!(new.id() == old.id() && new != old, "{old:?} {new:?}");
        self.infos[at] = PodInfo::new(new, "new");
    }

    /// Only these pods are candidates.
    pub(crate) fn offer(&mut self, pods: &BTreeSet<usize>) {
        self.excluded = (0..self.infos.len()).filter(|at| !pods.contains(at)).map(|at| self.pod(at).id()).collect();
    }

    pub(crate) fn pod(&self, at: usize) -> Pod {
        self.infos[at].pod
    }

    /// What plugins share, with nothing learned.
    pub(crate) fn state(&self) -> PluginState {
        PluginState::new(Arc::clone(&self.index), Hashing::Native(size()))
    }

    pub(crate) fn request(&self) -> Request<'_> {
        Request::new("m", self.now).tokens(&self.tokens)
    }

    /// What a scorer gives each pod; 0 to those that are not offered.
    pub(crate) fn scores<S>(&self, scorer: impl FnOnce(&mut Declare<'_>) -> S + Send + 'static) -> Vec<f32>
    where
        S: Scorer + 'static,
    {
        self.scores_of(&self.request(), self.profile().scorer("scorer", 1.0, scorer))
    }

    /// The same for a request and a profile with more in it.
    pub(crate) fn scores_of(&self, request: &Request<'_>, profile: ProfileBuilder) -> Vec<f32> {
        let workflow = profile.picker("first", |_: &mut Declare<'_>| First).build();
        let workflow = workflow.unwrap_or_else(|error| panic!("{error}"));
        let fleet = Fleet::new(1, self.infos.clone());
        let (mut plan, mut trace) = (RoutingPlan::default(), Trace::default());
        workflow
            .decide(&mut workflow.workspace(), RoutingInput::new(request, &fleet).traced(&mut trace), &mut plan)
            .unwrap();
        let mut scores = vec![0.0; self.infos.len()];
        for (pod, score) in &trace.steps.last().unwrap().scorers[0].scores {
            scores[self.infos.iter().position(|info| info.pod.id() == *pod).unwrap()] = *score;
        }
        scores
    }

    /// Decides by the first pod in order, and lets a recorder take note.
    pub(crate) fn record<R>(&self, recorder: impl FnOnce(&mut Declare<'_>) -> R + Send + 'static)
    where
        R: Recorder + 'static,
    {
        let profile = self.profile().recorder("recorder", recorder);
        let workflow = profile.picker("first", |_: &mut Declare<'_>| First).build().unwrap();
        let fleet = Fleet::new(1, self.infos.clone());
        let mut plan = RoutingPlan::default();
        workflow.decide(&mut workflow.workspace(), RoutingInput::new(&self.request(), &fleet), &mut plan).unwrap();
    }

    /// A profile that prepares what scorers read.
    pub(crate) fn profile(&self) -> ProfileBuilder {
        let loads: Vec<_> = self.infos.iter().map(|info| info.pod.id()).zip(self.loads.iter().copied()).collect();
        let (searched, located) = (Arc::clone(&self.index), Arc::clone(&self.index));
        let tiers = TierMatchParameters { most_pods: self.most_pods };
        let excluded = self.excluded;
        ProfileBuilder::new("scene")
            .preparer("tokens", GivenTokensPreparer::declare)
            .preparer("chain", |d: &mut Declare<'_>| {
                BlockHashPreparer::declare(d, BlockHashParameters::default(), Hashing::Native(size()))
            })
            .preparer("held", move |d: &mut Declare<'_>| PrefixMatchPreparer::declare(d, searched))
            .preparer("tiers", move |d: &mut Declare<'_>| TierMatchPreparer::declare(d, tiers, located))
            .preparer("loads", move |d: &mut Declare<'_>| {
                Given::<Loads, _>::declare(d, move || loads.iter().copied().collect())
            })
            .filter("offered", routing_core::OnEmpty::Fail, move |_: &mut Declare<'_>| Without(excluded))
    }
}

fn size() -> BlockSize {
    BlockSize::new(BLOCK as u32).unwrap()
}

/// The pod with the highest score.
pub(crate) fn best(scores: &[f32]) -> usize {
    (0..scores.len()).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap()
}

/// Loads of any kind, the largest numbers and odd reports among them.
pub(crate) fn any_load() -> impl proptest::strategy::Strategy<Value = PodLoad> {
    use proptest::prelude::*;

    let count = prop_oneof![0..10u32, any::<u32>(), Just(u32::MAX)];
    let tokens = prop_oneof![0..10_000u64, any::<u64>(), Just(u64::MAX)];
    let kv = prop_oneof![0.0..=1.0f32, any::<f32>(), Just(f32::NAN)];
    (prop::array::uniform5(count), prop::array::uniform4(tokens), kv).prop_map(|(counts, tokens, kv_used)| {
        let mut load = PodLoad { requests: counts[0], running: counts[1], waiting: counts[2], ..PodLoad::default() };
        (load.in_flight.requests, load.in_flight.prefilling) = (counts[3], counts[4]);
        (load.in_flight.prompt_tokens, load.in_flight.uncached_tokens) = (tokens[0], tokens[1]);
        (load.in_flight.output_tokens, load.tokens, load.kv_used) = (tokens[2], tokens[3], kv_used);
        load.waiting_elsewhere = load.waiting;
        load
    })
}

/// Writes what a function makes.
pub(crate) struct Given<S, F>(Write<S>, F);

impl<S: Slot, F> Given<S, F> {
    pub(crate) fn declare(declare: &mut Declare<'_>, make: F) -> Self {
        Self(declare.writes(), make)
    }
}

impl<S: Slot, F: Fn() -> S::Value + Send + Sync> Preparer for Given<S, F> {
    fn prepare(&self, context: &mut PrepareContext<'_>) -> Result<(), PluginError> {
        Ok(context.put(self.0, (self.1)())?)
    }
}

/// Takes some pods away.
struct Without(PodSet);

impl routing_core::Filter for Without {
    fn filter(&self, _: &RoutingContext<'_>, candidates: PodSet) -> Result<PodSet, PluginError> {
        Ok(candidates - self.0)
    }
}

/// Picks the first candidate in order.
struct First;

impl Picker for First {
    fn pick(&self, _: &RoutingContext<'_>, totals: &Totals<'_>, ranking: &mut Ranking) -> Result<(), PluginError> {
        ranking.push(totals.candidates().first().unwrap());
        Ok(())
    }
}
