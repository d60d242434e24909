//! Changes while requests are served: profile, pods and execution settings, all of them or none.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use kv_index::{DEFAULT_POD_WORDS, Pod};
use routing_core::flow::{FlowConfigError, FlowControl};
use routing_exec::handoff::{Handoff, check_roles};
use routing_exec::{BreakerConfig, ClientFields, DispatchPolicy, RetryBudget};
use routing_plugins::PluginState;

use super::live::PooledWorkflow;
use super::{Router, RouterError, RouterFault};
use crate::flow_control::MakeFlowControl;
use crate::log;
use crate::pod_registry::{PodChanges, PodError, PodRegistry, check_plain_http};
use crate::pod_spec::PodSpec;
use crate::profile::Profile;

/// A change of a router, applied whole by [`Router::apply`]. What is not mentioned stays.
///
/// # Examples
///
/// ```
/// use pointsman::{PodSpec, Router, RouterUpdate};
///
/// let router = Router::builder("llama-8b").pod(PodSpec::new("a", "10.0.0.5:8000")).build()?;
/// let update = RouterUpdate::new().profile("least_load").pods([PodSpec::new("b", "10.0.0.6:8000")]);
/// let changes = router.apply(update)?;
/// assert_eq!((changes.joined.len(), changes.left.len(), &*router.profile()), (1, 1, "least_load"));
/// # Ok::<(), pointsman::RouterError>(())
/// ```
#[derive(Default)]
#[must_use]
pub struct RouterUpdate<const W: usize = DEFAULT_POD_WORDS> {
    profile: Option<Box<dyn Profile<W>>>,
    pods: Option<Vec<PodSpec>>,
    policy: Option<DispatchPolicy>,
    handoff: Option<Arc<dyn Handoff>>,
    client_fields: Option<ClientFields>,
    breakers: Option<BreakerConfig>,
    retry_budget: Option<RetryBudget>,
    flow_control: Option<Option<MakeFlowControl<W>>>,
}

impl<const W: usize> RouterUpdate<W> {
    /// Changes nothing yet.
    pub fn new() -> Self {
        Self {
            profile: None,
            pods: None,
            policy: None,
            handoff: None,
            client_fields: None,
            breakers: None,
            retry_budget: None,
            flow_control: None,
        }
    }

    /// Chooses pods by another profile.
    pub fn profile(self, profile: impl Profile<W> + 'static) -> Self {
        Self { profile: Some(Box::new(profile)), ..self }
    }

    /// Serves by these pods. Those of the same name, address and event source stay as they are.
    pub fn pods(self, pods: impl IntoIterator<Item = PodSpec>) -> Self {
        Self { pods: Some(pods.into_iter().collect()), ..self }
    }

    /// Executes by another policy.
    pub fn policy(self, policy: DispatchPolicy) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// Hands off from prefill to decode pods in another dialect.
    pub fn handoff(self, handoff: Arc<dyn Handoff>) -> Self {
        Self { handoff: Some(handoff), ..self }
    }

    /// Lets clients say other things to engines.
    pub fn client_fields(self, fields: ClientFields) -> Self {
        Self { client_fields: Some(fields), ..self }
    }

    /// Configures circuit breakers otherwise. They stay as they are, and those that are open for the time they were given.
    pub fn breakers(self, breakers: BreakerConfig) -> Self {
        Self { breakers: Some(breakers), ..self }
    }

    /// Bounds retries by another budget, which begins with its own reserve.
    pub fn retry_budget(self, retry_budget: RetryBudget) -> Self {
        Self { retry_budget: Some(retry_budget), ..self }
    }

    /// Has requests wait by other settings. Those that wait already keep their places, as far as they fit.
    pub fn flow_control(
        self,
        make: impl Fn(&PluginState<W>) -> Result<FlowControl<W>, FlowConfigError> + Send + Sync + 'static,
    ) -> Self {
        Self { flow_control: Some(Some(Box::new(make))), ..self }
    }

    /// Has no request wait any more.
    pub fn no_flow_control(self) -> Self {
        Self { flow_control: Some(None), ..self }
    }
}

impl<const W: usize> fmt::Debug for RouterUpdate<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let profile = self.profile.as_ref().map(|profile| profile.name());
        f.debug_struct("RouterUpdate").field("profile", &profile).field("pods", &self.pods).finish_non_exhaustive()
    }
}

impl<const W: usize> Router<W> {
    /// Applies a change whole: a request sees all of it or nothing, and those under way end as they began.
    ///
    /// # Errors
    ///
    /// When the profile or a pod cannot be used, or the dialect does not carry the profile's roles. Nothing changed then.
    pub fn apply(&self, update: RouterUpdate<W>) -> Result<PodChanges, RouterError> {
        // A profile is built before anything is locked: whoever makes it may ask the router.
        let built = update.profile.as_ref().map(|profile| self.build(&**profile)).transpose()?;
        let has_profile = built.is_some();
        let flow = self.flow_of(&update)?;
        let changes = self.apply_to(&mut self.0.registry.lock(), built, flow, update)?;
        self.pump();
        if has_profile {
            log::warnings(self.name(), &self.profile(), &self.warnings());
        }
        Ok(changes)
    }

