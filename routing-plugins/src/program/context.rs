//! Contexts, and what those on each pod add up to.

use std::time::Instant;

use kv_index::Pod;

use super::prompt::ProgramPrompt;

/// A pod and its cache.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PodCache {
    /// The pod.
    pub pod: Pod,
    /// Tokens that its cache has room for; none if that is not known.
    pub tokens: Option<u64>,
    /// How much longer than by the cost model it [takes](crate::PodPaces) for a prefill.
    pub pace: f64,
    /// Tokens of the turn's prompt that it has in its cache, and does not compute.
    pub held: u64,
}

impl PodCache {
    /// A pod as fast as the cost model says, whose cache has room for so many tokens.
    #[must_use]
    pub const fn new(pod: Pod, tokens: Option<u64>) -> Self {
        Self { pod, tokens, pace: 1.0, held: 0 }
    }

    /// The same at another pace.
    #[must_use]
    pub const fn pace(self, pace: f64) -> Self {
        Self { pace, ..self }
    }

    /// The same with so many tokens of the prompt in its cache.
    #[must_use]
    pub const fn held(self, held: u64) -> Self {
        Self { held, ..self }
    }
}

/// A context of a program.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) program: u64,
    pub(super) key: Option<u64>,
    pub(super) tenant: u64,
    pub(super) kind: u64,
    /// Blocks that it is known by.
    pub(super) sampled: Vec<u64>,
    /// Blocks of its last prompt behind these.
    pub(super) tail: Vec<u64>,
    /// Those of the blocks it is known by that its first prompt had: others may begin alike.
    pub(super) first: usize,
    /// Tokens at its beginning that others had before it: they count with those.
    pub(super) shared: u64,
    /// Tokens that it takes of a cache: those that others have too count with them.
    pub(super) tokens: u64,
    /// Where it is.
    pub(super) at: Option<PodCache>,
    /// Whether it counts in its pod's working set.
    pub(super) is_counted: bool,
    /// Whether it is known by what a peer told alone.
    pub(super) is_told: bool,
    pub(super) running: u32,
    pub(super) turns: u64,
    /// When the last turn ended that did, unless a peer had one since.
    pub(super) ended: Option<Instant>,
    /// When the next turn came that has not begun.
    pub(super) came: Option<Instant>,
    /// When its last turn began, and when anything was last done with it.
    pub(super) began: Instant,
    pub(super) used: Instant,
}

impl Context {
    /// One that begins with a prompt.
    pub(super) fn new(program: u64, prompt: &ProgramPrompt, now: Instant) -> Self {
        Self {
            program,
            key: prompt.key,
            tenant: prompt.tenant,
            kind: prompt.kind,
            sampled: Vec::new(),
            tail: Vec::new(),
            first: prompt.sampled.len(),
            shared: 0,
            tokens: 0,
            at: None,
            is_counted: false,
            is_told: false,
            running: 0,
            turns: 0,
            ended: None,
            came: None,
            began: now,
            used: now,
        }
    }
}

impl Context {
    /// What a prompt and answer of so many tokens take of a cache.
    pub(super) fn taken(&self, tokens: u64) -> u64 {
        tokens.saturating_sub(self.shared)
    }
}

/// Tokens of contexts on each pod.
#[derive(Debug)]
pub(super) struct PodSums {
    /// By id: the pod's generation, and the sum.
    sums: Vec<(u32, u64)>,
    /// Contexts that count.
    pub(super) counted: usize,
}

impl PodSums {
    pub(super) fn new(pods: usize) -> Self {
        Self { sums: vec![(0, 0); pods], counted: 0 }
    }

    pub(super) fn of(&self, pod: Pod) -> u64 {
        let sum = self.sums.get(pod.id().index()).filter(|(generation, _)| *generation == pod.generation());
        sum.map_or(0, |(_, tokens)| *tokens)
    }

    pub(super) fn count(&mut self, context: &mut Context) {
        let Some(PodCache { pod, .. }) = context.at else { return };
        let Some((generation, sum)) = self.sums.get_mut(pod.id().index()) else { return };
        if *generation > pod.generation() {
            return;
        }
        if *generation < pod.generation() {
            // Another pod has the id: what the one before it held is gone.
            (*generation, *sum) = (pod.generation(), 0);
        }
        *sum = sum.saturating_add(context.tokens);
        context.is_counted = true;
        self.counted += 1;
    }

    pub(super) fn uncount(&mut self, context: &mut Context) {
        if !std::mem::take(&mut context.is_counted) {
            return;
        }
        self.counted = self.counted.saturating_sub(1);
        let Some(PodCache { pod, .. }) = context.at else { return };
        let Some((generation, sum)) = self.sums.get_mut(pod.id().index()) else { return };
        if *generation == pod.generation() {
            *sum = sum.saturating_sub(context.tokens);
        }
    }
}
