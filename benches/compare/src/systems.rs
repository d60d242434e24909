//! Ours and the peers as trait objects ([`Contender`]): the same content in each, each by its fastest public call.

mod dynamo;
mod smg;

use std::fmt;
use std::hint::black_box;
use std::time::{Duration, Instant};

use kv_index::BlockHash;
use pointsman_benches::fleet::Step;
use pointsman_benches::ours::Ours;
use pointsman_benches::system::System;

pub(crate) use self::dynamo::block_on;
pub use self::dynamo::{Dynamo, DynamoChain};
pub use self::smg::{Smg, SmgChain};

/// One way to ask.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Lap<'a> {
    /// Search for hashed prompts.
    Search,
    /// The same, the answer read pod by pod.
    ByPod,
    /// Hash these prompts.
    Hash(&'a [Vec<u32>]),
    /// Hash these prompts and search.
    Tokens(&'a [Vec<u32>]),
    /// The same, hashing on demand.
    TokensLazily(&'a [Vec<u32>]),
    /// Hash these prompts, search and decide, if the system decides.
    Plan(&'a [Vec<u32>]),
}

/// Prompts for a contender to be filled with and asked about.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Prompts<'a> {
    /// By hashes that all systems share.
    Hashes(&'a [Vec<BlockHash>]),
    /// By tokens, for each system's own hashes.
    Tokens(&'a [Vec<u32>]),
}

/// A system with the prompts it works on, whatever its types.
pub trait Contender: fmt::Debug {
    /// What it is called in tables.
    fn name(&self) -> &'static str;
    /// Replaces the prompts that steps and queries speak of; what is held stays.
    fn load(&mut self, prompts: Prompts<'_>);
    /// Applies steps; how long that took until a search sees them.
    fn write(&mut self, steps: &[Step]) -> Duration;
    /// Asks for prompts in this order; how long that took.
    fn time(&mut self, lap: Lap<'_>, order: &[usize]) -> Duration;
    /// The answer for one prompt by pod.
    fn depths(&mut self, chain: usize, depths: &mut [u32]);
    /// The answer for these tokens by pod, by the call that hashes on demand if there is one.
    fn depths_of_tokens(&mut self, tokens: &[u32], depths: &mut [u32]);
    /// The pod that a plan for these tokens chooses, and how many blocks the plan says it holds.
    fn planned(&mut self, tokens: &[u32]) -> Option<(usize, usize)>;
    /// Forgets all that a pod holds; how long that took until a search sees it.
    fn clear(&mut self, pod: usize) -> Duration;
    /// Stores that the system would not take, if it says so.
    fn refused(&self) -> usize;
    /// Look-ups per search over these prompts, if the system counts them.
    fn probes(&mut self, order: &[usize]) -> Option<f64>;
    /// Bytes the system itself says it takes.
    fn claimed_bytes(&self) -> Option<usize>;
    /// Gives back what can be given back.
    fn tidy(&mut self);
}

/// Every system, empty, ours first.
#[must_use]
pub fn contenders(pods: usize, prompts: Prompts<'_>) -> Vec<Box<dyn Contender>> {
    MAKERS.iter().map(|make| make(pods, prompts)).collect()
}

/// Makes one empty system with prompts to work on.
pub type Maker = fn(usize, Prompts<'_>) -> Box<dyn Contender>;

/// Makes each system, ours first.
pub const MAKERS: [Maker; 3] = [enter::<Ours>, enter::<Smg>, enter::<Dynamo>];

/// What the systems are called, in the same order.
pub const NAMES: [&str; 3] = [Ours::NAME, Smg::NAME, Dynamo::NAME];

fn enter<S: System + 'static>(pods: usize, prompts: Prompts<'_>) -> Box<dyn Contender> {
    let mut entrant = Entrant { system: S::new(pods), chains: Vec::new() };
    entrant.load(prompts);
    Box::new(entrant)
}

struct Entrant<S: System> {
    system: S,
    chains: Vec<S::Chain>,
}

impl<S: System> fmt::Debug for Entrant<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Entrant({}, {} chains)", S::NAME, self.chains.len())
    }
}

impl<S: System> Contender for Entrant<S> {
    fn name(&self) -> &'static str {
        S::NAME
    }

    fn load(&mut self, prompts: Prompts<'_>) {
        self.chains = match prompts {
            Prompts::Hashes(chains) => chains.iter().map(|chain| S::chain(chain)).collect(),
            Prompts::Tokens(chains) => chains.iter().map(|tokens| S::chain_of_tokens(tokens)).collect(),
        };
    }

    fn write(&mut self, steps: &[Step]) -> Duration {
        // In portions, so that events made beforehand do not pile up.
        steps.chunks(PORTION).map(|steps| self.system.write(&self.chains, steps)).sum()
    }

    fn time(&mut self, lap: Lap<'_>, order: &[usize]) -> Duration {
        let Self { system, chains } = self;
        let chain = |i: usize| S::touch(&chains[i]);
        match lap {
            Lap::Search => clock(order, 16, chain, |i| system.ask(&chains[i])),
            Lap::ByPod => clock(order, 16, chain, |i| system.ask_by_pod(&chains[i])),
            Lap::Hash(prompts) => clock(order, 1, |i| sum(&prompts[i]), |i| system.hash_tokens(&prompts[i])),
            Lap::Tokens(prompts) => clock(order, 1, |i| sum(&prompts[i]), |i| system.ask_tokens(&prompts[i])),
            Lap::TokensLazily(prompts) => {
                clock(order, 1, |i| sum(&prompts[i]), |i| system.ask_tokens_lazily(&prompts[i]))
            }
            Lap::Plan(prompts) => clock(order, 1, |i| sum(&prompts[i]), |i| system.plan_tokens(&prompts[i])),
        }
    }

    fn depths(&mut self, chain: usize, depths: &mut [u32]) {
        self.system.depths(&self.chains[chain], depths);
    }

    fn depths_of_tokens(&mut self, tokens: &[u32], depths: &mut [u32]) {
        self.system.depths_of_tokens(tokens, depths);
    }

    fn planned(&mut self, tokens: &[u32]) -> Option<(usize, usize)> {
        self.system.planned(tokens)
    }

    fn clear(&mut self, pod: usize) -> Duration {
        self.system.clear(pod)
    }

    fn refused(&self) -> usize {
        self.system.refused()
    }

    fn probes(&mut self, order: &[usize]) -> Option<f64> {
        let mut sum = 0;
        for &i in order {
            self.system.ask(&self.chains[i]);
            sum += self.system.probes()?;
        }
        Some(sum as f64 / order.len() as f64)
    }

    fn claimed_bytes(&self) -> Option<usize> {
        self.system.claimed_bytes()
    }

    fn tidy(&mut self) {
        self.system.tidy();
    }
}

/// Times questions, a few between two looks at the clock. What is asked was touched just before: in a router
/// the prompt has just been hashed.
#[inline(always)]
fn clock(
    order: &[usize],
    at_once: usize,
    mut touch: impl FnMut(usize) -> u64,
    mut ask: impl FnMut(usize) -> u64,
) -> Duration {
    let mut time = Duration::ZERO;
    for questions in order.chunks(at_once) {
        for &i in questions {
            black_box(touch(i));
        }
        let start = Instant::now();
        for &i in questions {
            black_box(ask(black_box(i)));
        }
        time += start.elapsed();
    }
    time
}

fn sum(tokens: &[u32]) -> u64 {
    tokens.iter().map(|&token| u64::from(token)).sum()
}

/// Steps written at a time.
const PORTION: usize = 1 << 14;

#[cfg(test)]
mod tests {
    use pointsman_benches::fleet::{Cell, Content, Fleet, UNSEEN};
    use pointsman_lab::SplitMix64;

    use super::*;

    const CELLS: [Cell; 4] = [
        Cell::new(8, 16, Content::Spread { depths: 4 }, 200),
        Cell::new(8, 16, Content::Spread { depths: 16 }, 200),
        Cell::new(64, 40, Content::Spread { depths: 16 }, 500),
        Cell::new(64, 32, Content::Private, 500),
    ];

    fn build(cell: Cell, seed: u64) -> Fleet {
        let (mut fleet, mut rng) = (Fleet::build(cell, seed), SplitMix64::new(!seed));
        fleet.add_partial(5, cell.blocks / 2, &mut rng);
        fleet.add_cold(5, cell.blocks + UNSEEN, &mut rng);
        fleet
    }

    #[test]
    fn every_system_answers_the_truth() {
        for cell in CELLS {
            let fleet = build(cell, 6);
            let (mut expected, mut answer) = (vec![0; cell.pods], vec![0; cell.pods]);
            for mut contender in contenders(cell.pods, Prompts::Hashes(&fleet.chains)) {
                contender.write(&fleet.steps);
                assert_eq!(contender.refused(), 0);
                for chain in 0..fleet.chains.len() {
                    fleet.expected_depths(chain, &mut expected);
                    contender.depths(chain, &mut answer);
                    assert_eq!(answer, expected, "{}, {cell:?}, chain {chain}", contender.name());
                }
            }
        }
    }
}
