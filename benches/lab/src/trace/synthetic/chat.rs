//! Multi-turn chat under a handful of system prompts: closed loop.
//!
//! What a service of a few applications sees: each conversation is under one of eight system prompts, of 100 to 6,000
//! tokens, the popular ones far ahead (Zipf); a turn is all that was said before, the last answer, and a message that
//! was typed while the answer was read. There is no trace of this kind here to compare with; seed 1 gives, by the test
//! `it_is_as_told`:
//!
//! | 10,000 requests | |
//! |---|---|
//! | conversations; requests of one: mean, p95 | 1,960; 5.1, 14 |
//! | tokens a prompt: p50, p95; mean | 3,247, 10,099; 4,026 |
//! | tokens an answer: p50, p95; mean | 261, 886; 334 |
//! | whole blocks an infinite cache would hold | 88.2% |

use super::distribution::{Zipf, draw};
use super::text::{Fresh, Text};
use crate::trace::{Start, Trace};
use pointsman_test_support::SplitMix64;

/// Makes so many requests: conversations begin so often that 10 requests come a second.
#[must_use]
pub fn trace(requests: usize, seed: u64, block: usize) -> Trace {
    let (mut rng, mut fresh, mut generated) =
        (SplitMix64::new(seed ^ 0xC4A7), Fresh::of(block), Vec::with_capacity(requests));
    let systems = SYSTEMS.map(|tokens| Text::new(tokens, &mut fresh));
    let popular = Zipf::new(SYSTEMS.len(), 1.0);
    let mut session = 0;
    while generated.len() < requests {
        let mut text = systems[popular.draw(&mut rng)].clone();
        let mut start = Start::At(0);
        loop {
            text.grow(draw(&mut rng, &MESSAGE) as usize, &mut fresh);
            let output = draw(&mut rng, &ANSWER);
            generated.push(text.request(start, session, output));
            if generated.len() == requests || rng.next_f64() > GOES_ON || text.tokens() > LONGEST {
                break;
            }
            start = Start::After(generated.len() as u32 - 1, draw(&mut rng, &THINK) as u64);
            text.grow(output as usize, &mut fresh);
        }
        session += 1;
    }
    Trace::new(block, generated).at_rate(10.0, seed)
}

/// Tokens of the system prompts, the most popular first.
const SYSTEMS: [usize; 8] = [600, 2_500, 100, 1_200, 6_000, 300, 4_000, 1_800];
const GOES_ON: f64 = 0.8;
/// A conversation ends here.
const LONGEST: usize = 32_000;
/// Tokens of a message.
const MESSAGE: [(f64, f64); 6] = [(0.0, 4.0), (0.25, 18.0), (0.5, 45.0), (0.75, 120.0), (0.95, 900.0), (1.0, 4_000.0)];
/// Tokens of an answer.
const ANSWER: [(f64, f64); 6] = [(0.0, 5.0), (0.25, 110.0), (0.5, 260.0), (0.75, 450.0), (0.95, 900.0), (1.0, 2_000.0)];
/// µs from an answer to the next message.
const THINK: [(f64, f64); 6] = [(0.0, 2e6), (0.25, 9e6), (0.5, 18e6), (0.75, 38e6), (0.95, 120e6), (1.0, 300e6)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_told() {
        let stats = trace(10_000, 1, 64).stats();
        println!("{stats}");
        assert!((4.0..6.0).contains(&stats.turns[5]), "{stats}");
        assert!((2_500.0..4_500.0).contains(&stats.input[5]), "{stats}");
        assert!((250.0..400.0).contains(&stats.output[5]), "{stats}");
        assert!((0.75..0.9).contains(&stats.bound()), "{stats}");
    }
}
