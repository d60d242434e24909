//! Agents that fan out: open loop.
//!
//! A context of some 16,000 tokens that nobody sent before, and at once several requests on it, each with an instruction of its own:
//! all come within the time that one step of an engine takes, before any pod can announce a block of the context.
//!
//! | 10,000 requests, seed 1, by the test `it_is_as_told` | |
//! |---|---|
//! | tokens a prompt: p50, p95; mean | 16,393, 24,580; 16,853 |
//! | tokens an answer: p50, p95; mean | 197, 696; 268 |
//! | whole blocks an infinite cache would hold | 92.9% |
//! | requests on one context | 16 |

use super::distribution::draw;
use super::text::{BLOCK, Fresh, Text, arrivals};
use crate::trace::{Start, Trace};
use pointsman_test_support::SplitMix64;

/// Makes so many requests, 10 a second.
#[must_use]
pub fn trace(requests: usize, seed: u64) -> Trace {
    let (mut rng, mut fresh) = (SplitMix64::new(seed ^ 0xFA40), Fresh::default());
    let mut next = arrivals(&mut rng, 10.0 / FAN as f64);
    let mut made = Vec::with_capacity(requests + FAN);
    for session in 0.. {
        if made.len() >= requests {
            break;
        }
        let Start::At(mut at) = next() else { break };
        let context = Text::new(draw(&mut rng, &CONTEXT) as usize, &mut fresh);
        for _ in 0..FAN {
            let mut text = context.clone();
            text.grow(draw(&mut rng, &INSTRUCTION) as usize, &mut fresh);
            made.push(text.request(Start::At(at), session, draw(&mut rng, &ANSWER)));
            at += rng.exponential(GAP) as u64;
        }
    }
    let mut trace = Trace::new(BLOCK, made);
    trace.requests.truncate(requests);
    trace
}

/// Requests on one context.
const FAN: usize = 16;
/// µs between two of them.
const GAP: f64 = 1e3;
/// Tokens of a context.
const CONTEXT: [(f64, f64); 3] = [(0.0, 10_000.0), (0.5, 16_000.0), (1.0, 26_000.0)];
/// Tokens of an instruction.
const INSTRUCTION: [(f64, f64); 3] = [(0.0, 20.0), (0.5, 100.0), (1.0, 500.0)];
/// Tokens of an answer.
const ANSWER: [(f64, f64); 3] = [(0.0, 50.0), (0.5, 200.0), (1.0, 800.0)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_told() {
        let stats = trace(10_000, 1).stats();
        println!("{stats}");
        assert!((15_000.0..18_500.0).contains(&stats.input[5]), "{stats}");
        assert!((0.91..0.94).contains(&stats.bound()), "{stats}");
        assert!((625..=640).contains(&stats.sessions), "{stats}");
        let trace = trace(320, 1);
        let first = trace.requests.iter().filter(|request| request.session == 0);
        let times: Vec<Start> = first.map(|request| request.start).collect();
        let (Some(Start::At(first)), Some(Start::At(last)), FAN) = (times.first(), times.last(), times.len()) else {
            panic!("{times:?}");
        };
        assert!(last - first < 60_000, "{times:?}");
    }
}
