//! A pod's engine in virtual time: continuous batching with chunked prefill over a paged prefix cache, step by step.
//!
//! It does what [`sim`](pointsman_engine_sim)'s engine does, on hashes instead of tokens and without visiting every request at every
//! step, so that a million requests take seconds. A step has two halves: `begin` shares a budget of tokens among
//! what decodes, what prefills and what waits, in this order, and says how long it takes; `end` says who has a
//! first token and who is done.
//!
//! A request is admitted when there is room for all of it, answer included. Real engines admit earlier and preempt when
//! they must; so where memory is short a modelled pod queues sooner and never computes anything twice. Blocks of answers
//! take room and are dropped with their request: traces do not tell which hash they would have had.

mod cache;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use kv_index::{BlockHash, Tier};

use crate::chains::Chains;
use pointsman_engine_sim::cost::CostModel;

use cache::{Cache, Evicted, Sealed, Slot};

/// What a pod is like.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "what a host fills in by name")]
pub struct EngineConfig {
    /// Tokens in a block.
    pub block: usize,
    /// Blocks of its GPU memory.
    pub blocks: usize,
    /// Blocks of its host memory; 0 for none.
    pub host_blocks: usize,
    /// µs to fetch the KV of a token from host memory.
    pub host_us_per_token: f64,
    /// Tokens that one step computes at most.
    pub step_tokens: usize,
    /// Requests that run at once at most.
    pub most_running: usize,
    /// How fast it is, against the costs: 1 for as fast.
    pub speed: f64,
    /// Whether prompts of a batch wait for all others, as under vLLM's `--scheduling-policy priority`. What runs is not
    /// preempted.
    pub online_first: bool,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self {
            block: 512,
            blocks: 1953,
            host_blocks: 0,
            // 128 KiB of a Llama-8B over PCIe 5.0 at 50 GB/s.
            host_us_per_token: 2.6,
            step_tokens: 8192,
            most_running: 256,
            speed: 1.0,
            online_first: false,
        }
    }
}

/// A request as an engine gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// Its place in the trace, and so its chain.
    pub(super) request: u32,
    pub(super) prompt: u32,
    pub(super) output: u32,
    /// Whether another pod computed the prompt, and its blocks came along.
    pub(super) received: bool,
    /// Whether it is of a batch that fills the gaps.
    pub(super) filler: bool,
}

/// Something that an engine's step brought about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sampled {
    First(Job),
    /// The answer is complete. Comes after the first token.
    Done(Job),
}

/// A change of the cache, to be told to the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Blocks of a request's chain, from and to.
    Stored {
        request: u32,
        from: u32,
        to: u32,
    },
    /// Blocks that came to host memory, in no order.
    Kept(Vec<BlockHash>),
    Removed(Vec<BlockHash>, Tier),
}

/// A request that began: what was found of its prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Admitted {
    pub(super) job: Job,
    pub(super) blocks_hit: u32,
    pub(super) tokens_hit: u32,
}

/// The engine of one pod.
#[derive(Debug)]
pub(super) struct Engine {
    config: EngineConfig,
    cache: Cache,
    waiting: VecDeque<Job>,
    running: Slab,
    /// Those that prefill, in the order they came.
    prefilling: VecDeque<u32>,
    /// Those that decode, by the step in which they are done.
    decoding: BinaryHeap<Reverse<(u64, u32)>>,
    /// Those of them that are of a batch.
    pub(super) fillers: usize,
    /// Tokens of all contexts that decode.
    context: u64,
    /// Steps so far.
    step: u64,
    /// Those that will have their first token at the end of this step.
    ready: Vec<u32>,
    /// Whether a step is under way.
    stepping: bool,
    chunks: Vec<(usize, usize)>,
    /// What the last step changed.
    pub(super) changes: Vec<Change>,
    /// What the last step admitted.
    pub(super) admitted: Vec<Admitted>,
    /// Prompt tokens that all steps computed.
    pub(super) prefilled: u64,
}

#[derive(Debug)]
struct Running {
    job: Job,
    slots: Vec<Slot>,
    private: usize,
    computed: usize,
}

