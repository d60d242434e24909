//! The system under test: pods, gateway and clients, and the checks after all faults have ended.

use std::sync::Arc;
use std::time::Duration;

use kv_index::{BlockHash, Event, EventSemantics, Stored};
use tokio::time::Instant;

use super::invariants::{Invariant, cache_divergences, poll_until_empty};
use super::sabotage::Sabotage;
use crate::cli::Args;
use crate::fleet::{Fleet, FleetShape};
use crate::load_generator::{
    Client, Failure, LoadGenerator, Outcome, RequestId, RequestTracker, Workload, WorkloadShape,
};
use crate::startup::{StartupError, start_recorded};
use routing_plugins::load::Work;

use pointsman_engine_sim::{CompletionOracle, Fault, MODEL, RequestLedger};
use pointsman_gateway::Gateway;
use pointsman_gateway::config::Config;

/// Pods, gateway and clients.
pub(super) struct Harness {
    pub(super) fleet: Fleet,
    pub(super) gateway: Gateway,
    client: Client,
    oracle: Arc<CompletionOracle>,
    /// What clients saw.
    pub(super) tracker: Arc<RequestTracker>,
    /// What pods saw.
    pub(super) ledger: RequestLedger,
    /// Limit of every recovery check.
    recovery_timeout: Duration,
}

impl Harness {
    pub(super) async fn start(args: &Args) -> Result<Self, StartupError> {
        let (pods, speed) = (args.pods, args.speed.unwrap_or(SPEED));
        let shape = FleetShape { pods, speed, blocks: 1_500, lease: LEASE, ..FleetShape::default() };
        let (ledger, sabotage) = (RequestLedger::default(), args.sabotage);
        let configure = |config: &mut Config| {
            configure(config);
            if sabotage == Some(Sabotage::NoRetries) {
                config.retry.max_attempts = 1;
            }
        };
        let (fleet, gateway, client) = start_recorded(args.profile(), shape, Some(ledger.clone()), configure).await?;
        let recovery_timeout = Duration::from_secs(if sabotage.is_some() { 3 } else { 60 });
        let (oracle, tracker) = (Arc::default(), Arc::default());
        Ok(Self { fleet, gateway, client, oracle, tracker, ledger, recovery_timeout })
    }

    /// Ends all faults, and looks whether everything is as if there had been none.
    pub(super) async fn check_recovery(&self, args: &Args) -> Vec<Invariant> {
        (0..self.fleet.pods().len()).for_each(|pod| self.fleet.fault(pod, Fault::Recover));
        let unhealthy = poll_until_empty(self.recovery_timeout, || self.unhealthy_pods()).await;
        // Every pod is up: every request must be answered now.
        let conversations = args.pods * 2;
        let afterwards = self.load(args.seed.wrapping_add(1), conversations).run(|| {}).await;
        let answered = format!("{} requests answered after recovery", afterwards.answered);
        let mut unanswered: Vec<String> = afterwards.failed.iter().map(|(kind, n)| format!("{n} × {kind}")).collect();
        unanswered.extend(unhealthy);
        let audit = self.tracker.audit();
        let failures = self.failures();
        let unreported: Vec<String> = failures
            .iter()
            .filter(|failure| !failure.is_reported())
            .take(MOST_SHOWN)
            .map(ToString::to_string)
            .collect();
        if let Some(sabotage) = args.sabotage {
            self.sabotage(sabotage).await;
        }
        let asked = Instant::now();
        let divergent = poll_until_empty(self.recovery_timeout, || self.divergent_caches()).await;
        let converged = asked.elapsed().as_secs_f64();
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
                format!("{} failures", failures.len()),
                &unreported,
            ),
            Invariant::new("a recovered fleet answers", answered, &unanswered),
            Invariant::new(
                "the index equals the pods' caches",
                format!("{blocks} blocks, {converged:.1} s after the last answer"),
                &divergent,
            ),
            Invariant::new("nothing is counted as in flight", "all counters are zero".to_owned(), &busy),
        ]
    }

    pub(super) async fn stop(self) {
        drop(self.client);
        self.gateway.drain(DRAIN).await;
        self.fleet.stop().await;
    }

    /// The pods' names, in order.
    pub(super) fn names(&self) -> Vec<String> {
        self.fleet.pods().map(|pod| pod.name().to_owned()).collect()
    }

    /// Conversations of well-behaved clients.
    pub(super) fn load(&self, seed: u64, conversations: usize) -> LoadGenerator {
        let (oracle, client) = (Arc::clone(&self.oracle), self.client.clone());
        let mut load = LoadGenerator::new(client, Workload::new(SHAPE, seed), MODEL, conversations);
        // Half of the pods can bear it.
        load.concurrency = (self.fleet.pods().len() * CLIENTS_A_POD).min(MOST_CLIENTS);
        load.expected = Some(Arc::new(move |body| oracle.completion(body)));
        load.tracker = Arc::clone(&self.tracker);
        load
    }

    fn unhealthy_pods(&self) -> Vec<String> {
        let pods = self.gateway.state().pods;
        pods.iter().filter(|pod| !pod.healthy).map(|pod| format!("{} is not healthy", pod.name)).collect()
    }

    /// What clients got instead of answers.
    fn failures(&self) -> Vec<Failure> {
        let failure = |outcome| if let Outcome::Failed(failure) = outcome { Some(failure) } else { None };
        self.tracker.records().into_iter().filter_map(|record| failure(record.outcome)).collect()
    }

    async fn sabotage(&self, sabotage: Sabotage) {
        match sabotage {
            Sabotage::PhantomBlock => self.corrupt_index(),
            Sabotage::LeakedSlot => self.leak_slot(),
            Sabotage::StrayRun => self.stray_run().await,
            Sabotage::NoRetries | Sabotage::LostPod => {}
        }
    }

    fn leak_slot(&self) {
        let pod = self.fleet.pods().next().and_then(|pod| self.gateway.index().pod(pod.name()));
        let pod = pod.expect("the fleet has joined");
        std::mem::forget(self.gateway.router().plugin_state().load.begin(pod, Work::default()));
    }

    /// Asks a pod behind the gateway's back.
    async fn stray_run(&self) {
        let pod = self.fleet.pods().next().expect("there are pods");
        let message = serde_json::json!({"role": "user", "content": " a day"});
        let body = serde_json::json!({"model": MODEL, "messages": [message], "max_tokens": 2});
        let client = Client::new(&format!("http://{}", pod.address()), self.recovery_timeout);
        // Whatever it answers: that it ran is enough.
        let _ = client.ask(RequestId(u64::MAX), body.to_string().into()).await;
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
        let (index, load) = (self.gateway.index(), &self.gateway.router().plugin_state().load);
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
        let ended = totals.completed + totals.client_errors + totals.failed + totals.cancelled;
        if totals.requests != ended {
            busy.push(format!("the gateway decided on {} and ended {ended}", totals.requests));
        }
        busy
    }

    /// What became of requests to pods, by name.
    pub(super) async fn attempts(&self) -> Vec<(String, u64)> {
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
    config.timeouts.first_byte_timeout = Duration::from_secs(5);
    config.timeouts.stream_idle_timeout = Duration::from_secs(2);
    config.timeouts.per_try_timeout = Duration::from_secs(30);
    (config.health_check.interval, config.health_check.timeout) = (Duration::from_secs(1), Duration::from_secs(1));
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
/// Unreported failures that are shown.
const MOST_SHOWN: usize = 10;
const CLIENTS_A_POD: usize = 8;
const MOST_CLIENTS: usize = 64;
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
