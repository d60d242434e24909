//! Coding agents with long contexts and tools that take their time: closed loop.
//!
//! All agents of a product share a long system prompt with their tools. A session reads a repository, so that its context grows to
//! some 100,000 tokens, and waits for a tool after each answer: mostly a second, at times as long as a build or a person takes.
//! Where a context has become too long it is compacted: all but the beginning is replaced by a summary.
//!
//! | 10,000 requests, seed 1, by the test `it_is_as_told` | |
//! |---|---|
//! | tokens a prompt: p50, p95; mean | 54,315, 111,408; 58,082 |
//! | tokens an answer: p50, p95; mean | 206, 1,061; 387 |
//! | requests of a session: mean | 56 |
//! | whole blocks an infinite cache would hold | 96.7% |

use super::distribution::draw;
use super::text::{BLOCK, Fresh, Text};
use crate::trace::{Start, Trace};
use pointsman_test_support::SplitMix64;

/// Makes so many requests: sessions begin so often that 10 requests come a second.
#[must_use]
pub fn trace(requests: usize, seed: u64) -> Trace {
    let (mut rng, mut fresh) = (SplitMix64::new(seed ^ 0xC0DE), Fresh::default());
    let system = Text::new(SYSTEM, &mut fresh);
    let mut made = Vec::with_capacity(requests + 256);
    for session in 0.. {
        if made.len() >= requests {
            break;
        }
        let mut text = system.clone();
        text.grow(draw(&mut rng, &TASK) as usize, &mut fresh);
        for turn in 0..draw(&mut rng, &TURNS) as usize {
            let start = match (made.len() as u32).checked_sub(1) {
                Some(before) if turn > 0 => Start::After(before, draw(&mut rng, &TOOL) as u64),
                _ => Start::At(0),
            };
            let output = draw(&mut rng, &ANSWER);
            made.push(text.request(start, session, output));
            text.grow((output + draw(&mut rng, &READ)) as usize, &mut fresh);
            if text.tokens() > COMPACTED_AT {
                text.turn(SYSTEM, draw(&mut rng, &SUMMARY) as usize, &mut fresh);
            }
        }
    }
    made.truncate(requests);
    Trace::new(BLOCK, made).at_rate(10.0, seed)
}

/// Tokens of the system prompt.
const SYSTEM: usize = 12_000;
/// Tokens of a context that is too long.
const COMPACTED_AT: usize = 120_000;
/// Tokens of a summary.
const SUMMARY: [(f64, f64); 2] = [(0.0, 4_000.0), (1.0, 10_000.0)];
/// Tokens of a task.
const TASK: [(f64, f64); 3] = [(0.0, 200.0), (0.5, 1_000.0), (1.0, 8_000.0)];
/// Turns of a session.
const TURNS: [(f64, f64); 4] = [(0.0, 5.0), (0.5, 45.0), (0.9, 130.0), (1.0, 250.0)];
/// Tokens that a tool prints.
const READ: [(f64, f64); 5] = [(0.0, 20.0), (0.5, 500.0), (0.8, 2_000.0), (0.97, 8_000.0), (1.0, 25_000.0)];
/// Tokens of an answer.
const ANSWER: [(f64, f64); 4] = [(0.0, 30.0), (0.5, 200.0), (0.95, 1_000.0), (1.0, 4_000.0)];
/// µs that a tool takes.
const TOOL: [(f64, f64); 6] = [(0.0, 20e3), (0.5, 800e3), (0.8, 4e6), (0.95, 40e6), (0.99, 180e6), (1.0, 900e6)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_told() {
        let stats = trace(10_000, 1).stats();
        println!("{stats}");
        assert!((35_000.0..65_000.0).contains(&stats.input[5]), "{stats}");
        assert!((200.0..450.0).contains(&stats.output[5]), "{stats}");
        assert!((40.0..80.0).contains(&stats.turns[5]), "{stats}");
        assert!((0.93..0.985).contains(&stats.bound()), "{stats}");
    }
}
