//! All contexts: what a prompt goes on with, who is not expected back any more, and who is forgotten.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::BuildHasherDefault;
use std::time::{Duration, Instant};

use ahash::AHasher;
use kv_index::Pod;
use lru::LruCache;

use super::context::{Context, PodSums};
use super::gaps::Gaps;
use super::owners::{Known, Owners};
use super::prompt::ProgramPrompt;
use super::service::Services;
use super::table::ProgramLimits;

/// All contexts.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) contexts: LruCache<u64, Context, BuildHasherDefault<AHasher>>,
    pub(super) owners: Owners,
    /// Blocks of all contexts.
    pub(super) blocks: usize,
    /// Contexts with a turn under way.
    pub(super) running: usize,
    /// Contexts of keys, each of a tenant: the last one.
    pub(super) keys: HashMap<(u64, u64), u64, BuildHasherDefault<AHasher>>,
    /// Tokens of an answer, as they were lately.
    pub(super) answer: f64,
    /// What programs were served.
    pub(super) services: Services,
    /// By kind of pause.
    pub(super) gaps: HashMap<u64, Gaps, BuildHasherDefault<AHasher>>,
    pub(super) working_sets: PodSums,
    /// When contexts are not kept any more: the time, the context, and its turn.
    pub(super) kept: BinaryHeap<Reverse<(Instant, u64, u64)>>,
}

/// What a prompt goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recognized {
    /// A context.
    Context(u64),
    /// A program, with a branch of its own.
    Program(u64),
    /// Nothing that is known.
    New,
}

impl Table {
    /// What a prompt goes on with.
    pub(super) fn recognize(&self, prompt: &ProgramPrompt, now: Instant) -> Recognized {
        let of = |id: u64| self.contexts.peek(&id).filter(|one| one.key == prompt.key && one.tenant == prompt.tenant);
        // All of a prompt that ended without a block of its own, and more: its next turn.
        let depth = self.owners.depth(prompt.tenant, &prompt.sampled);
        let by_tail = self.owners.find_tail(prompt.tenant, prompt, depth);
        let is_next =
            |(id, hash): &(u64, u64)| of(*id).is_some_and(|one| one.running == 0 && one.tail.last() == Some(hash));
        if let Some((id, _)) = by_tail.filter(is_next) {
            return Recognized::Context(id);
        }
        let is_at_once = |context: &Context| now.saturating_duration_since(context.began) <= AT_ONCE;
        match self.owners.find(prompt.tenant, &prompt.sampled, depth) {
            Known::Nobody => Recognized::New,
            // What others of the program branched off at, and somebody does now.
            Known::Program { program, last, depth } => match of(last) {
                Some(context) if 2 * depth >= context.sampled.len() && is_at_once(context) => {
                    Recognized::Program(program)
                }
                _ => Recognized::New,
            },
            Known::Context { context: id, depth } => {
                let Some(context) = of(id) else { return Recognized::New };
                // Its end too, but for a last block that may have only asked for the answer.
                let end = context.tail.len().checked_sub(2);
                let has_end = end.is_none_or(|at| prompt.behind(depth).get(at) == context.tail.get(at));
                let (is_half, is_whole) =
                    (2 * depth >= context.sampled.len(), depth == context.sampled.len() && has_end);
                // Beyond the first prompt there are answers, and what those led to: nobody else has them.
                match depth > context.first {
                    true if is_half => Recognized::Context(id),
                    true => Recognized::Program(context.program),
                    // All of the first prompt, and more: the next turn.
                    false if is_whole && context.running == 0 => Recognized::Context(id),
                    // Most of it, at once: a branch. Later, two that begin alike have a system prompt in common.
                    false if is_half && is_at_once(context) => Recognized::Program(context.program),
                    false => Recognized::New,
                }
            }
        }
    }

    pub(super) fn own(&self, context: u64) -> Option<(Pod, u64)> {
        let context = self.contexts.peek(&context).filter(|context| context.is_counted)?;
        Some((context.at?.pod, context.tokens))
    }

    /// Those whose programs should have been back count no more.
    pub(super) fn expire(&mut self, now: Instant) {
        while self.kept.peek().is_some_and(|Reverse((until, ..))| *until <= now) {
            let Some(Reverse((_, id, turn))) = self.kept.pop() else { break };
            if let Some(context) = self.contexts.peek_mut(&id).filter(|one| one.turns == turn && one.running == 0) {
                self.working_sets.uncount(context);
            }
        }
    }

    /// Forgets when those were to be back that are, so that what is remembered of turns does not outgrow contexts.
    pub(super) fn forget_kept(&mut self) {
        if self.kept.len() <= 2 * self.contexts.len() + LEAST_KEPT {
            return;
        }
        let contexts = &self.contexts;
        let is_due = |id: &u64, turn: u64| contexts.peek(id).is_some_and(|one| one.turns == turn && one.running == 0);
        self.kept.retain(|Reverse((_, id, turn))| is_due(id, *turn));
    }

    /// Forgets who was not there for long, and who was not there for longest, as far as there is no room; who runs last of all.
    pub(super) fn make_room(&mut self, limits: &ProgramLimits, now: Instant) {
        let ttl = Duration::from_secs(limits.ttl_seconds.get().into());
        loop {
            let is_old = |context: &Context| now.saturating_duration_since(context.used) >= ttl;
            let is_full = self.contexts.len() > limits.contexts.get() || self.blocks > limits.blocks.get();
            let Some((&id, oldest)) = self.contexts.peek_lru() else { return };
            let is_old = is_old(oldest);
            if !is_full && !is_old {
                return;
            }
            // Who runs is passed over while there are others.
            if oldest.running > 0 && !is_old && self.running < self.contexts.len() {
                self.contexts.promote(&id);
                continue;
            }
            let Some(mut context) = self.contexts.pop(&id) else { return };
            self.working_sets.uncount(&mut context);
            self.services.leave(context.program);
            let contexts = &self.contexts;
            let program_of = |id: u64| contexts.peek(&id).map(|context| context.program);
            let of = (id, context.program);
            self.owners.replace(context.tenant, of, &context.sampled, &[], program_of);
            self.owners.replace_tail(context.tenant, of, &context.tail, &[], program_of);
            self.blocks -= context.sampled.len() + context.tail.len();
            self.running -= usize::from(context.running > 0);
            if let Some(key) =
                context.key.map(|key| (context.tenant, key)).filter(|key| self.keys.get(key) == Some(&id))
            {
                self.keys.remove(&key);
            }
            // One that had to make room may well come back, and one whose last turn a peer had does so there, as far as can be told here.
            if is_old && context.running == 0 && context.ended.is_some() {
                if let Some(gaps) = self.gaps.get_mut(&context.kind) {
                    gaps.over();
                }
            }
        }
    }
}

/// Fewer are not worth going through.
const LEAST_KEPT: usize = 256;
/// Requests that come within it, one after the other, come at once.
const AT_ONCE: Duration = Duration::from_secs(2);
