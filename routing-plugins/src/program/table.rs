//! The table of programs: their contexts, where each is, and when it will be back.
//!
//! Invariants: a pod's working set is the sum of the contexts on it that run or are kept (`tests::working_sets_add_up`); contexts and the blocks
//! that they are known by are bounded, and the ones that were used last stay.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::BuildHasherDefault;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ahash::AHasher;
use kv_index::{DEFAULT_POD_WORDS, Pod, PodSet};
use lru::LruCache;
use parking_lot::Mutex;
use routing_core::ProgramTurn;

use super::context::{Context, PodSums};
use super::gaps::Gaps;
use super::owners::Owners;
use super::prompt::ProgramPrompt;
use super::working_set::WorkingSets;
use crate::cost_model::CostModel;
use crate::parameters::parameters;

parameters! {
    /// How many programs are remembered, and how long.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct ProgramLimits {
        /// Contexts at most; 65,536 unless given.
        pub contexts: NonZeroUsize = const { NonZeroUsize::new(65_536).expect("not 0") },
        /// Blocks at most that contexts are recognized by, one for every 64 tokens; 1,048,576 unless given. Each takes about 50 bytes.
        pub blocks: NonZeroUsize = const { NonZeroUsize::new(1 << 20).expect("not 0") },
        /// Seconds after its last turn that a context is forgotten; 1,800 unless given.
        pub ttl_seconds: NonZeroU32 = const { NonZeroU32::new(1_800).expect("not 0") },
        /// How long prefills take: what it costs to compute a context again.
        pub cost_model: CostModel = CostModel::FUSED,
    }
}

/// Programs that are under way: shared by a host between plugins and whoever sees answers end.
///
/// A program is known by a key that its requests bring, or by what they say: a request whose prompt goes on where an earlier one ended
/// belongs to the same program. Tell it when an answer ends ([`end`](Self::end)), so that it learns how long programs pause.
///
/// One lock, held for some dozen look-ups.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use kv_index::{BlockHash, Config, Index};
/// use routing_plugins::program::{ProgramPrompt, Programs};
///
/// let index: Index = Index::new(Config::default());
/// let (pod, now) = (index.join("pod-0")?, Instant::now());
/// let chain: Vec<BlockHash> = (1..=100).map(BlockHash::new).collect();
///
/// let programs: Programs = Programs::default();
/// let prompt = ProgramPrompt::new(&chain[..40], 16, 640);
/// let first = programs.find(&prompt, now);
/// programs.begin(&first, &prompt, pod, Some(100_000), now);
/// programs.end(&first, 700, now + Duration::from_secs(2));
/// assert_eq!(programs.working_set(pod, now + Duration::from_secs(2)), 700);
///
/// // The next turn has the first one's prompt, its answer, and what a tool printed.
/// let second = programs.find(&ProgramPrompt::new(&chain, 16, 1_600), now + Duration::from_secs(3));
/// assert_eq!(second.program, first.program);
/// # Ok::<(), kv_index::JoinError>(())
/// ```
#[derive(Debug)]
pub struct Programs<const W: usize = DEFAULT_POD_WORDS> {
    limits: ProgramLimits,
    /// The next number of a program or context.
    next: AtomicU64,
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    contexts: LruCache<u64, Context, BuildHasherDefault<AHasher>>,
    owners: Owners,
    /// Contexts of keys: the last one of each.
    keys: HashMap<u64, u64, BuildHasherDefault<AHasher>>,
    /// Tokens of an answer, as they were lately.
    answer: f64,
    /// By kind of pause.
    gaps: HashMap<u64, Gaps, BuildHasherDefault<AHasher>>,
    working_sets: PodSums,
    /// When contexts are not kept any more: the time, the context, and its turn.
    kept: BinaryHeap<Reverse<(Instant, u64, u64)>>,
}

/// What a prompt goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Recognized {
    /// A context.
    Context(u64),
    /// A program, with a branch of its own.
    Program(u64),
    /// Nothing that is known.
    New,
}

