//! Router builder: what a router is made of, checked at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use std::time::Instant;

use kv_index::{BlockSize, DEFAULT_POD_WORDS, Index, PodSet};
use parking_lot::Mutex;
use routing_core::Fleet;
use routing_core::flow::{FlowConfigError, FlowControl};
use routing_exec::handoff::{Dialect, Handoff, check_roles};
use routing_exec::{BreakerConfig, Breakers, ClientFields, DispatchConfig, DispatchPolicy, RetryBudget};
use routing_plugins::tokenize::PromptTokenizer;
use routing_plugins::{Hashing, PluginState};

use super::live::Live;
use super::seeds::Seeds;
use super::update::{Built, PREDICTED, checked};
use super::{Inner, Router, RouterError, RouterFault};
use crate::Clock;
use crate::cache_audit::CacheAudit;
use crate::flow_control::{Gate, MakeFlowControl};
use crate::log;
use crate::model::Model;
use crate::observations::Observations;
use crate::pod_registry::{AddressTable, PodRegistry};
use crate::pod_spec::PodSpec;
use crate::profile::Profile;
use crate::version_cell::VersionCell;

/// Builds a [`Router`]: begin with [`Router::builder`].
#[must_use]
pub struct RouterBuilder<const W: usize = DEFAULT_POD_WORDS> {
    name: String,
    aliases: Vec<String>,
    adapters: BTreeMap<String, Option<String>>,
    any_adapter: bool,
    block_size: u32,
    hashing: HashedBy,
    tokenizer: Option<Arc<dyn PromptTokenizer>>,
    tokens_given: bool,
    profile: Option<Box<dyn Profile<W>>>,
    pods: Vec<PodSpec>,
    trusts_new_pods: bool,
    policy: DispatchPolicy,
    handoff: Arc<dyn Handoff>,
    breakers: BreakerConfig,
    retry_budget: RetryBudget,
    client_fields: ClientFields,
    flow_control: Option<MakeFlowControl<W>>,
    index: IndexFrom<W>,
    plugin_state: Option<StateEdit<W>>,
    seed: Option<u64>,
    clock: Clock,
}

type StateEdit<const W: usize> = Box<dyn FnOnce(PluginState<W>) -> PluginState<W> + Send>;

/// Whose hashes the index has.
enum HashedBy {
    Native,
    Host,
    #[cfg(feature = "engine")]
    Engine(kv_index::engine::Dialect),
}

enum IndexFrom<const W: usize> {
    New(kv_index::Config),
    Given(Arc<Index<W>>),
}

impl<const W: usize> RouterBuilder<W> {
    /// A router of a model, by the name that its pods know it by; for up to 64 pods a word.
    pub fn new(model: impl Into<String>) -> Self {
        Self {
            name: model.into(),
            aliases: Vec::new(),
            adapters: BTreeMap::new(),
            any_adapter: false,
            block_size: 16,
            hashing: HashedBy::Native,
            tokenizer: None,
            tokens_given: false,
            profile: None,
            pods: Vec::new(),
            trusts_new_pods: true,
            policy: DispatchPolicy::default(),
            handoff: Dialect::default().handoff(Arc::new(())),
            breakers: BreakerConfig::default(),
            retry_budget: RetryBudget::default(),
            client_fields: ClientFields::default(),
            flow_control: None,
            index: IndexFrom::New(kv_index::Config::default()),
            plugin_state: None,
            seed: None,
            clock: Arc::new(Instant::now),
        }
    }

    /// Another name that clients may use; pods are sent the model's own.
    pub fn alias(mut self, name: impl Into<String>) -> Self {
        self.aliases.push(name.into());
        self
    }

    /// A LoRA adapter that clients name as a model, and where engines load it from, which some of them hash.
    pub fn adapter(mut self, name: impl Into<String>, path: Option<&str>) -> Self {
        self.adapters.insert(name.into(), path.map(str::to_owned));
        self
    }

    /// Takes every name that is not the model's own, or an alias, for an adapter's: pods know best what they serve, and what one adapter
    /// computed is of no use to another.
    pub fn any_adapter(self) -> Self {
        Self { any_adapter: true, ..self }
    }

    /// Tokens in a block, as the engines have it; 16 unless given.
    pub fn block_size(self, tokens: u32) -> Self {
        Self { block_size: tokens, ..self }
    }

    /// Makes tokens of the bodies of requests.
    pub fn tokenizer(self, tokenizer: Arc<dyn PromptTokenizer>) -> Self {
        Self { tokenizer: Some(tokenizer), ..self }
    }

    /// Says that the host gives each request its tokens or hashes: nothing is guessed by the text of prompts.
    pub fn tokens_given(self) -> Self {
        Self { tokens_given: true, ..self }
    }

    /// Says that the host hashes prompts itself, in blocks of the block size, and feeds the index by the same hashes.
    pub fn hashes_given(self) -> Self {
        Self { hashing: HashedBy::Host, tokens_given: true, ..self }
    }

    /// Calls blocks as the engines do, which must all hash alike; by the router's own hash of their tokens unless given.
    #[cfg(feature = "engine")]
    pub fn engine_hashes(self, dialect: kv_index::engine::Dialect) -> Self {
        Self { hashing: HashedBy::Engine(dialect), ..self }
    }

