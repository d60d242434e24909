//! One request as the engine keeps it: its tokens, its blocks' names, its frames, and how far it has come.

use crate::names::Chain;
use crate::paged::frames::Frame;

/// What an engine is asked to do.
#[derive(Clone, Debug, Default)]
pub(crate) struct Job {
    /// At least one.
    pub(crate) prompt: Vec<u32>,
    /// What it will answer: at least one.
    pub(crate) answer: Vec<u32>,
    /// Keeps its blocks apart from others'.
    pub(crate) salt: Option<String>,
    /// Leading tokens of the prompt whose keys and values another pod computed.
    pub(crate) received: usize,
    /// Whether its frames stay when it is done, for another pod to fetch.
    pub(crate) kept: bool,
}

/// A request's number in the engine's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RequestId(pub(super) u64);

/// A request, waiting or running.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) id: RequestId,
    /// Prompt and answer.
    pub(super) tokens: Vec<u32>,
    pub(super) prompt: usize,
    pub(super) received: usize,
    pub(super) kept: bool,
    pub(super) chain: Chain,
    pub(super) frames: Vec<Frame>,
    /// Tokens whose keys and values are there.
    pub(super) computed: usize,
    /// Leading blocks that are entered in the cache, whoever entered them.
    pub(super) sealed: usize,
    /// Tokens of the answer that are there.
    pub(super) sampled: usize,
    /// Whether the step under way works on it.
    pub(super) scheduled: bool,
}

impl Request {
    pub(super) fn new(id: RequestId, job: Job, chain: Chain) -> Self {
        let prompt = job.prompt.len();
        let mut tokens = job.prompt;
        tokens.extend(job.answer);
        let received = job.received.min(prompt);
        let (frames, computed, sealed, sampled) = (Vec::new(), 0, 0, 0);
        Self {
            id,
            tokens,
            prompt,
            received,
            kept: job.kept,
            chain,
            frames,
            computed,
            sealed,
            sampled,
            scheduled: false,
        }
    }

    /// Tokens that will have keys and values: the last one sampled is never read again.
    pub(super) fn most(&self) -> usize {
        self.tokens.len() - 1
    }

    /// Tokens that can be computed now.
    pub(super) fn ready(&self) -> usize {
        self.prompt + self.sampled - self.computed
    }

    pub(super) fn is_prefilling(&self) -> bool {
        self.computed < self.prompt
    }

    pub(super) fn is_done(&self) -> bool {
        self.prompt + self.sampled == self.tokens.len()
    }
}
