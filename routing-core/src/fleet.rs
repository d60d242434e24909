//! Fleet snapshots: every pod in one immutable version, with pod sets precomputed for common queries.

mod cell;
mod fallback;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use kv_index::{DEFAULT_POD_WORDS, Pod, PodId, PodSet};

pub use self::cell::FleetCell;

/// One version of the fleet.
///
/// Immutable: a change makes a new one, published whole by a [`FleetCell`].
///
/// # Examples
///
/// ```
/// use kv_index::{Config, Index};
/// use routing_core::{Fleet, PodInfo, Role};
///
/// let index: Index = Index::new(Config::default());
/// let (a, b) = (index.join("a")?, index.join("b")?);
/// let fleet: Fleet = Fleet::new(7, [
///     PodInfo::new(a, "a").role(Role::Prefill).label("region", "eu"),
///     PodInfo::new(b, "b").label("region", "us").unhealthy(),
/// ]);
/// assert_eq!(fleet.labelled("region", "eu").iter().collect::<Vec<_>>(), [a.id()]);
/// assert!(!fleet.healthy().contains(b.id()));
/// assert!(fleet.serving(Role::Decode).contains(b.id()));
/// # Ok::<(), kv_index::JoinError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Fleet<const W: usize = DEFAULT_POD_WORDS> {
    version: u64,
    stamp: u64,
    pods: Vec<Option<PodInfo>>,
    /// The pods' handles once more, side by side: every plan names some.
    handles: Vec<Option<Pod>>,
    /// The pods' loads once more, side by side: scorers read them for every pod.
    loads: Vec<Load>,
    all: PodSet<W>,
    healthy: PodSet<W>,
    fallback: PodSet<W>,
    draining: PodSet<W>,
    serving: [PodSet<W>; 3],
    labels: BTreeMap<Box<str>, BTreeMap<Box<str>, PodSet<W>>>,
    /// The pods that have a label at all: asked for as often, and a label may have many values.
    with_label: BTreeMap<Box<str>, PodSet<W>>,
    adapters: BTreeMap<Box<str>, PodSet<W>>,
}

impl<const W: usize> Fleet<W> {
    /// A version of the fleet. Of two pods with one id the later counts; ids beyond the set's width are left out.
    pub fn new(version: u64, pods: impl IntoIterator<Item = PodInfo>) -> Self {
        let mut fleet = Self {
            version,
            stamp: next_stamp(),
            pods: Vec::new(),
            handles: Vec::new(),
            loads: Vec::new(),
            all: PodSet::EMPTY,
            healthy: PodSet::EMPTY,
            fallback: PodSet::EMPTY,
            draining: PodSet::EMPTY,
            serving: [PodSet::EMPTY; 3],
            labels: BTreeMap::new(),
            with_label: BTreeMap::new(),
            adapters: BTreeMap::new(),
        };
        for info in pods {
            let at = info.pod.id().index();
            if at < PodSet::<W>::CAPACITY {
                fleet.pods.resize_with(fleet.pods.len().max(at + 1), || None);
                fleet.pods[at] = Some(info);
            }
        }
        fleet.handles = fleet.pods.iter().map(|info| info.as_ref().map(|info| info.pod)).collect();
        fleet.loads = fleet.pods.iter().map(|info| info.as_ref().map_or(Load::default(), |info| info.load)).collect();
        for info in fleet.pods.iter().flatten() {
            let id = info.pod.id();
            fleet.all.insert(id);
            if info.healthy {
                fleet.healthy.insert(id);
            }
            if info.draining {
                fleet.draining.insert(id);
            }
            for role in [Role::Prefill, Role::Decode, Role::Encode] {
                if info.role == role || info.role == Role::Both && role != Role::Encode {
                    fleet.serving[role as usize].insert(id);
                }
            }
            for (key, value) in &info.labels {
                fleet.labels.entry(key.clone()).or_default().entry(value.clone()).or_default().insert(id);
                fleet.with_label.entry(key.clone()).or_default().insert(id);
            }
            for adapter in &info.adapters {
                fleet.adapters.entry(adapter.clone()).or_default().insert(id);
            }
        }
        fleet.fallback = fleet.find_fallback();
        fleet
    }

