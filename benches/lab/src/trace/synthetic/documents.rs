//! Long documents, some of them very popular: open loop.
//!
//! A few hundred documents of 4,000 to 32,000 tokens are asked about again and again, by Zipf's law: the first gets one question in
//! seven. A short question, a short answer. Unlike [`rag`](super::rag), where most documents are asked about once, all fit the
//! fleet's caches; what is hard is that one pod cannot serve the popular ones alone.
//!
//! | 10,000 requests, seed 1, by the test `it_is_as_told` | |
//! |---|---|
//! | tokens a prompt: p50, p95; mean | 17,372, 28,194; 14,895 |
//! | tokens an answer: p50, p95; mean | 157, 472; 196 |
//! | whole blocks an infinite cache would hold | 95.8% |

use super::distribution::{Zipf, draw};
use super::text::{BLOCK, Fresh, Text, arrivals};
use crate::trace::Trace;
use pointsman_test_support::SplitMix64;

/// Makes so many requests, 10 a second.
#[must_use]
pub fn trace(requests: usize, seed: u64) -> Trace {
    let (mut rng, mut fresh) = (SplitMix64::new(seed ^ 0xD0C7), Fresh::default());
    let popular = Zipf::new(DOCUMENTS, 1.0);
    let documents: Vec<Text> =
        (0..DOCUMENTS).map(|_| Text::new(draw(&mut rng, &DOCUMENT) as usize, &mut fresh)).collect();
    let mut next = arrivals(&mut rng, 10.0);
    let mut ask = |session| {
        let mut text = documents[popular.draw(&mut rng)].clone();
        text.grow(draw(&mut rng, &QUESTION) as usize, &mut fresh);
        text.request(next(), session, draw(&mut rng, &ANSWER))
    };
    Trace::new(BLOCK, (0..requests as u32).map(&mut ask).collect())
}

const DOCUMENTS: usize = 400;
/// Tokens of a document.
const DOCUMENT: [(f64, f64); 3] = [(0.0, 4_000.0), (0.5, 11_300.0), (1.0, 32_000.0)];
/// Tokens of a question.
const QUESTION: [(f64, f64); 4] = [(0.0, 8.0), (0.5, 30.0), (0.95, 200.0), (1.0, 600.0)];
/// Tokens of an answer.
const ANSWER: [(f64, f64); 5] = [(0.0, 10.0), (0.25, 80.0), (0.5, 160.0), (0.95, 450.0), (1.0, 900.0)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_told() {
        let stats = trace(10_000, 1).stats();
        println!("{stats}");
        assert!((8_000.0..20_000.0).contains(&stats.input[5]), "{stats}");
        assert!((150.0..250.0).contains(&stats.output[5]), "{stats}");
        assert!((0.93..0.98).contains(&stats.bound()), "{stats}");
        assert_eq!((stats.sessions, stats.waiting), (10_000, 0));
    }
}
