//! The chaos test: start, load and faults side by side, recovery, invariant checks, shutdown, leak check.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::availability::Availability;
use super::executions;
use super::fault_schedule::FaultSchedule;
use super::harness::Harness;
use super::healing::{self, HEALED_BY, HealBounds, healings};
use super::history::History;
use super::inject::{ATTEMPTS, Injected, Injector};
use super::invariants::{Invariant, poll_until};
use super::leak_check::ResourceCounts;
use super::report::ChaosReport;
use super::sabotage::Sabotage;
use super::starved::StarvedGateway;
use super::timeline::FaultPeriod;
use crate::cli::Args;
use crate::load_generator::{Failure, LoadGenerator, LoadStats, Outcome};
use crate::startup::{StartupError, prefill_pods};

/// Runs the test; `on_progress` gets the elapsed time and how many requests have ended.
pub(crate) async fn run(
    args: &Args,
    mut on_progress: impl FnMut(Duration, usize),
) -> Result<ChaosReport, StartupError> {
    let before = ResourceCounts::now();
    let mut harness = Harness::start(args).await?;
    let starved = StarvedGateway::start(args.seed).await.map_err(StartupError::Fleet)?;
    let (seed, length) = (args.seed, Duration::from_secs(args.seconds));
    let schedule = FaultSchedule::new(seed, args.pods, length);
    let begun = Instant::now();
    let (stats, injected) = inject(&mut harness, starved.as_ref(), args, &schedule, begun, &mut on_progress).await;
    let calm = begun.elapsed();
    let mut invariants = harness.check_recovery(args).await;
    let attempts = harness.attempts().await;
    let history = History::gather(&harness.tracker, &harness.ledger, begun);
    let during = history.until(calm);
    let groups = groups(args);
    let availability = Availability::of(&during.requests, &during.executions, &injected.periods, &groups);
    let healings = healings(&injected.periods, &history.executions, calm, HEAL_BOUNDS);
    invariants.splice(0..0, bounds(&availability, &healings));
    invariants.push(pods_agree(&history, &attempts));
    let reloads =
        Invariant::new("reloads take effect, and wrong ones do not", String::from("under load"), &injected.violations);
    invariants.push(reloads);
    harness.stop().await;
    if let Some(starved) = starved {
        invariants.push(starved.stop().await);
    }
    invariants.push(no_leak(before).await);
    Ok(ChaosReport { seed, length, schedule, stats, attempts, availability, healings, invariants })
}

/// Load and faults at once, until the time is over, every pod has healed or had its time to, and requests in flight have ended.
async fn inject(
    harness: &mut Harness,
    starved: Option<&StarvedGateway>,
    args: &Args,
    schedule: &FaultSchedule,
    begun: Instant,
    on_progress: &mut impl FnMut(Duration, usize),
) -> (LoadStats, Injected) {
    let length = Duration::from_secs(args.seconds);
    let (stop, is_slow, mut ended) = (CancellationToken::new(), Arc::new(AtomicBool::new(false)), 0);
    let load = LoadGenerator { stop: stop.clone(), ..harness.load(args.seed, usize::MAX) };
    let mut slow = harness.load(args.seed.wrapping_add(3), usize::MAX);
    (slow.client, slow.concurrency) = (slow.client.slow(Arc::clone(&is_slow)), SLOW_READERS);
    let (ledger, names) = (harness.ledger.clone(), harness.names());
    let injector = Injector {
        fleet: &mut harness.fleet,
        gateway: &harness.gateway,
        starved,
        leaves: Arc::clone(&load.leaves),
        slow: (slow, is_slow),
        sabotage: args.sabotage,
        begun,
    };
    let faults = async {
        let injected = injector.run(schedule).await;
        sleep_until(begun + length).await;
        let has_healed = |(pod, since): &(usize, Duration)| {
            ledger.finished_since(&names[*pod], (begun + *since).into_std()) >= HEALED_BY
        };
        let mut pending = last_faults(&injected.periods);
        let deadline = Instant::now() + calm_bound(args.sabotage);
        while !pending.is_empty() && Instant::now() < deadline {
            sleep(Duration::from_millis(100)).await;
            pending.retain(|fault| !has_healed(fault));
        }
        stop.cancel();
        injected
    };
    let load = load.run(|| {
        ended += 1;
        on_progress(begun.elapsed().min(length), ended);
    });
    tokio::join!(load, faults)
}

