//! Router: index, plugin state, fleet, workflow, breakers and housekeeping of one model, as one value.

mod builder;
mod error;
#[cfg(feature = "engine")]
mod feed;
mod live;
mod peers;
mod reports;
mod seeds;
mod update;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use bytes::Bytes;
use http::request::Parts;
use kv_index::{DEFAULT_POD_WORDS, Index, Pod, PodSet};
use parking_lot::Mutex;
use routing_core::{DecideError, Fleet, PlanStep, Request, RoutingPlan, Trace};
use routing_exec::handoff::PodAddresses;
use routing_exec::{Breakers, Deadlines, Timer, Transport, TransportExecutor};
use routing_plugins::PluginState;
use routing_plugins::tokenize::PromptTokenizer;

use self::seeds::Seeds;
use crate::Clock;
use crate::api_error::ApiError;
use crate::cache_audit::CacheAudit;
use crate::flow_control::Gate;
use crate::llm_request::LlmRequest;
use crate::model::{Model, NamedModel};
use crate::observations::Observations;
use crate::pod_registry::{AddressTable, PodRegistry, RegisteredPod};
use crate::routed::Routed;
use crate::version_cell::VersionCell;

pub use self::builder::RouterBuilder;
pub use self::error::{RouteError, RouterError, RouterFault};
#[cfg(feature = "engine")]
pub use self::feed::FeedError;
pub(crate) use self::live::Live;
pub use self::peers::PeerError;
pub use self::update::RouterUpdate;

/// Routes the requests of one model to its pods. Cheap to clone: clones are one router.
///
/// It owns what every embedder needs beside its sockets: the index, what plugins share, the fleet and the workflow, circuit
/// breakers, a retry budget, load tracking, replanning and housekeeping. Model name, block size, hash seed, adapters and salts
/// are said once, so that [`Self::feed`] and the hashing of requests cannot disagree.
///
/// # Examples
///
/// ```
/// use std::time::Instant;
///
/// use pointsman::{PodSpec, Router};
///
/// let router = Router::builder("llama-8b")
///     .block_size(16)
///     .pod(PodSpec::new("a", "10.0.0.5:8000"))
///     .pod(PodSpec::new("b", "10.0.0.6:8000"))
///     .tokens_given()
///     .build()?;
///
/// let prompt: Vec<u32> = (0..512).collect();
/// let mut routed = router.route(&router.request(Instant::now()).tokens(&prompt))?;
/// let pod = routed.first_pod().expect("a plan has pods");
/// println!("send it to {:?}", router.address(pod));
///
/// // The attempt counts towards the pod's load until it is over.
/// let attempt = routed.begin(0, pod)?;
/// attempt.succeeded();
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Router<const W: usize = DEFAULT_POD_WORDS>(Arc<Inner<W>>);

struct Inner<const W: usize> {
    model: Model,
    plugin_state: PluginState<W>,
    tokenizer: Option<Arc<dyn PromptTokenizer>>,
    /// Loaded once by each request.
    live: VersionCell<Live<W>>,
    /// Locked while pods change.
    registry: Mutex<PodRegistry>,
    addresses: Arc<AddressTable>,
    breakers: Arc<Breakers<W>>,
    /// Of responses that are being read.
    deadlines: Arc<Deadlines>,
    gate: Gate<W>,
    audit: CacheAudit,
    observations: Observations,
    seeds: Seeds,
    clock: Clock,
    /// Whether a pod counts as healthy before its first health check.
    trusts_new_pods: bool,
    /// Whether the stock client is in use, which does not speak TLS.
    plain_http: AtomicBool,
}

impl Router {
    /// A router of a model, by the name that its pods know it by; for up to 256 pods.
    pub fn builder(model: impl Into<String>) -> RouterBuilder {
        RouterBuilder::new(model)
    }
}