    /// The version that the host gave it.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// A number, not 0, that no other fleet of this process has, and higher than that of those made before; a clone has its
    /// original's. For whoever keeps something that was made of a fleet: versions are the host's, and two fleets may share one.
    #[must_use]
    pub fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Every pod.
    #[must_use]
    pub fn pods(&self) -> PodSet<W> {
        self.all
    }

    /// Pods that answer their health checks.
    #[must_use]
    pub fn healthy(&self) -> PodSet<W> {
        self.healthy
    }

    /// Pods that take nothing new.
    #[must_use]
    pub fn draining(&self) -> PodSet<W> {
        self.draining
    }

    /// Pods that do this work: those of the role, and for prefill and decode those that do both.
    #[must_use]
    pub fn serving(&self, role: Role) -> PodSet<W> {
        match role {
            Role::Both => self.serving[Role::Prefill as usize] & self.serving[Role::Decode as usize],
            role => self.serving[role as usize],
        }
    }

    /// Pods with a label.
    #[must_use]
    pub fn labelled(&self, key: &str, value: &str) -> PodSet<W> {
        self.labels.get(key).and_then(|values| values.get(value)).copied().unwrap_or_default()
    }

    /// Pods that have a label, whatever its value.
    ///
    /// # Examples
    ///
    /// ```
    /// use kv_index::{Config, Index};
    /// use routing_core::{Fleet, PodInfo};
    ///
    /// let index: Index = Index::new(Config::default());
    /// let (a, b) = (index.join("a")?, index.join("b")?);
    /// let fleet: Fleet = Fleet::new(1, [PodInfo::new(a, "a").label("gpu", "h200"), PodInfo::new(b, "b")]);
    /// assert_eq!(fleet.with_label("gpu").iter().collect::<Vec<_>>(), [a.id()]);
    /// assert!(fleet.with_label("zone").is_empty());
    /// # Ok::<(), kv_index::JoinError>(())
    /// ```
    #[must_use]
    pub fn with_label(&self, key: &str) -> PodSet<W> {
        self.with_label.get(key).copied().unwrap_or_default()
    }

    /// The values that a label has in the fleet, each with its pods.
    ///
    /// # Examples
    ///
    /// ```
    /// use kv_index::{Config, Index};
    /// use routing_core::{Fleet, PodInfo};
    ///
    /// let index: Index = Index::new(Config::default());
    /// let pod = |name, zone| index.join(name).map(|pod| PodInfo::new(pod, name).label("zone", zone));
    /// let fleet: Fleet = Fleet::new(1, [pod("a", "north")?, pod("b", "south")?, pod("c", "north")?]);
    /// let zones: Vec<(&str, usize)> = fleet.label_values("zone").map(|(zone, pods)| (zone, pods.len())).collect();
    /// assert_eq!(zones, [("north", 2), ("south", 1)]);
    /// # Ok::<(), kv_index::JoinError>(())
    /// ```
    pub fn label_values(&self, key: &str) -> impl Iterator<Item = (&str, PodSet<W>)> {
        self.labels.get(key).into_iter().flatten().map(|(value, pods)| (&**value, *pods))
    }

    /// Pods that have an adapter loaded.
    #[must_use]
    pub fn with_adapter(&self, adapter: &str) -> PodSet<W> {
        self.adapters.get(adapter).copied().unwrap_or_default()
    }

    /// What a pod's engine reports of its load; nothing for a pod that is not there.
    #[must_use]
    #[inline]
    pub fn load(&self, id: PodId) -> Load {
        self.loads.get(id.index()).copied().unwrap_or_default()
    }

    /// A pod's handle.
    #[must_use]
    #[inline]
    pub fn handle(&self, id: PodId) -> Option<Pod> {
        self.handles.get(id.index()).copied().flatten()
    }

    /// What is known of a pod.
    #[must_use]
    #[inline]
    pub fn pod(&self, id: PodId) -> Option<&PodInfo> {
        self.pods.get(id.index())?.as_ref()
    }
}

