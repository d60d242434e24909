//! What disturbs a search? Threads beside it, writers at a steady rate, the sweep of a large pod, a wide fleet.
//!
//! Prints p50, p99 and p99.9 of one searching thread in each situation, the time a retirement takes, and
//! searches a second by threads. Figures are of this machine; read the ratios.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use kv_index::{BlockHash, Config, Event, Index, Matches, Parent, Pod, Removed, Source, Stored};

fn main() {
    let mut rng = 1u64;
    let mut next = move || {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        rng ^ rng >> 29
    };
    let chains: Vec<Vec<BlockHash>> = (0..4_000).map(|_| (0..128).map(|_| BlockHash::new(next())).collect()).collect();
    let large: Vec<Vec<BlockHash>> = (0..2_000).map(|_| (0..512).map(|_| BlockHash::new(next())).collect()).collect();
    let index: Index = Index::new(Config::default());
    let pods: Vec<Pod> = (0..64).map(|n| index.join(&format!("pod-{n}")).expect("room")).collect();
    for (n, chain) in chains.iter().enumerate() {
        for holder in 0..4 {
            store(&index, pods[(n + holder * 7) % 60], Parent::Root, &chain[..128 - 24 * holder]);
        }
    }
    println!("{:<44} {:>8} {:>8} {:>8}", "one searching thread", "p50 ns", "p99 ns", "p99.9 ns");
    let quiet = timed(&index, &chains, Duration::from_secs(2), || {});
    row("quiet", quiet);
    let done = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write_steadily(&index, pods[60], &chains, &done));
        row("beside 200,000 block writes a second", timed(&index, &chains, Duration::from_secs(2), || {}));
        done.store(true, Ordering::Relaxed);
        writer.join().expect("the writer ends")
    });
    println!("  (the writer kept up {written:.0} a second)");
    let victim = index.join("large").expect("room");
    for chain in &large {
        store(&index, victim, Parent::Root, chain);
    }
    row("beside a pod of a million blocks", timed(&index, &chains, Duration::from_secs(2), || {}));
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
        row("while it is swept", timed(&index, &chains, Duration::from_secs(20), || swept.load(Ordering::Relaxed)));
        sweeper.join().expect("the sweeper ends")
    });
    println!("  (retiring it took {} ns, sweeping it {} ms)", retired.as_nanos(), sweep.as_millis());
    by_width(&chains);
    println!("\n{:<8} {:>22} {:>26}", "threads", "searches a second", "with a writer on one more");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    for threads in [1, 2, 4, 8, 12, 15, 16].into_iter().filter(|&threads| threads <= cores) {
        let alone = throughput(&index, &chains, threads, None);
        let beside = throughput(&index, &chains, threads, Some(pods[60]));
        println!("{threads:<8} {alone:>22.0} {beside:>26.0}");
    }
}

/// The same holders, eight to a chain, in a fleet of 64 pods and in one of 256.
fn by_width(chains: &[Vec<BlockHash>]) {
    let fleets = [64, 256].map(|width| {
        let index: Index = Index::new(Config::default());
        let pods: Vec<Pod> = (0..width).map(|n| index.join(&format!("pod-{n}")).expect("room")).collect();
        for (n, chain) in chains.iter().enumerate() {
            for holder in 0..8 {
                let pod = (n * 5 + holder * (width / 8 - 1)) % width;
                store(&index, pods[pod], Parent::Root, &chain[..128 - 24 * (holder % 4)]);
            }
        }
        index
    });
    let mut medians = [Vec::new(), Vec::new()];
    for _ in 0..9 {
        for (index, medians) in fleets.iter().zip(&mut medians) {
            medians.push(timed(index, chains, Duration::from_millis(300), || {})[0]);
        }
    }
    let [narrow, wide] = medians.map(|mut rounds| {
        rounds.sort_unstable();
        rounds[rounds.len() / 2]
    });
    println!(
        "\n8 holders among 64 pods: p50 {narrow} ns; among 256: {wide} ns; ratio {:.2}",
        wide as f64 / narrow as f64
    );
}

/// When to stop early.
trait Stop {
    fn stop(&self) -> bool;
}

impl Stop for () {
    fn stop(&self) -> bool {
        false
    }
}

impl Stop for bool {
    fn stop(&self) -> bool {
        *self
    }
}

/// Latencies of single searches, in random order over the chains.
fn timed<S: Stop>(index: &Index, chains: &[Vec<BlockHash>], most: Duration, stop: impl Fn() -> S) -> [u64; 3] {
    let (mut matches, mut taken, start) = (Matches::default(), Vec::with_capacity(4_000_000), Instant::now());
    let mut at = 7usize;
    while start.elapsed() < most && taken.len() < 4_000_000 && !stop().stop() {
        at = (at * 48_271) % 2_147_483_647;
        let chain = &chains[at % chains.len()];
        let begin = Instant::now();
        index.search(black_box(chain), &mut matches);
        taken.push(begin.elapsed().as_nanos() as u64);
        black_box(matches.groups());
    }
    taken.sort_unstable();
    [0.5, 0.99, 0.999].map(|share| taken[(taken.len() as f64 * share) as usize])
}

fn row(name: &str, [p50, p99, p999]: [u64; 3]) {
    println!("{name:<44} {p50:>8} {p99:>8} {p999:>8}");
}

/// Stores and evicts the tails of conversations at 200,000 blocks a second; the rate it reached.
fn write_steadily(index: &Index, pod: Pod, chains: &[Vec<BlockHash>], done: &AtomicBool) -> f64 {
    let (start, mut blocks) = (Instant::now(), 0u64);
    for chain in chains.iter().cycle() {
        if done.load(Ordering::Relaxed) {
            break;
        }
        store(index, pod, Parent::Root, &chain[..32]);
        let tail: Vec<BlockHash> = chain[..32].iter().rev().copied().collect();
        index.apply(pod, Source::Membership, &Event::Removed(Removed::new(&tail))).expect("live");
        blocks += 64;
        let due = start + Duration::from_nanos(blocks * 5_000);
        while Instant::now() < due {
            std::hint::spin_loop();
        }
    }
    blocks as f64 / start.elapsed().as_secs_f64()
}

fn throughput(index: &Index, chains: &[Vec<BlockHash>], threads: usize, writer: Option<Pod>) -> f64 {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if let Some(pod) = writer {
            let done = &done;
            scope.spawn(move || write_steadily(index, pod, chains, done));
        }
        let searchers: Vec<_> = (0..threads)
            .map(|thread| {
                let done = &done;
                scope.spawn(move || {
                    let (mut matches, mut count, mut at) = (Matches::default(), 0u64, 7 + thread * 1_000);
                    while !done.load(Ordering::Relaxed) {
                        for _ in 0..64 {
                            at = (at * 48_271) % 2_147_483_647;
                            index.search(black_box(&chains[at % chains.len()]), &mut matches);
                            black_box(matches.groups());
                        }
                        count += 64;
                    }
                    count
                })
            })
            .collect();
        let start = Instant::now();
        std::thread::sleep(Duration::from_secs(1));
        done.store(true, Ordering::Relaxed);
        let seconds = start.elapsed().as_secs_f64();
        let total: u64 = searchers.into_iter().map(|searcher| searcher.join().expect("a searcher ends")).sum();
        total as f64 / seconds
    })
}

fn store(index: &Index, pod: Pod, parent: Parent, blocks: &[BlockHash]) {
    index.apply(pod, Source::Membership, &Event::Stored(Stored::new(parent, blocks))).expect("live");
}
