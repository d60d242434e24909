//! Continuous batching with chunked prefill: a sans-IO scheduler over a block pool, one step at a time, without a clock.
//!
//! A step has two halves. [`Scheduler::begin`] shares a budget of tokens among decoding, prefilling and waiting requests, in
//! this order, and gives the step's duration; [`Scheduler::end`] gives the requests with a first token and those that are
//! done. A decoding request is visited only when it fills a block and when it is done.
//!
//! A request is admitted when there are blocks for all of its prompt, which it takes at once; its answer takes them one by one. Where
//! there is none left, the request that was admitted last is preempted, as vLLM does it.
//!
//! Invariant: events, counted copy by copy, add up to the pool (`tests::events_add_up_to_the_pool`).

mod config;
mod preempt;
mod request;
mod running;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use kv_index::Tier;
use routing_plugins::CostModel;

use crate::block_pool::{BlockId, BlockPool, Evicted};
use running::{Running, Waiting};

pub use config::{EngineConfig, RemovedEvents};
pub use request::{Admitted, BlockChains, BlockEvent, EngineRequest, Sampled};

/// The scheduler of one engine and its memory.
#[derive(Clone, Debug, Default)]
pub struct Scheduler {
    config: EngineConfig,
    pool: BlockPool,
    waiting: VecDeque<Waiting>,
    running: Vec<Running>,
    /// Places in `running` that are free.
    vacant: Vec<u32>,
    /// In the order they came.
    prefilling: VecDeque<u32>,
    /// By the step in which something is due: a full block, or the end.
    decoding: BinaryHeap<Reverse<(u64, u32)>>,
    /// Those that decode and have no room for their next token.
    full: Vec<u32>,
    background_decoding: usize,
    /// Tokens of all contexts that decode.
    context: u64,
    /// Steps so far.
    step: u64,
    /// Those that have their first token at the end of this step.
    ready: Vec<u32>,
    stepping: bool,
    chunks: Vec<(usize, usize)>,
    evicted: Evicted,
    events: Vec<BlockEvent>,
    admitted: Vec<Admitted>,
    prefilled: u64,
    /// Requests that were admitted so far, again or for the first time.
    admissions: u64,
    preemptions: u64,
    /// Blocks of requests that are done, until they are released.
    kept: HashMap<u32, Vec<BlockId>>,
}

impl Scheduler {
    /// An idle engine with an empty cache.
    #[must_use]
    pub fn new(config: EngineConfig) -> Self {
        Self { pool: BlockPool::new(config.blocks, config.host_blocks), config, ..Self::default() }
    }

    /// Queues a request; false if all of the memory could not hold it.
    pub fn submit(&mut self, request: EngineRequest) -> bool {
        let tokens = request.prompt as usize + request.output as usize;
        let fits = tokens <= self.config.blocks * self.config.block_tokens;
        if fits {
            let place = self.waiting.iter().position(|other| self.passes(request, other.request));
            let waiting = Waiting { request, generated: 0, is_preempted: false };
            self.waiting.insert(place.unwrap_or(self.waiting.len()), waiting);
        }
        fits
    }

    /// The first half of a step; how long it takes. None if there is nothing to do or one is under way.
    pub fn begin(&mut self, costs: &CostModel, chains: &impl BlockChains) -> Option<Duration> {
        if self.stepping {
            return None;
        }
        let has_preempted = self.grow();
        let decoding = self.decoding.len();
        let mut budget = self.config.step_tokens.saturating_sub(decoding);
        self.chunks.clear();
        for at in 0..self.prefilling.len() {
            if budget == 0 {
                break;
            }
            self.prefill(self.prefilling[at], &mut budget, chains);
        }
        let mut fetched = 0;
        let may_admit = !has_preempted || decoding + self.prefilling.len() == 0;
        while budget > 0 && may_admit && decoding + self.prefilling.len() < self.config.max_running {
            let Some(&waiting) = self.waiting.front() else { break };
            let Some((slot, tokens)) = self.admit(waiting, chains) else { break };
            self.waiting.pop_front();
            fetched += tokens;
            let passes = |&other: &u32| self.passes(waiting.request, self.running[other as usize].request);
            let place = self.prefilling.iter().position(passes);
            self.prefilling.insert(place.unwrap_or(self.prefilling.len()), slot);
            self.prefill(slot, &mut budget, chains);
        }
        self.prefilling.retain(|slot| !self.ready.contains(slot));
        if self.chunks.is_empty() && decoding == 0 {
            return None;
        }
        self.stepping = true;
        let step = self.seconds(costs, decoding);
        let fetching = fetched as f64 * self.config.host_us_per_token / 1e6;
        Some(Duration::try_from_secs_f64(step + fetching).unwrap_or(Duration::MAX))
    }

