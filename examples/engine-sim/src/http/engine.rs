//! A scheduler in real time: requests from HTTP in, tokens and cache events out, and KV kept for other pods.
//!
//! Invariant: the cache, looked at between two steps, is what the events said: they are published when a step ends, as vLLM does.

mod publishing;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kv_index::BlockHash;
use kv_index::engine::{BlockDigest, DialectError};
use parking_lot::Mutex;
use routing_plugins::CostModel;
use tokio::sync::{Notify, watch};

use super::block_hashing::BlockHasher;
use super::completion::FinishReason;
use super::config::PodConfig;
use super::events::{CacheEvent, EventSink};
use super::in_flight::{Request, Requests, Submission};
use super::ledger::ExecutionEnd;
use super::metrics::EngineMetrics;
use super::request_handle::{KeptBlocks, Progress, RequestHandle};
use crate::scheduler::{Admitted, EngineConfig, EngineRequest, RemovedEvents, Sampled, Scheduler};

/// The engine of a pod, in all its incarnations.
pub(super) struct Engine {
    pub(super) config: PodConfig,
    costs: CostModel,
    state: Mutex<State>,
    /// Tells the step loop that there is something to do.
    pub(super) wake: Notify,
    pub(super) condition: watch::Sender<Condition>,
}

/// Injected faults that last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Condition {
    pub(super) hung: bool,
    /// How many times longer everything takes.
    pub(super) slowdown: f64,
    /// The status that completions are answered with, an error.
    pub(super) status: Option<u16>,
    /// How often streams were cut.
    pub(super) cuts: u64,
}

impl Condition {
    /// The same without what lasts.
    pub(super) fn recovered(self) -> Self {
        Self { hung: false, slowdown: 1.0, status: None, ..self }
    }
}

struct State {
    /// What was asked of an earlier one is lost.
    incarnation: u64,
    alive: bool,
    hash_seed: String,
    hasher: BlockHasher,
    scheduler: Scheduler,
    requests: Requests,
    next: u32,
    /// vLLM's digest of each cached block.
    digests: HashMap<BlockHash, BlockDigest>,
    /// Leases on KV blocks that were prefilled for another pod, by the name that it is given.
    leases: HashMap<String, KvLease>,
    sinks: Vec<Box<dyn EventSink>>,
    /// What changed in the cache in the step under way.
    unpublished: Vec<CacheEvent>,
    metrics: EngineMetrics,
}

/// Blocks that wait for another pod. It ends once, by being fetched or by its time.
struct KvLease {
    request: u32,
    /// Tokens that the blocks hold.
    tokens: usize,
    /// When it ends. One that is being fetched does not.
    ends: Option<Instant>,
}

impl Engine {
    pub(super) fn new(
        config: PodConfig,
        costs: CostModel,
        sinks: Vec<Box<dyn EventSink>>,
    ) -> Result<Self, DialectError> {
        let state = State {
            incarnation: 0,
            alive: true,
            hash_seed: config.hash_seed.clone(),
            hasher: BlockHasher::new(&config.model, config.block_size, &config.hash_seed)?,
            scheduler: scheduler(&config),
            requests: Requests::default(),
            next: 0,
            digests: HashMap::new(),
            leases: HashMap::new(),
            sinks,
            unpublished: Vec::new(),
            metrics: EngineMetrics::default(),
        };
        let condition = watch::Sender::new(Condition { hung: false, slowdown: 1.0, status: None, cuts: 0 });
        Ok(Self { config, costs, state: Mutex::new(state), wake: Notify::new(), condition })
    }

    /// Queues a request. `None` if the pod is dead or its memory too small.
    pub(super) fn submit(self: &Arc<Self>, submission: Submission) -> Option<RequestHandle> {
        let Submission { name, prompt, completion, finish, salt, received, lease } = submission;
        let mut state = self.state.lock();
        let state = &mut *state;
        let id = state.next;
        let request = EngineRequest {
            id,
            prompt: u32::try_from(prompt.len()).ok()?,
            output: u32::try_from(completion.len()).ok()?,
            received: u32::try_from(received).ok()?,
            keep_blocks: lease.is_some(),
            background: false,
        };
        if !state.alive || !state.scheduler.submit(request) {
            return None;
        }
        state.next = state.next.wrapping_add(1);
        let (length, mut tokens) = (prompt.len(), prompt);
        tokens.extend(completion);
        // The last token is never read again, so its block is never full.
        let chain =
            state.hasher.chain(&tokens[..tokens.len() - 1], salt.as_deref(), |hash| state.digests.get(&hash).copied());
        let (progress, watched) = watch::channel(Progress::default());
        let since = Instant::now();
        let ledger = self.config.ledger.as_ref();
        let entry = ledger.map(|ledger| ledger.begin(&name, &self.config.name, lease.is_some()));
        let request = Request { chain, tokens, prompt: length, generated: 0, progress, since, finish, lease, entry };
        state.requests.0.insert(id, request);
        self.wake.notify_one();
        Some(RequestHandle { engine: Arc::clone(self), incarnation: state.incarnation, id, progress: watched })
    }