/// What follows a turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pause {
    /// Nobody said: pauses are as they were.
    #[default]
    Unknown,
    /// The next turn comes after so long.
    Lasts(Duration),
    /// Nothing: it was the last one.
    Over,
}

/// What is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramStats {
    /// Contexts that are remembered.
    pub contexts: usize,
    /// Those of them with a turn under way.
    pub running: usize,
    /// Those of them that are not running, and expected back.
    pub kept: usize,
    /// Blocks that they are recognized by.
    pub blocks: usize,
}

impl<const W: usize> Default for Programs<W> {
    fn default() -> Self {
        Self::new(ProgramLimits::default())
    }
}

impl<const W: usize> Programs<W> {
    /// No program is known.
    #[must_use]
    pub fn new(limits: ProgramLimits) -> Self {
        let table = Table {
            contexts: LruCache::unbounded_with_hasher(BuildHasherDefault::default()),
            owners: Owners::default(),
            keys: HashMap::default(),
            answer: FIRST_ANSWER,
            gaps: HashMap::default(),
            working_sets: PodSums::new(PodSet::<W>::CAPACITY),
            kept: BinaryHeap::new(),
        };
        Self { limits, next: AtomicU64::new(1), table: Mutex::new(table) }
    }

    /// The program that a request belongs to, by its key or its prompt; a new one, if it goes on with none that is known.
    ///
    /// Nothing is entered but when it came.
    #[must_use]
    pub fn find(&self, prompt: &ProgramPrompt, now: Instant) -> ProgramTurn {
        let ProgramPrompt { key, tokens, .. } = *prompt;
        let mut table = self.table.lock();
        let table = &mut *table;
        let last = key.and_then(|key| table.contexts.peek(table.keys.get(&key)?));
        let of_key = last.map(|context| context.program);
        let new = |program: Option<u64>| {
            let context = self.next.fetch_add(1, Ordering::Relaxed);
            ProgramTurn::new(program.unwrap_or(context), context, tokens)
        };
        match table.recognize(prompt, now) {
            Recognized::Context(id) => match table.contexts.get_mut(&id) {
                Some(context) => {
                    if context.running == 0 {
                        context.came.get_or_insert(now);
                    }
                    ProgramTurn::new(context.program, id, tokens)
                }
                None => new(of_key),
            },
            Recognized::Program(program) => new(Some(program)),
            Recognized::New => new(of_key),
        }
    }

    /// A turn that was [found](Self::find) goes to a pod whose cache has room for so many tokens, if that is known.
    pub fn begin(&self, turn: &ProgramTurn, prompt: &ProgramPrompt, pod: Pod, cache_tokens: Option<u64>, now: Instant) {
        let ProgramPrompt { key, kind, .. } = *prompt;
        let mut table = self.table.lock();
        let table = &mut *table;
        table.expire(now);
        let new = || Context::new(turn.program, prompt, now);
        let context = table.contexts.get_or_insert_mut(turn.context, new);
        if let (0, Some(ended)) = (context.running, context.ended) {
            let came = context.came.unwrap_or(now);
            let pause = came.saturating_duration_since(ended).as_secs_f64();
            table.gaps.entry(context.kind).or_default().back(pause);
        }
        table.working_sets.uncount(context);
        table.owners.replace(turn.context, &context.sampled, &prompt.sampled);
        context.sampled.clone_from(&prompt.sampled);
        (context.kind, context.came, context.used) = (kind, None, now);
        (context.tokens, context.at) = (turn.tokens + table.answer as u64, Some((pod, cache_tokens)));
        (context.running, context.turns) = (context.running.saturating_add(1), context.turns + 1);
        table.working_sets.count(context);
        if let Some(key) = key {
            table.keys.insert(key, turn.context);
        }
        table.make_room(&self.limits, now);
    }

