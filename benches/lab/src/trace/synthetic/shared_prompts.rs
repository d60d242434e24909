//! Groups that share a system prompt: open loop.
//!
//! As llm-d's benchmark has it: each of many groups has a long system prompt of its own, every request is a question that nobody
//! asked before, and no group is asked more than another. There are too many groups for a pod, and not too many for a fleet.
//!
//! | 10,000 requests, seed 1, by the test `it_is_as_told` | |
//! |---|---|
//! | tokens a prompt: p50, p95; mean | 7,190, 8,235; 7,295 |
//! | tokens an answer: p50, p95; mean | 498, 929; 538 |
//! | whole blocks an infinite cache would hold | 80.7% |

use super::distribution::draw;
use super::text::{BLOCK, Fresh, Text, arrivals};
use crate::trace::Trace;
use pointsman_test_support::SplitMix64;

/// Makes so many requests, 10 a second.
#[must_use]
pub fn trace(requests: usize, seed: u64) -> Trace {
    let (mut rng, mut fresh) = (SplitMix64::new(seed ^ 0x6805), Fresh::default());
    let groups: Vec<Text> = (0..GROUPS).map(|_| Text::new(SYSTEM, &mut fresh)).collect();
    let mut next = arrivals(&mut rng, 10.0);
    let mut ask = |session| {
        let mut text = groups[rng.below(GROUPS)].clone();
        text.grow(draw(&mut rng, &QUESTION) as usize, &mut fresh);
        text.request(next(), session, draw(&mut rng, &ANSWER))
    };
    Trace::new(BLOCK, (0..requests as u32).map(&mut ask).collect())
}

const GROUPS: usize = 150;
/// Tokens of a system prompt.
const SYSTEM: usize = 6_000;
/// Tokens of a question.
const QUESTION: [(f64, f64); 3] = [(0.0, 600.0), (0.5, 1_200.0), (1.0, 2_400.0)];
/// Tokens of an answer.
const ANSWER: [(f64, f64); 3] = [(0.0, 250.0), (0.5, 500.0), (1.0, 1_000.0)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_told() {
        let stats = trace(10_000, 1).stats();
        println!("{stats}");
        assert!((7_000.0..7_500.0).contains(&stats.input[5]), "{stats}");
        assert!((480.0..560.0).contains(&stats.output[5]), "{stats}");
        assert!((0.78..0.84).contains(&stats.bound()), "{stats}");
        assert_eq!((stats.sessions, stats.waiting), (10_000, 0));
    }
}
