//! Search scalability by threads, alone and beside a writer.
//!
//! Every thread searches for the next turns of conversations in an order of its own. Throughput is taken without a
//! clock in the loop; latencies in a run of their own, each search between two readings of the clock, whose cost (some
//! 40 ns) is in them. The writer sends 200,000 blocks a second as an engine does: a prefill, blocks one by one, and both
//! evicted again.

mod interference;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::concurrent::{Change, ConcurrentDynamo, ConcurrentOurs, ConcurrentSmg, ConcurrentSystem, Script, Span};
use crate::options::Options;
use crate::results::{ResultTable, Value};
use crate::systems::NAMES;
use pointsman_benches::fleet::{Cell, Content, Fleet};
use pointsman_benches::measure::Spread;
use pointsman_lab::SplitMix64;
use pointsman_lab::latency::LatencyHistogram;

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<ResultTable> {
    let columns = [
        "threads",
        "system",
        "writer",
        "M searches/s",
        "of linear",
        "p50 (ns)",
        "p99 (ns)",
        "p99.9 (ns)",
        "p99 ÷ p50",
        "k blocks written/s",
    ];
    let title = format!("Searches by threads, {PODS} pods, {BLOCKS} blocks");
    let mut table = ResultTable::new("threads", &title, columns);
    let fleet = Fleet::build(Cell::new(PODS, BLOCKS, Content::Spread { depths: 4 }, options.table()), options.seed);
    let mut lanes = lanes(&fleet);
    table.findings.extend(lanes.iter().filter_map(|lane| lane.disagreement(&fleet)));
    let most = options.threads.unwrap_or_else(cores);
    let mut samples = Samples::new();
    for writer in [false, true] {
        for threads in counts(most, writer) {
            let beside = if writer { " beside a writer" } else { "" };
            tell(&format!("threads: {threads}{beside}"));
            let taken = samples.entry((writer, threads)).or_default();
            for round in 0..options.rounds.min(MOST_ROUNDS) {
                for at in (0..lanes.len()).map(|at| (at + round) % NAMES.len()) {
                    taken[at].push(lanes[at].run(Load { threads, writer, most, seed: options.seed + round as u64 }));
                }
            }
        }
    }
    for (&(writer, threads), taken) in &samples {
        for (at, taken) in taken.iter().enumerate() {
            let one = Spread::of(rates(&samples[&(writer, 1)][at])).median;
            table.rows.push(row(NAMES[at], threads, writer, one, taken));
        }
    }
    table.rows.sort_by_key(|row| NAMES.iter().position(|name| row[1] == Value::from(*name)));
    table.findings.extend(verdicts(&samples, most));
    vec![table, interference::table(options, tell)]
}

/// As many as the machine has.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// 1, 2, 4 and so on to the most; a writer has a core to itself where there are two.
fn counts(most: usize, writer: bool) -> Vec<usize> {
    let most = if writer { most.saturating_sub(1).max(1) } else { most };
    let mut counts: Vec<usize> = (0..).map(|power| 1 << power).take_while(|&count| count < most).collect();
    counts.push(most);
    counts
}

/// One run.
#[derive(Clone, Copy)]
struct Load {
    threads: usize,
    writer: bool,
    /// Threads that there are, for a run to be shorter where there are many.
    most: usize,
    seed: u64,
}

/// What runs gave, by whether there was a writer, threads and system.
type Samples = BTreeMap<(bool, usize), [Vec<Sample>; 3]>;

/// What one gave.
struct Sample {
    /// Searches a second.
    rate: f64,
    latencies: LatencyHistogram,
    /// Blocks a second.
    written: f64,
}

trait Lane {
    fn disagreement(&self, fleet: &Fleet) -> Option<String>;
    fn run(&mut self, load: Load) -> Sample;
}

fn lanes(fleet: &Fleet) -> [Box<dyn Lane>; 3] {
    let (script, spans, changes) = Script::of(fleet);
    let (script, written) = (Arc::new(script), written(&spans));
    let all = (&script, &spans[..], &changes[..], &written[..]);
    [fill::<ConcurrentOurs>(all), fill::<ConcurrentSmg>(all), fill::<ConcurrentDynamo>(all)]
}

type Parts<'a> = (&'a Arc<Script>, &'a [Span], &'a [Change], &'a [Vec<(Span, Op)>]);

/// What the writer does to a prompt's span.
#[derive(Clone, Copy)]
enum Op {
    Store,
    Remove,
}

