//! Programs of other gateways: where their turns went, as peers tell.
//!
//! A program that its requests name is known here by that name before any request of it came: its context counts in its pod's working set, and
//! its next turn goes on with it. Peers tell when a turn begins and not when it ends, so it counts from its beginning on for as long as one
//! that ended then would: of a turn that takes longer nothing counts here, until the next one.
//!
//! The rule: what is heard takes nothing from a turn that runs here, and the later of two turns counts. A name says nothing of which of the
//! program's contexts a turn had, so one that was recognized here by its prompts is not taken for a smaller one, of a helper.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kv_index::Pod;

use super::context::{Context, PodCache};
use super::prompt::ProgramPrompt;
use super::table::Programs;
use crate::peers::Outbox;

/// A program as gateways tell each other of it: by the name that its requests bring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "part of a message, which hosts encode and decode field by field")]
pub struct ToldProgram {
    /// A hash of whose it is.
    pub tenant: u64,
    /// A hash of its name.
    pub key: u64,
    /// Tokens that its context takes of a cache.
    pub tokens: u64,
    /// Tokens that were computed and generated for it so far, as far as the gateway knows that tells. What several serve it at once nobody adds
    /// up: the most that one of them knows of counts.
    pub service: u64,
}

/// A program's turn that went to a pod.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProgramNote {
    pub(crate) program: ToldProgram,
    pub(crate) pod: Pod,
    pub(crate) at: Instant,
}

impl<const W: usize> Programs<W> {
    /// Turns of programs with a name, until peers are told.
    pub(crate) fn outbox(&self) -> &Outbox<ProgramNote> {
        &self.outbox
    }

    /// A peer's turn of a program went to a pod.
    pub(crate) fn hear(&self, told: &ToldProgram, pod: PodCache, at: Instant, now: Instant) {
        let ToldProgram { tenant, key, tokens, service } = *told;
        // Whatever a peer says.
        let tokens = tokens.min(LONGEST_CONTEXT);
        let mut table = self.table.lock();
        let table = &mut *table;
        table.expire(now);
        let known = table.keys.get(&(tenant, key)).copied().filter(|id| table.contexts.contains(id));
        let id = known.unwrap_or_else(|| self.next.fetch_add(1, Ordering::Relaxed));
        let prompt = || ProgramPrompt::default().key(Some(key)).tenant(tenant);
        let context =
            table.contexts.get_or_insert_mut(id, || Context { is_told: true, ..Context::new(id, &prompt(), at) });
        if known.is_none() {
            table.services.enter(context.program);
            table.keys.insert((tenant, key), id);
        }
        table.services.reach(context.program, service);
        let is_earlier = known.is_some() && context.used >= at;
        let is_smaller = !context.is_told && tokens < context.tokens;
        if context.running > 0 || is_earlier || is_smaller {
            return table.make_room(&self.limits, now);
        }
        table.working_sets.uncount(context);
        (context.at, context.used, context.tokens) = (Some(pod), at, tokens);
        // When it ended nobody says: nothing is learned of the pause after it.
        (context.ended, context.came, context.turns) = (None, None, context.turns + 1);
        table.working_sets.count(context);
        let refill = self.limits.refill(Some(pod), tokens);
        let keep = table.gaps.get(&context.kind).map(|gaps| gaps.keep(refill));
        let keep = keep.unwrap_or_else(|| super::gaps::Gaps::default().keep(refill));
        let until = at + Duration::try_from_secs_f64(keep).unwrap_or(Duration::ZERO);
        table.kept.push(Reverse((until, id, context.turns)));
        table.forget_kept();
        table.make_room(&self.limits, now);
    }
}

/// Tokens that no context has more of.
const LONGEST_CONTEXT: u64 = 1 << 30;