/// Tells fleets apart. It decides nothing: what is kept by it could be made anew.
fn next_stamp() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: only the numbers matter, and each is handed out once.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// What is known of a pod.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PodInfo {
    /// Its handle in the index.
    pub pod: Pod,
    /// Its name.
    pub name: Box<str>,
    /// What it does.
    pub role: Role,
    /// Where it is and what it is: zone, node, rack, region and whatever the host knows.
    pub labels: Vec<(Box<str>, Box<str>)>,
    /// LoRA adapters it has loaded.
    pub adapters: Vec<Box<str>>,
    /// LoRA adapters that wait to be loaded.
    pub adapters_waiting: Vec<Box<str>>,
    /// How many adapters it has room for, if that is known.
    pub adapter_slots: Option<u16>,
    /// The longest prompt and answer together that it takes, in tokens, if that is known.
    pub context_tokens: Option<u32>,
    /// How many tokens its KV cache holds, if that is known.
    pub kv_tokens: Option<u64>,
    /// Whether it answers its health checks.
    pub healthy: bool,
    /// Since when it fails them, if it passed them before.
    pub unhealthy_since: Option<Instant>,
    /// Whether it takes nothing new.
    pub draining: bool,
    /// What its engine reports.
    pub load: Load,
}

impl PodInfo {
    /// A healthy pod that does everything, and of which nothing else is known.
    #[must_use]
    pub fn new(pod: Pod, name: &str) -> Self {
        Self {
            pod,
            name: name.into(),
            role: Role::Both,
            labels: Vec::new(),
            adapters: Vec::new(),
            adapters_waiting: Vec::new(),
            adapter_slots: None,
            context_tokens: None,
            kv_tokens: None,
            healthy: true,
            unhealthy_since: None,
            draining: false,
            load: Load::default(),
        }
    }

    /// The same in a role.
    #[must_use]
    pub fn role(self, role: Role) -> Self {
        Self { role, ..self }
    }

    /// The same with a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.labels.push((key.into(), value.into()));
        self
    }

    /// The same with an adapter loaded.
    #[must_use]
    pub fn adapter(mut self, name: &str) -> Self {
        self.adapters.push(name.into());
        self
    }

    /// The same with an adapter that waits to be loaded.
    #[must_use]
    pub fn adapter_waiting(mut self, name: &str) -> Self {
        self.adapters_waiting.push(name.into());
        self
    }

    /// The same with room for so many adapters.
    #[must_use]
    pub fn adapter_slots(self, slots: u16) -> Self {
        Self { adapter_slots: Some(slots), ..self }
    }

    /// The same, taking prompts and answers of so many tokens together.
    #[must_use]
    pub fn context_tokens(self, tokens: u32) -> Self {
        Self { context_tokens: Some(tokens), ..self }
    }

    /// The same with a KV cache of so many tokens.
    #[must_use]
    pub fn kv_tokens(self, tokens: u64) -> Self {
        Self { kv_tokens: Some(tokens), ..self }
    }

    /// The same, failing its health checks from the first one on: it gets nothing before it passes one.
    #[must_use]
    pub fn unhealthy(self) -> Self {
        Self { healthy: false, unhealthy_since: None, ..self }
    }

    /// The same, failing its health checks after it passed them: a [fallback](Fleet::fallback) where no other pod passes them.
    #[must_use]
    pub fn unhealthy_since(self, since: Instant) -> Self {
        Self { healthy: false, unhealthy_since: Some(since), ..self }
    }

    /// The same, taking nothing new.
    #[must_use]
    pub fn draining(self) -> Self {
        Self { draining: true, ..self }
    }

    /// The same with what its engine reports.
    #[must_use]
    pub fn load(self, load: Load) -> Self {
        Self { load, ..self }
    }
}

/// What a pod does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "the roles of a disaggregated fleet; a new one is a new contract")]
pub enum Role {
    /// Computes prompts for others to continue.
    Prefill,
    /// Continues what others computed.
    Decode,
    /// Encodes media, and nothing else: only steps of this role are offered such a pod.
    Encode,
    /// Prefill and decode: what a pod without a role does.
    #[default]
    Both,
}

/// What an engine reports of its load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "figures that a host fills in by name")]
pub struct Load {
    /// Requests being worked on.
    pub running: u32,
    /// Requests waiting.
    pub waiting: u32,
    /// Tokens of all of those.
    pub tokens: u64,
    /// How much of the KV cache is in use, 0..=1.
    pub kv_used: f32,
}
