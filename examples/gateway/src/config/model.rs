//! Models: their names, block size, tokenizer and hashing; one of them, or several with pods of their own.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::PathBuf;

use routing_exec::handoff::Dialect;
use serde::{Deserialize, Deserializer};

use super::{EngineHashes, PodSettings, Profile};

/// One of several models: what stands at the top of the file where there is one.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ServedModel {
    /// The model.
    pub model: ModelSettings,
    /// How its pods are chosen; as the whole file says, if unset.
    #[serde(default)]
    pub profile: Option<Profile>,
    /// Its pods.
    #[serde(default)]
    pub pods: Vec<PodSettings>,
    /// The KV transfer dialect between its pods; as the whole file says, if unset.
    #[serde(default, deserialize_with = "dialect")]
    pub handoff: Option<Dialect>,
}

/// A model with what serves it.
#[derive(Clone, Debug)]
pub(crate) struct Served<'c> {
    /// The path of its keys, up to them.
    pub(crate) place: String,
    pub(crate) model: &'c ModelSettings,
    pub(crate) profile: &'c Profile,
    pub(crate) pods: &'c [PodSettings],
    pub(crate) handoff: Dialect,
}

/// A model that pods serve.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct ModelSettings {
    /// Its name at the pods.
    pub name: String,
    /// Other names for clients; pods are sent `name`.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// LoRA adapters that clients name as a model, each with the path that the pods load it from: engines hash it.
    #[serde(default)]
    pub adapters: BTreeMap<String, Option<String>>,
    /// Tokens in a block, as the pods' engines have it.
    #[serde(default = "default_block_size")]
    pub block_size: NonZeroU32,
    /// How prompts become tokens.
    #[serde(default)]
    pub tokenizer: TokenizerSettings,
    /// How blocks are hashed; by the router's own rule if unset.
    #[serde(default)]
    pub hashing: Option<EngineHashes>,
}

impl ModelSettings {
    /// A model of words, in blocks of 16 tokens.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            aliases: Vec::new(),
            adapters: BTreeMap::new(),
            block_size: default_block_size(),
            tokenizer: TokenizerSettings::default(),
            hashing: None,
        }
    }
}

/// A model without a name, which a configuration of one model must give.
impl Default for ModelSettings {
    fn default() -> Self {
        Self::new("")
    }
}

/// How prompts become tokens.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged, expecting = "`words`, or `file` and `template` of a tokenizer")]
#[non_exhaustive]
pub enum TokenizerSettings {
    /// By a rule that simulated pods share.
    Named(NamedTokenizer),
    /// By the model's own files; needs the feature `tokenizers`.
    Files(TokenizerFiles),
}

impl Default for TokenizerSettings {
    fn default() -> Self {
        Self::Named(NamedTokenizer::Words)
    }
}

/// Rules without files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum NamedTokenizer {
    /// A word is a token: [`pointsman_example_common::words::Words`].
    Words,
    /// Prompts are not read: for profiles that go by load alone.
    None,
}

/// A model's files.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct TokenizerFiles {
    /// Its `tokenizer.json`.
    pub file: PathBuf,
    /// Its `tokenizer_config.json` or `chat_template.jinja`, each with the other beside it; those beside `file` if not given.
    /// Without a template chats have no tokens.
    #[serde(default)]
    pub template: Option<PathBuf>,
}

fn dialect<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Dialect>, D::Error> {
    super::dialect(deserializer).map(Some)
}

fn default_block_size() -> NonZeroU32 {
    NonZeroU32::new(16).unwrap_or(NonZeroU32::MIN)
}