/// By chain, the writer's events: 24 blocks, 8 more one by one, and back.
fn written(spans: &[Span]) -> Vec<Vec<(Span, Op)>> {
    let events = |span: &Span| {
        let (start, end) = (span.from as usize, span.to as usize);
        let mut events = vec![(Span::new(start, start + PREFILL), Op::Store)];
        events.extend((PREFILL..WRITTEN).map(|at| (Span::new(start + at, start + at + 1), Op::Store)));
        // The script has the chain from its end too, at the same place.
        let back = |from: usize, to: usize| Span::new(end - to, end - from);
        events.extend((PREFILL..WRITTEN).rev().map(|at| (back(at, at + 1), Op::Remove)));
        events.push((back(0, PREFILL), Op::Remove));
        events
    };
    spans.iter().map(events).collect()
}

struct Filled<S: ConcurrentSystem> {
    system: S,
    text: S::Text,
    writer: S::Writer,
    spans: Vec<Span>,
    /// By chain, what the writer sends.
    written: Vec<Vec<Change>>,
}

fn fill<S: ConcurrentSystem + 'static>((script, spans, changes, written): Parts<'_>) -> Box<dyn Lane> {
    // The writer has a pod to itself.
    let system = S::new(PODS + 1, 1);
    let (text, mut writer) = (S::text(script), system.writer());
    for change in changes {
        assert!(system.apply(&mut writer, &text, change, &mut S::event(&text, change)), "the parent is held");
    }
    system.drain();
    let own = |(events, span): (&Vec<(Span, Op)>, &Span)| {
        let change = |&(blocks, op): &(Span, Op)| match op {
            Op::Store => Change::store(script, PODS, span.from as usize, blocks),
            Op::Remove => Change::remove(PODS, blocks),
        };
        events.iter().map(change).collect()
    };
    let written = written.iter().zip(spans).map(own).collect();
    Box::new(Filled { system, text, writer, spans: spans.to_vec(), written })
}

impl<S: ConcurrentSystem> Lane for Filled<S> {
    fn disagreement(&self, fleet: &Fleet) -> Option<String> {
        let (mut expected, mut answer) = (vec![0; PODS + 1], vec![0; PODS + 1]);
        let wrong = (0..self.spans.len()).find(|&chain| {
            fleet.expected_depths(chain, &mut expected);
            self.system.depths(&self.text, self.spans[chain], &mut answer);
            answer != expected
        });
        wrong.map(|chain| format!("DISAGREES: {}: first: chain {chain}: says {answer:?}, held {expected:?}", S::NAME))
    }

    fn run(&mut self, load: Load) -> Sample {
        let (rate, _, written) = self.search(load, false);
        let (_, latencies, _) = self.search(load, true);
        Sample { rate, latencies, written }
    }
}

