//! An engine's own hashes, and what it hashes of adapters besides their names.

use std::collections::BTreeMap;

use kv_index::engine::{Adapter, DialectHasher, Prompt};
use routing_core::Request;

/// How one kind of engine hashes prompts, and the adapters it was given.
///
/// # Examples
///
/// ```
/// use kv_index::BlockSize;
/// use kv_index::engine::{Dialect, DialectHasher, SglangHashing};
/// use routing_plugins::{EngineHashing, Hashing};
///
/// let dialect = Dialect::sglang(SglangHashing::default())?;
/// let hasher = DialectHasher::new(dialect, BlockSize::new(16).expect("not zero"));
/// let hashing = EngineHashing::new(hasher).adapter("sql", Some("/adapters/sql"), None);
/// let hashing = Hashing::Engine(hashing.into());
/// # Ok::<(), Box<dyn std::error::Error>>(())
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