/// Each pod's last fault that it has to heal from: its number and the fault's end.
fn last_faults(periods: &[FaultPeriod]) -> Vec<(usize, Duration)> {
    let mut last = std::collections::BTreeMap::new();
    for period in periods.iter().filter(|period| period.kind.heals()) {
        if let Some(pod) = period.pod {
            last.insert(pod, period.end);
        }
    }
    last.into_iter().collect()
}

/// How long pods may take to heal after the last fault; less where it is known that one will not.
fn calm_bound(sabotage: Option<Sabotage>) -> Duration {
    if sabotage == Some(Sabotage::LostPod) { HEAL_BOUNDS.first + Duration::from_secs(5) } else { HEAL_BOUNDS.longest }
}

/// The pods of which a request needs one each.
fn groups(args: &Args) -> Vec<Vec<usize>> {
    match prefill_pods(args.profile(), args.pods) {
        0 => vec![(0..args.pods).collect()],
        prefill => vec![(0..prefill).collect(), (prefill..args.pods).collect()],
    }
}

/// Availability and times to heal against their bounds.
fn bounds(availability: &Availability, healings: &[healing::Healing]) -> [Invariant; 2] {
    let slowest = healings.iter().filter_map(|healing| healing.took).max().unwrap_or_default();
    let healed = healings.iter().filter(|healing| healing.took.is_some()).count();
    [
        Invariant::new(
            "requests are answered while a pod can",
            format!("{:.2}%, at least {:.0}%", 100.0 * availability.share(), 100.0 * LEAST_AVAILABILITY),
            &availability.violations(LEAST_AVAILABILITY),
        ),
        Invariant::new(
            "pods heal in time",
            format!(
                "{healed} of {} faults observed to their healing, the slowest {:.1} s; {} s are allowed, {} s in a row of faults",
                healings.len(),
                slowest.as_secs_f64(),
                HEAL_BOUNDS.first.as_secs(),
                HEAL_BOUNDS.longest.as_secs()
            ),
            &healing::violations(healings),
        ),
    ]
}

/// What pods ran, against what clients asked for and the gateway counted.
fn pods_agree(history: &History, attempts: &[(String, u64)]) -> Invariant {
    let limits = executions::Limits { runs: MOST_RUNS, lag: ABORT_LAG };
    let mut violations = executions::violations(&history.requests, &history.executions, limits);
    let sent: u64 = attempts.iter().map(|(_, count)| count).sum();
    let completed = attempts.iter().find(|(outcome, _)| outcome == "completed").map_or(0, |(_, count)| *count);
    let ran = history.executions.len() as u64;
    let finished = history.executions.iter().filter(|execution| execution.has_finished()).count() as u64;
    if ran > sent {
        violations.push(format!("pods ran {ran} and the gateway counts {sent} attempts"));
    }
    // An error that a pod answers with is a complete answer as well, which its engine never saw; it may be so where the client left.
    let refused = history.requests.iter().filter(|request| is_refused(&request.outcome)).count() as u64;
    if completed > finished + refused {
        violations
            .push(format!("pods finished {finished}, refused {refused}, and the gateway counts {completed} complete"));
    }
    let checked = format!("{ran} executions of {sent} attempts, {finished} finished");
    Invariant::new("pods ran each attempt once and to an end", checked, &violations)
}

/// Whether a request may have ended with a pod's own error.
fn is_refused(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Left | Outcome::Failed(Failure::Status(_)))
}

async fn no_leak(before: ResourceCounts) -> Invariant {
    let after = poll_until(Duration::from_secs(10), ResourceCounts::now, |now| now.is_within(before)).await;
    let figures = |found: ResourceCounts| {
        let sockets = found.sockets.map_or("unknown".to_owned(), |sockets| sockets.to_string());
        format!("{} tasks, {sockets} sockets", found.tasks)
    };
    let problem = format!("{} before, {} after", figures(before), figures(after));
    let problems: &[String] = if after.is_within(before) { &[] } else { &[problem] };
    Invariant::new("no task or socket leaks", format!("{}, as before", figures(after)), problems)
}

/// The share of requests that are to be answered, of those that count.
const LEAST_AVAILABILITY: f64 = 0.97;
/// A breaker is open for 10 s, and each time in a row for twice as long, up to 80 s; the rest is for probes on a busy machine.
const HEAL_BOUNDS: HealBounds = HealBounds { first: Duration::from_secs(20), longest: Duration::from_secs(100) };
/// A step of a request may be planned twice.
const MOST_RUNS: usize = 2 * (ATTEMPTS as usize + 1);
/// Until a pod has heard that nobody wants a request any more, on a busy machine.
const ABORT_LAG: Duration = Duration::from_secs(5);
const SLOW_READERS: usize = 4;
