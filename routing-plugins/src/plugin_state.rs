//! Shared state of host and stock plugins: the index, load, open circuit breakers, sessions.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use kv_index::{BlockSize, DEFAULT_POD_WORDS, Index, Pod};
use parking_lot::Mutex;
use routing_core::{Declare, OpenBreakers, Preparer};

use crate::answer_lengths::AnswerLengths;
#[cfg(feature = "engine")]
use crate::engine_hashing::EngineHashing;
use crate::extra::{LruOrder, Metrics};
use crate::load::LoadTracker;
use crate::pace::PodPaces;
use crate::peers::{Outbox, Peers};
use crate::pick::{RoundRobinOrder, SessionLimits, SessionNote, Sessions};
use crate::prepare::{GivenTokensPreparer, OnTokenizeFailure};
use crate::program::Programs;
use crate::record::PredictedBlocks;
use crate::score::{PrefillQueues, RecentWork};
use crate::tokenize::{TokenizePreparer, Tokenizers};

/// What a host owns and stock plugins read.
///
/// The index and how prompts are hashed belong together: hashes of another kind match nothing, silently.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PluginState<const W: usize = DEFAULT_POD_WORDS> {
    /// Which pods hold which blocks.
    pub index: Arc<Index<W>>,
    /// How prompts become the hashes that are in the index.
    pub hashing: Hashing,
    /// Who makes tokens of prompts.
    pub tokens: Tokens,
    /// What was sent to each pod and is not done, from here and from [peers](crate::peers) that tell of it.
    pub load: Arc<LoadTracker<W>>,
    /// What of that waits before the router for its pod to have room ([flow control](crate::flow)): decisions see it, and pods do not
    /// have it.
    pub queued: Arc<LoadTracker<W>>,
    /// The pods whose circuit breaker is open.
    pub open_breakers: Arc<OpenBreakers<W>>,
    /// Which sessions are bound to which pods.
    pub sessions: Arc<SessionTables>,
    /// Where cold prompts went.
    pub cold_prompts: Arc<LruOrder<W>>,
    /// When pods will have computed what was sent to them.
    pub prefill_queues: Arc<PrefillQueues<W>>,
    /// How much longer than by the cost model each pod takes, as learned.
    pub paces: Arc<PodPaces<W>>,
    /// How many tokens answers have, as learned.
    pub answer_lengths: Arc<AnswerLengths>,
    /// What other gateways told of what they sent, and what they are to be told.
    pub peers: Arc<Peers>,
    /// Programs that are under way, and where their contexts are.
    pub programs: Arc<Programs<W>>,
    /// What pods that report nothing are guessed to hold.
    pub predicted_blocks: Arc<PredictedBlocks>,
    /// What was sent to each pod lately, done or not.
    pub recent_work: Arc<RecentWork<W>>,
    /// Whose turn it is to be picked.
    pub turns: Arc<NamedTables<RoundRobinOrder<W>>>,
    /// Whose turn it is to be scored highest.
    pub scored_turns: Arc<NamedTables<LruOrder<W>>>,
    /// Requests that were routed without their tokens, since there were none or none could be made.
    pub tokenize_failures: Arc<AtomicU64>,
    /// Figures of pods that only the host knows.
    pub metrics: Arc<dyn Metrics>,
}

impl<const W: usize> PluginState<W> {
    /// What plugins share, around an index. Prompts come as tokens; everything else is empty.
    #[must_use]
    pub fn new(index: Arc<Index<W>>, hashing: Hashing) -> Self {
        Self {
            index,
            hashing,
            tokens: Tokens::Given,
            load: Arc::default(),
            open_breakers: Arc::default(),
            sessions: Arc::default(),
            cold_prompts: Arc::default(),
            queued: Arc::default(),
            prefill_queues: Arc::default(),
            paces: Arc::default(),
            answer_lengths: Arc::default(),
            peers: Arc::default(),
            programs: Arc::default(),
            predicted_blocks: Arc::default(),
            recent_work: Arc::default(),
            turns: Arc::default(),
            scored_turns: Arc::default(),
            tokenize_failures: Arc::default(),
            metrics: Arc::new(()),
        }
    }

