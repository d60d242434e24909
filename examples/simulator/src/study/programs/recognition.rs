//! Recognition of programs by their prompts alone, held against the names that a trace has of its sessions.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::time::{Duration, Instant};

use kv_index::{BlockHash, Config, Index};
use pointsman_lab::trace::Trace;
use pointsman_lab::trace::order::ANSWER_US;
use routing_core::ProgramTurn;
use routing_plugins::program::{PodCache, ProgramPrompt, Programs};

use crate::SimulateError;
use crate::chains::Chains;

/// How many turns were put to the right program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Recognition {
    /// Turns in all.
    pub(crate) turns: usize,
    /// Turns that were put to a program of their own session, or began one.
    pub(crate) right: usize,
    /// Turns whose prompt is an earlier one's of their session, its answer, and more.
    pub(crate) extends: usize,
    /// Those of them that were put to the earlier one's program: who opens a program for each turn has none, where all of its turns are right.
    pub(crate) follows: usize,
    /// Turns that were put to the one program that has most of their session's: what one name for each session would do.
    pub(crate) whole: usize,
    pub(crate) sessions: usize,
    pub(crate) programs: usize,
}

impl Recognition {
    /// Recognizes a trace's programs, its turns in the order in which they are expected, sessions side by side.
    pub(crate) fn of(trace: &Trace) -> Result<Self, SimulateError> {
        let (programs, index) = (Programs::<1>::default(), Index::<1>::with_width(Config::default()));
        let (pod, origin) = (index.join("pod")?, Instant::now());
        let (chains, times) = (Chains::of(trace), trace.expected());
        // Who began each program, and how many turns of each session each has.
        let (mut founders, mut shares) = (BTreeMap::new(), BTreeMap::<u32, BTreeMap<u64, usize>>::new());
        let (mut turns, mut right, mut extends, mut follows) = (0, 0, 0, 0);
        // By session and last block of a prompt: tokens of that and its answer, and the programs that it was put to. Where it was sent again, for
        // another answer or by a branch, no trace says which of its answers a later prompt goes on with.
        let mut earlier = HashMap::<(u32, BlockHash), (u32, BTreeSet<u64>)>::new();
        // Turns under way, by when they are over.
        let mut running = BinaryHeap::<Reverse<(u64, u64, u64, u64, u64)>>::new();
        for ((place, request), at) in (0..).zip(&trace.requests).zip(times) {
            while running.peek().is_some_and(|Reverse((over, ..))| *over <= at) {
                let Some(Reverse((over, program, context, tokens, answer))) = running.pop() else { break };
                let turn = ProgramTurn::new(program, context, tokens);
                programs.end(&turn, Some(answer), origin + Duration::from_micros(over));
            }
            let chain = chains.get(place);
            // Too short to tell.
            let Some(&last) = chain.last() else { continue };
            let now = origin + Duration::from_micros(at);
            let prompt = ProgramPrompt::new(chain, trace.block, request.input.into());
            let turn = programs.find(&prompt, now);
            programs.begin(&turn, &prompt, PodCache::new(pod, None), now);
            let answer = u64::from(request.output);
            running.push(Reverse((at + answer * ANSWER_US, turn.program, turn.context, turn.tokens, answer)));
            let with_answer = |hash: &BlockHash| {
                earlier.get(&(request.session, *hash)).filter(|(tokens, _)| *tokens <= request.input)
            };
            if let Some((_, programs)) = chain.iter().rev().find_map(with_answer) {
                extends += 1;
                follows += usize::from(programs.contains(&turn.program));
            }
            let tokens = request.input + request.output;
            let (least, programs) = earlier.entry((request.session, last)).or_insert((tokens, BTreeSet::new()));
            *least = (*least).min(tokens);
            programs.insert(turn.program);
            turns += 1;
            right += usize::from(*founders.entry(turn.program).or_insert(request.session) == request.session);
            *shares.entry(request.session).or_default().entry(turn.program).or_default() += 1;
        }
        let whole = shares.values().filter_map(|of| of.values().max()).sum();
        let programs = shares.values().flat_map(BTreeMap::keys).collect::<BTreeSet<_>>().len();
        Ok(Self { turns, right, extends, follows, whole, sessions: shares.len(), programs })
    }
}

#[cfg(test)]
mod tests {
    use pointsman_lab::trace::synthetic::Synthetic;

    use super::*;

    #[test]
    fn turns_are_put_to_the_right_program_without_any_name() {
        for kind in [Synthetic::Agents, Synthetic::CodingAgents, Synthetic::Chat, Synthetic::FanOut] {
            for seed in 1..=3 {
                // Where blocks are long, a short question behind a system prompt has none of its own.
                let small = kind.trace_of_small_blocks(4_000, seed);
                let trace = small.unwrap_or_else(|| kind.trace(4_000, seed)).with_population(64, seed);
                let told = Recognition::of(&trace).unwrap();
                println!("{kind}, seed {seed}: {told:?}");
                assert!(told.turns > 3_000);
                assert!(told.right * 100 >= told.turns * 95, "{kind}, seed {seed}: {told:?}");
                assert!(told.follows * 100 >= told.extends * 95, "{kind}, seed {seed}: {told:?}");
                assert!(told.extends * 10 > told.turns, "{kind}, seed {seed}: {told:?}");
            }
        }
    }
}
