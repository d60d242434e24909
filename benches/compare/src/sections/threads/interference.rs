//! Interference: search latency beside a large pod, during its sweep, and in a wide fleet.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kv_index::{BlockHash, Config, Event, EventSemantics, Index, Matches, Parent, Pod, Stored};

use crate::options::Options;
use crate::results::{ResultTable, Value};
use pointsman_benches::measure::interleaved;
use pointsman_benches::random_prompt::RandomPrompt;
use pointsman_lab::SplitMix64;
use pointsman_lab::latency::LatencyHistogram;

pub(super) fn table(options: &Options, tell: &mut dyn FnMut(&str)) -> ResultTable {
    let columns = ["one searching thread", "p50 (ns)", "p99 (ns)", "p99.9 (ns)"];
    let mut table = ResultTable::new("threads_interference", "Interference with a search of ours", columns);
    let mut rng = SplitMix64::new(options.seed);
    let chains: Vec<Vec<BlockHash>> = (0..4_000).map(|_| rng.chain(128)).collect();
    let large = (if options.quick { 100_000 } else { 1_000_000 }) / LARGE_CHAIN;
    let window = Duration::from_millis(if options.quick { 200 } else { 1_000 });
    let index = filled(64, &chains, 4);
    let until = |end: Instant| move || Instant::now() >= end;
    tell("threads: interference");
    let quiet = searched(&index, &chains, until(Instant::now() + window));
    table.rows.push(row("quiet", &quiet));
    let victim = index.join("large").expect("room");
    for _ in 0..large {
        store(&index, victim, &rng.chain(LARGE_CHAIN));
    }
    let beside = searched(&index, &chains, until(Instant::now() + window));
    table.rows.push(row(&format!("beside a pod of {} blocks", large * LARGE_CHAIN), &beside));
    let start = Instant::now();
    index.retire(victim);
    let retired = start.elapsed();
    let swept = AtomicBool::new(false);
    let sweep = std::thread::scope(|scope| {
        let sweeper = scope.spawn(|| {
            let start = Instant::now();
            while index.sweep(1_024).pending > 0 {}
            swept.store(true, Ordering::Relaxed);
            start.elapsed()
        });
        let during = searched(&index, &chains, || swept.load(Ordering::Relaxed));
        table.rows.push(row("while it is swept", &during));
        sweeper.join().expect("the sweeper ends")
    });
    table.findings.push(format!("retiring it took {} ns, sweeping it {} ms", retired.as_nanos(), sweep.as_millis()));
    table.findings.push(by_width(&chains, options.rounds));
    table
}

/// The same holders, eight to a chain, in a fleet of 64 pods and in one of 256.
fn by_width(chains: &[Vec<BlockHash>], rounds: usize) -> String {
    let fleets = [64, 256].map(|width| filled(width, chains, 8));
    let medians = interleaved(rounds, fleets.len(), |at| {
        let end = Instant::now() + Duration::from_millis(100);
        searched(&fleets[at], chains, || Instant::now() >= end).quantile(0.5).unwrap_or(f64::NAN)
    });
    let (narrow, wide) = (medians[0].median, medians[1].median);
    format!("8 holders among 64 pods: p50 {narrow:.0} ns; among 256: {wide:.0} ns; ratio {:.2}", wide / narrow)
}

/// So many holders of every chain, at four depths.
fn filled(width: usize, chains: &[Vec<BlockHash>], holders: usize) -> Index {
    let index: Index = Index::new(Config::default());
    let pods: Vec<Pod> = (0..width).map(|n| index.join(&format!("pod-{n}")).expect("room")).collect();
    for (n, chain) in chains.iter().enumerate() {
        for holder in 0..holders {
            let pod = (n * 5 + holder * (width / 8 - 1)) % width;
            store(&index, pods[pod], &chain[..chain.len() - 24 * (holder % 4)]);
        }
    }
    index
}

fn store(index: &Index, pod: Pod, blocks: &[BlockHash]) {
    index.apply(pod, EventSemantics::Membership, &Event::Stored(Stored::new(Parent::Root, blocks))).expect("live");
}

/// LatencyHistogram of single searches in random order, one at least, until it is time.
fn searched(index: &Index, chains: &[Vec<BlockHash>], done: impl Fn() -> bool) -> LatencyHistogram {
    let (mut matches, mut taken, mut rng) = (Matches::default(), LatencyHistogram::default(), SplitMix64::new(7));
    loop {
        let chain = &chains[rng.below(chains.len())];
        let start = Instant::now();
        index.search(black_box(chain), &mut matches);
        taken.record(start.elapsed().as_nanos() as u64);
        black_box(matches.groups());
        if done() {
            return taken;
        }
    }
}

fn row(name: &str, taken: &LatencyHistogram) -> Vec<Value> {
    let mut row = vec![Value::from(name)];
    row.extend([0.5, 0.99, 0.999].map(|share| Value::from(taken.quantile(share))));
    row
}

/// Blocks of a chain of the large pod.
const LARGE_CHAIN: usize = 512;