    /// Gives up a request of that incarnation, if it is still there.
    pub(super) fn abort(&self, incarnation: u64, id: u32) {
        let mut state = self.state.lock();
        if state.incarnation != incarnation {
            return;
        }
        if let Some(request) = state.requests.0.remove(&id) {
            request.end(ExecutionEnd::Aborted);
            state.scheduler.abort(id);
            state.metrics.aborted += 1;
            self.wake.notify_one();
        }
    }

    /// The first half of a step: its incarnation, and how long it takes at that slowdown. `None` if there is nothing to do.
    pub(super) fn begin(&self, now: Instant, slowdown: f64) -> Option<(u64, Duration)> {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.expire(now);
        let cost = state.scheduler.begin(&self.costs, &state.requests);
        for Admitted { request, cached_blocks } in state.scheduler.admitted() {
            let cached = cached_blocks as usize * self.config.block_size.tokens();
            let received = (request.received.min(request.prompt - 1) as usize).saturating_sub(cached);
            state.metrics.prompt_tokens += u64::from(request.prompt);
            state.metrics.cached_tokens += cached as u64;
            state.metrics.received_tokens += received as u64;
            if let Some(request) = state.requests.0.get(&request.id) {
                request.progress.send_modify(|progress| progress.cached = cached + received);
            }
        }
        state.gather();
        let Some(cost) = cost else {
            // There is no step in whose end to say it.
            state.publish();
            return None;
        };
        Some((state.incarnation, longer(cost, slowdown)))
    }

    /// The second half of a step, if the pod has not died meanwhile.
    pub(super) fn complete(&self, incarnation: u64, now: Instant) {
        let mut state = self.state.lock();
        let state = &mut *state;
        if state.incarnation != incarnation {
            return;
        }
        let mut sampled = Vec::new();
        state.scheduler.end(&state.requests, &mut sampled);
        state.gather();
        state.publish();
        let mut first = Vec::new();
        for one in sampled {
            match one {
                Sampled::First(EngineRequest { id, .. }) => first.push(id),
                Sampled::Done(EngineRequest { id, .. }) => self.finish(state, id, now),
            }
        }
        let paused: Vec<u32> = state.scheduler.paused().collect();
        for (id, request) in &mut state.requests.0 {
            if (request.generated > 0 && !paused.contains(id)) || first.contains(id) {
                request.advance(now, &mut state.metrics);
                request.progress.send_modify(|progress| progress.tokens = request.generated);
            }
        }
    }

    /// Everything is forgotten, and nothing is accepted until the pod is revived.
    pub(super) fn die(&self) {
        let mut state = self.state.lock();
        let state = &mut *state;
        if !std::mem::take(&mut state.alive) {
            return;
        }
        state.incarnation += 1;
        state.metrics.lost += state.requests.0.len() as u64;
        state.requests.0.clear();
        state.digests.clear();
        state.unpublished.clear();
        state.leases.clear();
        state.scheduler = scheduler(&self.config);
    }

    /// A new incarnation, with another hash seed if one is given.
    pub(super) fn revive(&self, hash_seed: Option<String>) {
        let mut state = self.state.lock();
        let state = &mut *state;
        if let Some(seed) = hash_seed {
            let hasher = BlockHasher::new(&self.config.model, self.config.block_size, &seed);
            state.hasher = hasher.expect("vLLM 0.32.0 takes any seed");
            state.hash_seed = seed;
        }
        state.alive = true;
        state.sinks.iter_mut().for_each(|sink| sink.restarted());
    }

    /// Begins to fetch kept blocks: their incarnation and tokens.
    pub(super) fn claim(&self, engine: &str, lease: &str, now: Instant) -> Option<(u64, usize)> {
        let mut state = self.state.lock();
        if !state.alive || engine != engine_id(&self.config, state.incarnation) {
            return None;
        }
        state.expire(now);
        // From here on it does not end by time.
        let lease = state.leases.get_mut(lease)?;
        lease.ends = None;
        let tokens = lease.tokens;
        Some((state.incarnation, tokens))
    }

