//! A pod's engine without its clock: continuous batching with chunked prefill over a paged prefix cache.
//!
//! A step has two halves. [`Engine::schedule`] shares a budget of tokens among the running requests, then admits waiting ones
//! in order; frames are taken and blocks announced here, as vLLM does. [`Engine::complete`] lets every request whose known
//! tokens are all computed sample one more. Between the two passes as much time as the step costs.
//!
//! A request is admitted when there is room for all of it, answer included, which is known ahead. vLLM admits earlier and
//! preempts when it must. So where memory is short a simulated pod runs fewer requests at once, queues sooner, and never
//! computes anything twice: it is calmer than a real one, and shows a router nothing of preemption but the queue.
//!
//! The rule that must never break: events, counted copy by copy, add up to the cache; and what has a user is not evicted.

mod memory;
mod request;

use std::collections::{HashMap, VecDeque};

use kv_index::BlockHash;

use crate::events::CacheEvent;
use crate::names::Names;
use crate::paged::frames::Frame;

use memory::Memory;
use request::Request;
pub(super) use request::{Job, RequestId};

/// What one step does.
#[derive(Debug, Default)]
pub(super) struct Step {
    /// Changes of the cache, in order.
    pub(super) events: Vec<CacheEvent>,
    /// Parts of prompts: tokens before, tokens computed.
    pub(super) chunks: Vec<(usize, usize)>,
    /// Contexts of the requests that decode.
    pub(super) contexts: Vec<usize>,
    /// Requests that began.
    pub(super) admitted: Vec<Admitted>,
}

impl Step {
    /// Whether there was nothing to do.
    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.contexts.is_empty()
    }
}

/// A request that began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    pub(super) id: RequestId,
    /// Tokens of its prompt.
    pub(super) prompt: usize,
    /// Those of them that were cached here.
    pub(super) cached: usize,
    /// Those that another pod computed.
    pub(super) received: usize,
}

/// A request that has one more token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sampled {
    pub(super) id: RequestId,
    /// Tokens of its answer so far.
    pub(super) tokens: usize,
    pub(super) done: bool,
}

/// The engine of one pod.
#[derive(Debug)]
pub(super) struct Engine {
    names: Names,
    memory: Memory,
    waiting: VecDeque<Request>,
    running: Vec<Request>,
    /// Frames of requests that are done and wait to be fetched.
    kept: HashMap<RequestId, Vec<Frame>>,
    /// Frames that running requests will still need.
    promised: usize,
    next: u64,
}

impl Engine {
    /// An idle engine with an empty cache of `blocks` blocks.
    pub(super) fn new(names: Names, blocks: u32) -> Self {
        Self {
            memory: Memory::new(names.block_size(), blocks),
            names,
            waiting: VecDeque::new(),
            running: Vec::new(),
            kept: HashMap::new(),
            promised: 0,
            next: 0,
        }
    }

    /// Queues a request. Gives it back if all of the memory could not hold it, or if it has no tokens.
    pub(super) fn submit(&mut self, job: Job) -> Result<RequestId, Job> {
        let tokens = job.prompt.len() + job.answer.len();
        if job.prompt.is_empty() || job.answer.is_empty() || tokens > self.context() {
            return Err(job);
        }
        let id = RequestId(self.next);
        self.next += 1;
        let cached: Vec<u32> = job.prompt.iter().chain(&job.answer[..job.answer.len() - 1]).copied().collect();
        let chain = self.names.chain(&cached, job.salt.as_deref(), |hash| self.memory.name(hash));
        self.waiting.push_back(Request::new(id, job, chain));
        Ok(id)
    }

    /// The first half of a step. Empty if there is nothing to do.
    pub(super) fn schedule(&mut self) -> Step {
        let mut step = Step::default();
        let mut budget = STEP_TOKENS;
        for mut request in std::mem::take(&mut self.running) {
            self.advance(&mut request, &mut budget, &mut step);
            self.running.push(request);
        }
        while budget > 0 && self.running.len() < MOST_RUNNING {
            let Some(mut request) = self.waiting.pop_front() else { break };
            if !self.admit(&mut request, &mut step) {
                self.waiting.push_front(request);
                break;
            }
            self.advance(&mut request, &mut budget, &mut step);
            self.running.push(request);
        }
        step
    }

