//! Agentic traffic: closed loop, short think times.
//!
//! Two kinds of session, as the two agent traces have them (both published by LMCache, here by their figures only):
//!
//! - A **coder** (four in nine) has a task of its own, and each turn adds the last answer with what a tool printed:
//!   mostly a line, at times a file. Half of them work until they are stopped at 30 turns. A few of them read much more
//!   than others. One turn in 25 takes back a little.
//! - A **team** is a manager, whose prompt begins like that of all managers, and workers whose prompts are sent again
//!   and again, to the letter; rarely a prompt is extended, or takes another turn part of the way, or is new.
//!
//! How it compares (seed 1, 4,500 and 4,500 requests; the right columns are what the test `they_are_like_the_real_ones`
//! prints; blocks are of 16 tokens in the real ones and of 64 here):
//!
//! | | real coders | synthetic | real teams | synthetic |
//! |---|---|---|---|---|
//! | sessions; requests of one: p25, p50, p75; mean | 20; 12, 30, 30; 20.1 | 237; 10, 14, 30; 19.0 | 25; 24, 29, 33; 27.7 | 164; 22, 28, 34; 27.4 |
//! | tokens a prompt: p25, p50, p75, p95; mean | 2,555, 3,994, 5,491, 25,445; 6,317 | 2,181, 3,726, 6,167, 19,253; 5,872 | 912, 1,055, 1,455, 10,623; 2,271 | 799, 1,180, 1,853, 10,380; 2,167 |
//! | tokens an answer: p25, p50, p75, p95; mean | 77, 95, 127, 226; 110 | 76, 94, 126, 223; 111 | 298, 340, 388, 927; 639 | 282, 338, 387, 916; 613 |
//! | whole blocks an infinite cache would hold | 93.5% | 92.5% | 84.4% | 86.2% |

use super::distribution::{Quantiles, draw};
use super::text::{Fresh, Text};
use crate::trace::{Request, Start, Trace};
use pointsman_test_support::SplitMix64;

/// Makes so many requests, in blocks of so many tokens: sessions begin so often that 10 requests come a second.
#[must_use]
pub fn trace(requests: usize, seed: u64, block: usize) -> Trace {
    of_kinds(requests, CODERS, seed, block)
}

fn of_kinds(requests: usize, coders: f64, seed: u64, block: usize) -> Trace {
    let mut generator = Generator::new(requests, seed, block);
    for session in 0.. {
        if generator.generated.len() >= requests {
            break;
        }
        if generator.rng.next_f64() < coders { generator.coder(session) } else { generator.team(session) }
    }
    generator.generated.truncate(requests);
    Trace::new(block, generator.generated).at_rate(10.0, seed)
}

struct Generator {
    rng: SplitMix64,
    fresh: Fresh,
    /// How all managers begin.
    manager: Text,
    generated: Vec<Request>,
}

impl Generator {
    fn new(requests: usize, seed: u64, block: usize) -> Self {
        let mut fresh = Fresh::of(block);
        let manager = Text::new(MANAGER, &mut fresh);
        Self { rng: SplitMix64::new(seed ^ 0xA6E7), fresh, manager, generated: Vec::with_capacity(requests + 64) }
    }

    fn coder(&mut self, session: u32) {
        let mut text = Text::new(self.draw(&coder::TASK), &mut self.fresh);
        let turns = if self.rng.one_in(2) { coder::MOST_TURNS } else { self.draw(&coder::TURNS) };
        let reads = draw(&mut self.rng, &coder::READS);
        for turn in 0..turns {
            let output = draw(&mut self.rng, &coder::ANSWER);
            self.send(&text, Turn { session, turn, output, think: &coder::THINK });
            let grown = draw(&mut self.rng, &coder::GROWN) * reads;
            let kept = if self.rng.one_in(25) { self.rng.between(80, 99) } else { 100 };
            text.turn(text.tokens() * kept / 100, grown.min(coder::FILE) as usize, &mut self.fresh);
        }
    }

    fn team(&mut self, session: u32) {
        let mut text = self.manager.clone();
        text.grow(self.draw(&team::TASK), &mut self.fresh);
        // The last one is said again, or gone on from.
        let mut texts = vec![text];
        for turn in 0..self.draw(&team::TURNS) {
            let last = texts.len() - 1;
            let kind = match turn {
                0 => team::AGAIN,
                // The manager is asked twice at most, then a worker is.
                2 => team::FORK,
                _ => self.rng.below(team::AGAIN + 1),
            };
            if kind < team::EXTEND {
                let mut text = texts[last].clone();
                text.grow(self.draw(&team::EXTENSION), &mut self.fresh);
                texts.push(text);
            } else if kind < team::FORK {
                let mut text = texts[self.rng.below(texts.len())].clone();
                let kept = text.tokens() * self.rng.between(20, 99) / 100;
                text.turn(kept, self.draw(&team::OTHER), &mut self.fresh);
                texts.push(text);
            } else if kind < team::NEW {
                if turn == 2 {
                    texts.clear();
                }
                texts.push(Text::new(self.draw(&team::WORKER), &mut self.fresh));
            } else if self.rng.one_in(4) {
                let other = self.rng.below(texts.len());
                texts.swap(other, last);
            }
            let output = draw(&mut self.rng, &team::ANSWER);
            self.send(&texts[texts.len() - 1], Turn { session, turn, output, think: &team::THINK });
        }
    }

    /// The next request of a session.
    fn send(&mut self, text: &Text, turn: Turn) {
        let start = match (self.generated.len() as u32).checked_sub(1) {
            Some(before) if turn.turn > 0 => Start::After(before, draw(&mut self.rng, turn.think) as u64),
            _ => Start::At(0),
        };
        self.generated.push(text.request(start, turn.session, turn.output));
    }

