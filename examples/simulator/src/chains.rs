//! Block hash chains of all prompts of a trace, in two allocations.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;

use kv_index::BlockHash;
use pointsman_engine_sim::block_pool::IdentityHasher;
use pointsman_engine_sim::scheduler::BlockChains;
use pointsman_lab::SplitMix64;
use pointsman_lab::trace::Trace;

/// Lists of different lengths, by their place.
#[derive(Clone, Debug)]
pub(crate) struct Lists<T> {
    values: Vec<T>,
    /// Where each one ends.
    ends: Vec<usize>,
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Self { values: Vec::new(), ends: Vec::new() }
    }
}

impl<T> Lists<T> {
    /// One more.
    pub(crate) fn push(&mut self, list: impl Iterator<Item = T>) {
        self.values.extend(list);
        self.ends.push(self.values.len());
    }

    /// The one at a place.
    pub(crate) fn get(&self, place: u32) -> &[T] {
        let at = place as usize;
        let from = at.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.values[from..self.ends[at]]
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }
}

/// The hashes of every request's whole blocks, by its place in the trace.
pub(crate) type Chains = Lists<BlockHash>;

impl Chains {
    /// Those of a trace. Its ids are small numbers; hashes are spread over all of them.
    pub(crate) fn of(trace: &Trace) -> Self {
        let mut chains = Self::default();
        for request in &trace.requests {
            let ids = request.whole_blocks(trace.block).iter();
            chains.push(ids.map(|&id| BlockHash::new(SplitMix64::new(id).next_u64())));
        }
        chains
    }

    /// The same prompts as engines keep them: behind each the blocks of its answer. Those of which a later turn of the same conversation
    /// has all of it, so that it finds them again; nobody else's where there is none, or where turns do not follow each other.
    pub(crate) fn with_answers(&self, trace: &Trace, turns: Turns) -> Self {
        let next = match turns {
            Turns::Follow => self.next_turns(trace),
            Turns::Stand => vec![None; trace.requests.len()],
        };
        let mut whole = Self::default();
        for (place, request) in (0..).zip(&trace.requests) {
            let prompt = self.get(place);
            // The last token is never read, so that its block is never full.
            let blocks = (request.input + request.output.max(1) - 1) as usize / trace.block;
            let own = |at: usize| BlockHash::new(SplitMix64::new(!(u64::from(place) << 32 | at as u64)).next_u64());
            let later: &[BlockHash] = next[place as usize].map_or(&[], |next| self.get(next));
            let answer = (prompt.len()..blocks).map(|at| later.get(at).copied().unwrap_or_else(|| own(at)));
            whole.push(prompt.iter().copied().chain(answer));
        }
        whole
    }

    /// By place: the next turn of its conversation that begins with its prompt and has room for its answer behind.
    fn next_turns(&self, trace: &Trace) -> Vec<Option<u32>> {
        let mut later: HashMap<u32, Vec<u32>> = HashMap::new();
        let mut next = vec![None; trace.requests.len()];
        for (place, request) in trace.requests.iter().enumerate().rev() {
            let place = place as u32;
            let turns = later.entry(request.session).or_default();
            let prompt = self.get(place);
            let goes_on = |turn: &&u32| {
                let other = &trace.requests[**turn as usize];
                other.input >= request.input + request.output && self.get(**turn).starts_with(prompt)
            };
            next[place as usize] = turns.iter().rev().take(NEAR).find(goes_on).copied();
            turns.push(place);
        }
        next
    }

    /// Blocks of all prompts, and those of them that an earlier request left: what an infinite cache of the whole fleet would hold.
    pub(crate) fn known(&self, with_answers: &Self) -> (u64, u64) {
        let mut held: HashSet<BlockHash, BuildHasherDefault<IdentityHasher>> = HashSet::default();
        let mut known = 0;
        for place in 0..self.len() as u32 {
            known += self.get(place).iter().filter(|hash| held.contains(hash)).count() as u64;
            held.extend(with_answers.get(place));
        }
        (self.values.len() as u64, known)
    }
}

/// Whether later turns of a conversation have the answers of earlier ones in their prompts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turns {
    /// They have: what was answered is sent back.
    Follow,
    /// They have not: of a batch all prompts are there before anything is answered.
    Stand,
}

/// Turns that are looked at for one that goes on: the others of a conversation may have branched off.
const NEAR: usize = 8;

impl BlockChains for Chains {
    fn chain(&self, request: u32) -> &[BlockHash] {
        self.get(request)
    }
}

#[cfg(test)]
mod tests {
    use pointsman_lab::trace::{Request, Start};

    use super::*;

    /// A turn of the first conversation, in blocks of 10 tokens.
    fn turn(at: u64, input: u32, output: u32, ids: &[u64]) -> Request {
        Request { start: Start::At(at), session: 0, input, output, ids: ids.to_vec() }
    }

    #[test]
    fn an_answer_is_found_again_by_the_turn_that_has_it() {
        let stranger = Request { session: 1, ..turn(3, 60, 1, &[1, 2, 7, 8, 9, 10]) };
        let trace = Trace::new(
            10,
            vec![
                turn(0, 25, 20, &[1, 2, 3]),
                turn(1, 28, 30, &[1, 2, 4]),
                turn(2, 50, 11, &[1, 2, 5, 6, 11]),
                stranger,
            ],
        );
        let prompts = Chains::of(&trace);
        let whole = prompts.with_answers(&trace, Turns::Follow);
        // 44 tokens are read of the first: of its two blocks behind the prompt the third turn has both. The second, which would be
        // 58 tokens long, is in no turn. The others are the last of their conversations.
        let lengths: Vec<usize> = (0..4).map(|place| whole.get(place).len()).collect();
        assert_eq!(lengths, [4, 5, 6, 6]);
        assert_eq!(whole.get(0), &prompts.get(2)[..4]);
        let known: HashSet<BlockHash> = (0..4).flat_map(|place| prompts.get(place).to_vec()).collect();
        assert!(whole.get(1)[2..].iter().chain(&whole.get(2)[5..]).all(|hash| !known.contains(hash)));
        let apart = prompts.with_answers(&trace, Turns::Stand);
        assert_eq!((apart.get(0).len(), &apart.get(0)[..2]), (4, prompts.get(0)));
        assert!(apart.get(0)[2..].iter().all(|hash| !known.contains(hash)));
    }
}
