//! A trace made ready for simulations: its prompts hashed, and who follows whom.

use pointsman_lab::trace::{Start, Trace};

use crate::chains::{Chains, Lists, Turns};

/// A trace with what every simulation of it needs.
#[derive(Debug)]
pub(crate) struct PreparedTrace<'t> {
    pub(crate) trace: &'t Trace,
    /// Its prompts.
    pub(crate) chains: Chains,
    /// Its prompts and answers, as engines keep them.
    pub(crate) with_answers: Chains,
    /// Whole blocks, and those that an infinite cache would hold.
    pub(crate) known: (u64, u64),
    /// Who comes after whom is answered.
    pub(crate) followers: Lists<(u32, u64)>,
}

impl<'t> PreparedTrace<'t> {
    /// Hashes a trace's prompts.
    pub(crate) fn new(trace: &'t Trace) -> Self {
        Self::of(trace, Turns::Follow)
    }

    /// The same as one batch: all prompts are there before anything is answered.
    pub(crate) fn batch(trace: &'t Trace) -> Self {
        Self::of(trace, Turns::Stand)
    }

    fn of(trace: &'t Trace, turns: Turns) -> Self {
        let chains = Chains::of(trace);
        let with_answers = chains.with_answers(trace, turns);
        Self { known: chains.known(&with_answers), chains, with_answers, followers: followers(trace), trace }
    }
}

/// By the request that is followed: who comes after it, with the µs between.
fn followers(trace: &Trace) -> Lists<(u32, u64)> {
    let mut all: Vec<(u32, u32, u64)> = Vec::new();
    for (place, request) in (0..).zip(&trace.requests) {
        if let Start::After(before, think) = request.start {
            all.push((before, place, think));
        }
    }
    all.sort_unstable();
    let (mut followers, mut rest) = (Lists::default(), all.into_iter().peekable());
    for place in 0..trace.requests.len() as u32 {
        let next = || rest.next_if(|(before, ..)| *before == place).map(|(_, follower, think)| (follower, think));
        followers.push(std::iter::from_fn(next));
    }
    followers
}