    /// How pods are chosen; `total_latency` unless given, or `approximate_prefix` where there are no tokens to go by.
    pub fn profile(self, profile: impl Profile<W> + 'static) -> Self {
        Self { profile: Some(Box::new(profile)), ..self }
    }

    /// A pod. More can join while requests are served.
    pub fn pod(mut self, pod: PodSpec) -> Self {
        self.pods.push(pod);
        self
    }

    /// Pods.
    pub fn pods(mut self, pods: impl IntoIterator<Item = PodSpec>) -> Self {
        self.pods.extend(pods);
        self
    }

    /// Says that somebody checks the pods' health: none gets a request before it passed its first check.
    pub fn health_checked(self) -> Self {
        Self { trusts_new_pods: false, ..self }
    }

    /// Timeouts, retries and buffering.
    pub fn policy(self, policy: DispatchPolicy) -> Self {
        Self { policy, ..self }
    }

    /// The dialect of prefill/decode handoffs; vLLM's NIXL unless given. A profile with a step whose role it does not
    /// [carry](Handoff::carries) is refused.
    pub fn handoff(self, handoff: Arc<dyn Handoff>) -> Self {
        Self { handoff, ..self }
    }

    /// When circuit breakers open.
    pub fn breakers(self, breakers: BreakerConfig) -> Self {
        Self { breakers, ..self }
    }

    /// A bound on the retries of all requests together.
    pub fn retry_budget(self, retry_budget: RetryBudget) -> Self {
        Self { retry_budget, ..self }
    }

    /// Restricted fields that clients may set.
    pub fn client_fields(self, client_fields: ClientFields) -> Self {
        Self { client_fields, ..self }
    }

    /// Flow control, made over what plugins share: requests wait while no pod has room. None unless given.
    ///
    /// # Examples
    ///
    /// ```
    /// use pointsman::core::flow::{BandConfig, FlowConfig, FlowControl};
    /// use pointsman::plugins::flow::{PredictedWaitDetector, PredictedWaitParameters};
    /// use pointsman::{PodSpec, Router};
    ///
    /// let bands = FlowConfig::default().band(BandConfig::new("people").priority(1)).band(BandConfig::new("batch"));
    /// let router = Router::builder("llama-8b").pod(PodSpec::new("a", "10.0.0.5:8000")).flow_control(move |state| {
    ///     let detector = PredictedWaitDetector::new(PredictedWaitParameters::default(), state);
    ///     Ok(FlowControl::new(bands.clone()).detector(detector))
    /// });
    /// let router = router.build()?;
    /// assert_eq!(router.flow_status(10).len(), 2);
    /// # Ok::<(), pointsman::RouterError>(())
    /// ```
    pub fn flow_control(
        self,
        make: impl Fn(&PluginState<W>) -> Result<FlowControl<W>, FlowConfigError> + Send + Sync + 'static,
    ) -> Self {
        Self { flow_control: Some(Box::new(make)), ..self }
    }

    /// The bounds of the index.
    pub fn index_config(self, config: kv_index::Config) -> Self {
        Self { index: IndexFrom::New(config), ..self }
    }

    /// An index that was restored from a snapshot. Its pods that the router is not given are retired.
    pub fn index(self, index: Arc<Index<W>>) -> Self {
        Self { index: IndexFrom::Given(index), ..self }
    }

    /// Changes what plugins share before the profile is built: metrics of the host's, windows, predictions.
    pub fn plugin_state(self, edit: impl FnOnce(PluginState<W>) -> PluginState<W> + Send + 'static) -> Self {
        Self { plugin_state: Some(Box::new(edit)), ..self }
    }

    /// The seed of all chance in decisions: with it the same requests give the same plans. Drawn unless given; a trace tells each
    /// request's. Identifiers that pods see, such as SGLang's bootstrap rooms, differ between gateways whatever it is.
    pub fn seed(self, seed: u64) -> Self {
        Self { seed: Some(seed), ..self }
    }

    /// The clock, for tests and simulations; the system's unless given.
    pub fn clock(self, clock: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        Self { clock: Arc::new(clock), ..self }
    }

