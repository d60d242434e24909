//! Mixed prefill-heavy and decode-heavy requests, in any share: open loop.
//!
//! **Cold**: a long prompt that nobody sent before, and a short answer: all prefill. **Warm**: one of a few short
//! prompts that everybody sends, with a question of less than a block or two, and a long answer: all decode. What is
//! best for the one, pods apart for prefill and decode or pods that do both, may be worst for the other.
//!
//! | seed 1, by the test `they_are_as_told` | cold | warm |
//! |---|---|---|
//! | tokens a prompt: p50, p95; mean | 8,041, 15,001; 8,707 | 1,052, 1,838; 1,114 |
//! | tokens an answer: p50, p95; mean | 24, 58; 27 | 500, 1,103; 565 |
//! | whole blocks an infinite cache would hold (of 10,000 requests) | 0% | 96.3% |

use super::distribution::draw;
use super::text::{BLOCK, Fresh, Text, arrivals};
use crate::trace::Trace;
use pointsman_test_support::SplitMix64;

/// Makes so many requests, 10 a second, of which this share is cold by chance; a share below 0 is 0, one above 1 is 1.
#[must_use]
pub fn trace(requests: usize, cold: f64, seed: u64) -> Trace {
    let (mut rng, mut fresh) = (SplitMix64::new(seed ^ 0x3123), Fresh::default());
    let warm: Vec<Text> = (0..WARM).map(|_| Text::new(draw(&mut rng, &WARM_PROMPT) as usize, &mut fresh)).collect();
    let mut next = arrivals(&mut rng, 10.0);
    let mut make = |session| {
        if rng.next_f64() < cold {
            let text = Text::new(draw(&mut rng, &COLD_PROMPT) as usize, &mut fresh);
            return text.request(next(), session, draw(&mut rng, &COLD_ANSWER));
        }
        let mut text = warm[rng.below(WARM)].clone();
        text.grow(draw(&mut rng, &QUESTION) as usize, &mut fresh);
        text.request(next(), session, draw(&mut rng, &WARM_ANSWER))
    };
    Trace::new(BLOCK, (0..requests as u32).map(&mut make).collect())
}

/// Warm prompts.
const WARM: usize = 32;
const WARM_PROMPT: [(f64, f64); 3] = [(0.0, 512.0), (0.5, 1_024.0), (1.0, 2_048.0)];
const QUESTION: [(f64, f64); 3] = [(0.0, 8.0), (0.5, 24.0), (1.0, 96.0)];
const WARM_ANSWER: [(f64, f64); 3] = [(0.0, 200.0), (0.5, 500.0), (1.0, 1_200.0)];
const COLD_PROMPT: [(f64, f64); 3] = [(0.0, 4_000.0), (0.5, 8_000.0), (1.0, 16_000.0)];
const COLD_ANSWER: [(f64, f64); 3] = [(0.0, 8.0), (0.5, 24.0), (1.0, 64.0)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_as_told() {
        let (cold, warm) = (trace(10_000, 1.0, 1).stats(), trace(10_000, 0.0, 1).stats());
        println!("{cold}\n{warm}");
        assert_eq!(cold.blocks_known, 0);
        assert!(warm.bound() > 0.95, "{warm}");
        assert!(cold.input[5] > 6.0 * warm.input[5] && warm.output[5] > 15.0 * cold.output[5], "{cold}\n{warm}");
    }

    #[test]
    fn the_share_is_kept() {
        let mixed = trace(10_000, 0.3, 1);
        let cold = mixed.requests.iter().filter(|request| request.output <= 64).count();
        assert!((2_850..3_150).contains(&cold), "{cold}");
    }
}