    /// Whether a change could be applied now, changing nothing: a host of several routers asks all of them before it applies any.
    ///
    /// # Errors
    ///
    /// As [`Self::apply`].
    pub fn check(&self, update: &RouterUpdate<W>) -> Result<(), RouterError> {
        let built = update.profile.as_ref().map(|profile| self.build(&**profile)).transpose()?;
        self.flow_of(update)?;
        self.check_locked(&self.0.registry.lock(), built.as_ref(), update)?;
        Ok(())
    }

    /// The flow control of an update, if it says anything about it.
    fn flow_of(&self, update: &RouterUpdate<W>) -> Result<Option<NextFlow<W>>, RouterFault> {
        let made =
            update.flow_control.as_ref().map(|make| make.as_ref().map(|make| checked(make, self.plugin_state())));
        made.map(Option::transpose).transpose()
    }

    /// Whether a profile and pods could take their places, in a registry that is locked.
    fn check_locked(
        &self,
        registry: &PodRegistry,
        built: Option<&Built<W>>,
        update: &RouterUpdate<W>,
    ) -> Result<(), RouterFault> {
        let live = self.live();
        let begins_to_predict = built.is_some_and(|built| built.is_predicted) && !live.is_predicted;
        // Those that leave, or come back as other pods, contradict nobody.
        let stays =
            |spec: &PodSpec| update.pods.as_ref().is_none_or(|pods| pods.iter().any(|pod| pod.is_same_cache(spec)));
        if begins_to_predict && registry.pods.iter().any(|entry| stays(&entry.spec) && self.is_fed(entry.pod)) {
            return Err(RouterFault::FedByEvents);
        }
        let workflow = built.map_or(&*live.workflow, |built| &built.workflow);
        let dialect = update.handoff.as_ref().unwrap_or(&live.dispatch.handoff);
        check_roles(&**dialect, workflow.roles())?;
        let Some(pods) = &update.pods else { return Ok(()) };
        // Relaxed: set and read under the registry's lock.
        if self.0.plain_http.load(Ordering::Relaxed) {
            check_plain_http(pods)?;
        }
        Ok(registry.check(self.index(), pods)?)
    }

    /// Applies to a registry that is locked to the end: changes come one after the other.
    fn apply_to(
        &self,
        registry: &mut PodRegistry,
        built: Option<Built<W>>,
        flow: Option<NextFlow<W>>,
        update: RouterUpdate<W>,
    ) -> Result<PodChanges, RouterError> {
        self.check_locked(registry, built.as_ref(), &update)?;
        let RouterUpdate { pods, policy, handoff, client_fields, breakers, retry_budget, .. } = update;
        let mut next = match &pods {
            // Pods join last: what fails before has nothing to take back.
            Some(pods) => self.next_registry(registry, pods).map_err(RouterFault::from)?,
            None => registry.clone(),
        };
        // Nothing fails from here on.
        let now = self.now();
        let fleet = pods.is_some().then(|| Arc::new(next.fleet()));
        self.0.addresses.publish(&next, registry, now);
        if let Some(Some(flow)) = &flow {
            self.gate().reconfigure(flow.config.clone(), now);
        }
        self.0.live.update(|live| {
            let mut live = live.clone();
            if let Some(flow) = flow {
                live.flow = flow;
            }
            if let Some(Built { name, is_predicted, workflow }) = built {
                (live.profile, live.is_predicted, live.workflow) = (name, is_predicted, Arc::new(workflow));
            }
            if let Some(fleet) = fleet {
                live.fleet = fleet;
            }
            if let Some(policy) = policy {
                live.dispatch.policy = Arc::new(policy);
            }
            if let Some(budget) = retry_budget {
                live.dispatch.retry_budget = Some(Arc::new(budget));
            }
            live.dispatch.handoff = handoff.unwrap_or(live.dispatch.handoff);
            live.client_fields = client_fields.unwrap_or(live.client_fields);
            live
        });
        if let Some(breakers) = breakers {
            self.0.breakers.set_config(breakers);
        }
        self.0.breakers.set_fleet_size(next.pods.len());
        let changes = PodChanges {
            joined: next.without(registry).map(|entry| entry.pod).collect(),
            left: registry.without(&next).map(|entry| entry.pod).collect(),
        };
        for pod in &changes.left {
            self.index().retire(*pod);
        }
        for pod in &changes.joined {
            // A pod that had the id before may have failed; this one has not.
            self.0.breakers.recovered(*pod);
        }
        *registry = next;
        let is_kept = |pod| registry.pods.iter().any(|entry| entry.pod == pod);
        self.0.audit.retain(is_kept);
        self.0.observations.retain(is_kept);
        self.0.audit.retain_names(|name| registry.pods.iter().any(|entry| entry.spec.name == name));
        Ok(changes)
    }

