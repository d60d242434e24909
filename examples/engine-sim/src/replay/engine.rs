//! A modelled engine: continuous batching over a paged prefix cache, told step by step.
//!
//! A request reuses the cached start of its prompt, gets frames for the rest, and announces the new blocks in one
//! report. Then it decodes: each block its answer fills is announced alone. When it is done its frames are
//! released from the tail, so that eviction, least recently used first, takes tails before what they follow.
//! Every evicted copy is announced alone.
//!
//! At least one token of a prompt is always computed. So a prompt of whole blocks that is cached entirely has
//! its last block computed again, which makes a second copy of that block.
//!
//! The rule that must never break: the reports, counted copy by copy, always add up to what the pool holds.

use std::collections::VecDeque;

use kv_index::{BlockHash, BlockSize, Parent};

use crate::paged::frames::Frame;
use crate::paged::pool::Pool;
use crate::replay::report::Report;

/// One request, as an engine is given it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Who asked.
    pub client: usize,
    /// The blocks of the prompt and of the answer to come.
    pub chain: Vec<BlockHash>,
    /// Tokens of the prompt, at least one.
    pub prompt: usize,
    /// Tokens of prompt and answer.
    pub total: usize,
}

/// What one step did.
#[derive(Debug, Default)]
pub struct Step {
    /// Changes of the cache, in order.
    pub reports: Vec<Report>,
    /// Clients whose answers are complete.
    pub finished: Vec<usize>,
    /// Whole prompt blocks of the requests that were admitted.
    pub asked: usize,
    /// How many of them were in the cache.
    pub hit: usize,
}

/// One pod's engine.
#[derive(Debug)]
pub struct Engine {
    size: BlockSize,
    capacity: u32,
    pool: Pool,
    waiting: VecDeque<Job>,
    running: Vec<Running>,
    /// Frames that running requests will still need.
    promised: usize,
}

impl Engine {
    /// An idle engine with an empty cache of `capacity` blocks.
    #[must_use]
    pub fn new(size: BlockSize, capacity: u32) -> Self {
        Self { size, capacity, pool: Pool::new(capacity), waiting: VecDeque::new(), running: Vec::new(), promised: 0 }
    }

    /// Queues a request. One that is larger than the whole cache would wait for ever.
    pub fn submit(&mut self, job: Job) {
        self.waiting.push_back(job);
    }

    /// Admits what fits, then lets every running request write some tokens.
    pub fn step(&mut self) -> Step {
        let mut step = Step::default();
        while self.running.len() < MOST_RUNNING {
            let Some(job) = self.waiting.pop_front() else {
                break;
            };
            match self.admit(job, &mut step) {
                Ok(running) => self.running.push(running),
                Err(job) => {
                    self.waiting.push_front(job);
                    break;
                }
            }
        }
        for mut request in std::mem::take(&mut self.running) {
            self.decode(&mut request, &mut step);
            if request.written < request.job.total {
                self.running.push(request);
            } else {
                request.frames.iter().rev().for_each(|&frame| self.pool.release(frame));
                step.finished.push(request.job.client);
            }
        }
        step
    }

    /// Starts anew with an empty cache; the clients whose requests were lost.
    pub fn restart(&mut self) -> Vec<usize> {
        let fresh = Self::new(self.size, self.capacity);
        let lost = std::mem::replace(self, fresh);
        let running = lost.running.into_iter().map(|request| request.job.client);
        running.chain(lost.waiting.into_iter().map(|job| job.client)).collect()
    }

    /// Requests it has, waiting ones included.
    #[must_use]
    pub fn load(&self) -> usize {
        self.waiting.len() + self.running.len()
    }

    /// The cache.
    #[must_use]
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Prefills a request, or gives it back if there is no room for it now.
    fn admit(&mut self, job: Job, step: &mut Step) -> Result<Running, Job> {
        let whole = self.size.whole_blocks(job.prompt);
        let reusable = self.size.whole_blocks(job.prompt.saturating_sub(1));
        let mut frames: Vec<Frame> = self.pool.prefix(&job.chain[..reusable]).collect();
        let hit = frames.len();
        let idle = frames.iter().filter(|&&frame| self.pool.is_free(frame)).count();
        let needed = self.frames_for(job.total) - hit;
        if needed + idle + self.promised > self.pool.free() {
            return Err(job);
        }
        frames.iter().for_each(|&frame| self.pool.share(frame));
        self.promised += needed;
        self.grow(&mut frames, job.prompt, step);
        for (&frame, &hash) in frames[hit..whole].iter().zip(&job.chain[hit..whole]) {
            self.pool.seal(frame, hash);
        }
        if hit < whole {
            step.reports.push(stored(&job.chain, hit, whole));
        }
        step.asked += whole;
        step.hit += hit;
        Ok(Running { frames, written: job.prompt, job })
    }

    fn decode(&mut self, request: &mut Running, step: &mut Step) {
        let before = self.size.whole_blocks(request.written);
        request.written = (request.written + TOKENS_PER_STEP).min(request.job.total);
        self.grow(&mut request.frames, request.written, step);
        for at in before..self.size.whole_blocks(request.written) {
            self.pool.seal(request.frames[at], request.job.chain[at]);
            step.reports.push(stored(&request.job.chain, at, at + 1));
        }
    }

    /// Gives a request the promised frames it needs for `tokens` tokens, and reports what was evicted for them.
    fn grow(&mut self, frames: &mut Vec<Frame>, tokens: usize, step: &mut Step) {
        while frames.len() < self.frames_for(tokens) {
            let claim = self.pool.claim().expect("a promised frame is free or can be evicted");
            self.promised -= 1;
            frames.push(claim.frame);
            step.reports.extend(claim.evicted.map(Report::Removed));
        }
    }

    fn frames_for(&self, tokens: usize) -> usize {
        tokens.div_ceil(self.size.tokens())
    }
}

#[derive(Debug)]
struct Running {
    frames: Vec<Frame>,
    /// Tokens that are there, the prompt's included.
    written: usize,
    job: Job,
}

fn stored(chain: &[BlockHash], from: usize, to: usize) -> Report {
    let parent = from.checked_sub(1).map_or(Parent::Root, |at| Parent::Block(chain[at]));
    Report::Stored { parent, blocks: chain[from..to].to_vec() }
}

/// Requests an engine works on at once.
const MOST_RUNNING: usize = 32;

/// Tokens each running request writes in a step.
const TOKENS_PER_STEP: usize = 16;

#[cfg(test)]
mod tests;