impl<const W: usize> Router<W> {
    /// A request for this model at an instant, with a seed of its own.
    #[must_use]
    pub fn request(&self, now: Instant) -> Request<'_> {
        Request::new(&self.0.model.name, now).seed(self.0.seeds.next())
    }

    /// Reads a client's request: the fields that routing needs, and the prompt's tokens.
    ///
    /// A prompt of 64 KB takes about a millisecond to tokenize, so an asynchronous host reads long ones on a blocking thread.
    ///
    /// # Errors
    ///
    /// 400 where it is no JSON object or names no model, 404 where the model is not this one.
    pub fn read(&self, parts: Parts, body: Bytes) -> Result<LlmRequest, ApiError> {
        LlmRequest::read(self, parts, body, self.0.seeds.next())
    }

    /// Takes a request whose body is none of an API that is understood, or not to be looked at: it goes by what is known of the pods,
    /// and by its bytes where the profile guesses by text.
    #[must_use]
    pub fn read_opaque(&self, parts: Parts, body: Bytes) -> LlmRequest {
        LlmRequest::opaque(self, parts, body, self.0.seeds.next())
    }

    /// Decides where a request goes. The plan comes with what counts it towards the load of the pods it is sent to.
    ///
    /// At once: [flow control](RouterBuilder::flow_control) has those wait that are admitted ([`Self::admit`]).
    ///
    /// # Errors
    ///
    /// When the request is for another model, no pod is left, or a plugin fails.
    pub fn route(&self, request: &Request<'_>) -> Result<Routed<W>, RouteError> {
        self.route_with(request, &[], None)
    }

    /// The same without pods that failed the request already, or with the decision's reasons.
    ///
    /// # Errors
    ///
    /// As [`Self::route`].
    pub fn route_with(
        &self,
        request: &Request<'_>,
        excluded: &[Pod],
        trace: Option<&mut Trace<W>>,
    ) -> Result<Routed<W>, RouteError> {
        let request = self.named(request)?;
        let live = self.live();
        let plan = self.decide(&live, &request, excluded.iter().map(|pod| pod.id()).collect(), trace)?;
        Ok(Routed::new(self.clone(), &request, live, plan))
    }

    /// Decides, and notes what a diagnosis is made of.
    pub(crate) fn decide(
        &self,
        live: &Live<W>,
        request: &Request<'_>,
        excluded: PodSet<W>,
        trace: Option<&mut Trace<W>>,
    ) -> Result<RoutingPlan, DecideError> {
        let plan = live.decide(request, excluded, None, trace)?;
        self.decided(request, plan)
    }

    /// The same, if the plan's pods have room.
    pub(crate) fn decide_with_room(
        &self,
        live: &Live<W>,
        request: &Request<'_>,
        excluded: PodSet<W>,
        has_room: &dyn Fn(&PlanStep) -> bool,
        trace: Option<&mut Trace<W>>,
    ) -> Result<RoutingPlan, DecideError> {
        let plan = live.decide(request, excluded, Some(has_room), trace)?;
        self.decided(request, plan)
    }

    fn decided(&self, request: &Request<'_>, plan: RoutingPlan) -> Result<RoutingPlan, DecideError> {
        self.0.observations.decided(request, &plan, self.now(), |pod| self.index().has_speculated(pod));
        Ok(plan)
    }

    /// The request by the model's own name, and with its adapter if that was named as a model.
    fn named<'r>(&'r self, request: &Request<'r>) -> Result<Request<'r>, RouteError> {
        let mut named = *request;
        if named.seed == 0 {
            // With one seed for all, ties would always fall to the same pods.
            named.seed = self.0.seeds.next();
        }
        match self.0.model.named(request.model) {
            Some(NamedModel::Model | NamedModel::Alias) => {}
            Some(NamedModel::Adapter(adapter)) => named.adapter = named.adapter.or(Some(adapter)),
            None => return Err(RouteError::UnknownModel(request.model.into())),
        }
        named.model = &self.0.model.name;
        Ok(named)
    }

    /// The hashes of a request's prompt, by which whoever feeds the index by other means than [events](crate::index::engine) calls its
    /// blocks, so that requests find them.
    ///
    /// # Errors
    ///
    /// When the request is for another model, or the engine's rules do not cover it.
    pub fn hashes(&self, request: &Request<'_>) -> Result<Vec<kv_index::BlockHash>, RouteError> {
        let request = self.named(request)?;
        let hashed = self.0.plugin_state.hashing.hashes(&request);
        hashed.map_err(|error| RouteError::Unhashable(error.to_string().into()))
    }

    /// An executor over a transport and a timer, with this router's circuit breakers. Of no use to another router: pods of two have
    /// the same ids.
    #[must_use]
    pub fn executor<T: Transport, C: Timer>(&self, transport: T, timer: C) -> TransportExecutor<T, C, W> {
        let executor = TransportExecutor::with_breakers(transport, timer, Arc::clone(&self.0.breakers));
        executor.deadlines(Arc::clone(&self.0.deadlines))
    }

    /// The pods' addresses, for transports: those of pods that left too, for a while.
    #[must_use]
    pub fn addresses(&self) -> Arc<dyn PodAddresses> {
        Arc::clone(&self.0.addresses) as _
    }

    /// Where a pod listens.
    #[must_use]
    pub fn address(&self, pod: Pod) -> Option<String> {
        self.0.addresses.address(pod).map(|address| address.into_owned())
    }

    /// The model's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.model.name
    }

    /// Every name that clients may use: the model's, its aliases and its adapters.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.model.names()
    }

    /// What a name means here; none if it is another model's.
    #[must_use]
    pub fn named_model<'n>(&self, name: &'n str) -> Option<NamedModel<'n>> {
        self.0.model.named(name)
    }

    /// Tokens in a block.
    #[must_use]
    pub fn block_size(&self) -> kv_index::BlockSize {
        self.0.model.block_size
    }

    /// The index of cached blocks.
    #[must_use]
    pub fn index(&self) -> &Arc<Index<W>> {
        &self.0.plugin_state.index
    }

    /// What plugins share.
    #[must_use]
    pub fn plugin_state(&self) -> &PluginState<W> {
        &self.0.plugin_state
    }

    /// The circuit breakers.
    #[must_use]
    pub fn breakers(&self) -> &Arc<Breakers<W>> {
        &self.0.breakers
    }

    /// The current version of the fleet.
    #[must_use]
    pub fn fleet(&self) -> Arc<Fleet<W>> {
        Arc::clone(&self.live().fleet)
    }

    /// The name of the profile in force.
    #[must_use]
    pub fn profile(&self) -> Arc<str> {
        Arc::clone(&self.live().profile)
    }

    /// The pods, in the order they were given: health, load, circuit breaker and pace of each.
    #[must_use]
    pub fn pods(&self) -> Vec<RegisteredPod> {
        let mut pods = self.0.registry.lock().pods.clone();
        for entry in &mut pods {
            entry.breaker = self.0.breakers.status(entry.pod).unwrap_or_default();
            let paces = &self.plugin_state().paces;
            (entry.pace, entry.decode_pace) = (paces.of(entry.pod.id()), paces.decoding(entry.pod.id()));
        }
        pods
    }

    /// The handle of a pod.
    #[must_use]
    pub fn pod(&self, name: &str) -> Option<Pod> {
        self.0.registry.lock().pods.iter().find(|entry| entry.spec.name == name).map(|entry| entry.pod)
    }

    /// What was expected to be cached, against what engines report.
    #[must_use]
    pub fn cache_audit(&self) -> &CacheAudit {
        &self.0.audit
    }

    /// Housekeeping, to be called about once a second: breakers whose time is up, responses whose time is up though nobody reads them, engines'
    /// reports that are too old, peers that fell silent, what pods were sent lately, speculated blocks past their deadline, blocks of
    /// pods that left, causes of cache misses. In bounded steps, so that none of it takes long.
    pub fn tick(&self, now: Instant) {
        self.0.breakers.tick(now);
        self.0.deadlines.tick(now);
        self.forget_old_reports(now);
        self.forget_silent_peers(now);
        self.0.plugin_state.paces.tick(now);
        self.0.plugin_state.index.expire(now, STEP);
        self.0.plugin_state.index.sweep(STEP);
        self.0.audit.settle(false);
        self.0.observations.settle(now, |pod, prompt| self.announced(pod, prompt));
        self.0.observations.ticked(now);
        self.pump();
    }

    pub(crate) fn trusts_new_pods(&self) -> bool {
        self.0.trusts_new_pods
    }

    pub(crate) fn seed(&self) -> u64 {
        self.0.seeds.next()
    }

    /// What the identifiers of a request with a seed are made of.
    pub(crate) fn identity(&self, seed: u64) -> u64 {
        self.0.seeds.identity(seed)
    }

    pub(crate) fn gate(&self) -> &Gate<W> {
        &self.0.gate
    }

    pub(crate) fn observations(&self) -> &Observations {
        &self.0.observations
    }

    pub(crate) fn live(&self) -> Arc<Live<W>> {
        self.0.live.load()
    }

    pub(crate) fn model(&self) -> &Model {
        &self.0.model
    }

    pub(crate) fn tokenizer(&self) -> Option<&Arc<dyn PromptTokenizer>> {
        self.0.tokenizer.as_ref()
    }

    pub(crate) fn now(&self) -> Instant {
        (self.0.clock)()
    }

    /// Publishes the registry's pods as the next version of the fleet. It stays locked meanwhile, so versions come in order.
    fn publish_fleet(&self, registry: &mut PodRegistry) {
        let fleet = Arc::new(registry.fleet());
        self.0.live.update(|live| Live { fleet, ..live.clone() });
    }
}

impl<const W: usize> Clone for Router<W> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<const W: usize> fmt::Debug for Router<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let live = self.live();
        let (model, pods) = (&self.0.model.name, live.fleet.pods().len());
        f.debug_struct("Router").field("model", model).field("profile", &live.profile).field("pods", &pods).finish()
    }
}

/// Blocks visited by one tick.
const STEP: usize = 100_000;

#[cfg(test)]
mod role_tests;
#[cfg(test)]
mod tests;
