//! An engine in time: what HTTP asks of it, what its task does, and what is told to the event sinks.
//!
//! The rule that must never break: whoever looks at the cache between two events sees what the events said.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kv_index::BlockHash;
use kv_index::engine::DialectError;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::answer::Finish;
use crate::config::PodConfig;
use crate::cost::CostModel;
use crate::engine::{Engine, Job, RequestId};
use crate::events::EventSink;
use crate::figures::Figures;
use crate::lease::{Lease, Leases};
use crate::names::Names;
use crate::ticket::{Kept, Progress, Ticket};

/// A pod behind its HTTP face.
pub(super) struct Core {
    pub(super) config: PodConfig,
    costs: CostModel,
    state: Mutex<State>,
    /// Tells the engine's task that there is something to do.
    pub(super) wake: Notify,
    pub(super) mood: watch::Sender<Mood>,
}

/// How a pod behaves beside its work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Mood {
    pub(super) hung: bool,
    /// How many times longer everything takes.
    pub(super) slow: f64,
    /// How often streams were cut.
    pub(super) cuts: u64,
}

struct State {
    /// Counts lives. What was asked of an earlier one is lost.
    life: u64,
    alive: bool,
    hash_seed: String,
    engine: Engine,
    asked: HashMap<RequestId, Asked>,
    leases: Leases,
    sinks: Vec<Box<dyn EventSink>>,
    sums: Figures,
}

struct Asked {
    progress: watch::Sender<Progress>,
    since: Instant,
    finish: Finish,
    /// The name of its lease, if its blocks are to be kept.
    lease: Option<String>,
    prompt: usize,
}

/// A request, its end, and the name under which its blocks are kept if they are.
pub(super) struct Ask {
    pub(super) job: Job,
    pub(super) finish: Finish,
    pub(super) lease: Option<String>,
}

impl Core {
    pub(super) fn new(
        config: PodConfig,
        costs: CostModel,
        sinks: Vec<Box<dyn EventSink>>,
    ) -> Result<Self, DialectError> {
        let names = Names::new(&config.model, config.block_size, &config.hash_seed)?;
        let state = State {
            life: 0,
            alive: true,
            hash_seed: config.hash_seed.clone(),
            engine: Engine::new(names, config.blocks),
            asked: HashMap::new(),
            leases: Leases::default(),
            sinks,
            sums: Figures::default(),
        };
        let mood = watch::Sender::new(Mood { hung: false, slow: 1.0, cuts: 0 });
        Ok(Self { config, costs, state: Mutex::new(state), wake: Notify::new(), mood })
    }

    /// Queues a request. `None` if the pod is dead; what is too long for its memory is not to be asked.
    pub(super) fn submit(self: &Arc<Self>, ask: Ask) -> Option<Ticket> {
        let mut state = self.state.lock();
        if !state.alive {
            return None;
        }
        let prompt = ask.job.prompt.len();
        let id = state.engine.submit(ask.job).ok()?;
        let (progress, watched) = watch::channel(Progress::default());
        let asked = Asked { progress, since: Instant::now(), finish: ask.finish, lease: ask.lease, prompt };
        state.asked.insert(id, asked);
        self.wake.notify_one();
        Some(Ticket::new(Arc::clone(self), state.life, id, watched))
    }

    /// Gives up a request of that life, if it is still there.
    pub(super) fn abort(&self, life: u64, id: RequestId) {
        let mut state = self.state.lock();
        if state.life == life && state.engine.abort(id) {
            state.asked.remove(&id);
            state.sums.aborted += 1;
            self.wake.notify_one();
        }
    }

    /// The first half of a step: its life, and how long it takes at that slowness. `None` if there is nothing to do.
    pub(super) fn begin(&self, now: Instant, slow: f64) -> Option<(u64, Duration)> {
        let mut state = self.state.lock();
        let state = &mut *state;
        state.expire(now);
        let step = state.engine.schedule();
        for admitted in &step.admitted {
            state.sums.prompt_tokens += admitted.prompt as u64;
            state.sums.cached_tokens += admitted.cached as u64;
            state.sums.received_tokens += admitted.received as u64;
            if let Some(asked) = state.asked.get(&admitted.id) {
                asked.progress.send_modify(|progress| progress.cached = admitted.cached + admitted.received);
            }
        }
        if !step.events.is_empty() {
            state.sinks.iter_mut().for_each(|sink| sink.step(&step.events));
        }
        (!step.is_empty()).then(|| (state.life, self.takes(self.costs.step(&step.chunks, &step.contexts), slow)))
    }