impl<S: ConcurrentSystem> Filled<S> {
    /// Searches a second, how long each took if asked for, and blocks written a second.
    fn search(&mut self, load: Load, timed: bool) -> (f64, LatencyHistogram, f64) {
        let Self { system, text, writer, spans, written } = self;
        let (system, text, spans, done) = (&*system, &*text, &*spans, &AtomicBool::new(false));
        std::thread::scope(|scope| {
            let writer = load
                .writer
                .then(|| scope.spawn(move || write_steadily(system, text, writer, written, load.seed, done)));
            let search = |thread: usize| {
                let rng = SplitMix64::new(load.seed << 8 ^ thread as u64);
                scope.spawn(move || {
                    if timed { each(system, text, spans, rng, done) } else { flat_out(system, text, spans, rng, done) }
                })
            };
            let searchers: Vec<_> = (0..load.threads).map(search).collect();
            std::thread::sleep(if load.most > 4 { WINDOW / 2 } else { WINDOW });
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
}

fn flat_out<S: ConcurrentSystem>(
    system: &S,
    text: &S::Text,
    spans: &[Span],
    mut rng: SplitMix64,
    done: &AtomicBool,
) -> (f64, LatencyHistogram) {
    let (mut scratch, mut count, start) = (S::Scratch::default(), 0u64, Instant::now());
    while !done.load(Ordering::Relaxed) {
        for _ in 0..64 {
            black_box(system.search(text, spans[rng.below(spans.len())], &mut scratch));
        }
        count += 64;
    }
    (count as f64 / start.elapsed().as_secs_f64(), LatencyHistogram::default())
}

fn each<S: ConcurrentSystem>(
    system: &S,
    text: &S::Text,
    spans: &[Span],
    mut rng: SplitMix64,
    done: &AtomicBool,
) -> (f64, LatencyHistogram) {
    let (mut scratch, mut taken) = (S::Scratch::default(), LatencyHistogram::default());
    while !done.load(Ordering::Relaxed) {
        let prompt = spans[rng.below(spans.len())];
        black_box(S::touch(text, prompt));
        let start = Instant::now();
        black_box(system.search(text, black_box(prompt), &mut scratch));
        taken.record(start.elapsed().as_nanos() as u64);
    }
    (0.0, taken)
}

/// Sends events at [`BLOCKS_A_SECOND`]; what it reached. Ends with everything removed that it stored.
fn write_steadily<S: ConcurrentSystem>(
    system: &S,
    text: &S::Text,
    writer: &mut S::Writer,
    written: &[Vec<Change>],
    seed: u64,
    done: &AtomicBool,
) -> f64 {
    let (mut rng, start, mut blocks) = (SplitMix64::new(seed ^ 0x3717), Instant::now(), 0);
    while !done.load(Ordering::Relaxed) {
        for change in &written[rng.below(written.len())] {
            let mut event = S::event(text, change);
            assert!(system.apply(writer, text, change, &mut event), "the parent is held");
            blocks += change.blocks() as u64;
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

fn rates(samples: &[Sample]) -> Vec<f64> {
    samples.iter().map(|sample| sample.rate).collect()
}

fn quantile(samples: &[Sample], share: f64) -> Option<Spread> {
    let taken: Option<Vec<f64>> = samples.iter().map(|sample| sample.latencies.quantile(share)).collect();
    taken.map(Spread::of)
}

fn row(name: &str, threads: usize, writer: bool, one: f64, samples: &[Sample]) -> Vec<Value> {
    let rate = Spread::of(rates(samples).into_iter().map(|rate| rate / 1e6).collect());
    let written = writer.then(|| Spread::of(samples.iter().map(|sample| sample.written / 1e3).collect()));
    let mut row = vec![threads.into(), name.into(), if writer { "yes" } else { "no" }.into(), rate.into()];
    row.push((rate.median * 1e6 / (one * threads as f64)).into());
    row.extend([0.5, 0.99, 0.999].map(|share| quantile(samples, share).into()));
    row.push(tail(samples).into());
    row.push(written.into());
    row
}

/// p99 ÷ p50, the median of rounds.
fn tail(samples: &[Sample]) -> Option<f64> {
    let ratio = |sample: &Sample| Some(sample.latencies.quantile(0.99)? / sample.latencies.quantile(0.5)?);
    let ratios: Option<Vec<f64>> = samples.iter().map(ratio).collect();
    ratios.map(|ratios| Spread::of(ratios).median)
}

fn verdicts(samples: &Samples, most: usize) -> Vec<String> {
    let judge = |held: bool| if held { "held" } else { "MISSED" };
    let rate = |threads: usize| Spread::of(rates(&samples[&(false, threads)][0])).median;
    let scale = rate(most) / (rate(1) * most as f64);
    let verdict = if most > 1 { judge(scale >= 0.85) } else { "not measured" };
    let mut lines = vec![format!("target: searches scale ≥ 0.85 of linear to {most} threads: {verdict} ({scale:.2})")];
    for (&(writer, threads), taken) in samples {
        if let Some(tail) = tail(&taken[0]).filter(|_| writer) {
            let verdict = judge(tail <= 3.0);
            lines.push(format!("target: p99 ≤ 3× p50 under writes, {threads} searching: {verdict} ({tail:.2})"));
        }
    }
    lines
}

const PODS: usize = 64;
const BLOCKS: usize = 128;
const MOST_ROUNDS: usize = 5;
const WINDOW: Duration = Duration::from_millis(300);
/// What the writer sends.
const BLOCKS_A_SECOND: u64 = 200_000;
/// Blocks of a prompt that the writer stores at once, and in all.
const PREFILL: usize = 24;
const WRITTEN: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_double_to_the_most() {
        assert_eq!(counts(1, false), [1]);
        assert_eq!(counts(6, false), [1, 2, 4, 6]);
        assert_eq!(counts(16, true), [1, 2, 4, 8, 15]);
        assert_eq!(counts(2, true), [1]);
    }

    /// What the writer stores it removes, and the fleet's own answers stay right in every system.
    #[test]
    fn searches_and_writes_leave_the_answers_as_they_were() {
        let fleet = Fleet::build(Cell::new(PODS, BLOCKS, Content::Spread { depths: 4 }, 2_000), 1);
        for mut lane in lanes(&fleet) {
            assert_eq!(lane.disagreement(&fleet), None);
            let sample = lane.run(Load { threads: 2, writer: true, most: 8, seed: 1 });
            assert!(sample.rate > 0.0 && sample.written > 0.0 && !sample.latencies.is_empty());
            assert_eq!(lane.disagreement(&fleet), None);
        }
    }
}
