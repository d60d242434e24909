//! Bursts: short requests of which most come in crowds, open loop.
//!
//! What a batch job or the top of an hour makes of a quiet service: a crowd of 40 to 400 requests within two seconds, then nearly
//! nothing. Half of a crowd shares a prompt, as a job's requests do; all others are on their own.
//!
//! | 10,000 requests, seed 1, by the test `it_is_as_told` | |
//! |---|---|
//! | tokens a prompt: p50, p95; mean | 1,679, 5,671; 2,253 |
//! | tokens an answer: p50, p95; mean | 161, 448; 195 |
//! | whole blocks an infinite cache would hold | 39.8% |
//! | share of seconds in which two requests or fewer come | 81% |

use super::distribution::draw;
use super::text::{BLOCK, Fresh, Text, arrivals};
use crate::trace::{Start, Trace};
use pointsman_test_support::SplitMix64;

/// Makes so many requests, about 10 a second.
#[must_use]
pub fn trace(requests: usize, seed: u64) -> Trace {
    let (mut rng, mut fresh) = (SplitMix64::new(seed ^ 0xB025), Fresh::default());
    let mut next = arrivals(&mut rng, 10.0 / (CROWD_MEAN / (1.0 - QUIET)));
    let (mut made, mut before) = (Vec::with_capacity(requests + 512), 0);
    while made.len() < requests {
        let Start::At(at) = next() else { break };
        let crowd = draw(&mut rng, &CROWD) as usize;
        let job = Text::new(draw(&mut rng, &PROMPT) as usize, &mut fresh);
        let quiet = (crowd as f64 * QUIET / (1.0 - QUIET)) as usize;
        for nth in 0..crowd + quiet {
            let mut text = if nth < crowd && rng.one_in(2) { job.clone() } else { Text::default() };
            let own: &[_] = if text.tokens() > 0 { &QUESTION } else { &PROMPT };
            text.grow(draw(&mut rng, own) as usize, &mut fresh);
            let within = if nth < crowd { at..at + CROWD_US } else { before..at };
            let start = within.start + (rng.next_f64() * (within.end - within.start) as f64) as u64;
            made.push(text.request(Start::At(start), made.len() as u32, draw(&mut rng, &ANSWER)));
        }
        before = at;
    }
    let mut trace = Trace::new(BLOCK, made);
    trace.requests.truncate(requests);
    trace
}

/// Share of requests that come between crowds.
const QUIET: f64 = 0.1;
/// Requests of a crowd, their mean, and the µs within which they come.
const CROWD: [(f64, f64); 2] = [(0.0, 40.0), (1.0, 400.0)];
const CROWD_MEAN: f64 = 156.0;
const CROWD_US: u64 = 2_000_000;
/// Tokens of a prompt, of one that a job's requests share too.
const PROMPT: [(f64, f64); 4] = [(0.0, 100.0), (0.5, 1_500.0), (0.95, 5_000.0), (1.0, 16_000.0)];
/// Tokens of a question after a shared prompt.
const QUESTION: [(f64, f64); 3] = [(0.0, 50.0), (0.5, 300.0), (1.0, 2_000.0)];
/// Tokens of an answer.
const ANSWER: [(f64, f64); 5] = [(0.0, 10.0), (0.25, 80.0), (0.5, 160.0), (0.95, 450.0), (1.0, 900.0)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_told() {
        let trace = trace(10_000, 1);
        let stats = trace.stats();
        println!("{stats}");
        assert!((1_800.0..3_200.0).contains(&stats.input[5]), "{stats}");
        assert!((0.3..0.5).contains(&stats.bound()), "{stats}");
        let mut seconds = vec![0; stats.seconds as usize + 1];
        for request in &trace.requests {
            let Start::At(at) = request.start else { panic!("open loop") };
            seconds[(at / 1_000_000) as usize] += 1;
        }
        let quiet = seconds.iter().filter(|came| **came <= 2).count() as f64 / seconds.len() as f64;
        println!("{:.0}% of seconds are quiet", quiet * 100.0);
        assert!(quiet > 0.3 && seconds.iter().any(|came| *came > 50), "{quiet}");
    }
}
