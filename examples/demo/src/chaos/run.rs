//! The run: start, load and faults side by side, heal, look closely, stop, look again.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use kv_index::{BlockHash, Event, EventSemantics, Stored};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::chaos::check::{Check, differences, settle};
use crate::chaos::leftovers::Leftovers;
use crate::chaos::report::Report;
use crate::chaos::schedule::Schedule;
use crate::demo::prefill_pods;
use crate::fleet::{Fleet, FleetShape};
use crate::load::{Client, Drive, Ledger, Shape, Tally, Workload, drive};
use pointsman_engine_sim::{Fault, MODEL, Oracle};
use pointsman_gateway::config::{Config, Profile};
use pointsman_gateway::{Gateway, StartError};

/// How a run is set up.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "figures that a caller chooses by name")]
pub struct Options {
    /// Where chance begins: schedule and workload follow from it.
    pub seed: u64,
    /// How long faults go on.
    pub length: Duration,
    /// Pods; at least two.
    pub pods: usize,
    /// How many times faster than the measured machine they are.
    pub speed: f64,
    /// The stock profile.
    pub profile: String,
    /// How long healing may take.
    pub patience: Duration,
    /// Puts a block into the index that no pod holds, before it is looked at: a run that must fail.
    pub sabotage: bool,
}

