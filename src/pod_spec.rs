//! Pods as an embedder describes them.

use routing_core::{Pod, PodInfo, Role};

use crate::pod_key::PodKey;

/// A pod: its name, where it listens, and what is known of it.
///
/// # Examples
///
/// ```
/// use pointsman::PodSpec;
/// use pointsman::core::Role;
///
/// let pod = PodSpec::new("decode-0", "http://10.0.0.5:8000").role(Role::Decode).label("zone", "a");
/// assert_eq!(pod.name, "decode-0");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct PodSpec {
    /// Its name, unique among the router's pods.
    pub name: String,
    /// Host and port, with a scheme or without: `10.0.0.5:8000`, `http://10.0.0.5:8000`. The stock client speaks plain HTTP alone.
    pub address: String,
    /// What it does.
    pub role: Role,
    /// Where and what it is: zone, node, hardware.
    pub labels: Vec<(String, String)>,
    /// LoRA adapters that it has loaded.
    pub adapters: Vec<String>,
    /// How many adapters it has room for, if that is known.
    pub adapter_slots: Option<u16>,
    /// The longest prompt and answer together that it takes, in tokens.
    pub context_tokens: Option<u32>,
    /// How many tokens its KV cache holds.
    pub kv_tokens: Option<u64>,
    /// Whether it takes nothing new.
    pub draining: bool,
    /// Where its cache events come from, as a text of the host's: with another source it is another cache, and what was known
    /// of the old one is forgotten.
    pub event_source: String,
    /// The key that it asks for; without one, the client's own is passed on.
    pub api_key: Option<PodKey>,
}

impl PodSpec {
    /// A pod that prefills and decodes, and of which nothing else is known.
    pub fn new(name: impl Into<String>, address: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            address: address.into(),
            role: Role::Both,
            labels: Vec::new(),
            adapters: Vec::new(),
            adapter_slots: None,
            context_tokens: None,
            kv_tokens: None,
            draining: false,
            event_source: String::new(),
            api_key: None,
        }
    }

    /// The same in a role.
    #[must_use]
    pub fn role(self, role: Role) -> Self {
        Self { role, ..self }
    }

    /// The same with a label.
    #[must_use]
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.labels.push((key.into(), value.into()));
        self
    }

    /// The same with an adapter loaded.
    #[must_use]
    pub fn adapter(mut self, name: impl Into<String>) -> Self {
        self.adapters.push(name.into());
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

    /// The same, taking nothing new.
    #[must_use]
    pub fn draining(self) -> Self {
        Self { draining: true, ..self }
    }

    /// The same with a source of cache events.
    #[must_use]
    pub fn event_source(self, source: impl Into<String>) -> Self {
        Self { event_source: source.into(), ..self }
    }

    /// The same with a key that it asks for.
    #[must_use]
    pub fn api_key(self, key: PodKey) -> Self {
        Self { api_key: Some(key), ..self }
    }

    /// Whether both are one server.
    pub(crate) fn is_same_server(&self, other: &Self) -> bool {
        self.name == other.name && self.address == other.address
    }

    /// Whether what is known of the other's cache holds for this one's. Not with another source of events: what one source
    /// stored, another never removes.
    pub(crate) fn is_same_cache(&self, other: &Self) -> bool {
        self.is_same_server(other) && self.event_source == other.event_source
    }

    /// The pod as decisions see it.
    pub(crate) fn info(&self, pod: Pod, healthy: bool) -> PodInfo {
        let mut info = PodInfo::new(pod, &self.name).role(self.role);
        info.labels = self.labels.iter().map(|(key, value)| ((&**key).into(), (&**value).into())).collect();
        info.adapters = self.adapters.iter().map(|name| (&**name).into()).collect();
        info.adapter_slots = self.adapter_slots;
        info.context_tokens = self.context_tokens;
        info.kv_tokens = self.kv_tokens;
        (info.healthy, info.draining) = (healthy, self.draining);
        info
    }
}
