//! A trace made up for those who have none, with the statistics of Mooncake's `conversation_trace` (FAST'25).
//!
//! All conversations begin with the same id, a system prompt. New ones come evenly; an answered one goes on with a
//! chance that depends on its turns and its length, after a while, mostly with all it had but its last, partly filled
//! id and a few new ones; one in six forgets more. Lengths are drawn from the trace's quantiles.
//!
//! How it compares (seed 1; the right column is what the test `it_is_like_the_real_one` prints):
//!
//! | | the real one | made up |
//! |---|---|---|
//! | requests; seconds | 12,031; 3,537 | 12,031; 3,419 |
//! | ids of 512 tokens a request: p25, p50, p75, p95, p99; mean | 5, 14, 31, 78, 167; 24.0 | 5, 14, 29, 69, 169; 22.9 |
//! | share of ids that an earlier request had | 36.6% | 37.2% |
//! | share of requests that share more than their first id | 38.7% | 36.8% |
//! | most children of one id; of the next; ids with several | 7,373; 11; 3,876 | 7,601; 5; 4,030 |
//! | tokens an answer: p25, p50, p75, p95, p99; mean | 156, 350, 472, 698, 1,120; 343 | 155, 349, 469, 697, 1,145; 337 |

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::trace::{Request, Trace};
use crate::rng::Rng;

/// Makes so many requests.
#[must_use]
pub fn trace(requests: usize, seed: u64) -> Trace {
    let mut maker = Maker { rng: Rng::new(seed ^ 0x7ACE), ids: 1, made: Vec::with_capacity(requests) };
    let mut due = BinaryHeap::from([Reverse((0, None))]);
    while maker.made.len() < requests {
        let Some(Reverse((at, before))) = due.pop() else { break };
        let request = match before {
            None => {
                due.push(Reverse((at + maker.pause(), None)));
                maker.begin(at)
            }
            Some(before) => maker.go_on(at, before),
        };
        let turns = if before.is_some() { 2 } else { 1 };
        if maker.goes_on(turns, request.ids.len()) {
            due.push(Reverse((at + maker.draw(&GAPS) as u64, Some(maker.made.len()))));
        }
        maker.made.push(request);
    }
    Trace { requests: maker.made, id_tokens: ID_TOKENS }
}

struct Maker {
    rng: Rng,
    ids: u64,
    made: Vec<Request>,
}

impl Maker {
    /// µs until the next conversation begins.
    fn pause(&mut self) -> u64 {
        (-(1.0 - self.chance()).ln() * BETWEEN) as u64
    }

    fn begin(&mut self, at: u64) -> Request {
        let input = self.draw(&NEW_TOKENS) as usize;
        self.request(at, vec![0], input)
    }

    fn go_on(&mut self, at: u64, before: usize) -> Request {
        let ids = self.made[before].ids.clone();
        let (mut lost, mut grown) = (1, self.draw(&GROWN).round() as usize);
        if self.chance() < FORGETS {
            lost = (self.draw(&LOST).round() as usize).min(ids.len() - 1);
            grown += lost;
        }
        let kept = ids.len().saturating_sub(lost).max(1);
        let length = (kept + grown).clamp(kept + 1, LONGEST.max(kept + 1));
        let input = (length - 1) * ID_TOKENS + 1 + self.rng.below(ID_TOKENS);
        self.request(at, ids[..kept].to_vec(), input)
    }

    fn request(&mut self, at: u64, mut ids: Vec<u64>, input: usize) -> Request {
        while ids.len() < input.div_ceil(ID_TOKENS) {
            ids.push(self.ids);
            self.ids += 1;
        }
        Request { at, input, output: self.draw(&OUTPUT) as usize, ids }
    }

    fn goes_on(&mut self, turns: usize, ids: usize) -> bool {
        let chance = match (turns, ids) {
            (1, ..=3) => 0.2,
            (_, 49..) => 0.3,
            (1, _) => 0.5,
            _ => 0.58,
        };
        self.chance() < chance
    }

    /// A number of this distribution: quantiles, and between them evenly on a logarithmic scale.
    fn draw(&mut self, quantiles: &[(f64, f64)]) -> f64 {
        let share = self.chance();
        let at = quantiles.partition_point(|&(upto, _)| upto <= share).clamp(1, quantiles.len() - 1);
        let ((low, from), (high, to)) = (quantiles[at - 1], quantiles[at]);
        from * (to / from).powf((share - low) / (high - low))
    }

    fn chance(&mut self) -> f64 {
        self.rng.bits() as f64 / u64::MAX as f64
    }
}

const ID_TOKENS: usize = 512;
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
    fn the_same_seed_makes_the_same_trace() {
        let (one, two, other) = (trace(500, 3), trace(500, 3), trace(500, 4));
        assert_eq!(one.requests, two.requests);
        assert_ne!(one.requests, other.requests);
        assert_eq!(one.requests.len(), 500);
    }

    #[test]
    fn it_is_like_the_real_one() {
        let made = trace(12_031, 1);
        let stats = made.stats();
        println!("{stats:?}");
        let near = |value: f64, real: f64, within: f64| (value / real - 1.0).abs() < within;
        assert!(near(stats.seconds, 3_537.0, 0.1), "{stats:?}");
        assert!(near(stats.known, 0.366, 0.15), "{stats:?}");
        assert!(near(stats.ids[5], 23.98, 0.1) && near(stats.ids[1], 14.0, 0.25), "{stats:?}");
        assert!(near(stats.output[5], 342.6, 0.1), "{stats:?}");
        assert!(near(stats.continued, 0.387, 0.1) && near(stats.fan[0] as f64, 7_373.0, 0.1), "{stats:?}");
        // Ids are chained: each has one parent.
        let mut parents = std::collections::HashMap::new();
        for request in &made.requests {
            assert_eq!(request.input.div_ceil(ID_TOKENS), request.ids.len());
            for pair in request.ids.windows(2) {
                assert_eq!(*parents.entry(pair[1]).or_insert(pair[0]), pair[0]);
            }
        }
    }
}
