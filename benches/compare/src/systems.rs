//! Ours and the peers as trait objects ([`Contender`]): the same content in each, each by its fastest public call.

pub(crate) mod dynamo;
mod smg;

use std::hint::black_box;
use std::time::{Duration, Instant};

use kv_index::BlockHash;
use pointsman_benches::fleet::Step;
use pointsman_benches::ours::Ours;
use pointsman_benches::system::{Client, System, touch};

use self::dynamo::Dynamo;
use self::smg::Smg;
use crate::load::{Load, Sample, search_for_a_while};
use crate::replay::corpus::Corpus;
use crate::replay::drive::{Lanes, ReplayTimes, replay};

/// One way to ask.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Lap {
    /// Search for hashed prompts.
    Search,
    /// The same, the answer read pod by pod.
    ByPod,
    /// Hash tokens.
    Hash,
    /// Hash tokens and search.
    Tokens,
    /// The same, hashing on demand.
    TokensLazily,
    /// Hash tokens, search and decide, if the system decides.
    Plan,
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
pub trait Contender {
    /// What it is called in tables.
    fn name(&self) -> &'static str;
    /// Replaces the prompts that steps and queries speak of; what is held stays.
    fn load(&mut self, prompts: Prompts<'_>);
    /// Applies steps; how long that took until a search sees them.
    fn write(&mut self, steps: &[Step]) -> Duration;
    /// The same in messages of so many steps of one pod.
    fn write_batches(&mut self, steps: &[Step], size: usize) -> Duration;
    /// Asks for prompts in this order, by these tokens if the lap takes tokens; how long that took.
    fn time(&mut self, lap: Lap, tokens: &[Vec<u32>], order: &[usize]) -> Duration;
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
    fn tidy(&self);
    /// Searches on several threads at once, perhaps beside a writer.
    fn search_for_a_while(&mut self, load: Load) -> Sample;
    /// Sends a corpus, whose prompts are loaded, to an empty system of this kind.
    fn replay(&self, corpus: &Corpus, lanes: Lanes, window: Duration) -> ReplayTimes;
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
    let mut client = Client::<S>::new(pods, Vec::new());
    client.load(prompts);
    Box::new(client)
}

impl<S: System> Contender for Client<S> {
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
        Self::write(self, steps)
    }

    fn write_batches(&mut self, steps: &[Step], size: usize) -> Duration {
        Self::write_batches(self, steps, size)
    }

    fn time(&mut self, lap: Lap, tokens: &[Vec<u32>], order: &[usize]) -> Duration {
        let Self { system, chains, scratch, blocks, .. } = self;
        let (chain, sum) = (|i: usize| touch::<S>(&chains[i]), |i: usize| sum(&tokens[i]));
        match lap {
            Lap::Search => clock(order, 16, chain, |i| system.search(S::query(&chains[i]), scratch)),
            Lap::ByPod => clock(order, 16, chain, |i| system.sum_by_pod(S::query(&chains[i]), scratch)),
            Lap::Hash => clock(order, 1, sum, |i| {
                system.hash(&tokens[i], blocks);
                blocks.last().map_or(0, S::bits)
            }),
            Lap::Tokens => clock(order, 1, sum, |i| self.search_tokens(&tokens[i])),
            Lap::TokensLazily => clock(order, 1, sum, |i| system.search_lazily(&tokens[i], blocks, scratch)),
            Lap::Plan => clock(order, 1, sum, |i| self.plan(&tokens[i])),
        }
    }

    fn depths(&mut self, chain: usize, depths: &mut [u32]) {
        depths.fill(0);
        let query = S::query(&self.chains[chain]);
        self.system.search_by_pod(query, &mut self.scratch, |pod, depth| depths[pod] = depth);
    }

    fn depths_of_tokens(&mut self, tokens: &[u32], depths: &mut [u32]) {
        depths.fill(0);
        self.system.depths_lazily(tokens, &mut self.scratch, |pod, depth| depths[pod] = depth);
    }

    fn planned(&mut self, tokens: &[u32]) -> Option<(usize, usize)> {
        self.system.plan(tokens, &mut self.scratch)
    }

    fn clear(&mut self, pod: usize) -> Duration {
        let start = Instant::now();
        self.system.clear(&mut self.writer, pod);
        self.system.drain();
        start.elapsed()
    }

    fn refused(&self) -> usize {
        self.refused
    }

    fn probes(&mut self, order: &[usize]) -> Option<f64> {
        let mut sum = 0;
        for &i in order {
            self.search(i);
            sum += S::probes(&self.scratch)?;
        }
        Some(sum as f64 / order.len() as f64)
    }

    fn claimed_bytes(&self) -> Option<usize> {
        self.system.claimed_bytes(&self.writer)
    }

    fn tidy(&self) {
        self.system.tidy();
    }

    fn search_for_a_while(&mut self, load: Load) -> Sample {
        search_for_a_while(self, load)
    }

    fn replay(&self, corpus: &Corpus, lanes: Lanes, window: Duration) -> ReplayTimes {
        replay::<S>(&self.chains, corpus, lanes, window)
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

#[cfg(test)]
mod tests {
    use pointsman_benches::fleet::testing::samples;

    use super::*;

    #[test]
    fn every_system_answers_the_truth() {
        for (cell, fleet) in samples(6) {
            let mut answer = vec![0; cell.pods];
            for mut contender in contenders(cell.pods, Prompts::Hashes(&fleet.chains)) {
                contender.write(&fleet.steps);
                assert_eq!(contender.refused(), 0);
                for chain in 0..fleet.chains.len() {
                    let expected = fleet.expected_depths(chain, cell.pods);
                    contender.depths(chain, &mut answer);
                    assert_eq!(answer, expected, "{}, {cell:?}, chain {chain}", contender.name());
                }
            }
        }
    }
}
