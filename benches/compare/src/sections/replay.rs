//! Sustained throughput under trace replay, and lookup latency at it.
//!
//! One corpus for all systems ([`crate::replay`]); its answers are compared before anything is timed. A rate that is not
//! kept up with is tried a second time, since a stall of the machine is not the system's.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::mismatches::Mismatches;
use crate::options::Options;
use crate::replay::corpus::{Corpus, Pods};
use crate::replay::drive::{Lanes, ReplayTimes};
use crate::replay::highest_rate;
use crate::results::{ResultTable, Value};
use crate::systems::{Contender, NAMES, Prompts, contenders};
use pointsman_benches::fleet::Step;
use pointsman_benches::measure::Spread;
use pointsman_lab::trace::Trace;
use pointsman_lab::trace::read::TraceError;
use pointsman_lab::trace::synthetic::Synthetic;

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<ResultTable> {
    let columns = [
        "system",
        "M block operations/s kept up with",
        "lookups/s",
        "lookup p50 (ns)",
        "lookup p99 (ns)",
        "p99 from when it was due (µs)",
        "drain (ms)",
        "M block operations/s flat out",
        "events refused",
    ];
    let mut table = ResultTable::new("replay", "Replay of a trace, open loop", columns);
    let trace = match requests(options.trace.as_deref(), options) {
        Ok(trace) => trace,
        Err(error) => {
            let cause = std::error::Error::source(&error).map_or_else(String::new, |cause| format!(": {cause}"));
            table.findings.push(format!("NOT MEASURED: {error}{cause}"));
            return vec![table];
        }
    };
    let corpus = Corpus::new(&trace, PODS, options.seed);
    let lanes = Lanes::of(options.threads.unwrap_or_else(super::threads::cores));
    table.findings.extend(describe(&trace, &corpus, lanes, options.trace.as_deref()));
    tell("replay: answers");
    let mut systems = contenders(corpus.pods, Prompts::Hashes(&corpus.chains));
    table.findings.extend(systems.iter_mut().filter_map(|system| check(&mut **system, &corpus)));
    let rounds = if options.quick { 1 } else { options.rounds.min(MOST_ROUNDS) };
    let (mut found, start): ([Vec<Found>; 3], _) = (Default::default(), Instant::now());
    for round in (0..rounds).take_while(|_| start.elapsed() < LONGEST) {
        for at in (0..systems.len()).map(|at| (at + round) % systems.len()) {
            tell(&format!("replay: {}, round {} of {rounds}", NAMES[at], round + 1));
            found[at].extend(find(&*systems[at], &corpus, lanes));
        }
    }
    for (name, found) in NAMES.iter().zip(&found) {
        table.rows.push(row(name, &corpus, found));
    }
    table.findings.extend(verdicts(&found));
    vec![table]
}

fn requests(path: Option<&Path>, options: &Options) -> Result<Trace, TraceError> {
    let most = if options.quick { QUICK_REQUESTS } else { REQUESTS };
    let Some(path) = path else { return Ok(Synthetic::Conversation.trace(most, options.seed)) };
    // Nobody answers here, so nobody can wait for an answer.
    let trace = Trace::open(path)?.opened();
    Ok(trace.take(if options.quick { QUICK_REQUESTS } else { MOST_REQUESTS }))
}

fn describe(trace: &Trace, corpus: &Corpus, lanes: Lanes, path: Option<&Path>) -> [String; 2] {
    let stats = trace.stats();
    let name = path.and_then(Path::file_name).map_or("synthetic".into(), |name| name.to_string_lossy());
    let [asked, stored, evicted] = corpus.blocks();
    [
        format!(
            "trace: {name}; {} requests in {:.0} s, {:.1} ids of {} tokens each (p50 {}, p99 {}), {:.1}% of them known, \
             {:.0} tokens an answer; widest fork {}",
            stats.requests,
            stats.seconds,
            stats.chain[5],
            trace.block,
            stats.chain[1],
            stats.chain[4],
            stats.known() * 100.0,
            stats.output[5],
            stats.fan[0],
        ),
        format!(
            "corpus: {} pods of {} blocks; {} lookups, {} events; blocks: {asked} looked up, {stored} stored, {evicted} \
             evicted; {} threads look up, {} send events (dynamo has as many more that apply them)",
            corpus.pods,
            PODS.capacity,
            corpus.lookups.len(),
            corpus.steps.len(),
            lanes.lookups,
            lanes.events,
        ),
    ]
}

