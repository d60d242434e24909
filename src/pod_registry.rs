//! Pod registry: the pods of a router with their handles, health and load, and the table of addresses.
//!
//! A pod of the same name, address and event source keeps its handle when the list changes; with another address or source it
//! is another pod to the index, whose cache is unknown.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use http::HeaderValue;
use http::uri::{Authority, Scheme};
use kv_index::{Index, JoinError, Pod};
use parking_lot::Mutex;
use routing_core::{Fleet, Load};
use routing_exec::BreakerStatus;
use routing_exec::handoff::{PodAddresses, parse_origin};

use crate::engine_metrics::EngineAdapters;
use crate::pod_key::PodKey;
use crate::pod_spec::PodSpec;

/// Why pods could not be taken in. Nothing changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PodError {
    /// Two pods have one name, or a pod has none.
    #[error("pod `{0}` is there twice or has no name: give each pod a name of its own")]
    Name(Box<str>),
    /// The pod's address is none.
    #[error("pod `{name}` has no address that can be used: `{address}`; write host:port or http://host:port")]
    Address {
        /// The pod.
        name: Box<str>,
        /// What was given.
        address: Box<str>,
    },
    /// The pod's port is none.
    #[error("pod `{name}` has no port that can be used: `{address}`; a port is a number from 1 to 65535")]
    Port {
        /// The pod.
        name: Box<str>,
        /// What was given.
        address: Box<str>,
    },
    /// The pod wants TLS, which the stock client does not speak.
    #[error(
        "pod `{name}` is at `{address}`, and the stock client speaks plain HTTP: write http://, or make an executor over a client of \
         your own that speaks TLS"
    )]
    Https {
        /// The pod.
        name: Box<str>,
        /// What was given.
        address: Box<str>,
    },
    /// The index has no room for another pod.
    #[error("pod `{name}` finds no room: {source}")]
    Join {
        /// The pod.
        name: Box<str>,
        /// Why.
        source: JoinError,
    },
}

/// What a change of pods came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PodChanges {
    /// Pods that are new, or have another address or event source now.
    pub joined: Vec<Pod>,
    /// Pods that left, or were replaced.
    pub left: Vec<Pod>,
}

/// A pod of a router.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RegisteredPod {
    /// What it was described as.
    pub spec: PodSpec,
    /// Its handle in the index.
    pub pod: Pod,
    /// Whether it passes its health checks.
    pub healthy: bool,
    /// Since when it fails them, if it passed them before.
    pub unhealthy_since: Option<Instant>,
    /// When somebody said so last; none if nobody ever did.
    pub checked: Option<Instant>,
    /// What its engine reported last.
    pub load: Load,
    /// When it did.
    pub reported: Option<Instant>,
    /// Tokens that its cache has room for, as its engine said; what it was [described](PodSpec::kv_tokens) as counts first.
    pub cache_tokens: Option<u64>,
    /// Its adapters, as its engine said; they count beside those that it was [described](PodSpec::adapters) with.
    pub adapters: Option<EngineAdapters>,
    /// When it joined.
    pub joined: Instant,
    /// Whether its last health check failed, which may be bad luck.
    #[cfg(feature = "hyper-util")]
    pub(crate) failed_check: bool,
    /// Its circuit breaker, as of the moment it was asked for: an open one keeps requests away whatever its health.
    pub breaker: BreakerStatus,
    /// How much longer than by the cost model it takes for first tokens, as learned by then; 1 where the profile does not learn.
    pub pace: f64,
    /// The same for the tokens after the first.
    pub decode_pace: f64,
}

/// The pods, in the order they were given.
#[derive(Clone, Debug, Default)]
pub(crate) struct PodRegistry {
    pub(crate) pods: Vec<RegisteredPod>,
    version: u64,
}

