//! Engine block hashes: prompts hashed by an engine's own rules, LoRA adapters included.

use std::collections::BTreeMap;

use kv_index::engine::{Adapter, DialectHasher, Prompt};
use routing_core::Request;

/// How one kind of engine hashes prompts, and the adapters it was given.
///
/// # Examples
///
/// ```
/// # #[cfg(feature = "vllm")] {
/// use kv_index::BlockSize;
/// use kv_index::engine::vllm::VllmHashing;
/// use kv_index::engine::{Dialect, DialectHasher, Version};
/// use routing_plugins::{EngineHashing, Hashing};
///
/// let dialect = Dialect::vllm(VllmHashing::new(Version::new(0, 31, 0))).expect("a known release");
/// let hasher = DialectHasher::new(dialect, BlockSize::new(16).expect("not zero"));
/// // From 0.31 on, vLLM hashes where an adapter was loaded from.
/// let hashing = Hashing::Engine(EngineHashing::new(hasher).adapter("sql", Some("org/sql-lora"), None).into());
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct EngineHashing {
    hasher: DialectHasher,
    adapters: BTreeMap<Box<str>, LoadedAdapter>,
}

/// What an engine knows of an adapter besides its name.
#[derive(Clone, Debug)]
struct LoadedAdapter {
    path: Option<Box<str>>,
    id: Option<u64>,
}

impl EngineHashing {
    /// Hashing by a dialect; of adapters nothing but their names is known.
    #[must_use]
    pub fn new(hasher: DialectHasher) -> Self {
        Self { hasher, adapters: BTreeMap::new() }
    }

    /// The same with where the engine loads an adapter from and the number it has for it, where its dialect hashes those.
    #[must_use]
    pub fn adapter(mut self, name: &str, path: Option<&str>, id: Option<u64>) -> Self {
        self.adapters.insert(name.into(), LoadedAdapter { path: path.map(Into::into), id });
        self
    }

    /// The hasher.
    #[must_use]
    pub fn hasher(&self) -> &DialectHasher {
        &self.hasher
    }

    /// A request's tokens as the engine hashes them.
    pub(crate) fn prompt<'a>(&'a self, request: &Request<'a>, tokens: &'a [u32]) -> Prompt<'a> {
        let mut prompt = Prompt::new(tokens);
        prompt.salt = request.salt;
        prompt.adapter = request.adapter.map(|name| {
            let mut adapter = Adapter::named(name);
            if let Some(LoadedAdapter { path, id }) = self.adapters.get(name) {
                (adapter.path, adapter.id) = (path.as_deref(), *id);
            }
            adapter
        });
        prompt
    }
}

#[cfg(all(test, feature = "vllm"))]
mod tests {
    use std::sync::Arc;

    use kv_index::engine::vllm::VllmHashing;
    use kv_index::engine::{Dialect, Version};
    use kv_index::{BlockSize, Config, Event, EventSemantics, Index, Stored};
    use routing_core::{Fleet, PodInfo, RoutingInput, RoutingPlan};

    use super::*;
    use crate::prepare::tests::request;
    use crate::{Hashing, PluginState, profiles};

    /// An index that is fed an engine's own hashes is searched by them, adapters included.
    #[test]
    fn prompts_are_found_by_the_engines_own_hashes() {
        let dialect = Dialect::vllm(VllmHashing::new(Version::new(0, 31, 0))).unwrap();
        let hasher = DialectHasher::new(dialect, BlockSize::new(4).unwrap());
        let tokens: Vec<u32> = (0..40).collect();
        let prompt = Prompt::new(&tokens).adapter(Adapter::named("sql").path("org/sql-lora"));
        let chain = hasher.hash(&prompt).unwrap();
        let index: Arc<Index> = Arc::new(Index::new(Config::default()));
        let pods = ["a", "b"].map(|name| index.join(name).unwrap());
        index.apply(pods[1], EventSemantics::Copies, &Event::Stored(Stored::prompt(&chain[..8]))).unwrap();
        let held = |hashing: EngineHashing| {
            let state = PluginState::new(Arc::clone(&index), Hashing::Engine(hashing.into()));
            let workflow = profiles::cache_aware(&state).build().unwrap();
            let fleet = Fleet::new(1, pods.map(|pod| PodInfo::new(pod, "pod")));
            let mut plan = RoutingPlan::default();
            let request = request().tokens(&tokens).adapter("sql");
            let decided = workflow.decide(&mut workflow.workspace(), RoutingInput::new(&request, &fleet), &mut plan);
            decided.map(|()| (plan.steps()[0].candidates[0].pod, plan.steps()[0].cache.unwrap().held))
        };
        let known = EngineHashing::new(hasher.clone()).adapter("sql", Some("org/sql-lora"), None);
        assert_eq!(held(known), Ok((pods[1], 8)));
        let elsewhere = EngineHashing::new(hasher.clone()).adapter("sql", Some("org/other"), None);
        assert_eq!(held(elsewhere).map(|(_, held)| held), Ok(0));
        // Without what the engine hashes there is no guessing.
        assert!(held(EngineHashing::new(hasher)).is_err_and(|error| format!("{error:?}").contains("path")));
    }
}