impl Engine {
    pub(super) fn new(config: EngineConfig) -> Self {
        Self {
            cache: Cache::new(config.blocks, config.host_blocks),
            config,
            waiting: VecDeque::new(),
            running: Slab::default(),
            prefilling: VecDeque::new(),
            decoding: BinaryHeap::new(),
            fillers: 0,
            context: 0,
            step: 0,
            ready: Vec::new(),
            stepping: false,
            chunks: Vec::new(),
            changes: Vec::new(),
            admitted: Vec::new(),
            prefilled: 0,
        }
    }

    /// Queues a request; false if all of the memory could not hold it.
    pub(super) fn submit(&mut self, job: Job) -> bool {
        let fits = self.blocks_of(job) <= self.config.blocks;
        if fits {
            let first = self.waiting.iter().position(|other| self.passes(job, *other));
            self.waiting.insert(first.unwrap_or(self.waiting.len()), job);
        }
        fits
    }

    /// Begins a step; how many µs it takes. None if there is nothing to do or one is under way.
    pub(super) fn begin(&mut self, costs: &CostModel, chains: &Chains) -> Option<u64> {
        if self.stepping {
            return None;
        }
        let decoding = self.decoding.len();
        let mut budget = self.config.step_tokens.saturating_sub(decoding);
        self.chunks.clear();
        for at in 0..self.prefilling.len() {
            if budget == 0 {
                break;
            }
            self.advance(self.prefilling[at], &mut budget, chains);
        }
        let mut loading = 0.0;
        while budget > 0 && self.decoding.len() + self.prefilling.len() < self.config.most_running {
            let Some(&job) = self.waiting.front() else { break };
            let Some((id, load)) = self.admit(job, chains) else { break };
            self.waiting.pop_front();
            loading += load;
            let first = self.prefilling.iter().position(|&other| self.passes(job, self.running.get(other).job));
            self.prefilling.insert(first.unwrap_or(self.prefilling.len()), id);
            self.advance(id, &mut budget, chains);
        }
        self.prefilling.retain(|id| !self.ready.contains(id));
        if self.chunks.is_empty() && decoding == 0 {
            return None;
        }
        self.stepping = true;
        let mean = self.context as usize / decoding.max(1);
        let cost = costs.batch(&self.chunks, decoding, mean).as_secs_f64() * 1e6 / self.config.speed;
        Some((cost + loading).ceil().max(1.0) as u64)
    }

    /// Ends the step; tells who has a first token and who is done, and how many decoded.
    pub(super) fn end(&mut self, sampled: &mut Vec<Sampled>) -> usize {
        self.stepping = false;
        self.step += 1;
        let decoded = self.decoding.len();
        self.context += decoded as u64;
        while let Some(&Reverse((step, id))) = self.decoding.peek() {
            if step > self.step {
                break;
            }
            self.decoding.pop();
            let job = self.running.get(id).job;
            self.context -= u64::from(job.prompt) + u64::from(job.output);
            self.fillers -= usize::from(job.filler);
            self.finish(id, sampled);
        }
        for id in std::mem::take(&mut self.ready) {
            let job = self.running.get(id).job;
            sampled.push(Sampled::First(job));
            if job.output <= 1 {
                self.finish(id, sampled);
            } else {
                self.context += u64::from(job.prompt) + 1;
                self.fillers += usize::from(job.filler);
                self.decoding.push(Reverse((self.step + u64::from(job.output) - 1, id)));
            }
        }
        decoded
    }

    /// Requests that run, and that wait.
    pub(super) fn requests(&self) -> (usize, usize) {
        (self.decoding.len() + self.prefilling.len() + self.ready.len(), self.waiting.len())
    }

    /// Share of the memory that is in use.
    pub(super) fn used(&self) -> f32 {
        self.cache.in_use() as f32 / self.config.blocks.max(1) as f32
    }

    /// Whether one request goes before another that came earlier.
    fn passes(&self, job: Job, other: Job) -> bool {
        self.config.online_first && other.filler && !job.filler
    }

    fn finish(&mut self, id: u32, sampled: &mut Vec<Sampled>) {
        let Running { job, slots, private, .. } = self.running.remove(id);
        self.cache.release(&slots, private);
        sampled.push(Sampled::Done(job));
    }