impl PodRegistry {
    /// The registry of another list: known pods as they are, new ones joined. This one is unchanged.
    ///
    /// # Errors
    ///
    /// When a pod cannot be used or finds no room; those that were joined before it are retired again.
    pub(crate) fn next<const W: usize>(
        &self,
        index: &Index<W>,
        pods: &[PodSpec],
        healthy: bool,
        now: Instant,
    ) -> Result<Self, PodError> {
        self.check(index, pods)?;
        let mut entries: Vec<RegisteredPod> = Vec::with_capacity(pods.len());
        let mut joined = Vec::new();
        for spec in pods {
            if let Some(known) = self.pods.iter().find(|known| known.spec.is_same_cache(spec)) {
                entries.push(RegisteredPod { spec: spec.clone(), ..known.clone() });
                continue;
            }
            // A snapshot may have brought the pod along.
            let restored = index.pod(&spec.name).filter(|pod| self.pods.iter().all(|known| known.pod != *pod));
            // The old pod of the name goes first: the name is free for the new one only then.
            let old = self.pods.iter().find(|old| old.spec.name == spec.name);
            if let Some(old) = old {
                index.retire(old.pod);
            }
            let pod = match restored.map_or_else(|| index.join(&spec.name), Ok) {
                Ok(pod) => pod,
                Err(source) => {
                    for pod in joined {
                        index.retire(pod);
                    }
                    return Err(PodError::Join { name: spec.name.as_str().into(), source });
                }
            };
            if restored.is_none() {
                joined.push(pod);
            }
            // The same server as before is as well as before, whatever its events come by.
            let probed = old.filter(|old| old.spec.is_same_server(spec));
            entries.push(RegisteredPod {
                spec: spec.clone(),
                pod,
                healthy: probed.map_or(healthy, |old| old.healthy),
                unhealthy_since: probed.and_then(|old| old.unhealthy_since),
                checked: probed.and_then(|old| old.checked),
                load: probed.map_or_else(Load::default, |old| old.load),
                reported: probed.and_then(|old| old.reported),
                cache_tokens: probed.and_then(|old| old.cache_tokens),
                adapters: probed.and_then(|old| old.adapters.clone()),
                joined: now,
                #[cfg(feature = "hyper-util")]
                failed_check: false,
                breaker: BreakerStatus::default(),
                pace: 1.0,
                decode_pace: 1.0,
            });
        }
        Ok(Self { pods: entries, version: self.version })
    }

    /// Whether another list could be taken in.
    pub(crate) fn check<const W: usize>(&self, index: &Index<W>, pods: &[PodSpec]) -> Result<(), PodError> {
        check(pods)?;
        self.check_room(index, pods)
    }

    /// The pods of a list that there is room for: those that are known, and of the others the first. If there is room for none, half of the
    /// present ones, those that are well before others, so that the others make room. Nobody if the list itself is wrong.
    #[cfg(feature = "discovery")]
    pub(crate) fn fitting<const W: usize>(&self, index: &Index<W>, pods: &[PodSpec]) -> Vec<PodSpec> {
        if check(pods).is_err() {
            return Vec::new();
        }
        let mut room = Self::room(index);
        let mut fits = |spec: &&PodSpec| {
            let needs_room = self.needs_room(index, spec);
            let fits = !needs_room || room > 0;
            room -= usize::from(needs_room && fits);
            fits
        };
        let fitting: Vec<_> = pods.iter().filter(|spec| fits(spec)).cloned().collect();
        if fitting.is_empty() { self.better_half(index) } else { fitting }
    }

    /// Half of the pods, those that are well before others; all of them while some that left are yet to be swept.
    #[cfg(feature = "discovery")]
    fn better_half<const W: usize>(&self, index: &Index<W>) -> Vec<PodSpec> {
        if index.stats().pending_sweeps > 0 {
            return self.specs();
        }
        let mut pods: Vec<_> = self.pods.iter().collect();
        // Stable: among equals as they were given.
        pods.sort_by_key(|pod| (!pod.healthy, pod.spec.draining));
        pods.truncate(pods.len().div_ceil(2));
        pods.into_iter().map(|pod| pod.spec.clone()).collect()
    }

    fn room<const W: usize>(index: &Index<W>) -> usize {
        let stats = index.stats();
        index.max_pods().saturating_sub(stats.pods + stats.pending_sweeps)
    }

    fn needs_room<const W: usize>(&self, index: &Index<W>, spec: &PodSpec) -> bool {
        let is_new = !self.pods.iter().any(|known| known.spec.is_same_cache(spec));
        // A pod that a snapshot brought along needs no room of its own; then it is not registered.
        let is_restored = || index.pod(&spec.name).is_some() && self.pods.iter().all(|old| old.spec.name != spec.name);
        is_new && !is_restored()
    }

    /// Whether all new pods find room, so that no pod that moves is retired in vain.
    fn check_room<const W: usize>(&self, index: &Index<W>, pods: &[PodSpec]) -> Result<(), PodError> {
        let homeless = pods.iter().filter(|spec| self.needs_room(index, spec)).nth(Self::room(index));
        homeless.map_or(Ok(()), |spec| {
            let stats = index.stats();
            let source = JoinError::Full { live: stats.pods, sweeping: stats.pending_sweeps };
            Err(PodError::Join { name: spec.name.as_str().into(), source })
        })
    }

    /// The pods that another registry does not have.
    pub(crate) fn without<'r>(&'r self, other: &'r Self) -> impl Iterator<Item = &'r RegisteredPod> {
        self.pods.iter().filter(|entry| other.pods.iter().all(|kept| kept.pod != entry.pod))
    }

