//! The chaos test: start, load and faults side by side, recovery, invariant checks, shutdown, leak check.

use std::sync::Arc;
use std::time::Duration;

use kv_index::{BlockHash, Event, EventSemantics, Stored};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::chaos::fault_schedule::FaultSchedule;
use crate::chaos::invariants::{Invariant, cache_divergences, poll_until, poll_until_empty};
use crate::chaos::leak_check::ResourceCounts;
use crate::chaos::report::ChaosReport;
use crate::cli::Args;
use crate::fleet::{Fleet, FleetShape};
use crate::load_generator::{Client, LoadGenerator, LoadStats, RequestTracker, Workload, WorkloadShape};
use crate::startup::{StartupError, start};
use pointsman_engine_sim::{CompletionOracle, Fault, MODEL};
use pointsman_gateway::Gateway;
use pointsman_gateway::config::Config;

/// Runs the test; `on_progress` gets the elapsed time and how many requests have ended.
pub(crate) async fn run(
    args: &Args,
    mut on_progress: impl FnMut(Duration, usize),
) -> Result<ChaosReport, StartupError> {
    let before = ResourceCounts::now();
    let harness = Harness::start(args).await?;
    let (seed, length) = (args.seed, Duration::from_secs(args.seconds));
    let schedule = FaultSchedule::new(seed, args.pods, length);
    let stats = harness.inject_faults(&schedule, seed, length, &mut on_progress).await;
    let mut invariants = harness.check_recovery(args, &stats).await;
    let attempts = harness.attempts().await;
    harness.stop().await;
    invariants.push(no_leak(before).await);
    Ok(ChaosReport { seed, length, schedule, stats, attempts, invariants })
}

struct Harness {
    fleet: Fleet,
    gateway: Gateway,
    client: Client,
    oracle: Arc<CompletionOracle>,
    tracker: Arc<RequestTracker>,
    /// Limit of every recovery check.
    recovery_timeout: Duration,
}

impl Harness {
    async fn start(args: &Args) -> Result<Self, StartupError> {
        let (pods, speed) = (args.pods, args.speed.unwrap_or(SPEED));
        let shape = FleetShape { pods, speed, blocks: 1_500, lease: LEASE, ..FleetShape::default() };
        let (fleet, gateway, client) = start(args.profile(), shape, configure).await?;
        let recovery_timeout = Duration::from_secs(if args.corrupt_index { 3 } else { 60 });
        Ok(Self { fleet, gateway, client, oracle: Arc::default(), tracker: Arc::default(), recovery_timeout })
    }

    /// Load and faults at once, until the time is over and requests in flight have ended.
    async fn inject_faults(
        &self,
        schedule: &FaultSchedule,
        seed: u64,
        length: Duration,
        on_progress: &mut impl FnMut(Duration, usize),
    ) -> LoadStats {
        let (stop, begun, mut ended) = (CancellationToken::new(), Instant::now(), 0);
        let load = LoadGenerator { stop: stop.clone(), ..self.load(seed, usize::MAX) };
        let faults = async {
            for scheduled in schedule.faults() {
                sleep_until(begun + scheduled.at).await;
                self.fleet.fault(scheduled.pod, scheduled.fault);
            }
            sleep_until(begun + length).await;
            stop.cancel();
        };
        let load = load.run(|| {
            ended += 1;
            on_progress(begun.elapsed().min(length), ended);
        });
        tokio::join!(load, faults).0
    }

    /// Ends all faults, and looks whether everything is as if there had been none.
    async fn check_recovery(&self, args: &Args, stats: &LoadStats) -> Vec<Invariant> {
        (0..self.fleet.pods().len()).for_each(|pod| self.fleet.fault(pod, Fault::Recover));
        let unhealthy = poll_until_empty(self.recovery_timeout, || self.unhealthy_pods()).await;
        self.probe(args).await;
        // Every pod is up: every request must be answered now.
        let conversations = args.pods * 2;
        let afterwards = self.load(args.seed.wrapping_add(1), conversations).run(|| {}).await;
        let answered = format!("{} requests answered after recovery", afterwards.answered);
        let mut unanswered: Vec<String> = afterwards.failed.iter().map(|(kind, n)| format!("{n} × {kind}")).collect();
        unanswered.extend(unhealthy);
        let audit = self.tracker.audit();
        let mut unreported: Vec<String> = stats.unreported.iter().map(ToString::to_string).collect();
        unreported.extend(afterwards.unreported.iter().map(ToString::to_string));
        if args.corrupt_index {
            self.corrupt_index();
        }
        let divergent = poll_until_empty(self.recovery_timeout, || self.divergent_caches()).await;
        let busy = poll_until_empty(self.recovery_timeout, || self.in_flight_work()).await;
        let blocks: usize = self.fleet.pods().map(|pod| pod.cache().len()).sum();
        vec![
            Invariant::new(
                "every request ended exactly once",
                format!("{} requests", audit.begun),
                &audit.violations(),
            ),
            Invariant::new(
                "every failure was reported, every answer whole",
                format!("{} failures", stats.failures()),
                &unreported,
            ),
            Invariant::new("a recovered fleet answers", answered, &unanswered),
            Invariant::new("the index equals the pods' caches", format!("{blocks} blocks"), &divergent),
            Invariant::new("nothing is counted as in flight", "all counters are zero".to_owned(), &busy),
        ]
    }