/// Why a run could not be made. The machine lacks something, or the profile's name is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChaosError {
    /// No pods.
    #[error("the pods cannot start")]
    Fleet(#[source] io::Error),
    /// No gateway.
    #[error("the gateway cannot start")]
    Gateway(#[source] StartError),
}

/// Makes a run. `see` is told how much of the time is over, and how many requests have ended.
///
/// # Errors
///
/// When pods or gateway cannot start.
pub async fn run(options: &Options, mut see: impl FnMut(Duration, usize)) -> Result<Report, ChaosError> {
    let before = Leftovers::now();
    let scene = Scene::start(options).await?;
    let schedule = Schedule::new(options.seed, options.pods, options.length);
    let tally = scene.storm(&schedule, options, &mut see).await;
    let mut checks = scene.heal(options, &tally).await;
    let attempts = scene.attempts().await;
    scene.stop().await;
    checks.push(nothing_left(before).await);
    let (seed, length) = (options.seed, options.length);
    Ok(Report { seed, length, schedule, tally, attempts, checks })
}

struct Scene {
    fleet: Fleet,
    gateway: Gateway,
    client: Client,
    oracle: Arc<Oracle>,
    ledger: Arc<Ledger>,
}

impl Scene {
    async fn start(options: &Options) -> Result<Self, ChaosError> {
        let prefill = prefill_pods(&options.profile, options.pods);
        let shape = FleetShape { pods: options.pods, prefill, speed: options.speed, blocks: 1_500, lease: LEASE };
        let fleet = Fleet::start(&shape).await.map_err(ChaosError::Fleet)?;
        let gateway = Gateway::start(config(&fleet, options)).await.map_err(ChaosError::Gateway)?;
        let client = Client::new(&format!("http://{}", gateway.address()), CLIENT_PATIENCE);
        Ok(Self { fleet, gateway, client, oracle: Arc::default(), ledger: Arc::default() })
    }

    /// Load and faults at once, until the time is over and what was asked is answered.
    async fn storm(&self, schedule: &Schedule, options: &Options, see: &mut impl FnMut(Duration, usize)) -> Tally {
        let (stop, begun, mut ended) = (CancellationToken::new(), Instant::now(), 0);
        let load = Drive { stop: stop.clone(), ..self.drive(options.seed, usize::MAX) };
        let faults = async {
            for step in schedule.steps() {
                sleep_until(begun + step.at).await;
                self.fleet.fault(step.pod, step.fault);
            }
            sleep_until(begun + options.length).await;
            stop.cancel();
        };
        let load = drive(load, |_| {
            ended += 1;
            see(begun.elapsed().min(options.length), ended);
        });
        tokio::join!(load, faults).0
    }

    /// Ends all faults, and looks whether everything is as if there had been none.
    async fn heal(&self, options: &Options, tally: &Tally) -> Vec<Check> {
        (0..self.fleet.pods().len()).for_each(|pod| self.fleet.fault(pod, Fault::Recover));
        let ill = settle(options.patience, || self.ill()).await;
        self.probe(options).await;
        // Every pod is up: whatever is asked now has to be answered.
        let scripts = options.pods * 2;
        let afterwards = drive(self.drive(options.seed.wrapping_add(1), scripts), |_| {}).await;
        let answered = format!("{} requests after healing answered", afterwards.answered);
        let mut unanswered: Vec<String> = afterwards.failed.iter().map(|(kind, n)| format!("{n} × {kind}")).collect();
        unanswered.extend(ill);
        let audit = self.ledger.audit();
        let odd = [
            ("never ended", audit.never_ended.len()),
            ("ended again", audit.ended_again.len()),
            ("never begun", audit.never_begun.len()),
        ];
        let odd: Vec<String> = odd.iter().filter(|(_, n)| *n > 0).map(|(what, n)| format!("{n} {what}")).collect();
        let mut unclean: Vec<String> = tally.unclean.iter().map(ToString::to_string).collect();
        unclean.extend(afterwards.unclean.iter().map(ToString::to_string));
        if options.sabotage {
            self.sabotage();
        }
        let unlike = settle(options.patience, || self.unlike()).await;
        let busy = settle(options.patience, || self.busy()).await;
        let blocks: usize = self.fleet.pods().map(|pod| pod.cache().len()).sum();
        vec![
            Check::new("every request ended exactly once", format!("{} requests", audit.begun), &odd),
            Check::new(
                "every failure was told, every answer whole",
                format!("{} failures", tally.failures()),
                &unclean,
            ),
            Check::new("a healed fleet answers", answered, &unanswered),
            Check::new("the index equals the pods' caches", format!("{blocks} blocks"), &unlike),
            Check::new("nothing is counted as under way", "all counters are zero".to_owned(), &busy),
        ]
    }

    /// Asks until all is answered: a circuit that cut streams have opened closes by answers, not by health alone.
    async fn probe(&self, options: &Options) {
        let deadline = Instant::now() + options.patience;
        while drive(self.drive(options.seed.wrapping_add(2), options.pods), |_| {}).await.failures() > 0 {
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

    fn drive(&self, seed: u64, scripts: usize) -> Drive {
        let (oracle, client) = (Arc::clone(&self.oracle), self.client.clone());
        let mut drive = Drive::new(client, Workload::new(SHAPE, seed), MODEL, scripts);
        drive.at_once = 64;
        drive.expect = Some(Arc::new(move |body| oracle.answer(body)));
        drive.ledger = Arc::clone(&self.ledger);
        drive
    }

    fn ill(&self) -> Vec<String> {
        let pods = self.gateway.state().pods;
        pods.iter().filter(|pod| !pod.healthy).map(|pod| format!("{} is not healthy", pod.name)).collect()
    }

    fn sabotage(&self) {
        let index = self.gateway.index();
        let pod = self.fleet.pods().next().and_then(|pod| index.pod(pod.name())).expect("the fleet has joined");
        let phantom = [BlockHash::new(1)];
        index.apply(pod, EventSemantics::Copies, &Event::Stored(Stored::prompt(&phantom))).expect("the pod is there");
    }

    fn unlike(&self) -> Vec<String> {
        let caches = self.fleet.pods().map(|pod| (pod.name(), pod.cache()));
        differences(self.gateway.index(), caches).iter().map(ToString::to_string).collect()
    }

    /// Whatever is counted as under way, in the gateway or in a pod.
    fn busy(&self) -> Vec<String> {
        let mut busy = Vec::new();
        let (index, load) = (self.gateway.index(), &self.gateway.plugin_state().load);
        for pod in self.fleet.pods() {
            let counted = index.pod(pod.name()).map(|handle| load.in_flight(handle.id())).unwrap_or_default();
            if counted != routing_plugins::load::InFlight::default() {
                busy.push(format!("{}: {counted:?}", pod.name()));
            }
            let figures = pod.figures();
            if (figures.running, figures.waiting, figures.leases, figures.blocks_used) != (0, 0, 0, 0) {
                let (running, waiting, leases) = (figures.running, figures.waiting, figures.leases);
                let used = figures.blocks_used;
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

/// Adds up the attempts in a page of metrics by their outcome.
fn attempts(metrics: &str) -> Vec<(String, u64)> {
    let mut sums: std::collections::BTreeMap<String, u64> = std::collections::BTreeMap::new();
    for line in metrics.lines().filter(|line| line.starts_with("pointsman_exec_attempts_total{")) {
        let outcome = line.split("outcome=\"").nth(1).and_then(|rest| rest.split('"').next());
        let count = line.rsplit(' ').next().and_then(|count| count.parse().ok());
        if let (Some(outcome), Some(count)) = (outcome, count) {
            let count: u64 = count;
            *sums.entry(outcome.to_owned()).or_default() += count;
        }
    }
    sums.into_iter().collect()
}

/// Not patient, or pods that hang would hold everything up; and not so quick to ask for health that no request meets one.
fn config(fleet: &Fleet, options: &Options) -> Config {
    let mut config = fleet.gateway_config();
    config.profile = Profile::PluginState(options.profile.clone());
    (config.patience.first_byte_seconds, config.patience.idle_seconds) = (3.0, 2.0);
    config.patience.whole_seconds = 30.0;
    (config.health.every_seconds, config.health.timeout_seconds) = (1.0, 1.0);
    config
}

async fn nothing_left(before: Leftovers) -> Check {
    let after = before.again(Duration::from_secs(10)).await;
    let figures = |found: Leftovers| {
        let sockets = found.sockets.map_or("unknown".to_owned(), |sockets| sockets.to_string());
        format!("{} tasks, {sockets} sockets", found.tasks)
    };
    let problem = format!("{} before, {} after", figures(before), figures(after));
    let problems: &[String] = if after.is_within(before) { &[] } else { &[problem] };
    Check::new("no task and no socket is left", format!("{}, as before", figures(after)), problems)
}

/// What clients ask: short enough that much happens in a short time, long enough that caches overflow.
const SHAPE: Shape = Shape {
    systems: 6,
    system: (600, 1_500),
    turns: (2, 6),
    user: (40, 300),
    answer: (16, 64),
    think_ms: (0, 400),
    one_document_in: 6,
    document: (1_500, 4_000),
    one_whole_in: 5,
};

const DRAIN: Duration = Duration::from_secs(30);
/// Longer than the gateway's own patience: it has to be the first to give up.
const CLIENT_PATIENCE: Duration = Duration::from_secs(60);
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