    /// The next version of the fleet.
    pub(crate) fn fleet<const W: usize>(&mut self) -> Fleet<W> {
        self.version += 1;
        let info = |entry: &RegisteredPod| {
            let mut info = entry.spec.info(entry.pod, entry.healthy).load(entry.load);
            info.unhealthy_since = entry.unhealthy_since;
            info.kv_tokens = info.kv_tokens.or(entry.cache_tokens);
            if let Some(EngineAdapters { running, waiting, slots }) = &entry.adapters {
                let is_new = |name: &&String| !entry.spec.adapters.contains(name);
                info.adapters.extend(running.iter().filter(is_new).map(|name| (&**name).into()));
                info.adapters_waiting.extend(waiting.iter().map(|name| (&**name).into()));
                info.adapter_slots = info.adapter_slots.or(*slots);
            }
            info
        };
        Fleet::new(self.version, self.pods.iter().map(info))
    }

    /// The pods as they were described.
    pub(crate) fn specs(&self) -> Vec<PodSpec> {
        self.pods.iter().map(|entry| entry.spec.clone()).collect()
    }

    pub(crate) fn get_mut(&mut self, pod: Pod) -> Option<&mut RegisteredPod> {
        self.pods.iter_mut().find(|entry| entry.pod == pod)
    }
}

/// Names and addresses that can be used.
fn check(pods: &[PodSpec]) -> Result<(), PodError> {
    let mut names = std::collections::BTreeSet::new();
    for PodSpec { name, address, .. } in pods {
        if name.is_empty() || !names.insert(name) {
            return Err(PodError::Name(name.as_str().into()));
        }
        let Some(authority) = authority(address) else {
            return Err(PodError::Address { name: name.as_str().into(), address: address.as_str().into() });
        };
        let has_port = authority.as_str() != authority.host();
        if has_port && authority.port_u16().is_none_or(|port| port == 0) {
            return Err(PodError::Port { name: name.as_str().into(), address: address.as_str().into() });
        }
    }
    Ok(())
}

/// Where requests are sent to: a host, perhaps a port, behind a scheme that is HTTP's if there is one.
pub(crate) fn authority(address: &str) -> Option<http::uri::Authority> {
    let authority = match address.split_once("://") {
        Some(("http" | "https", authority)) => authority,
        Some(_) => return None,
        None => address,
    };
    let authority: http::uri::Authority = authority.strip_suffix('/').unwrap_or(authority).parse().ok()?;
    (!authority.host().is_empty() && !authority.as_str().contains('@')).then_some(authority)
}

/// Whether none of the pods wants TLS.
pub(crate) fn check_plain_http(pods: &[PodSpec]) -> Result<(), PodError> {
    match pods.iter().find(|pod| pod.address.starts_with("https://")) {
        Some(PodSpec { name, address, .. }) => {
            Err(PodError::Https { name: name.as_str().into(), address: address.as_str().into() })
        }
        None => Ok(()),
    }
}

/// Where a pod is, and what it asks for.
#[derive(Clone, Debug)]
struct Target {
    address: Arc<str>,
    /// The same parsed, unless it is none.
    origin: Option<(Scheme, Authority)>,
    key: Option<PodKey>,
}

impl Target {
    fn of(spec: &PodSpec) -> Self {
        let (address, key) = (spec.address.as_str().into(), spec.api_key.clone());
        Self { origin: parse_origin(&spec.address), address, key }
    }
}

/// Addresses and keys of pods. Those of pods that left are kept for a while, for requests that were routed before.
#[derive(Debug, Default)]
pub(crate) struct AddressTable {
    published: ArcSwap<HashMap<Pod, Target>>,
    left: Mutex<Vec<(Instant, Pod)>>,
}

impl AddressTable {
    /// Publishes the addresses of a registry that takes another's place.
    pub(crate) fn publish(&self, now: &PodRegistry, before: &PodRegistry, at: Instant) {
        let mut left = self.left.lock();
        left.extend(before.without(now).map(|entry| (at, entry.pod)));
        left.retain(|(since, _)| at.saturating_duration_since(*since) < KEPT);
        let mut table: HashMap<Pod, Target> =
            now.pods.iter().map(|entry| (entry.pod, Target::of(&entry.spec))).collect();
        let old = self.published.load();
        table.extend(left.iter().filter_map(|(_, pod)| Some((*pod, old.get(pod)?.clone()))));
        self.published.store(Arc::new(table));
    }
}

impl PodAddresses for AddressTable {
    fn address(&self, pod: Pod) -> Option<Cow<'_, str>> {
        self.published.load().get(&pod).map(|target| Cow::Owned(target.address.to_string()))
    }

    fn origin(&self, pod: Pod) -> Option<(Scheme, Authority)> {
        self.published.load().get(&pod)?.origin.clone()
    }

    fn authorization(&self, pod: Pod) -> Option<HeaderValue> {
        Some(self.published.load().get(&pod)?.key.as_ref()?.header().clone())
    }
}

/// As long as the longest request may take.
const KEPT: Duration = Duration::from_secs(600);

#[cfg(test)]
mod tests;
