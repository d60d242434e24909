//! Closed-loop load generator: threads that search one after another, alone or beside a writer.
//!
//! Every thread searches for prompts in an order of its own. The writer sends `BLOCKS_A_SECOND` blocks as an engine does: a
//! prefill, blocks one by one, and both evicted again. The rule: the writer ends with everything evicted that it stored.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pointsman_benches::fleet::Step;
use pointsman_benches::system::{Client, System, touch};
use pointsman_lab::SplitMix64;
use pointsman_lab::latency::LatencyHistogram;

/// One run.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Load {
    /// Threads that search.
    pub threads: usize,
    /// The pod that the writer writes for, if there is one; nothing else may be written for it.
    pub writer: Option<usize>,
    /// How long throughput is measured, and then latencies.
    pub window: Duration,
    /// Seed of what is searched and written.
    pub seed: u64,
}

/// What one run gave.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Sample {
    /// Searches a second, without a clock between them.
    pub rate: f64,
    /// How long searches took, each between two readings of the clock.
    pub latencies: LatencyHistogram,
    /// Blocks written a second.
    pub written: f64,
}

/// Searches for a client's prompts, first for the rate and then for latencies.
pub(crate) fn search_for_a_while<S: System>(client: &mut Client<S>, load: Load) -> Sample {
    let (rate, _, written) = search(client, load, false);
    let (_, latencies, _) = search(client, load, true);
    Sample { rate, latencies, written }
}

fn search<S: System>(client: &mut Client<S>, load: Load, timed: bool) -> (f64, LatencyHistogram, f64) {
    let Client { system, chains, writer, .. } = client;
    let (system, chains, done) = (&*system, &**chains, &AtomicBool::new(false));
    std::thread::scope(|scope| {
        let rng = |stream: u64| SplitMix64::new(load.seed << 8 ^ stream);
        let writer =
            load.writer.map(|pod| scope.spawn(move || write_steadily(system, chains, writer, pod, rng(0x3717), done)));
        let search = |thread| scope.spawn(move || search_alone(system, chains, rng(thread), timed, done));
        let searchers: Vec<_> = (0..load.threads as u64).map(search).collect();
        std::thread::sleep(load.window);
        done.store(true, Ordering::Relaxed);
        let (mut rate, mut latencies) = (0.0, LatencyHistogram::default());
        for searcher in searchers {
            let (own, taken) = searcher.join().expect("a searcher ends");
            rate += own;
            latencies.merge(&taken);
        }
        (rate, latencies, writer.map_or(0.0, |writer| writer.join().expect("the writer ends")))
    })
}

/// Searches a second, or how long each took.
fn search_alone<S: System>(
    system: &S,
    chains: &[S::Chain],
    mut rng: SplitMix64,
    timed: bool,
    done: &AtomicBool,
) -> (f64, LatencyHistogram) {
    let (mut scratch, mut taken) = (system.scratch(), LatencyHistogram::default());
    let (mut count, start) = (0, Instant::now());
    let mut next = || &chains[rng.below(chains.len())];
    while !done.load(Ordering::Relaxed) {
        if timed {
            let chain = next();
            black_box(touch::<S>(chain));
            let start = Instant::now();
            black_box(system.search(S::query(black_box(chain)), &mut scratch));
            taken.record(start.elapsed().as_nanos() as u64);
        } else {
            for _ in 0..AT_ONCE {
                black_box(system.search(S::query(next()), &mut scratch));
            }
            count += AT_ONCE;
        }
    }
    (count as f64 / start.elapsed().as_secs_f64(), taken)
}

/// Sends events at [`BLOCKS_A_SECOND`]; what it reached.
fn write_steadily<S: System>(
    system: &S,
    chains: &[S::Chain],
    writer: &mut S::Writer,
    pod: usize,
    mut rng: SplitMix64,
    done: &AtomicBool,
) -> f64 {
    let (start, mut blocks) = (Instant::now(), 0);
    while !done.load(Ordering::Relaxed) {
        for step in come_and_go(pod, rng.below(chains.len())) {
            let chain = &chains[step.chain];
            assert!(system.apply(writer, chain, &step, S::event(chain, &step)), "the parent is held");
            blocks += step.blocks() as u64;
            let due = Duration::from_nanos(blocks * 1_000_000_000 / BLOCKS_A_SECOND);
            while start.elapsed() < due && !done.load(Ordering::Relaxed) {
                // Dynamo's own writer may need the core.
                std::thread::yield_now();
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    system.drain();
    blocks as f64 / seconds
}

/// A prefill, more blocks one by one, and back.
fn come_and_go(pod: usize, chain: usize) -> impl Iterator<Item = Step> {
    let decoded = Step::serve(pod, chain, 0..PREFILL, WRITTEN).chain(Step::evict_singly(pod, chain, PREFILL..WRITTEN));
    decoded.chain([Step::evict(pod, chain, 0..PREFILL)])
}

/// What the writer sends.
const BLOCKS_A_SECOND: u64 = 200_000;
/// Blocks of a prompt that the writer stores at once, and in all.
const PREFILL: usize = 24;
const WRITTEN: usize = 32;
/// Searches between two looks at whether it is over.
const AT_ONCE: u64 = 64;
