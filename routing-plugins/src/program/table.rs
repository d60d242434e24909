//! The table of programs: their contexts, where each is, and when it will be back.
//!
//! Invariants: a pod's working set is the sum of the contexts on it that run or are kept (`tests::literal::the_table_agrees_with_the_model`); contexts and the blocks
//! that they are known by are bounded, and the ones that were used last stay.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::BuildHasherDefault;
use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kv_index::{DEFAULT_POD_WORDS, Pod, PodSet};
use lru::LruCache;
use parking_lot::Mutex;
use routing_core::{Fleet, ProgramTurn};

use super::context::{Context, PodCache, PodSums};
use super::contexts::{Recognized, Table};
use super::gaps::Gaps;
use super::heard::{ProgramNote, ToldProgram};
use super::owners::Owners;
use super::prompt::ProgramPrompt;
use super::service::Services;
use super::working_set::WorkingSets;
use crate::cost_model::CostModel;
use crate::parameters::parameters;
use crate::peers::Outbox;

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

impl ProgramLimits {
    /// Seconds that a pod takes for all that its cache holds, at the pace of a prompt of so many tokens.
    pub(super) fn refill(&self, at: Option<PodCache>, tokens: u64) -> f64 {
        // What a cache holds is not known: nothing is pushed out as far as can be told.
        at.and_then(|at| Some((at.tokens?, at.pace))).map_or(f64::INFINITY, |(cache, pace)| {
            let whole = pace * self.cost_model.prefill_seconds(tokens as f64, 0.0);
            whole / tokens.max(1) as f64 * cache as f64
        })
    }
}