    /// The second half: who has one more token, and who is done.
    pub(super) fn complete(&mut self) -> Vec<Sampled> {
        let mut sampled = Vec::with_capacity(self.running.len());
        for mut request in std::mem::take(&mut self.running) {
            if std::mem::take(&mut request.scheduled) && request.ready() == 0 {
                request.sampled += 1;
                sampled.push(Sampled { id: request.id, tokens: request.sampled, done: request.is_done() });
            }
            match request {
                request if !request.is_done() => self.running.push(request),
                request if request.kept => _ = self.kept.insert(request.id, request.frames),
                request => self.memory.release(&request.frames),
            }
        }
        sampled
    }

    /// Gives up a request and all it has. False if it is not there any more.
    pub(super) fn abort(&mut self, id: RequestId) -> bool {
        if let Some(at) = self.waiting.iter().position(|request| request.id == id) {
            self.waiting.remove(at);
            return true;
        }
        let Some(at) = self.running.iter().position(|request| request.id == id) else { return false };
        let request = self.running.remove(at);
        self.promised -= self.memory.frames_for(request.most()) - request.frames.len();
        self.memory.release(&request.frames);
        true
    }

    /// Lets go of the frames that a done request kept. False if there are none.
    pub(super) fn release(&mut self, id: RequestId) -> bool {
        let kept = self.kept.remove(&id);
        kept.inspect(|frames| self.memory.release(frames)).is_some()
    }

    /// The frames that a done request keeps.
    pub(super) fn kept(&self, id: RequestId) -> &[Frame] {
        self.kept.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Leading tokens of a prompt that are cached now.
    pub(super) fn cached(&self, prompt: &[u32], salt: Option<&str>) -> usize {
        let size = self.memory.block_size();
        let chain = self.names.chain(prompt, salt, |hash| self.memory.name(hash));
        self.memory.prefix(&chain, size.whole_blocks(prompt.len().saturating_sub(1))).len() * size.tokens()
    }

    /// Most tokens that a prompt and its answer may have together.
    pub(super) fn context(&self) -> usize {
        self.memory.capacity() * self.memory.block_size().tokens()
    }

    /// Requests that run, and that wait.
    pub(super) fn requests(&self) -> (usize, usize) {
        (self.running.len(), self.waiting.len())
    }

    /// Blocks in use, and blocks there are.
    pub(super) fn usage(&self) -> (usize, usize) {
        (self.memory.used(), self.memory.capacity())
    }

    /// Every cached block and its copies.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (BlockHash, u32)> + '_ {
        self.memory.blocks()
    }

    /// Gives a request what of its prompt is cached or was received. False if there is no room for all of it now.
    fn admit(&mut self, request: &mut Request, step: &mut Step) -> bool {
        let size = self.memory.block_size();
        // At least one token is computed, so that there is something to sample from.
        let reusable = request.prompt - 1;
        let frames = self.memory.prefix(&request.chain, size.whole_blocks(reusable));
        let needed = self.memory.frames_for(request.most()) - frames.len();
        if !self.memory.has_room(needed, &frames, self.promised) {
            return false;
        }
        self.memory.share(&frames);
        self.promised += needed;
        let cached = frames.len() * size.tokens();
        (request.sealed, request.computed, request.frames) = (frames.len(), cached, frames);
        if request.received > request.computed {
            let received = request.received;
            self.fill(request, received, step);
            request.computed = request.received.min(reusable);
        }
        let received = request.computed - cached;
        step.admitted.push(Admitted { id: request.id, prompt: request.prompt, cached, received });
        true
    }

    /// Lets a request compute what it can within the budget.
    fn advance(&mut self, request: &mut Request, budget: &mut usize, step: &mut Step) {
        let tokens = request.ready().min(*budget);
        if tokens == 0 {
            return;
        }
        match request.is_prefilling() {
            true => step.chunks.push((request.computed, tokens)),
            false => step.contexts.push(request.computed),
        }
        *budget -= tokens;
        request.scheduled = true;
        request.computed += tokens;
        self.fill(request, request.computed, step);
    }

    /// Takes frames for a request's first tokens, and enters the blocks that are full.
    fn fill(&mut self, request: &mut Request, tokens: usize, step: &mut Step) {
        let before = request.frames.len();
        self.memory.grow(&mut request.frames, tokens, &mut step.events);
        self.promised -= request.frames.len() - before;
        let (from, to) = (request.sealed, self.memory.block_size().whole_blocks(tokens));
        if from < to {
            step.events.push(self.memory.seal(&request.chain, &request.tokens, &request.frames, from, to));
            request.sealed = to;
        }
    }
}

/// Tokens that one step computes at most.
const STEP_TOKENS: usize = 8192;

/// Requests that run at once at most.
const MOST_RUNNING: usize = 256;

#[cfg(test)]
mod tests;