    /// Builds the router.
    ///
    /// # Errors
    ///
    /// With every fault that can be told: a block size of 0 or a profile that cannot be used hides those behind it.
    pub fn build(self) -> Result<Router<W>, RouterError> {
        let mut faults = self.name_faults();
        let Some(block_size) = BlockSize::new(self.block_size) else {
            faults.push(RouterFault::BlockSize);
            return Err(RouterError { faults });
        };
        let index = match self.index {
            IndexFrom::Given(index) => {
                retire_others(&index, &self.pods);
                index
            }
            IndexFrom::New(config) => {
                let (asked, width) = (config.max_pods, PodSet::<W>::CAPACITY);
                if asked != usize::MAX && asked > width {
                    faults.push(RouterFault::TooManyPods { asked, width });
                }
                Arc::new(Index::with_width(config))
            }
        };
        let hashing = match self.hashing {
            HashedBy::Native => Hashing::Native(block_size),
            HashedBy::Host => Hashing::Given(block_size),
            #[cfg(feature = "engine")]
            HashedBy::Engine(dialect) => {
                use routing_plugins::EngineHashing;
                let plain = EngineHashing::new(kv_index::engine::DialectHasher::new(dialect, block_size));
                let adapters = self.adapters.iter();
                let engine = adapters.fold(plain, |engine, (name, path)| engine.adapter(name, path.as_deref(), None));
                Hashing::Engine(engine.into())
            }
        };
        let plugin_state = PluginState::new(Arc::clone(&index), hashing);
        let plugin_state = match self.plugin_state {
            Some(edit) => edit(plugin_state),
            None => plugin_state,
        };
        // What the host may have put in their place, so that feeds and requests agree.
        let hashing = plugin_state.hashing.clone();
        let block_size = block_size_of(&hashing).unwrap_or(block_size);
        let has_tokens = self.tokens_given || self.tokenizer.is_some();
        let profile = self.profile.unwrap_or_else(|| Box::new(if has_tokens { "total_latency" } else { PREDICTED }));
        let built = Built::new(&*profile, &plugin_state).map_err(|fault| faults.push(fault)).ok();
        let Some(Built { name, is_predicted, workflow }) = built else { return Err(RouterError { faults }) };
        if let Err(error) = check_roles(&*self.handoff, workflow.roles()) {
            faults.push(error.into());
        }
        let flow = self.flow_control.map(|make| checked(&make, &plugin_state)).transpose();
        let flow = flow.unwrap_or_else(|fault| {
            faults.push(fault);
            None
        });
        if !faults.is_empty() {
            return Err(RouterError { faults });
        }
        let addresses = Arc::new(AddressTable::default());
        let mut dispatch = DispatchConfig::new(self.handoff, Arc::clone(&addresses) as _);
        dispatch.policy = Arc::new(self.policy);
        dispatch.retry_budget = Some(Arc::new(self.retry_budget));
        let live = Live {
            is_predicted,
            profile: name,
            workflow: Arc::new(workflow),
            fleet: Arc::new(Fleet::new(0, [])),
            dispatch,
            client_fields: self.client_fields,
            flow,
        };
        let gate = Gate::new(live.flow.as_ref().map(|flow| flow.config.clone()).unwrap_or_default());
        let router = Router(Arc::new(Inner {
            model: Model {
                name: self.name,
                aliases: self.aliases,
                adapters: self.adapters,
                any_adapter: self.any_adapter,
                block_size,
                hashing,
            },
            deadlines: Arc::default(),
            breakers: Arc::new(Breakers::new(self.breakers, Arc::clone(&plugin_state.open_breakers))),
            plugin_state,
            tokenizer: self.tokenizer,
            live: VersionCell::new(live),
            registry: Mutex::new(PodRegistry::default()),
            addresses,
            gate,
            audit: CacheAudit::new(Arc::clone(&self.clock)),
            observations: Observations::new((self.clock)()),
            seeds: Seeds::new(self.seed),
            clock: self.clock,
            trusts_new_pods: self.trusts_new_pods,
            plain_http: Default::default(),
        }));
        router.apply(super::RouterUpdate::new().pods(self.pods))?;
        log::breakers(router.breakers(), router.name(), router.index(), &router.0.clock);
        log::warnings(router.name(), &router.profile(), &router.warnings());
        Ok(router)
    }

    fn name_faults(&self) -> Vec<RouterFault> {
        let mut faults = Vec::new();
        if self.name.is_empty() {
            faults.push(RouterFault::NoName);
        }
        let mut seen = BTreeSet::from([&*self.name]);
        for name in self.aliases.iter().chain(self.adapters.keys()) {
            if !seen.insert(name) {
                faults.push(RouterFault::NameTwice(name.as_str().into()));
            }
        }
        faults
    }
}

/// Tokens in a block that prompts are hashed by.
fn block_size_of(hashing: &Hashing) -> Option<BlockSize> {
    match hashing {
        Hashing::Native(size) | Hashing::Given(size) => Some(*size),
        #[cfg(feature = "engine")]
        Hashing::Engine(engine) => Some(engine.hasher().block_size()),
        _ => None,
    }
}

/// Retires restored pods that are not the router's: nothing would correct them, and the others need the room.
fn retire_others<const W: usize>(index: &Index<W>, pods: &[PodSpec]) {
    let kept: Vec<_> = pods.iter().filter_map(|spec| index.pod(&spec.name)).collect();
    for pod in index.alive().iter().filter_map(|id| index.handle(id)).filter(|pod| !kept.contains(pod)) {
        index.retire(pod);
    }
    while index.stats().pending_sweeps > 0 {
        index.sweep(usize::MAX);
    }
}

impl<const W: usize> fmt::Debug for RouterBuilder<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, block_size, pods, .. } = self;
        let (name, size) = (("model", name), ("block_size", block_size));
        f.debug_struct("RouterBuilder")
            .field(name.0, name.1)
            .field(size.0, size.1)
            .field("pods", pods)
            .finish_non_exhaustive()
    }
}