    /// The same with tokenizers for prompts that come as text.
    #[must_use]
    pub fn tokenizers(self, tokenizers: Arc<dyn Tokenizers>) -> Self {
        Self { tokens: Tokens::Made(tokenizers), ..self }
    }

    /// The same for pods whose caches hold so many blocks each, where that is guessed; 31,250 unless said: half a million
    /// tokens in blocks of 16. Nothing is guessed yet.
    #[must_use]
    pub fn predicting(self, blocks_per_pod: NonZeroUsize) -> Self {
        Self { predicted_blocks: Arc::new(PredictedBlocks::new(blocks_per_pod)), ..self }
    }

    /// The same where so much time counts as lately; three minutes unless said. Nothing was sent yet.
    #[must_use]
    pub fn recent(self, window: Duration) -> Self {
        Self { recent_work: Arc::new(RecentWork::new(window)), ..self }
    }

    /// A preparer that writes a prompt's tokens.
    pub fn tokens_preparer(&self, declare: &mut Declare<'_>, on_failure: OnTokenizeFailure) -> Box<dyn Preparer<W>> {
        let count = (on_failure == OnTokenizeFailure::Empty).then(|| Arc::clone(&self.tokenize_failures));
        match &self.tokens {
            Tokens::Given => {
                let hashes_suffice = matches!(self.hashing, Hashing::Given(_));
                Box::new(GivenTokensPreparer::declare(declare).or_empty(count).or_hashes(hashes_suffice))
            }
            Tokens::Made(tokenizers) => {
                Box::new(TokenizePreparer::declare(declare, Arc::clone(tokenizers)).or_empty(count))
            }
        }
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
    /// By the host, which gives each request [its hashes](routing_core::Request::hashes), of blocks of this size. A request
    /// without them is one that nobody holds anything of.
    ///
    /// How long a prompt is, its tokens still tell, if the request has them; what they are does not matter then. Without
    /// them it is as long as its whole blocks; only [`CapacityFilter`](crate::extra::CapacityFilter) and ranges of context
    /// then take it for empty. Everything else works as with hashes that are made here (`tests/given_hashes.rs`).
    Given(BlockSize),
    /// By an engine's own rules: the index is fed its hashes.
    #[cfg(feature = "engine")]
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

/// What plugins remember, by name: it is the host's, so that it is still there when a workflow is replaced.
#[derive(Debug, Default)]
pub struct NamedTables<T>(Mutex<BTreeMap<String, Arc<T>>>);

impl<T: Default> NamedTables<T> {
    /// A table; a new one if there is none of the name.
    #[must_use]
    pub fn table(&self, name: &str) -> Arc<T> {
        Arc::clone(self.0.lock().entry(name.to_owned()).or_default())
    }
}

/// Tables of sessions by name: steps of one workflow keep theirs apart.
#[derive(Debug, Default)]
pub struct SessionTables {
    limits: SessionLimits,
    tables: Mutex<BTreeMap<String, Arc<Sessions>>>,
    /// Where turns went, until peers are told.
    outbox: Arc<Outbox<SessionNote>>,
}

impl SessionTables {
    /// Tables of these limits each.
    #[must_use]
    pub fn new(limits: SessionLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// A table; a new one if there is none of the name.
    #[must_use]
    pub fn table(&self, name: &str) -> Arc<Sessions> {
        let mut tables = self.tables.lock();
        let new = || Arc::new(Sessions::new(self.limits).telling(name, Arc::clone(&self.outbox)));
        Arc::clone(tables.entry(name.to_owned()).or_insert_with(new))
    }

    pub(crate) fn outbox(&self) -> &Outbox<SessionNote> {
        &self.outbox
    }

    /// A peer's turn of a session went to a pod. Of a table that there is not here, nothing is kept.
    pub(crate) fn hear(&self, name: &str, session: u64, pod: Pod, at: Instant) {
        let table = self.tables.lock().get(name).cloned();
        if let Some(table) = table {
            table.hear(session, pod, at);
        }
    }
}
