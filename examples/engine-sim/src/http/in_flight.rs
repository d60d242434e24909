//! In-flight requests of an engine: tokens, block hashes, progress.

use std::collections::HashMap;
use std::time::Instant;

use kv_index::BlockHash;
use tokio::sync::watch;

use super::block_hashing::HashedPrompt;
use super::completion::FinishReason;
use super::ledger::{ExecutionEnd, LedgerEntry};
use super::metrics::EngineMetrics;
use super::request_handle::Progress;
use crate::scheduler::BlockChains;

/// A prompt, the completion that it will have, and how they are to be treated.
#[derive(Debug)]
pub(super) struct Submission {
    /// Its id, as the client or the gateway has it.
    pub(super) name: String,
    /// At least one.
    pub(super) prompt: Vec<u32>,
    /// At least one.
    pub(super) completion: Vec<u32>,
    pub(super) finish: FinishReason,
    /// Keeps its blocks apart from others'.
    pub(super) salt: Option<String>,
    /// Leading tokens of the prompt whose KV another pod computed.
    pub(super) received: usize,
    /// The name of its lease, if its blocks are kept for another pod.
    pub(super) lease: Option<String>,
}

/// Requests that wait or run.
#[derive(Default)]
pub(super) struct Requests(pub(super) HashMap<u32, Request>);

pub(super) struct Request {
    pub(super) chain: HashedPrompt,
    /// Prompt and completion.
    pub(super) tokens: Vec<u32>,
    pub(super) prompt: usize,
    /// Tokens of the completion so far.
    pub(super) generated: usize,
    pub(super) progress: watch::Sender<Progress>,
    pub(super) since: Instant,
    pub(super) finish: FinishReason,
    pub(super) lease: Option<String>,
    /// Its line of the ledger, if there is one.
    pub(super) entry: Option<LedgerEntry>,
}

impl BlockChains for Requests {
    fn chain(&self, request: u32) -> &[BlockHash] {
        self.0.get(&request).map_or(&[], |request| &request.chain.hashes)
    }
}

impl Request {
    /// Ends it, and says how.
    pub(super) fn end(self, end: ExecutionEnd) {
        if let Some(entry) = self.entry {
            entry.end(end);
        }
    }

    /// Counts one more token.
    pub(super) fn advance(&mut self, now: Instant, metrics: &mut EngineMetrics) {
        if self.generated == 0 {
            metrics.first_tokens.add(now.duration_since(self.since).as_secs_f64());
        }
        self.generated += 1;
        metrics.generated_tokens += 1;
    }
}