    fn draw(&mut self, quantiles: &Quantiles) -> usize {
        draw(&mut self.rng, quantiles) as usize
    }
}

/// A turn of a session, but for its prompt.
struct Turn {
    session: u32,
    turn: usize,
    output: f64,
    think: &'static Quantiles,
}

/// Share of sessions.
const CODERS: f64 = 20.0 / 45.0;
/// Tokens that managers' prompts have in common.
const MANAGER: usize = 64;

/// Figures of the coding agents.
mod coder {
    pub(super) const MOST_TURNS: usize = 30;
    /// Turns of those that end before.
    pub(super) const TURNS: [(f64, f64); 3] = [(0.0, 6.0), (0.5, 11.0), (1.0, 15.0)];
    /// Tokens of a task.
    pub(super) const TASK: [(f64, f64); 5] =
        [(0.0, 1_152.0), (0.25, 1_307.0), (0.5, 1_447.0), (0.75, 1_986.0), (1.0, 3_341.0)];
    /// Tokens that a turn adds.
    pub(super) const GROWN: [(f64, f64); 8] = [
        (0.0, 15.0),
        (0.3, 16.0),
        (0.5, 33.0),
        (0.75, 207.0),
        (0.9, 835.0),
        (0.95, 2_494.0),
        (0.99, 3_581.0),
        (1.0, 3_896.0),
    ];
    /// Most tokens of a file that are shown.
    pub(super) const FILE: f64 = 3_896.0;
    /// How much more a session reads than the mean.
    pub(super) const READS: [(f64, f64); 5] = [(0.0, 0.35), (0.5, 0.75), (0.83, 0.9), (0.85, 10.0), (1.0, 18.0)];
    /// Tokens of an answer.
    pub(super) const ANSWER: [(f64, f64); 7] =
        [(0.0, 39.0), (0.05, 53.0), (0.25, 77.0), (0.5, 95.0), (0.75, 127.0), (0.95, 226.0), (1.0, 356.0)];
    /// µs from an answer to the next turn.
    pub(super) const THINK: [(f64, f64); 6] =
        [(0.0, 1e3), (0.25, 89e3), (0.5, 161e3), (0.75, 394e3), (0.95, 1_590e3), (1.0, 3_355e3)];
}

/// Figures of the teams.
mod team {
    /// Of 1,000 turns, those below this extend the last prompt,
    pub(super) const EXTEND: usize = 44;
    /// those below this take another turn,
    pub(super) const FORK: usize = EXTEND + 97;
    /// those below this are new,
    pub(super) const NEW: usize = FORK + 40;
    /// and the others say again what was said.
    pub(super) const AGAIN: usize = 999;
    /// Turns.
    pub(super) const TURNS: [(f64, f64); 5] = [(0.0, 10.0), (0.25, 24.0), (0.5, 29.5), (0.75, 34.0), (1.0, 43.0)];
    /// Tokens of a manager's task.
    pub(super) const TASK: [(f64, f64); 3] = [(0.0, 238.0), (0.5, 250.0), (1.0, 296.0)];
    /// Tokens of a worker's first prompt.
    pub(super) const WORKER: [(f64, f64); 6] =
        [(0.0, 700.0), (0.25, 900.0), (0.5, 1_100.0), (0.87, 1_600.0), (0.9, 10_000.0), (1.0, 11_142.0)];
    /// Tokens that a prompt is extended by.
    pub(super) const EXTENSION: [(f64, f64); 7] =
        [(0.0, 403.0), (0.25, 581.0), (0.5, 711.0), (0.8, 1_063.0), (0.9, 3_000.0), (0.93, 10_000.0), (1.0, 10_237.0)];
    /// Tokens after another turn was taken.
    pub(super) const OTHER: [(f64, f64); 6] =
        [(0.0, 36.0), (0.25, 63.0), (0.5, 142.0), (0.75, 900.0), (0.95, 3_206.0), (1.0, 11_019.0)];
    /// Tokens of an answer.
    pub(super) const ANSWER: [(f64, f64); 8] = [
        (0.0, 11.0),
        (0.05, 67.0),
        (0.25, 298.0),
        (0.5, 340.0),
        (0.75, 388.0),
        (0.95, 927.0),
        (0.973, 8_000.0),
        (1.0, 10_000.0),
    ];
    /// µs from an answer to the next turn.
    pub(super) const THINK: [(f64, f64); 7] =
        [(0.0, 10e3), (0.1, 50e3), (0.25, 1_012e3), (0.5, 2_716e3), (0.75, 7_627e3), (0.95, 10_628e3), (1.0, 60e6)];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_like_the_real_ones() {
        let (coders, teams) = (of_kinds(4_500, 1.0, 1, 64).stats(), of_kinds(4_500, 0.0, 1, 64).stats());
        println!("{coders}\n{teams}");
        let near = |value: f64, real: f64, within: f64| (value / real - 1.0).abs() < within;
        assert!(near(coders.turns[5], 20.1, 0.1) && near(teams.turns[5], 27.7, 0.1), "{coders}\n{teams}");
        assert!(near(coders.input[5], 6_317.0, 0.15) && near(teams.input[5], 2_271.0, 0.15), "{coders}\n{teams}");
        assert!(near(coders.input[1], 3_994.0, 0.25) && near(teams.input[1], 1_055.0, 0.25), "{coders}\n{teams}");
        assert!(near(coders.output[5], 110.0, 0.1) && near(teams.output[5], 639.0, 0.15), "{coders}\n{teams}");
        assert!((coders.bound() - 0.935).abs() < 0.03 && (teams.bound() - 0.844).abs() < 0.03, "{coders}\n{teams}");
    }
}