    /// What the step takes that was begun.
    fn seconds(&self, costs: &CostModel, decoding: usize) -> f64 {
        let EngineConfig { speed, decode_speed, .. } = self.config;
        let step = costs.step(&self.chunks, decoding, self.context as usize).as_secs_f64();
        // What decodes beside a prompt takes its share of the step's time.
        let decode = costs.step(&[], decoding, self.context as usize).as_secs_f64();
        (step - decode + decode / decode_speed) / speed
    }

    /// The second half: the requests that have a first token and those that are done; how many have one more.
    pub fn end(&mut self, chains: &impl BlockChains, sampled: &mut Vec<Sampled>) -> usize {
        self.stepping = false;
        self.step += 1;
        self.context += self.decoding.len() as u64;
        let resumed = self.ready.iter().filter(|slot| self.running[**slot as usize].generated > 0).count();
        let decoded = self.decoding.len() + resumed;
        while let Some(&Reverse((due, slot))) = self.decoding.peek() {
            if due > self.step {
                break;
            }
            self.decoding.pop();
            let running = &self.running[slot as usize];
            let (written, is_done) = (running.written(self.step), self.step >= running.last());
            let is_background = running.request.background;
            self.seal(slot, written as usize / self.config.block_tokens, chains);
            if is_done {
                self.context -= written + 1;
                self.background_decoding -= usize::from(is_background);
                self.finish(slot, sampled);
            } else {
                self.decode(slot);
            }
        }
        for slot in std::mem::take(&mut self.ready) {
            let running = &mut self.running[slot as usize];
            let request = running.request;
            running.first = self.step;
            if running.generated == 0 {
                sampled.push(Sampled::First(request));
            }
            if running.last() <= self.step {
                self.finish(slot, sampled);
            } else {
                self.context += running.length() as u64 + 1;
                self.background_decoding += usize::from(request.background);
                self.decode(slot);
            }
        }
        decoded
    }