    /// Asks until all is answered: a circuit that cut streams have opened closes by answers, not by health alone.
    async fn probe(&self, args: &Args) {
        let deadline = Instant::now() + self.recovery_timeout;
        while self.load(args.seed.wrapping_add(2), args.pods).run(|| {}).await.failures() > 0 {
            if Instant::now() >= deadline {
                return;
            }
            sleep(Duration::from_millis(500)).await;
        }
    }

    async fn stop(self) {
        drop(self.client);
        self.gateway.drain(DRAIN).await;
        self.fleet.stop().await;
    }

    fn load(&self, seed: u64, conversations: usize) -> LoadGenerator {
        let (oracle, client) = (Arc::clone(&self.oracle), self.client.clone());
        let mut load = LoadGenerator::new(client, Workload::new(SHAPE, seed), MODEL, conversations);
        load.concurrency = 64;
        load.expected = Some(Arc::new(move |body| oracle.completion(body)));
        load.tracker = Arc::clone(&self.tracker);
        load
    }

    fn unhealthy_pods(&self) -> Vec<String> {
        let pods = self.gateway.state().pods;
        pods.iter().filter(|pod| !pod.healthy).map(|pod| format!("{} is not healthy", pod.name)).collect()
    }

    fn corrupt_index(&self) {
        let index = self.gateway.index();
        let pod = self.fleet.pods().next().and_then(|pod| index.pod(pod.name())).expect("the fleet has joined");
        let phantom = [BlockHash::new(1)];
        index.apply(pod, EventSemantics::Copies, &Event::Stored(Stored::prompt(&phantom))).expect("the pod is there");
    }

    fn divergent_caches(&self) -> Vec<String> {
        let caches = self.fleet.pods().map(|pod| (pod.name(), pod.cache()));
        cache_divergences(self.gateway.index(), caches).iter().map(ToString::to_string).collect()
    }

    /// Whatever is counted as under way, in the gateway or in a pod.
    fn in_flight_work(&self) -> Vec<String> {
        let mut busy = Vec::new();
        let (index, load) = (self.gateway.index(), &self.gateway.plugin_state().load);
        for pod in self.fleet.pods() {
            let counted = index.pod(pod.name()).map(|handle| load.in_flight(handle.id())).unwrap_or_default();
            if counted != routing_plugins::load::InFlight::default() {
                busy.push(format!("{}: {counted:?}", pod.name()));
            }
            let metrics = pod.metrics();
            if (metrics.running, metrics.waiting, metrics.leases, metrics.blocks_used) != (0, 0, 0, 0) {
                let (running, waiting, leases) = (metrics.running, metrics.waiting, metrics.leases);
                let used = metrics.blocks_used;
                busy.push(format!("{} runs {running}, {waiting} wait, {leases} leases, {used} blocks", pod.name()));
            }
        }
        let totals = self.gateway.state().totals;
        if totals.in_flight > 0 {
            busy.push(format!("the gateway counts {} in flight", totals.in_flight));
        }
        let ended = totals.completed + totals.failed + totals.cancelled;
        if totals.requests != ended {
            busy.push(format!("the gateway decided on {} and ended {ended}", totals.requests));
        }
        busy
    }

    /// What became of requests to pods, by name.
    async fn attempts(&self) -> Vec<(String, u64)> {
        let metrics = self.client.page("/metrics").await.unwrap_or_default();
        attempts(&metrics)
    }
}

/// Adds up the attempts in a page of metrics by their result.
fn attempts(metrics: &str) -> Vec<(String, u64)> {
    let mut sums: std::collections::BTreeMap<String, u64> = std::collections::BTreeMap::new();
    for line in metrics.lines().filter(|line| line.starts_with("pointsman_exec_attempts_total{")) {
        let result = line.split("outcome=\"").nth(1).and_then(|rest| rest.split('"').next());
        let count = line.rsplit(' ').next().and_then(|count| count.parse().ok());
        if let (Some(result), Some(count)) = (result, count) {
            let count: u64 = count;
            *sums.entry(result.to_owned()).or_default() += count;
        }
    }
    sums.into_iter().collect()
}

/// Not patient, or pods that hang would hold everything up; and not so quick to ask for health that no request meets one.
fn configure(config: &mut Config) {
    config.timeouts.first_byte_timeout = Duration::from_secs(3);
    config.timeouts.stream_idle_timeout = Duration::from_secs(2);
    config.timeouts.request_timeout = Duration::from_secs(30);
    (config.health_check.interval, config.health_check.timeout) = (Duration::from_secs(1), Duration::from_secs(1));
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

/// What clients ask: short enough that much happens in a short time, long enough that caches overflow.
const SHAPE: WorkloadShape = WorkloadShape {
    system_prompts: 6,
    system_tokens: (600, 1_500),
    turns: (2, 6),
    user_tokens: (40, 300),
    answer_tokens: (16, 64),
    think_ms: (0, 400),
    document_every: 6,
    document_tokens: (1_500, 4_000),
    unstreamed_every: 5,
};

/// Fast enough that much happens in a short time.
const SPEED: f64 = 4.0;
const DRAIN: Duration = Duration::from_secs(30);
const LEASE: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_added_up_over_steps() {
        let page = "# TYPE pointsman_exec_attempts_total counter\n\
            pointsman_exec_attempts_total{step=\"serve\",outcome=\"completed\"} 5\n\
            pointsman_exec_attempts_total{step=\"prefill\",outcome=\"completed\"} 2\n\
            pointsman_exec_attempts_total{step=\"serve\",outcome=\"cut\"} 1\nother{outcome=\"cut\"} 9\n";
        assert_eq!(attempts(page), [("completed".to_owned(), 7), ("cut".to_owned(), 1)]);
    }
}