/// Applies the events in order and compares answers on the way.
fn check(system: &mut dyn Contender, corpus: &Corpus) -> Option<String> {
    let steps: Vec<Step> = corpus.steps.iter().map(|&(_, step)| step).collect();
    let (mut mismatches, mut answer, mut at) = (Mismatches::default(), vec![0; corpus.pods], 0);
    for check in &corpus.checks {
        system.write(&steps[at..check.after]);
        at = check.after;
        system.depths(check.prompt, &mut answer);
        mismatches.add(check.prompt, &answer, &check.depths);
    }
    mismatches.line(system.name(), "replay")
}

/// The rate that one system keeps up with in one round.
struct Found {
    /// Block operations a second.
    rate: f64,
    flat_out: f64,
    outcome: ReplayTimes,
}

fn find(system: &dyn Contender, corpus: &Corpus, lanes: Lanes) -> Option<Found> {
    let blocks = corpus.blocks().iter().sum::<usize>() as f64;
    let flat_out = blocks / system.replay(corpus, lanes, Duration::ZERO).drained.as_secs_f64();
    let holds = |rate: f64| {
        let window = Duration::from_secs_f64(blocks / rate);
        (0..TRIES).map(|_| system.replay(corpus, lanes, window)).find(ReplayTimes::kept_up)
    };
    let (rate, outcome) = highest_rate::highest(flat_out * NEAR, holds)?;
    Some(Found { rate, flat_out, outcome })
}

fn row(name: &str, corpus: &Corpus, found: &[Found]) -> Vec<Value> {
    let spread = |value: &dyn Fn(&Found) -> Option<f64>| -> Value {
        let values: Vec<f64> = found.iter().filter_map(value).collect();
        if values.is_empty() { Value::Missing } else { Spread::of(values).into() }
    };
    let blocks = corpus.blocks().iter().sum::<usize>() as f64;
    vec![
        name.into(),
        spread(&|found| Some(found.rate / 1e6)),
        spread(&|found| Some(found.rate / blocks * corpus.lookups.len() as f64)),
        spread(&|found| found.outcome.lookups.quantile(0.5)),
        spread(&|found| found.outcome.lookups.quantile(0.99)),
        spread(&|found| found.outcome.since_due.quantile(0.99).map(|ns| ns / 1e3)),
        spread(&|found| Some(found.outcome.drain.as_secs_f64() * 1e3)),
        spread(&|found| Some(found.flat_out / 1e6)),
        found.iter().map(|found| found.outcome.refused).max().into(),
    ]
}

fn verdicts(found: &[Vec<Found>; 3]) -> Vec<String> {
    let median = |at: usize| {
        let rates: Vec<f64> = found[at].iter().map(|found| found.rate).collect();
        (!rates.is_empty()).then(|| Spread::of(rates).median)
    };
    let ratio = |peer: usize| Some(median(0)? / median(peer)?);
    let ratios = [1, 2].map(|peer| ratio(peer).map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}")));
    let verdict = match ratio(1) {
        Some(ratio) if ratio >= 1.5 => "held",
        Some(_) => "MISSED",
        None => "not measured",
    };
    vec![
        format!("rate of ours ÷ {}: {}; ÷ {}: {}", NAMES[1], ratios[0], NAMES[2], ratios[1]),
        format!("target: replay rate ≥ 1.5× {}: {verdict} ({})", NAMES[1], ratios[0]),
    ]
}

/// A fleet of 16, a million tokens each.
const PODS: Pods = Pods::new(16, 62_500);
const REQUESTS: usize = 12_031;
const QUICK_REQUESTS: usize = 1_500;
/// Conversations may all share one start, and SMG panics past 262,144 children of one run.
const MOST_REQUESTS: usize = 100_000;
const MOST_ROUNDS: usize = 3;
/// No round begins after this.
const LONGEST: Duration = Duration::from_secs(100);
/// A rate is given up when it was not kept up with so many times.
const TRIES: usize = 2;
/// The first rate tried, as a share of what the system does without a pause.
const NEAR: f64 = 0.85;