    /// Ends a lease of that incarnation.
    pub(super) fn end_lease(&self, incarnation: u64, lease: &str) {
        let mut state = self.state.lock();
        let state = &mut *state;
        if state.incarnation != incarnation {
            return;
        }
        if let Some(lease) = state.leases.remove(lease) {
            state.scheduler.release(lease.request);
            self.wake.notify_one();
        }
    }

    /// Counts a fetch from another pod.
    pub(super) fn count_fetch(&self, succeeded: bool) {
        let metrics = &mut self.state.lock().metrics;
        *if succeeded { &mut metrics.fetched } else { &mut metrics.fetch_failures } += 1;
    }

    /// How long this pod takes now for what takes the measured machine `cost`.
    pub(super) fn takes(&self, cost: Duration) -> Duration {
        longer(cost, self.condition.borrow().slowdown / self.config.speed)
    }

    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.state.lock().leases.values().filter_map(|lease| lease.ends).min()
    }

    /// Most tokens that a prompt and its completion may have together.
    pub(super) fn context(&self) -> usize {
        self.config.blocks as usize * self.config.block_size.tokens()
    }

    /// Leading tokens of a prompt that are cached now.
    pub(super) fn cached(&self, prompt: &[u32], salt: Option<&str>) -> usize {
        let (state, size) = (self.state.lock(), self.config.block_size);
        let hashes = state.hasher.hashes(&prompt[..prompt.len().saturating_sub(1)], salt);
        state.scheduler.pool().prefix(&hashes).count() * size.tokens()
    }

    pub(super) fn hash_seed(&self) -> String {
        self.state.lock().hash_seed.clone()
    }

    pub(super) fn cache(&self) -> BTreeMap<BlockHash, u32> {
        self.state.lock().scheduler.pool().copies().collect()
    }

    pub(super) fn metrics(&self) -> EngineMetrics {
        let state = self.state.lock();
        let (running, waiting) = state.scheduler.requests();
        EngineMetrics {
            running,
            waiting,
            blocks_used: state.scheduler.pool().used(),
            blocks: self.config.blocks as usize,
            leases: state.leases.len(),
            ..state.metrics.clone()
        }
    }

    fn finish(&self, state: &mut State, id: u32, now: Instant) {
        let Some(mut request) = state.requests.0.remove(&id) else { return };
        request.advance(now, &mut state.metrics);
        match request.finish {
            FinishReason::Stop => state.metrics.stopped += 1,
            FinishReason::Length => state.metrics.limited += 1,
        }
        let kept = request.lease.take().map(|name| {
            let lease = KvLease { request: id, tokens: request.prompt, ends: Some(now + self.config.lease) };
            state.leases.insert(name.clone(), lease);
            let blocks = state.scheduler.kept(id).iter().map(|block| block.index()).collect();
            let engine = engine_id(&self.config, state.incarnation);
            KeptBlocks { name, blocks, tokens: request.prompt, engine }
        });
        request.progress.send_modify(|progress| {
            (progress.tokens, progress.done, progress.kept) = (request.generated, true, kept);
        });
        request.end(ExecutionEnd::Finished);
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("pod", &self.config.name).field("metrics", &self.metrics()).finish()
    }
}

impl State {
    fn expire(&mut self, now: Instant) {
        let has_run_out = |_: &String, lease: &mut KvLease| lease.ends.is_some_and(|ends| ends <= now);
        for (_, lease) in self.leases.extract_if(has_run_out) {
            self.scheduler.release(lease.request);
            self.metrics.leases_expired += 1;
        }
    }
}

fn scheduler(config: &PodConfig) -> Scheduler {
    Scheduler::new(EngineConfig {
        block_tokens: config.block_size.tokens(),
        blocks: config.blocks as usize,
        speed: config.speed,
        removed_events: RemovedEvents::EveryCopy,
        ..EngineConfig::default()
    })
}

/// So many times longer, within reason.
fn longer(time: Duration, times: f64) -> Duration {
    Duration::try_from_secs_f64(time.as_secs_f64() * times).unwrap_or(LONGEST).min(LONGEST)
}

/// A step of a pod that is slow beyond measure.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Names one incarnation of a pod: blocks of an earlier one cannot be fetched.
fn engine_id(config: &PodConfig, incarnation: u64) -> String {
    format!("{}-{}-{incarnation}", config.name, config.listen.port())
}
