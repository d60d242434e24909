//! Retrieval-augmented generation (RAG): questions about documents, open loop.
//!
//! A prompt is the system prompt of all, a document, and a question that nobody asked before. Which document is a
//! matter of popularity (Zipf); there are half as many as requests. There is no trace of this kind here to compare
//! with; seed 1 gives, by the test `it_is_as_told`:
//!
//! | 10,000 requests | |
//! |---|---|
//! | tokens a prompt: p50, p95; mean | 2,607, 13,347; 4,057 |
//! | tokens an answer: p50, p95; mean | 157, 446; 193 |
//! | whole blocks an infinite cache would hold | 79.6% |
//! | documents that were asked about; most questions about one | 2,276; 1,079 |

use super::distribution::{Zipf, draw};
use super::text::{BLOCK, Fresh, Text, arrivals};
use crate::trace::Trace;
use pointsman_test_support::SplitMix64;

/// Makes so many requests, 10 a second.
#[must_use]
pub fn trace(requests: usize, seed: u64) -> Trace {
    let (mut rng, mut fresh) = (SplitMix64::new(seed ^ 0xD0C5), Fresh::default());
    let system = Text::new(SYSTEM, &mut fresh);
    let popular = Zipf::new((requests / 2).max(FEWEST), 1.0);
    let mut documents = vec![None; (requests / 2).max(FEWEST)];
    let mut next = arrivals(&mut rng, 10.0);
    let mut ask = |session| {
        let document = documents[popular.draw(&mut rng)].get_or_insert_with(|| {
            let mut text = system.clone();
            text.grow(draw(&mut rng, &DOCUMENT) as usize, &mut fresh);
            text
        });
        let mut text = document.clone();
        text.grow(draw(&mut rng, &QUESTION) as usize, &mut fresh);
        text.request(next(), session, draw(&mut rng, &ANSWER))
    };
    Trace::new(BLOCK, (0..requests as u32).map(&mut ask).collect())
}

/// Tokens of the system prompt.
const SYSTEM: usize = 400;
const FEWEST: usize = 16;
/// Tokens of a document.
const DOCUMENT: [(f64, f64); 6] =
    [(0.0, 300.0), (0.25, 1_000.0), (0.5, 2_200.0), (0.75, 4_500.0), (0.95, 9_000.0), (1.0, 16_000.0)];
/// Tokens of a question.
const QUESTION: [(f64, f64); 5] = [(0.0, 8.0), (0.5, 30.0), (0.75, 60.0), (0.95, 200.0), (1.0, 600.0)];
/// Tokens of an answer.
const ANSWER: [(f64, f64); 5] = [(0.0, 10.0), (0.25, 80.0), (0.5, 160.0), (0.95, 450.0), (1.0, 900.0)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_told() {
        let stats = trace(10_000, 1).stats();
        println!("{stats}");
        assert!((3_000.0..4_500.0).contains(&stats.input[5]), "{stats}");
        assert!((150.0..250.0).contains(&stats.output[5]), "{stats}");
        assert!((0.75..0.85).contains(&stats.bound()), "{stats}");
        assert!((950.0..1_050.0).contains(&stats.seconds), "{stats}");
        assert!((2_000..2_500).contains(&stats.fan[0]) && (900..1_200).contains(&stats.fan[1]), "{stats}");
        assert_eq!((stats.sessions, stats.waiting), (10_000, 0));
    }
}
