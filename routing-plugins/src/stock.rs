//! What stock plugins share with their host: the index, the load, the open circuits.

use std::collections::BTreeMap;
use std::sync::Arc;

use kv_index::{BlockSize, Index};
use parking_lot::Mutex;
use routing_core::{Circuits, Declare, Preparer};

#[cfg(any(feature = "vllm", feature = "sglang", feature = "trtllm"))]
use crate::engine_hashing::EngineHashing;
use crate::load::LoadTracker;
use crate::pick::{SessionLimits, Sessions};
use crate::prepare::GivenTokensPreparer;
use crate::score::{ColdPrompts, Metrics};
use crate::tokenize::{TokenizePreparer, Tokenizers};

/// What a host owns and stock plugins read.
///
/// The index and how prompts are hashed belong together: hashes of another kind match nothing, silently.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stock<const W: usize = 4> {
    /// Which pods hold which blocks.
    pub index: Arc<Index<W>>,
    /// How prompts become the hashes that are in the index.
    pub hashing: Hashing,
    /// Who makes tokens of prompts.
    pub tokens: Tokens,
    /// What was sent to each pod and is not done.
    pub load: Arc<LoadTracker<W>>,
    /// The pods that are given nothing for now.
    pub circuits: Arc<Circuits<W>>,
    /// Which sessions are bound to which pods.
    pub sessions: Arc<SessionTables>,
    /// Where cold prompts went.
    pub cold_prompts: Arc<ColdPrompts<W>>,
    /// Figures of pods that only the host knows.
    pub metrics: Arc<dyn Metrics>,
}

impl<const W: usize> Stock<W> {
    /// What plugins share, around an index. Prompts come as tokens; everything else is empty.
    #[must_use]
    pub fn new(index: Arc<Index<W>>, hashing: Hashing) -> Self {
        Self {
            index,
            hashing,
            tokens: Tokens::Given,
            load: Arc::default(),
            circuits: Arc::default(),
            sessions: Arc::default(),
            cold_prompts: Arc::default(),
            metrics: Arc::new(()),
        }
    }

    /// The same with tokenizers for prompts that come as text.
    #[must_use]
    pub fn tokenizers(self, tokenizers: Arc<dyn Tokenizers>) -> Self {
        Self { tokens: Tokens::Made(tokenizers), ..self }
    }

    /// The same with figures of pods that only the host knows.
    #[must_use]
    pub fn metrics(self, metrics: Arc<dyn Metrics>) -> Self {
        Self { metrics, ..self }
    }
}

/// How prompts become the hashes that are in the index.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Hashing {
    /// By the native chain hash, in blocks of this size: the index is fed tokens, or by prediction.
    Native(BlockSize),
    /// By an engine's own rules: the index is fed its hashes.
    #[cfg(any(feature = "vllm", feature = "sglang", feature = "trtllm"))]
    Engine(Arc<EngineHashing>),
}

/// Who makes tokens of prompts.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Tokens {
    /// The gateway, before it asks where a request should go.
    Given,
    /// These, of requests that come without tokens.
    Made(Arc<dyn Tokenizers>),
}

impl Tokens {
    /// A preparer that writes a prompt's tokens.
    pub fn preparer<const W: usize>(&self, declare: &mut Declare<'_>) -> Box<dyn Preparer<W>> {
        match self {
            Self::Given => Box::new(GivenTokensPreparer::declare(declare)),
            Self::Made(tokenizers) => Box::new(TokenizePreparer::declare(declare, Arc::clone(tokenizers))),
        }
    }
}

/// Tables of sessions by name: steps of one workflow keep theirs apart.
#[derive(Debug, Default)]
pub struct SessionTables {
    limits: SessionLimits,
    tables: Mutex<BTreeMap<String, Arc<Sessions>>>,
}

impl SessionTables {
    /// Tables of these limits each.
    #[must_use]
    pub fn new(limits: SessionLimits) -> Self {
        Self { limits, tables: Mutex::default() }
    }

    /// A table; a new one if there is none of the name.
    #[must_use]
    pub fn table(&self, name: &str) -> Arc<Sessions> {
        let mut tables = self.tables.lock();
        Arc::clone(tables.entry(name.to_owned()).or_insert_with(|| Arc::new(Sessions::new(self.limits))))
    }
}
