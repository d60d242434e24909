//! Fleets and profiles for the tests of filters and conditions.

use std::sync::Arc;
use std::time::Instant;

use kv_index::{
    BlockSize, ChainHasher, ChainSeed, Config, DEFAULT_POD_WORDS, Event, EventSemantics, Index, PodSet, Stored,
};
use routing_core::{
    Declare, Filter, Fleet, OnEmpty, Picker, PluginError, PodInfo, PrepareContext, Preparer, ProfileBuilder, Ranking,
    Request, Role, RoutingContext, RoutingInput, RoutingPlan, StepBuilder, StepTrace, Totals, Trace, WorkflowBuilder,
    Write,
};

use crate::load::PodLoad;
use crate::plugin_state::Hashing;
use crate::prepare::{
    BlockHashParameters, BlockHashPreparer, GivenTokensPreparer, LoadTable, Loads, PrefixMatchPreparer,
};

/// Tokens in a block of these fleets.
pub(crate) const BLOCK: usize = 4;

/// A fleet with what its pods have to do and what they hold.
#[derive(Clone)]
pub(crate) struct Setup<const W: usize = DEFAULT_POD_WORDS> {
    index: Arc<Index<W>>,
    pods: Vec<PodInfo>,
    loads: Vec<PodLoad>,
}

impl<const W: usize> Setup<W> {
    /// So many idle pods that hold nothing.
    pub(crate) fn new(pods: usize) -> Self {
        let index = Arc::new(Index::with_width(Config::default()));
        let pod = |at: usize| PodInfo::new(index.join(&format!("pod-{at}")).unwrap(), "pod");
        Self { pods: (0..pods).map(pod).collect(), index, loads: vec![PodLoad::default(); pods] }
    }

    /// As many pods as the width has.
    pub(crate) fn full() -> Self {
        Self::new(W * 64)
    }

    /// The last pod's number.
    pub(crate) fn last(&self) -> usize {
        self.pods.len() - 1
    }

    pub(crate) fn pod(mut self, at: usize, change: impl FnOnce(PodInfo) -> PodInfo) -> Self {
        self.pods[at] = change(self.pods[at].clone());
        self
    }

    pub(crate) fn load(mut self, at: usize, change: impl FnOnce(&mut PodLoad)) -> Self {
        change(&mut self.loads[at]);
        self
    }

    /// The same where a pod holds whole blocks of a prompt.
    pub(crate) fn holds(self, at: usize, tokens: &[u32]) -> Self {
        let blocks = ChainHasher::new(ChainSeed::new("m"), block_size()).hash(tokens);
        self.index.apply(self.pods[at].pod, EventSemantics::Copies, &Event::Stored(Stored::prompt(&blocks))).unwrap();
        self
    }

    pub(crate) fn fleet(&self) -> Fleet<W> {
        Fleet::new(1, self.pods.clone())
    }

    /// A profile that picks anybody, and nothing else.
    pub(crate) fn anybody(name: &str) -> ProfileBuilder<W> {
        ProfileBuilder::new(name).picker("anybody", |_: &mut Declare<'_>| Anybody)
    }

    /// A profile that prepares tokens, loads and what pods hold, and picks anybody.
    pub(crate) fn profile(&self, name: &str) -> ProfileBuilder<W> {
        let (loads, index) = (self.loads.clone(), Arc::clone(&self.index));
        let hashing = Hashing::Native(block_size());
        Self::anybody(name)
            .preparer("tokens", GivenTokensPreparer::declare)
            .preparer("loads", move |declare| GivenLoads { loads, table: declare.writes() })
            .preparer("chain", move |declare| {
                BlockHashPreparer::declare(declare, BlockHashParameters::default(), hashing)
            })
            .preparer("held", move |declare| PrefixMatchPreparer::declare(declare, index))
    }

    /// Who stays, by number; a request without tokens has an empty prompt.
    pub(crate) fn kept<F: Filter<W> + 'static>(
        &self,
        request: Request<'_>,
        declare: impl FnOnce(&mut Declare<'_>) -> F + Send + 'static,
    ) -> Vec<usize> {
        self.kept_in(Role::Both, request, declare)
    }

    /// The same in a step of a role.
    pub(crate) fn kept_in<F: Filter<W> + 'static>(
        &self,
        role: Role,
        request: Request<'_>,
        declare: impl FnOnce(&mut Declare<'_>) -> F + Send + 'static,
    ) -> Vec<usize> {
        let step = self.traced_in(role, request, declare);
        let kept: PodSet<W> = step.offered - step.filters[0].removed;
        assert_eq!(kept.is_empty(), step.ranking.is_empty(), "{step:?}");
        kept.iter().map(|pod| pod.index()).collect()
    }

    /// What a step with the filter does.
    pub(crate) fn traced_in<F: Filter<W> + 'static>(
        &self,
        role: Role,
        request: Request<'_>,
        declare: impl FnOnce(&mut Declare<'_>) -> F + Send + 'static,
    ) -> StepTrace<W> {
        let profile = self.profile("serve").filter("filter", OnEmpty::Fail, declare);
        let workflow = WorkflowBuilder::new().step(StepBuilder::new("serve", profile).role(role)).build().unwrap();
        let request = if request.tokens.is_none() { request.tokens(&[]) } else { request };
        let mut trace = Trace::default();
        let fleet = self.fleet();
        let decided = workflow.decide(
            &mut workflow.workspace(),
            RoutingInput::new(&request, &fleet).traced(&mut trace),
            &mut RoutingPlan::default(),
        );
        let step = trace.steps.pop().expect("one step");
        assert!(!step.filters.is_empty(), "the filter did not run: {decided:?}");
        step
    }
}

#[expect(clippy::disallowed_methods, reason = "a request has some instant; which one does not matter")]
pub(crate) fn request() -> Request<'static> {
    Request::new("m", Instant::now())
}

fn block_size() -> BlockSize {
    BlockSize::new(BLOCK as u32).unwrap()
}

/// Writes loads that a test made up.
struct GivenLoads {
    loads: Vec<PodLoad>,
    table: Write<Loads>,
}

impl<const W: usize> Preparer<W> for GivenLoads {
    fn prepare(&self, context: &mut PrepareContext<'_, W>) -> Result<(), PluginError> {
        let fleet = context.fleet();
        let loads: LoadTable = fleet.pods().iter().zip(self.loads.iter().copied()).collect();
        context.put(self.table, loads)?;
        Ok(())
    }
}

struct Anybody;

impl<const W: usize> Picker<W> for Anybody {
    fn pick(
        &self,
        _: &RoutingContext<'_, W>,
        totals: &Totals<'_, W>,
        ranking: &mut Ranking,
    ) -> Result<(), PluginError> {
        totals.rank(1, ranking);
        Ok(())
    }
}