    /// The second half of a step, if the pod has lived on.
    pub(super) fn complete(&self, life: u64, now: Instant) {
        let mut state = self.state.lock();
        let state = &mut *state;
        if state.life != life {
            return;
        }
        for sampled in state.engine.complete() {
            let Some(asked) = state.asked.get(&sampled.id) else { continue };
            state.sums.generated_tokens += 1;
            if sampled.tokens == 1 {
                state.sums.first_tokens.add(now.duration_since(asked.since).as_secs_f64());
            }
            let mut kept = None;
            if sampled.done {
                match asked.finish {
                    Finish::Stop => state.sums.stopped += 1,
                    Finish::Length => state.sums.limited += 1,
                }
                kept = asked.lease.clone().map(|name| {
                    let ends = now + self.config.lease;
                    let lease = Lease { request: sampled.id, tokens: asked.prompt, ends: Some(ends) };
                    state.leases.grant(name.clone(), lease);
                    let blocks = state.engine.kept(sampled.id).iter().map(|frame| frame.index()).collect();
                    Kept { name, blocks, tokens: asked.prompt, engine: engine_id(&self.config, state.life) }
                });
            }
            asked.progress.send_modify(|progress| {
                progress.tokens = sampled.tokens;
                progress.done = sampled.done;
                progress.kept = kept;
            });
            if sampled.done {
                state.asked.remove(&sampled.id);
            }
        }
    }

    /// Everything is forgotten, and nothing is taken until the pod is revived.
    pub(super) fn die(&self) {
        let mut state = self.state.lock();
        let state = &mut *state;
        if !std::mem::take(&mut state.alive) {
            return;
        }
        state.life += 1;
        state.sums.lost += state.asked.len() as u64;
        state.asked.clear();
        state.leases = Leases::default();
        state.engine = self.fresh_engine(&state.hash_seed);
    }

    /// A new life, with another hash seed if one is given.
    pub(super) fn revive(&self, hash_seed: Option<String>) {
        let mut state = self.state.lock();
        let state = &mut *state;
        if let Some(seed) = hash_seed {
            state.hash_seed = seed;
            state.engine = self.fresh_engine(&state.hash_seed);
        }
        state.alive = true;
        state.sinks.iter_mut().for_each(|sink| sink.restarted());
    }

    /// Begins to fetch kept blocks: which life they are of, and how many tokens they hold.
    pub(super) fn claim(&self, engine: &str, lease: &str, now: Instant) -> Option<(u64, usize)> {
        let mut state = self.state.lock();
        if !state.alive || engine != engine_id(&self.config, state.life) {
            return None;
        }
        state.expire(now);
        let lease = state.leases.claim(lease, now)?;
        Some((state.life, lease.tokens))
    }

    /// Ends a lease of that life.
    pub(super) fn unlease(&self, life: u64, lease: &str) {
        let mut state = self.state.lock();
        let state = &mut *state;
        if state.life != life {
            return;
        }
        if let Some(lease) = state.leases.end(lease) {
            state.engine.release(lease.request);
            self.wake.notify_one();
        }
    }

    /// Notes how a fetch from another pod ended.
    pub(super) fn count_fetch(&self, succeeded: bool) {
        let sums = &mut self.state.lock().sums;
        *if succeeded { &mut sums.fetched } else { &mut sums.fetch_failures } += 1;
    }

    /// How long this pod takes at that slowness for what takes the measured machine `cost`.
    pub(super) fn takes(&self, cost: Duration, slow: f64) -> Duration {
        Duration::try_from_secs_f64(cost.as_secs_f64() * slow / self.config.speed).unwrap_or(LONGEST).min(LONGEST)
    }

    pub(super) fn next_expiry(&self) -> Option<Instant> {
        self.state.lock().leases.next()
    }

    pub(super) fn context(&self) -> usize {
        self.config.blocks as usize * self.config.block_size.tokens()
    }

    pub(super) fn cached(&self, prompt: &[u32], salt: Option<&str>) -> usize {
        self.state.lock().engine.cached(prompt, salt)
    }

    pub(super) fn hash_seed(&self) -> String {
        self.state.lock().hash_seed.clone()
    }

    pub(super) fn cache(&self) -> BTreeMap<BlockHash, u32> {
        self.state.lock().engine.blocks().collect()
    }

    pub(super) fn figures(&self) -> Figures {
        let state = self.state.lock();
        let ((running, waiting), (blocks_used, blocks)) = (state.engine.requests(), state.engine.usage());
        Figures { running, waiting, blocks_used, blocks, leases: state.leases.len(), ..state.sums.clone() }
    }

    fn fresh_engine(&self, hash_seed: &str) -> Engine {
        let names = Names::new(&self.config.model, self.config.block_size, hash_seed);
        Engine::new(names.expect("vLLM 0.32.0 takes any seed"), self.config.blocks)
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("pod", &self.config.name).field("figures", &self.figures()).finish()
    }
}

impl State {
    fn expire(&mut self, now: Instant) {
        for lease in self.leases.expire(now) {
            self.engine.release(lease.request);
            self.sums.leases_expired += 1;
        }
    }
}

/// A step of a pod that is slow beyond measure.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Tells one life of a pod from every other: blocks of an earlier one cannot be fetched.
fn engine_id(config: &PodConfig, life: u64) -> String {
    format!("{}-{}-{life}", config.name, config.listen.port())
}