    /// A turn is over: its answer has ended, or it failed. Its context has so many tokens by now, prompt and answer.
    pub fn end(&self, turn: &ProgramTurn, tokens: u64, now: Instant) {
        self.end_before(turn, tokens, Pause::Unknown, now);
    }

    /// The same where it is known what follows.
    pub fn end_before(&self, turn: &ProgramTurn, tokens: u64, pause: Pause, now: Instant) {
        let mut table = self.table.lock();
        let table = &mut *table;
        let Some(context) = table.contexts.peek_mut(&turn.context) else { return };
        context.running = context.running.saturating_sub(1);
        let was_counted = context.is_counted;
        table.working_sets.uncount(context);
        context.tokens = tokens.max(turn.tokens);
        let answer = tokens.saturating_sub(turn.tokens);
        context.attained = context.attained.saturating_add(answer);
        table.answer += (answer as f64 - table.answer) * ANSWER_GAIN;
        context.used = context.used.max(now);
        if was_counted {
            table.working_sets.count(context);
        }
        if context.running == 0 {
            context.ended = Some(now);
            // What a cache holds is not known: nothing is pushed out as far as can be told.
            let refill = context.at.and_then(|(_, cache)| cache).map_or(f64::INFINITY, |cache| {
                let whole = self.limits.cost_model.prefill_seconds(context.tokens as f64, 0.0);
                whole / context.tokens.max(1) as f64 * cache as f64
            });
            let keep = match pause {
                Pause::Over => 0.0,
                Pause::Lasts(time) => {
                    Some(time.as_secs_f64()).filter(|time| *time <= refill).map_or(0.0, |time| time + SLACK)
                }
                Pause::Unknown => table.gaps.entry(context.kind).or_default().keep(refill),
            };
            let until = now + Duration::try_from_secs_f64(keep).unwrap_or(Duration::ZERO);
            table.kept.push(Reverse((until, turn.context, context.turns)));
        }
    }

    /// Tokens of contexts on a pod whose programs run or will be back soon.
    #[must_use]
    pub fn working_set(&self, pod: Pod, now: Instant) -> u64 {
        let mut table = self.table.lock();
        table.expire(now);
        table.working_sets.of(pod)
    }

    /// The same with the context of a turn that is about to go there, as long as its answer is expected to make it.
    #[must_use]
    pub fn working_set_with(&self, turn: &ProgramTurn, pod: Pod, now: Instant) -> u64 {
        let mut table = self.table.lock();
        table.expire(now);
        let own = table.own(turn.context).filter(|(at, _)| *at == pod).map_or(0, |(_, tokens)| tokens);
        let others = table.working_sets.of(pod).saturating_sub(own);
        others.saturating_add(turn.tokens).saturating_add(table.answer as u64)
    }

    /// Those of all pods without a turn's own context.
    pub(super) fn working_sets(&self, turn: &ProgramTurn, pods: usize, now: Instant, into: &mut WorkingSets) {
        let mut table = self.table.lock();
        table.expire(now);
        into.tokens.clear();
        into.tokens.extend(table.working_sets.sums.iter().take(pods).map(|(_, tokens)| tokens));
        into.own = turn.tokens.saturating_add(table.answer as u64);
        if let Some((pod, tokens)) = table.own(turn.context) {
            if let Some(sum) = into.tokens.get_mut(pod.id().index()) {
                *sum = sum.saturating_sub(tokens);
            }
        }
    }

    /// Tokens that were generated for a program's context so far: little of one that just began.
    #[must_use]
    pub fn attained(&self, turn: &ProgramTurn) -> u64 {
        self.table.lock().contexts.peek(&turn.context).map_or(0, |context| context.attained)
    }

    /// Seconds for which the context of an ended turn is kept on a pod, by pauses of its kind, where a cache of so many tokens takes
    /// `refill` seconds to compute.
    #[must_use]
    pub fn keep(&self, kind: u64, refill: f64) -> f64 {
        self.table.lock().gaps.get(&kind).map_or_else(|| Gaps::default().keep(refill), |gaps| gaps.keep(refill))
    }