    /// Gives a request its memory and what of its prompt is there; its number, and µs of fetching from host memory.
    fn admit(&mut self, job: Job, chains: &Chains) -> Option<(u32, f64)> {
        let chain = chains.get(job.request);
        let block = self.config.block;
        // At least one token is computed, so that there is something to sample from.
        let usable = chain.len().min((job.prompt as usize - 1) / block);
        let (gpu, host) = self.cache.prefix(&chain[..usable]);
        let all = self.blocks_of(job);
        let (mut slots, mut gone) = (Vec::with_capacity(chain.len()), Evicted::default());
        // What has left may be among what lies in host memory.
        if !self.cache.admit(&chain[..gpu], all - gpu, &mut slots, &mut gone) {
            return None;
        }
        self.report(gone);
        let mut running = Running { job, slots, private: all - gpu, computed: gpu * block };
        let have = if job.received { chain.len() } else { gpu + host };
        self.seal(&mut running, gpu, have, chains);
        if job.received {
            running.computed = job.prompt as usize - 1;
        } else {
            running.computed = have * block;
            let (blocks_hit, tokens_hit) = (have as u32, (have * block) as u32);
            self.admitted.push(Admitted { job, blocks_hit, tokens_hit });
        }
        let fetched = if job.received { 0 } else { host * block };
        Some((self.running.insert(running), fetched as f64 * self.config.host_us_per_token))
    }

    fn advance(&mut self, id: u32, budget: &mut usize, chains: &Chains) {
        let block = self.config.block;
        let mut running = std::mem::replace(self.running.get_mut(id), Running::EMPTY);
        let prompt = running.job.prompt as usize;
        let tokens = (prompt - running.computed).min(*budget);
        *budget -= tokens;
        self.chunks.push((running.computed, tokens));
        if !running.job.received {
            self.prefilled += tokens as u64;
        }
        running.computed += tokens;
        let (from, to) = (running.slots.len(), running.computed / block);
        self.seal(&mut running, from, to, chains);
        if running.computed == prompt {
            self.ready.push(id);
        }
        *self.running.get_mut(id) = running;
    }

    /// Enters a request's blocks from one to another under their hashes.
    fn seal(&mut self, running: &mut Running, from: usize, to: usize, chains: &Chains) {
        let chain = chains.get(running.job.request);
        let to = to.min(chain.len());
        let mut new = from;
        for (at, &hash) in chain.iter().enumerate().take(to).skip(from) {
            let (slot, sealed) = self.cache.seal(hash);
            running.slots.push(slot);
            running.private -= 1;
            if sealed == Sealed::Known {
                self.stored(running.job.request, new, at);
                new = at + 1;
            }
        }
        self.stored(running.job.request, new, to);
    }

    fn stored(&mut self, request: u32, from: usize, to: usize) {
        if from < to {
            self.changes.push(Change::Stored { request, from: from as u32, to: to as u32 });
        }
    }

    fn report(&mut self, gone: Evicted) {
        let lists = [
            (!gone.to_host.is_empty()).then_some(Change::Kept(gone.to_host)),
            (!gone.from_gpu.is_empty()).then_some(Change::Removed(gone.from_gpu, Tier::Gpu)),
            (!gone.from_host.is_empty()).then_some(Change::Removed(gone.from_host, Tier::Host)),
        ];
        self.changes.extend(lists.into_iter().flatten());
    }

    fn blocks_of(&self, job: Job) -> usize {
        (job.prompt as usize + job.output as usize).div_ceil(self.config.block)
    }
}

impl Running {
    const EMPTY: Self = Self {
        job: Job { request: 0, prompt: 0, output: 0, received: false, filler: false },
        slots: Vec::new(),
        private: 0,
        computed: 0,
    };
}

#[cfg(test)]
mod tests;

/// Requests by a small number.
#[derive(Debug, Default)]
struct Slab {
    entries: Vec<Running>,
    free: Vec<u32>,
}

impl Slab {
    fn insert(&mut self, running: Running) -> u32 {
        match self.free.pop() {
            Some(id) => {
                self.entries[id as usize] = running;
                id
            }
            None => {
                self.entries.push(running);
                self.entries.len() as u32 - 1
            }
        }
    }

    fn get(&self, id: u32) -> &Running {
        &self.entries[id as usize]
    }

    fn get_mut(&mut self, id: u32) -> &mut Running {
        &mut self.entries[id as usize]
    }

    fn remove(&mut self, id: u32) -> Running {
        self.free.push(id);
        std::mem::replace(&mut self.entries[id as usize], Running::EMPTY)
    }
}