    /// Takes a pod in, in place of the one of its name if there is one.
    ///
    /// # Errors
    ///
    /// When it cannot be used, or there is no room for it. Nothing changed then.
    pub fn join(&self, spec: PodSpec) -> Result<Pod, RouterError> {
        let mut registry = self.0.registry.lock();
        let mut pods = registry.specs();
        let at = pods.iter().position(|known| known.name == spec.name).unwrap_or(pods.len());
        if at == pods.len() {
            pods.push(spec);
        } else {
            pods[at] = spec;
        }
        self.apply_to(&mut registry, None, None, RouterUpdate::new().pods(pods))?;
        let pod = registry.pods[at].pod;
        drop(registry);
        self.pump();
        Ok(pod)
    }

    /// The pods of a list that there is room for now.
    #[cfg(feature = "discovery")]
    pub(crate) fn fitting(&self, pods: &[PodSpec]) -> Vec<PodSpec> {
        self.0.registry.lock().fitting(self.index(), pods)
    }

    /// Lets a pod go. What is under way on it ends there; what it held is forgotten. False if there is none of the name.
    pub fn leave(&self, name: &str) -> bool {
        let mut registry = self.0.registry.lock();
        let (gone, kept): (Vec<_>, Vec<_>) = registry.specs().into_iter().partition(|spec| spec.name == name);
        let is_gone =
            !gone.is_empty() && self.apply_to(&mut registry, None, None, RouterUpdate::new().pods(kept)).is_ok();
        drop(registry);
        self.pump();
        is_gone
    }

    /// Replaces the profile.
    ///
    /// # Errors
    ///
    /// When it cannot be used. The old one stays then.
    pub fn set_profile(&self, profile: impl Profile<W> + 'static) -> Result<(), RouterError> {
        self.apply(RouterUpdate::new().profile(profile)).map(drop)
    }

    /// Refuses pods that want TLS, now and from now on: the stock client speaks plain HTTP.
    #[cfg(feature = "hyper-util")]
    pub(crate) fn require_plain_http(&self) -> Result<(), RouterError> {
        let registry = self.0.registry.lock();
        check_plain_http(&registry.specs()).map_err(RouterFault::from)?;
        // Relaxed: set and read under the registry's lock.
        self.0.plain_http.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Whether events say what a pod holds: by [`Self::feed`], or by a feed of the host's own.
    fn is_fed(&self, pod: Pod) -> bool {
        let stats = self.index().pod_stats(pod).unwrap_or_default();
        // What a profile guessed before is no event.
        let guessed = self.plugin_state().predicted_blocks.blocks(pod);
        let is_told = stats.streams > 0 || stats.blocks > stats.speculated + guessed;
        is_told || self.cache_audit().log_of(pod).is_some()
    }

    /// What is odd about the profile in force, though it works: a role without a filter for it, decode before prefill, and such.
    #[must_use]
    pub fn warnings(&self) -> Vec<routing_core::Warning> {
        self.live().workflow.warnings().to_vec()
    }

    fn build(&self, profile: &dyn Profile<W>) -> Result<Built<W>, RouterFault> {
        Built::new(profile, self.plugin_state())
    }

    pub(super) fn next_registry(&self, registry: &PodRegistry, pods: &[PodSpec]) -> Result<PodRegistry, PodError> {
        registry.next(self.index(), pods, self.0.trusts_new_pods, self.now())
    }
}

/// Flow control from now on; none if nobody is to wait.
type NextFlow<const W: usize> = Option<Arc<FlowControl<W>>>;

/// Makes flow control, and checks it.
pub(super) fn checked<const W: usize>(
    make: &MakeFlowControl<W>,
    state: &PluginState<W>,
) -> Result<Arc<FlowControl<W>>, RouterFault> {
    let flow = make(state)?;
    flow.config.check()?;
    Ok(Arc::new(flow))
}

/// A profile that was built.
pub(super) struct Built<const W: usize> {
    pub(super) name: Arc<str>,
    /// Whether it guesses what pods hold.
    pub(super) is_predicted: bool,
    pub(super) workflow: PooledWorkflow<W>,
}

impl<const W: usize> Built<W> {
    pub(super) fn new(profile: &dyn Profile<W>, state: &PluginState<W>) -> Result<Self, RouterFault> {
        let given = profile.name();
        let workflow = profile.workflow(state).map_err(|source| {
            let name = if given.is_empty() { "of a function" } else { given }.into();
            RouterFault::Profile { name, source }
        })?;
        let name: Arc<str> = match given {
            "" => workflow.steps().collect::<Vec<_>>().join("+").into(),
            given => given.into(),
        };
        // By its step, however it was given.
        let is_predicted = workflow.steps().any(|step| step == PREDICTED);
        Ok(Self { name, is_predicted, workflow: PooledWorkflow::new(workflow) })
    }
}

/// The profile that feeds the index by prediction.
pub(super) const PREDICTED: &str = "approximate_prefix";
