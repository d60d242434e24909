//! Conversations as Mooncake's `conversation_trace` (FAST'25) has it: open loop, blocks of 512 tokens.
//!
//! All conversations begin with the same id, a system prompt. New ones come evenly; an answered one goes on with a
//! chance that depends on its turns and its length, after a while, mostly with all it had but its last, partly filled
//! id and a few new ones; one in six forgets more. Lengths are drawn from the trace's quantiles.
//!
//! How it compares (seed 1; the right column is what the test `it_is_like_the_real_one` prints):
//!
//! | | the real one | synthetic |
//! |---|---|---|
//! | requests; seconds | 12,031; 3,537 | 12,031; 3,419 |
//! | conversations (inferred in the real one) | 7,373 | 6,910 |
//! | ids of 512 tokens a request: p25, p50, p75, p95, p99; mean | 5, 14, 31, 78, 167; 24.0 | 5, 14, 29, 69, 169; 22.9 |
//! | share of ids that an earlier request had | 36.6% | 37.2% |
//! | share of requests that share more than their first id | 38.7% | 36.8% |
//! | most children of one id; of the next; ids with several | 7,373; 11; 3,876 | 7,601; 5; 4,030 |
//! | tokens an answer: p25, p50, p75, p95, p99; mean | 156, 350, 472, 698, 1,120; 343 | 155, 349, 469, 697, 1,145; 337 |

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::distribution::draw;
use crate::trace::{Request, Start, Trace};
use pointsman_test_support::SplitMix64;

/// Makes so many requests.
#[must_use]
pub fn trace(requests: usize, seed: u64) -> Trace {
    let rng = SplitMix64::new(seed ^ 0x7ACE);
    let mut generator = Generator { rng, ids: 1, sessions: 0, generated: Vec::with_capacity(requests) };
    let mut due = BinaryHeap::from([Reverse((0, None))]);
    while generator.generated.len() < requests {
        let Some(Reverse((at, before))) = due.pop() else { break };
        let request = match before {
            None => {
                due.push(Reverse((at + generator.rng.exponential(BETWEEN) as u64, None)));
                generator.begin(at)
            }
            Some(before) => generator.go_on(at, before),
        };
        if generator.goes_on(before.is_none(), request.ids.len()) {
            due.push(Reverse((at + draw(&mut generator.rng, &GAPS) as u64, Some(generator.generated.len()))));
        }
        generator.generated.push(request);
    }
    Trace::new(BLOCK, generator.generated)
}

struct Generator {
    rng: SplitMix64,
    ids: u64,
    sessions: u32,
    generated: Vec<Request>,
}

impl Generator {
    fn begin(&mut self, at: u64) -> Request {
        let input = draw(&mut self.rng, &NEW_TOKENS) as usize;
        self.sessions += 1;
        self.request(at, self.sessions - 1, vec![0], input)
    }

    fn go_on(&mut self, at: u64, before: usize) -> Request {
        let (mut lost, mut grown) = (1, draw(&mut self.rng, &GROWN).round() as usize);
        let length = self.generated[before].ids.len();
        if self.rng.next_f64() < FORGETS {
            lost = (draw(&mut self.rng, &LOST).round() as usize).min(length - 1);
            grown += lost;
        }
        let kept = length.saturating_sub(lost).max(1);
        let length = (kept + grown).clamp(kept + 1, LONGEST.max(kept + 1));
        let input = (length - 1) * BLOCK + 1 + self.rng.below(BLOCK);
        let (session, ids) = (self.generated[before].session, self.generated[before].ids[..kept].to_vec());
        self.request(at, session, ids, input)
    }

    fn request(&mut self, at: u64, session: u32, mut ids: Vec<u64>, input: usize) -> Request {
        let new = input.div_ceil(BLOCK).saturating_sub(ids.len());
        ids.reserve_exact(new);
        ids.extend(self.ids..self.ids + new as u64);
        self.ids += new as u64;
        let output = draw(&mut self.rng, &OUTPUT) as u32;
        Request { start: Start::At(at), session, input: input as u32, output, ids }
    }

    fn goes_on(&mut self, new: bool, ids: usize) -> bool {
        let chance = match (new, ids) {
            (true, ..=3) => 0.2,
            (_, 49..) => 0.3,
            (true, _) => 0.5,
            _ => 0.58,
        };
        self.rng.next_f64() < chance
    }
}

const BLOCK: usize = 512;
/// Most ids of a request.
const LONGEST: usize = 247;
/// Mean µs between two new conversations.
const BETWEEN: f64 = 495_000.0;
/// Share of continued conversations that lose more than their last id.
const FORGETS: f64 = 0.17;

/// Tokens of a conversation's first prompt.
const NEW_TOKENS: [(f64, f64); 9] = [
    (0.0, 890.0),
    (0.05, 897.0),
    (0.25, 1_336.0),
    (0.5, 5_264.0),
    (0.75, 13_056.0),
    (0.9, 25_561.0),
    (0.95, 38_538.0),
    (0.99, 89_869.0),
    (1.0, 126_195.0),
];
/// Ids that a conversation gains by a turn.
const GROWN: [(f64, f64); 7] =
    [(0.0, 1.0), (0.25, 1.6), (0.65, 2.4), (0.8, 3.5), (0.93, 8.0), (0.99, 20.0), (1.0, 60.0)];
/// Ids that one loses which forgets.
const LOST: [(f64, f64); 7] =
    [(0.0, 2.0), (0.05, 3.0), (0.25, 15.0), (0.5, 22.0), (0.75, 30.0), (0.95, 53.0), (1.0, 198.0)];
/// µs from one turn to the next.
const GAPS: [(f64, f64); 8] = [
    (0.0, 10e6),
    (0.05, 30e6),
    (0.25, 66e6),
    (0.5, 123e6),
    (0.75, 264e6),
    (0.95, 618e6),
    (0.99, 1_482e6),
    (1.0, 3_030e6),
];
/// Tokens of an answer.
const OUTPUT: [(f64, f64); 8] = [
    (0.0, 1.0),
    (0.05, 10.0),
    (0.25, 156.0),
    (0.5, 350.0),
    (0.75, 472.0),
    (0.95, 698.0),
    (0.99, 1_120.0),
    (1.0, 2_000.0),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_like_the_real_one() {
        let stats = trace(12_031, 1).stats();
        println!("{stats}");
        let near = |value: f64, real: f64, within: f64| (value / real - 1.0).abs() < within;
        assert!(near(stats.seconds, 3_537.0, 0.1), "{stats}");
        assert!(near(stats.known(), 0.366, 0.15), "{stats}");
        assert!(near(stats.chain[5], 23.98, 0.1) && near(stats.chain[1], 14.0, 0.25), "{stats}");
        assert!(near(stats.output[5], 342.6, 0.1), "{stats}");
        assert!(near(stats.continued, 0.387, 0.1) && near(stats.fan[0] as f64, 7_373.0, 0.1), "{stats}");
    }
}
