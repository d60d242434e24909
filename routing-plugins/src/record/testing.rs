//! Pods and prompts for the tests of recorders.

use std::sync::Arc;
use std::time::{Duration, Instant};

use kv_index::{BlockSize, ChainHasher, ChainSeed, Config, Event, EventSemantics, Index, Matches, PodSet, Stored};
use routing_core::{
    Declare, Fleet, Picker, PluginError, PodInfo, ProfileBuilder, Ranking, Recorder, Request, RoutingContext,
    RoutingInput, RoutingPlan, StepBuilder, Totals, Workflow, WorkflowBuilder,
};

use crate::plugin_state::Hashing;
use crate::prepare::{
    BlockHashParameters, BlockHashPreparer, GivenTokensPreparer, PrefixMatchPreparer, SessionKeyParameters,
    SessionKeyPreparer,
};

/// Two pods of one index; a request goes to the first that is left. Prompts are of four blocks, sessions are users.
pub(crate) struct Site {
    pub(crate) index: Arc<Index>,
    pub(crate) pods: [PodInfo; 2],
    pub(crate) start: Instant,
}

impl Site {
    #[expect(clippy::disallowed_methods, reason = "a request has some instant; which one does not matter")]
    pub(crate) fn new() -> Self {
        let index: Arc<Index> = Arc::new(Index::new(Config::default()));
        let pods = ["0", "1"].map(|name| PodInfo::new(index.join(name).expect("room"), name));
        Self { index, pods, start: Instant::now() }
    }

    fn profile<R: Recorder + 'static>(
        &self,
        recorder: impl FnOnce(&mut Declare<'_>) -> R + Send + 'static,
    ) -> ProfileBuilder {
        let index = Arc::clone(&self.index);
        ProfileBuilder::new("p")
            .preparer("tokens", GivenTokensPreparer::declare)
            .preparer("hash", |d: &mut Declare<'_>| {
                BlockHashPreparer::declare(d, BlockHashParameters::default(), Hashing::Native(size()))
            })
            .preparer("held", |d: &mut Declare<'_>| PrefixMatchPreparer::declare(d, index))
            .preparer("session", |d: &mut Declare<'_>| SessionKeyPreparer::declare(d, SessionKeyParameters::default()))
            .picker("first", |_: &mut Declare<'_>| First)
            .recorder("recorder", recorder)
    }

    pub(crate) fn workflow<R: Recorder + 'static>(
        &self,
        recorder: impl FnOnce(&mut Declare<'_>) -> R + Send + 'static,
    ) -> Workflow {
        self.profile(recorder).build().expect("it fits").into()
    }

    /// Decides without some pods, at the start; who it is.
    pub(crate) fn send(&self, workflow: &Workflow, prompt: u32, without: &[usize]) -> usize {
        self.send_at(workflow, prompt, without, 0)
    }

    /// The same so many milliseconds after the start.
    pub(crate) fn send_at(&self, workflow: &Workflow, prompt: u32, without: &[usize], millis: u64) -> usize {
        let tokens = tokens(prompt);
        let request = Request::new("m", self.start + Duration::from_millis(millis)).tokens(&tokens);
        let request = request.body(br#"{"user": "u"}"#);
        let (mut plan, fleet) = (RoutingPlan::default(), Fleet::new(1, self.pods.clone()));
        let without: PodSet = without.iter().map(|at| self.pods[*at].pod.id()).collect();
        workflow
            .decide(&mut workflow.workspace(), RoutingInput::new(&request, &fleet).excluding(without), &mut plan)
            .expect("a plan");
        plan.steps()[0].candidates[0].pod.id().index()
    }

    /// Makes a decision whose second step fails, with a recorder in the first.
    pub(crate) fn fail_later<R: Recorder + 'static>(
        &self,
        recorder: impl FnOnce(&mut Declare<'_>) -> R + Send + 'static,
    ) {
        let broken = ProfileBuilder::new("q").picker("broken", |_: &mut Declare<'_>| Broken);
        let workflow = WorkflowBuilder::new()
            .step(StepBuilder::new("one", self.profile(recorder)))
            .step(StepBuilder::new("two", broken))
            .build()
            .expect("it fits");
        let (tokens, fleet) = (tokens(1), Fleet::new(1, self.pods.clone()));
        let request = Request::new("m", self.start).tokens(&tokens).body(br#"{"user": "u"}"#);
        let decided = workflow.decide(
            &mut workflow.workspace(),
            RoutingInput::new(&request, &fleet),
            &mut RoutingPlan::default(),
        );
        assert!(decided.is_err_and(|error| error.to_string().contains("broken")));
    }

    /// A pod reports that it cached a prompt.
    pub(crate) fn store(&self, pod: usize, prompt: u32) {
        let chain = ChainHasher::new(ChainSeed::new("m"), size()).hash(&tokens(prompt));
        let stored = Event::Stored(Stored::prompt(&chain));
        self.index.apply(self.pods[pod].pod, EventSemantics::Membership, &stored).expect("it is alive");
    }

    /// How much of a prompt each pod is found to hold.
    pub(crate) fn depths(&self, prompt: u32) -> [usize; 2] {
        let mut matches = Matches::default();
        self.index.search(&ChainHasher::new(ChainSeed::new("m"), size()).hash(&tokens(prompt)), &mut matches);
        self.pods.each_ref().map(|info| matches.depth(info.pod.id()))
    }
}

fn size() -> BlockSize {
    BlockSize::new(16).expect("not zero")
}

fn tokens(prompt: u32) -> Vec<u32> {
    (0..64).map(|at| prompt * 1_000 + at).collect()
}

/// Picks the first candidate in order.
struct First;

impl Picker for First {
    fn pick(&self, _: &RoutingContext<'_>, totals: &Totals<'_>, ranking: &mut Ranking) -> Result<(), PluginError> {
        ranking.push(totals.candidates().first().expect("a candidate"));
        Ok(())
    }
}

struct Broken;

impl Picker for Broken {
    fn pick(&self, _: &RoutingContext<'_>, _: &Totals<'_>, _: &mut Ranking) -> Result<(), PluginError> {
        Err(PluginError::failed("nobody"))
    }
}
