//! Model identity: name, aliases, adapters, block size and hashing, said once for requests and events alike.

use std::collections::BTreeMap;

use kv_index::BlockSize;
#[cfg(feature = "engine")]
use kv_index::engine::EngineFeedConfig;
use routing_plugins::Hashing;

/// What a request's `model` means here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NamedModel<'n> {
    /// The model itself.
    Model,
    /// Another name for it: pods are sent its own.
    Alias,
    /// A LoRA adapter of it, by this name.
    Adapter(&'n str),
}

/// The model that a router's pods serve.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) name: String,
    pub(crate) aliases: Vec<String>,
    /// By the name that clients use; with where engines load it from, which some of them hash.
    pub(crate) adapters: BTreeMap<String, Option<String>>,
    /// Whether every other name is an adapter's, too.
    pub(crate) any_adapter: bool,
    pub(crate) block_size: BlockSize,
    pub(crate) hashing: Hashing,
}

impl Model {
    /// What a name means; none if it is none of this model's.
    pub(crate) fn named<'n>(&self, name: &'n str) -> Option<NamedModel<'n>> {
        if name == self.name {
            return Some(NamedModel::Model);
        }
        if self.aliases.iter().any(|alias| alias == name) {
            return Some(NamedModel::Alias);
        }
        (self.any_adapter || self.adapters.contains_key(name)).then_some(NamedModel::Adapter(name))
    }

    /// Every name that clients may use.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.name)
            .chain(self.aliases.iter().map(String::as_str))
            .chain(self.adapters.keys().map(String::as_str))
    }

    /// How an engine's events are read, so that its blocks are found by the hashes that requests are given.
    #[cfg(feature = "engine")]
    pub(crate) fn feed_config(&self) -> Option<EngineFeedConfig> {
        use kv_index::ChainSeed;
        use kv_index::engine::VerifyConfig;

        match &self.hashing {
            Hashing::Native(size) => Some(EngineFeedConfig::tokens(ChainSeed::new(&self.name), *size)),
            Hashing::Engine(engine) => {
                let mut config = EngineFeedConfig::engine_hashes(engine.hasher().block_size());
                config.verify = Some(VerifyConfig::every(engine.hasher().dialect().clone(), VERIFIED_OF));
                Some(config)
            }
            // Hashes of the host's own making: it feeds them itself.
            _ => None,
        }
    }
}

/// One of so many stores is recomputed, to find engines that hash otherwise.
#[cfg(feature = "engine")]
const VERIFIED_OF: u32 = 64;