/// Programs that are under way: shared by a host between plugins and whoever sees answers end.
///
/// A program is known by a key that its requests bring, or by what they say: a request whose prompt goes on where an earlier one ended
/// belongs to the same program. Tell it when an answer ends ([`end`](Self::end)), so that it learns how long programs pause.
///
/// One lock, held for a look-up every 64 tokens of what is new in a prompt.
///
/// # Examples
///
/// ```
/// use std::time::{Duration, Instant};
///
/// use kv_index::{BlockHash, Config, Index};
/// use routing_plugins::program::{PodCache, ProgramPrompt, Programs};
///
/// let index: Index = Index::new(Config::default());
/// let (pod, now) = (index.join("pod-0")?, Instant::now());
/// let chain: Vec<BlockHash> = (1..=100).map(BlockHash::new).collect();
///
/// let programs: Programs = Programs::default();
/// let prompt = ProgramPrompt::new(&chain[..40], 16, 640);
/// let first = programs.find(&prompt, now);
/// programs.begin(&first, &prompt, PodCache::new(pod, Some(100_000)), now);
/// programs.end(&first, Some(60), now + Duration::from_secs(2));
/// assert_eq!(programs.working_set(pod, now + Duration::from_secs(2)), 700);
///
/// // The next turn has the first one's prompt, its answer, and what a tool printed.
/// let second = programs.find(&ProgramPrompt::new(&chain, 16, 1_600), now + Duration::from_secs(3));
/// assert_eq!(second.program, first.program);
/// # Ok::<(), kv_index::JoinError>(())
/// ```
#[derive(Debug)]
pub struct Programs<const W: usize = DEFAULT_POD_WORDS> {
    pub(super) limits: ProgramLimits,
    /// The next number of a program or context.
    pub(super) next: AtomicU64,
    pub(super) table: Mutex<Table>,
    pub(super) outbox: Outbox<ProgramNote>,
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
            blocks: 0,
            running: 0,
            keys: HashMap::default(),
            answer: FIRST_ANSWER,
            services: Services::default(),
            gaps: HashMap::default(),
            working_sets: PodSums::new(PodSet::<W>::CAPACITY),
            kept: BinaryHeap::new(),
        };
        Self { limits, next: AtomicU64::new(1), table: Mutex::new(table), outbox: Outbox::default() }
    }

    /// The program that a request belongs to, by its key or its prompt; a new one, if it goes on with none that is known.
    ///
    /// Nothing is entered but when it came.
    #[must_use]
    pub fn find(&self, prompt: &ProgramPrompt, now: Instant) -> ProgramTurn {
        let ProgramPrompt { key, tokens, .. } = *prompt;
        let mut table = self.table.lock();
        let table = &mut *table;
        let of_last = key.and_then(|key| table.keys.get(&(prompt.tenant, key)).copied());
        let last = of_last.and_then(|id| table.contexts.peek(&id)).map(|last| (last.program, last.is_told));
        let of_key = last.map(|(program, _)| program);
        let new = |program: Option<u64>| {
            let context = self.next.fetch_add(1, Ordering::Relaxed);
            ProgramTurn::new(program.unwrap_or(context), context, tokens)
        };
        let turn = match table.recognize(prompt, now) {
            Recognized::Context(id) => match table.contexts.peek_mut(&id) {
                Some(context) => {
                    if context.running == 0 {
                        context.came.get_or_insert(now);
                    }
                    ProgramTurn::new(context.program, id, tokens)
                }
                None => new(of_key),
            },
            Recognized::Program(program) => new(Some(program)),
            // Of its context a peer told, and not what it says.
            Recognized::New => match last.zip(of_last) {
                Some(((program, true), id)) => ProgramTurn::new(program, id, tokens),
                _ => new(of_key),
            },
        };
        turn.service(table.services.of(turn.program))
    }

    /// A turn that was [found](Self::find) goes to a pod.
    pub fn begin(&self, turn: &ProgramTurn, prompt: &ProgramPrompt, pod: PodCache, now: Instant) {
        let ProgramPrompt { key, kind, .. } = *prompt;
        let mut table = self.table.lock();
        let table = &mut *table;
        table.expire(now);
        let is_new = !table.contexts.contains(&turn.context);
        let program_of = |id: u64| table.contexts.peek(&id).map(|context| context.program);
        let known = table.contexts.peek(&turn.context);
        let (before, tail) = known.map_or((&[][..], &[][..]), |context| (&context.sampled, &context.tail));
        table.blocks = table.blocks + prompt.sampled.len() + prompt.tail().len() - before.len() - tail.len();
        let of = (turn.context, turn.program);
        let shared = table.owners.replace(prompt.tenant, of, before, &prompt.sampled, program_of);
        table.owners.replace_tail(prompt.tenant, of, tail, prompt.tail(), program_of);
        let context = table.contexts.get_or_insert_mut(turn.context, || Context::new(turn.program, prompt, now));
        if is_new {
            table.services.enter(turn.program);
        }
        if is_new || std::mem::take(&mut context.is_told) {
            (context.first, context.shared) = (prompt.sampled.len(), shared as u64 * prompt.step);
        }
        table.services.serve(context.program, turn.tokens.saturating_sub(pod.held));
        if let (0, Some(ended)) = (context.running, context.ended) {
            let came = context.came.unwrap_or(now);
            let pause = came.saturating_duration_since(ended).as_secs_f64();
            // Of more kinds than there are nothing is learned apart.
            let is_known = table.gaps.len() < MOST_KINDS || table.gaps.contains_key(&kind);
            table.gaps.entry(if is_known { kind } else { 0 }).or_default().back(pause);
        }
        table.working_sets.uncount(context);
        context.sampled.clone_from(&prompt.sampled);
        prompt.tail().clone_into(&mut context.tail);
        (context.kind, context.came, context.began, context.used) = (kind, None, now, now);
        context.at = Some(pod);
        context.tokens = context.taken(turn.tokens.saturating_add(table.answer as u64));
        table.running += usize::from(context.running == 0);
        (context.running, context.turns) = (context.running.saturating_add(1), context.turns + 1);
        table.working_sets.count(context);
        if let Some(key) = key {
            table.keys.insert((prompt.tenant, key), turn.context);
            let (tenant, tokens, service) = (prompt.tenant, context.tokens, table.services.of(context.program));
            let program = ToldProgram { tenant, key, tokens, service };
            self.outbox.push(|| ProgramNote { program, pod: pod.pod, at: now });
        }
        table.make_room(&self.limits, now);
    }

    /// A turn goes to another pod than it was entered at, since that failed.
    pub fn moved(&self, turn: &ProgramTurn, pod: PodCache) {
        let mut table = self.table.lock();
        let table = &mut *table;
        let Some(context) = table.contexts.peek_mut(&turn.context) else { return };
        table.working_sets.uncount(context);
        context.at = Some(pod);
        table.working_sets.count(context);
    }

    /// A turn is over: its answer has ended after so many tokens, as far as that is known, or it failed.
    pub fn end(&self, turn: &ProgramTurn, answer: Option<u64>, now: Instant) {
        self.end_before(turn, answer, Pause::Unknown, now);
    }

    /// The same where it is known what follows.
    pub fn end_before(&self, turn: &ProgramTurn, answer: Option<u64>, pause: Pause, now: Instant) {
        let mut table = self.table.lock();
        let table = &mut *table;
        // What an engine says may be anything.
        let answer = answer.map(|tokens| tokens.min(LONGEST_ANSWER));
        if let Some(tokens) = answer {
            table.answer += (tokens as f64 - table.answer) * ANSWER_GAIN;
        }
        let Some(context) = table.contexts.get_mut(&turn.context).filter(|context| context.running > 0) else { return };
        context.running -= 1;
        context.used = context.used.max(now);
        let answer = answer.unwrap_or(table.answer as u64);
        table.services.serve(context.program, answer);
        if context.running > 0 {
            return;
        }
        table.running -= 1;
        let was_counted = context.is_counted;
        table.working_sets.uncount(context);
        context.tokens = context.taken(turn.tokens.saturating_add(answer));
        if was_counted {
            table.working_sets.count(context);
        }
        context.ended = Some(now);
        let refill = self.limits.refill(context.at, turn.tokens);
        let keep = match pause {
            Pause::Over => 0.0,
            Pause::Lasts(time) => {
                Some(time.as_secs_f64()).filter(|time| *time <= refill).map_or(0.0, |time| time + SLACK)
            }
            Pause::Unknown => {
                table.gaps.get(&context.kind).map_or_else(|| Gaps::default().keep(refill), |gaps| gaps.keep(refill))
            }
        };
        let until = now + Duration::try_from_secs_f64(keep).unwrap_or(Duration::ZERO);
        table.kept.push(Reverse((until, turn.context, context.turns)));
        table.forget_kept();
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
    pub(super) fn working_sets(&self, turn: &ProgramTurn, fleet: &Fleet<W>, now: Instant, into: &mut WorkingSets) {
        let mut table = self.table.lock();
        table.expire(now);
        into.tokens.clear();
        for pod in fleet.pods().iter().filter_map(|id| fleet.handle(id)) {
            let own = table.own(turn.context).filter(|(at, _)| *at == pod).map_or(0, |(_, tokens)| tokens);
            into.tokens.resize(pod.id().index(), 0);
            into.tokens.push(table.working_sets.of(pod).saturating_sub(own));
        }
        into.own = turn.tokens.saturating_add(table.answer as u64);
    }

    /// Seconds for which the context of an ended turn is kept on a pod, by pauses of its kind, where a cache of so many tokens takes
    /// `refill` seconds to compute.
    #[must_use]
    pub fn keep(&self, kind: u64, refill: f64) -> f64 {
        self.table.lock().gaps.get(&kind).map_or_else(|| Gaps::default().keep(refill), |gaps| gaps.keep(refill))
    }

    /// Contexts, and times at which some were to be back.
    #[cfg(test)]
    pub(super) fn table_sizes(&self) -> (usize, usize) {
        let table = self.table.lock();
        (table.contexts.len(), table.kept.len())
    }

    /// Programs of which it is known what they were served.
    #[cfg(test)]
    pub(super) fn served(&self) -> usize {
        self.table.lock().services.len()
    }

    /// Counts what is known.
    #[must_use]
    pub fn stats(&self) -> ProgramStats {
        let table = self.table.lock();
        let kept = table.working_sets.counted.saturating_sub(table.running);
        ProgramStats { contexts: table.contexts.len(), running: table.running, kept, blocks: table.blocks }
    }
}

/// Seconds that a turn may be later than it was said to be.
const SLACK: f64 = 1.0;
/// Tokens of an answer before there was any, how much one says, and what none is longer than.
const LONGEST_ANSWER: u64 = 1 << 20;
const FIRST_ANSWER: f64 = 256.0;
const ANSWER_GAIN: f64 = 1.0 / 64.0;
/// Kinds of pauses that are learned apart; what is beyond counts among those of no kind.
const MOST_KINDS: usize = 1_024;