    /// Counts what is known.
    #[must_use]
    pub fn stats(&self) -> ProgramStats {
        let table = self.table.lock();
        let contexts = || table.contexts.iter().map(|(_, context)| context);
        ProgramStats {
            contexts: table.contexts.len(),
            running: contexts().filter(|context| context.running > 0).count(),
            kept: contexts().filter(|context| context.running == 0 && context.is_counted).count(),
            blocks: table.owners.len(),
        }
    }
}

impl Table {
    /// What a prompt goes on with.
    fn recognize(&self, prompt: &ProgramPrompt, now: Instant) -> Recognized {
        let found =
            self.owners.find(&prompt.sampled).and_then(|(id, depth)| Some((id, depth, self.contexts.peek(&id)?)));
        let Some((id, depth, context)) = found.filter(|(.., context)| context.key == prompt.key) else {
            // What is too short to be compared goes on with what the key had last.
            let last = prompt.key.filter(|_| prompt.sampled.is_empty()).and_then(|key| self.keys.get(&key));
            return last.map_or(Recognized::New, |id| Recognized::Context(*id));
        };
        let length = context.sampled.len();
        // Beyond the first prompt there are answers, and what those led to: nobody else has them.
        let is_answered = depth > context.first;
        // Of one that has all of the first prompt it is taken to be the next turn; of one that has most of it at the same time, another branch.
        // At any other time, two that begin alike have a system prompt in common.
        let is_at_once = context.running > 0 || now.saturating_duration_since(context.used) <= AT_ONCE;
        match 2 * depth >= length {
            true if is_answered || depth == length || is_at_once => Recognized::Context(id),
            false if is_answered => Recognized::Program(context.program),
            _ => Recognized::New,
        }
    }

    fn own(&self, context: u64) -> Option<(Pod, u64)> {
        let context = self.contexts.peek(&context).filter(|context| context.is_counted)?;
        Some((context.at?.0, context.tokens))
    }

    /// Those whose programs should have been back count no more.
    fn expire(&mut self, now: Instant) {
        while self.kept.peek().is_some_and(|Reverse((until, ..))| *until <= now) {
            let Some(Reverse((_, id, turn))) = self.kept.pop() else { break };
            if let Some(context) = self.contexts.peek_mut(&id).filter(|one| one.turns == turn && one.running == 0) {
                self.working_sets.uncount(context);
            }
        }
    }

    /// Forgets who was not there for long, and who was not there for longest, as far as there is no room.
    fn make_room(&mut self, limits: &ProgramLimits, now: Instant) {
        let ttl = Duration::from_secs(limits.ttl_seconds.get().into());
        loop {
            let is_old = |context: &Context| now.saturating_duration_since(context.used) >= ttl;
            let is_full = self.contexts.len() > limits.contexts.get() || self.owners.len() > limits.blocks.get();
            if !is_full && !self.contexts.peek_lru().is_some_and(|(_, oldest)| is_old(oldest)) {
                return;
            }
            let Some((id, mut context)) = self.contexts.pop_lru() else { return };
            self.working_sets.uncount(&mut context);
            self.owners.replace(id, &context.sampled, &[]);
            if let Some(key) = context.key {
                self.keys.remove(&key);
            }
            if context.running == 0 {
                self.gaps.entry(context.kind).or_default().over();
            }
            if self.gaps.len() > MOST_KINDS {
                self.gaps.clear();
            }
        }
    }
}

/// Requests that come within it come at once.
const AT_ONCE: Duration = Duration::from_secs(2);
/// Seconds that a turn may be later than it was said to be.
const SLACK: f64 = 1.0;
/// Tokens of an answer before there was any, and how much one says.
const FIRST_ANSWER: f64 = 256.0;
const ANSWER_GAIN: f64 = 1.0 / 64.0;
/// Kinds of pauses: whoever makes up more has none of them learned.
const MOST_KINDS: usize = 1_024;