    /// Gives up a request and its blocks; false if it is not there any more.
    pub fn abort(&mut self, id: u32) -> bool {
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.request.id == id) {
            self.waiting.remove(at);
            return true;
        }
        let slot = self.slots().find(|&slot| self.running[slot as usize].request.id == id);
        slot.map(|slot| self.take_out(slot)).is_some()
    }

    /// Releases the blocks that a done request kept; false if there are none.
    pub fn release(&mut self, id: u32) -> bool {
        self.kept.remove(&id).inspect(|blocks| self.pool.release(blocks)).is_some()
    }

    /// The blocks that a done request keeps.
    #[must_use]
    pub fn kept(&self, id: u32) -> &[BlockId] {
        self.kept.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Takes the changes of the cache since the last time, in order.
    pub fn events(&mut self) -> std::vec::Drain<'_, BlockEvent> {
        self.events.drain(..)
    }

    /// Takes the requests that were admitted since the last time.
    pub fn admitted(&mut self) -> std::vec::Drain<'_, Admitted> {
        self.admitted.drain(..)
    }

    /// Requests that run, and that wait.
    #[must_use]
    pub fn requests(&self) -> (usize, usize) {
        let decoding = self.decoding.len() + self.full.len();
        (decoding + self.prefilling.len() + self.ready.len(), self.waiting.len())
    }

    /// Requests that have tokens of their answer and get no more for now: preempted, they wait or are computed again.
    pub fn paused(&self) -> impl Iterator<Item = u32> + '_ {
        let waiting = self.waiting.iter().map(|waiting| (waiting.request.id, waiting.generated));
        let prefilling = self.prefilling.iter().map(|slot| &self.running[*slot as usize]);
        let all = waiting.chain(prefilling.map(|running| (running.request.id, running.generated)));
        all.filter(|(_, generated)| *generated > 0).map(|(id, _)| id)
    }

    /// How often a request was preempted so far.
    #[must_use]
    pub fn preemptions(&self) -> u64 {
        self.preemptions
    }

    /// Whether a step is under way.
    #[must_use]
    pub fn is_stepping(&self) -> bool {
        self.stepping
    }

    /// Background requests that have one more token at the end of the step.
    #[must_use]
    pub fn background_decoding(&self) -> usize {
        let ready = self.ready.iter().map(|slot| &self.running[*slot as usize]);
        let resumed = ready.filter(|running| running.generated > 0 && running.request.background).count();
        self.background_decoding + resumed
    }

    /// Prompt tokens computed so far, and what was preempted again; prompts that came from another engine are left out.
    #[must_use]
    pub fn prefilled(&self) -> u64 {
        self.prefilled
    }

    /// Share of the GPU memory that is in use.
    #[must_use]
    pub fn kv_usage(&self) -> f32 {
        self.pool.used() as f32 / self.config.blocks.max(1) as f32
    }

    /// The memory.
    #[must_use]
    pub fn pool(&self) -> &BlockPool {
        &self.pool
    }

    /// Whether one request goes before another that came earlier.
    fn passes(&self, request: EngineRequest, other: EngineRequest) -> bool {
        self.config.priority_scheduling && other.background && !request.background
    }

    /// Gives a request its blocks and what of its prompt is there; its place, and tokens to fetch from host memory.
    fn admit(&mut self, waiting: Waiting, chains: &impl BlockChains) -> Option<(u32, usize)> {
        let Waiting { request, generated, is_preempted } = waiting;
        let (chain, size) = (chains.chain(request.id), self.config.block_tokens);
        let length = request.prompt as usize + generated as usize;
        // At least one token is computed, so that there is something to sample from.
        let reusable = &chain[..chain.len().min((length - 1) / size)];
        let needed = length.div_ceil(size);
        let mut blocks = Vec::with_capacity(needed);
        blocks.extend(self.pool.prefix(reusable));
        let cached = blocks.len();
        let waking = blocks.iter().filter(|id| self.pool.is_free(**id)).count();
        if needed - cached + waking > self.pool.free() {
            return None;
        }
        // Before eviction: what leaves may be among it.
        let fetched = if request.received > 0 { 0 } else { self.pool.host_prefix(&reusable[cached..]) };
        blocks.iter().for_each(|&id| self.pool.share(id));
        for _ in cached..needed {
            blocks.push(self.pool.allocate(&mut self.evicted).expect("counted above"));
        }
        self.report_evicted();
        let have = cached + fetched;
        if !is_preempted {
            self.admitted.push(Admitted { request, cached_blocks: have as u32 });
        }
        // What another engine sent is gone once it was preempted.
        let received = if is_preempted { 0 } else { request.received.min(request.prompt) as usize };
        let computed = (have * size).max(received.min(length - 1));
        self.admissions += 1;
        let admission = self.admissions;
        let slot = self.insert(Running { request, generated, admission, blocks, sealed: cached, computed, first: 0 });
        self.seal(slot, have.max(received / size), chains);
        Some((slot, fetched * size))
    }

    fn prefill(&mut self, slot: u32, budget: &mut usize, chains: &impl BlockChains) {
        let running = &mut self.running[slot as usize];
        let length = running.length();
        let tokens = (length - running.computed).min(*budget);
        *budget -= tokens;
        self.chunks.push((running.computed, tokens));
        if running.request.received == 0 || running.generated > 0 {
            self.prefilled += tokens as u64;
        }
        running.computed += tokens;
        let computed = running.computed;
        self.seal(slot, computed / self.config.block_tokens, chains);
        if computed == length {
            self.ready.push(slot);
        }
    }

    /// Notes when a decoding request has to be looked at next.
    fn decode(&mut self, slot: u32) {
        let running = &self.running[slot as usize];
        let room = (running.blocks.len() * self.config.block_tokens) as u64;
        let written = running.written(self.step);
        // The last token is never read, and so takes no room.
        if written == room {
            self.full.push(slot);
        } else {
            self.decoding.push(Reverse((running.last().min(self.step + room - written), slot)));
        }
    }

    /// Enters a request's leading blocks under their hashes.
    fn seal(&mut self, slot: u32, blocks: usize, chains: &impl BlockChains) {
        let running = &mut self.running[slot as usize];
        let chain = chains.chain(running.request.id);
        let (from, to) = (running.sealed, blocks.min(chain.len()));
        if from >= to {
            return;
        }
        for (&id, &hash) in running.blocks[from..to].iter().zip(&chain[from..to]) {
            self.pool.seal(id, hash);
        }
        running.sealed = to;
        self.events.push(BlockEvent::Stored { request: running.request.id, from: from as u32, to: to as u32 });
    }

    fn report_evicted(&mut self) {
        let Evicted { mut gpu, offloaded, host } = std::mem::take(&mut self.evicted);
        if self.config.removed_events == RemovedEvents::LastCopy {
            gpu.retain(|&hash| self.pool.find(hash).is_none());
        }
        let events = [
            (!offloaded.is_empty()).then_some(BlockEvent::Offloaded(offloaded)),
            (!gpu.is_empty()).then_some(BlockEvent::Removed(gpu, Tier::Gpu)),
            (!host.is_empty()).then_some(BlockEvent::Removed(host, Tier::Host)),
        ];
        self.events.extend(events.into_iter().flatten());
    }

    fn finish(&mut self, slot: u32, sampled: &mut Vec<Sampled>) {
        let Running { request, blocks, .. } = self.remove(slot);
        if request.keep_blocks {
            self.kept.insert(request.id, blocks);
        } else {
            self.pool.release(&blocks);
        }
        sampled.push(Sampled::Done(request));
    }

    fn insert(&mut self, running: Running) -> u32 {
        match self.vacant.pop() {
            Some(slot) => {
                self.running[slot as usize] = running;
                slot
            }
            None => {
                self.running.push(running);
                self.running.len() as u32 - 1
            }
        }
    }

    fn remove(&mut self, slot: u32) -> Running {
        self.vacant.push(slot);
        std::mem::take(&mut self.running[slot as usize])
    }
}

#[cfg(test)]
mod tests;
