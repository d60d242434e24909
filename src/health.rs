//! Health checks: who asks pods how they are, and the task that does so all the time.

mod http_health;

use std::collections::{HashMap, HashSet};
use std::error::Error;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use kv_index::Pod;
use routing_core::Load;
use routing_exec::TransportError;
use tokio::task::{Id, JoinHandle, JoinSet};
use tokio::time::error::Elapsed;
use tokio::time::{MissedTickBehavior, timeout, timeout_at};

use crate::engine_metrics::EngineAdapters;
use crate::router::Router;

pub use http_health::HttpHealth;

/// How a pod is, by one check.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Health {
    /// It answers, and perhaps says what it has to do.
    Healthy(Option<Load>),
    /// It does not answer in time, or with an error. One such check may be bad luck, two are not.
    Failing,
    /// Nobody is there.
    Unreachable,
    /// It could not be asked, for want of something of this process or its machine, such as file descriptors. That says nothing of
    /// the pod, which stays as it was.
    Unknown,
}

impl Health {
    /// By the error of a connection that was not made: [`Self::Unknown`] where the want was local, or else [`Self::Unreachable`].
    #[must_use]
    pub fn not_connected(error: &(dyn Error + 'static)) -> Self {
        match TransportError::not_connected(error) {
            TransportError::Local(_) => Self::Unknown,
            _ => Self::Unreachable,
        }
    }
}

/// Asks a pod how it is.
pub trait HealthCheck: Send + Sync + 'static {
    /// Checks a pod once. One that takes longer than ten seconds, or panics, is a failed one.
    fn check(&self, pod: Pod) -> impl Future<Output = Health> + Send;

    /// Tokens that a pod's cache has room for, as the last check learned; none if it did not.
    fn cache_tokens(&self, _pod: Pod) -> Option<u64> {
        None
    }

    /// A pod's LoRA adapters, as the last check learned; none if it did not.
    fn adapters(&self, _pod: Pod) -> Option<EngineAdapters> {
        None
    }
}

/// The task of health checks. Dropping it ends the task.
#[derive(Debug)]
#[must_use = "the task ends when this is dropped"]
pub struct HealthChecks(JoinHandle<()>);

impl Drop for HealthChecks {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Checks under way, one for a pod at most. Dropped, they end.
struct RunningChecks<C> {
    check: Arc<C>,
    tasks: JoinSet<Result<Health, Elapsed>>,
    pods: HashMap<Id, Pod>,
}

impl<C: HealthCheck> RunningChecks<C> {
    fn new(check: Arc<C>) -> Self {
        Self { check, tasks: JoinSet::new(), pods: HashMap::new() }
    }

    /// Starts a check of every pod that none runs of.
    fn start<const W: usize>(&mut self, router: &Router<W>) {
        let checked: HashSet<Pod> = self.pods.values().copied().collect();
        for pod in router.pods().into_iter().map(|entry| entry.pod).filter(|pod| !checked.contains(pod)) {
            let check = Arc::clone(&self.check);
            let checking = async move { timeout(LONGEST_CHECK, check.check(pod)).await };
            self.pods.insert(self.tasks.spawn(checking).id(), pod);
        }
    }

    /// Takes in what the next one that ends says, as it comes: what is in flight is taken to be in a report that has just come. False
    /// if none runs.
    async fn take_next<const W: usize>(&mut self, router: &Router<W>) -> bool {
        let Some(checked) = self.tasks.join_next_with_id().await else { return false };
        let (id, health) = match checked {
            Ok((id, health)) => (id, health.unwrap_or(Health::Failing)),
            // It panicked: nothing is known of the pod.
            Err(error) => (error.id(), Health::Failing),
        };
        if let Some(pod) = self.pods.remove(&id) {
            if let Some(tokens) = self.check.cache_tokens(pod) {
                router.report_cache(pod, tokens);
            }
            if let Some(adapters) = self.check.adapters(pod) {
                router.report_adapters(pod, adapters);
            }
            router.take_health(pod, health);
        }
        true
    }
}

impl<const W: usize> Router<W> {
    /// Spawns a task that checks every pod at an interval, all at once, on the current tokio runtime. A pod whose check still runs is
    /// not asked again before that ends, and none waits for another's.
    ///
    /// Build the router with [`health_checked`](crate::RouterBuilder::health_checked), so that no pod gets a request before its
    /// first check.
    pub fn spawn_health_checks(&self, check: impl HealthCheck, interval: Duration) -> HealthChecks {
        let (router, mut running) = (self.clone(), RunningChecks::new(Arc::new(check)));
        HealthChecks(tokio::spawn(async move {
            let interval = interval.max(Duration::from_millis(1));
            let mut ticks = tokio::time::interval(interval);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                let next = ticks.tick().await + interval;
                running.start(&router);
                while let Ok(true) = timeout_at(next, running.take_next(&router)).await {}
            }
        }))
    }

    /// Checks every pod once, all at the same time, and takes in what comes. Needs a tokio runtime.
    ///
    /// A pod that nobody answers for is unhealthy at once, one that fails a check is after the second in a row, and one that
    /// passes is healthy again. One that could not be asked is as it was.
    pub async fn check_health(&self, check: &Arc<impl HealthCheck>) {
        let mut running = RunningChecks::new(Arc::clone(check));
        running.start(self);
        while running.take_next(self).await {}
    }

    fn take_health(&self, pod: Pod, health: Health) {
        if health == Health::Unknown {
            return; // Nor does it count as a good one.
        }
        let failed_before = self.note_check(pod, health == Health::Failing);
        match health {
            Health::Healthy(load) => {
                if let Some(load) = load {
                    self.report_load(pod, load, self.now());
                }
                self.set_healthy_because(pod, true, "passes its health check");
            }
            Health::Unknown => {}
            Health::Failing if !failed_before => {}
            Health::Failing => {
                self.set_healthy_because(pod, false, "two health checks in a row had no answer in time, or an error");
            }
            Health::Unreachable => {
                self.set_healthy_because(pod, false, "nobody is there");
            }
        }
    }
}

/// How long one check may take.
const LONGEST_CHECK: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::PodSpec;

    #[test]
    fn one_failed_check_is_bad_luck_and_two_are_not() {
        let router = Router::builder("m").pod(PodSpec::new("a", "a:1")).health_checked().build().unwrap();
        let pod = router.pod("a").unwrap();
        let check = |health| {
            router.take_health(pod, health);
            router.fleet().healthy().contains(pod.id())
        };
        assert!(!check(Health::Failing), "not before its first check");
        let load = Load { running: 3, ..Load::default() };
        assert!(check(Health::Healthy(Some(load))));
        assert_eq!(router.pods()[0].load, load);
        assert!(check(Health::Failing));
        assert!(!check(Health::Failing));
        assert!(check(Health::Healthy(None)));
        assert!(!check(Health::Unreachable));
        assert!(!check(Health::Unknown) && check(Health::Healthy(None)) && check(Health::Unknown));
        assert!(check(Health::Failing) && check(Health::Unknown), "nor is it a second failure in a row");
        assert!(!check(Health::Failing), "or a good one between two");
    }

    #[test]
    #[cfg(unix)]
    fn a_want_of_our_own_says_nothing_of_the_pod() {
        let too_many_open_files = std::io::Error::from_raw_os_error(24);
        assert_eq!(Health::not_connected(&std::io::Error::other(too_many_open_files)), Health::Unknown);
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        assert_eq!(Health::not_connected(&refused), Health::Unreachable);
    }

    /// One pod's check never ends, another's panics, and the third is well.
    struct Odd;

    impl HealthCheck for Odd {
        async fn check(&self, pod: Pod) -> Health {
            match pod.id().index() {
                0 => std::future::pending().await,
                1 => panic!("a bug in a check"),
                _ => Health::Healthy(None),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_check_that_hangs_or_panics_costs_its_own_pod_alone() {
        let pods = ["a", "b", "c"].map(|name| PodSpec::new(name, format!("{name}:1")));
        let router = Router::builder("m").pods(pods).build().unwrap();
        let _checks = router.spawn_health_checks(Odd, Duration::ZERO);
        let healthy = || router.pods().iter().map(|pod| pod.healthy).collect::<Vec<_>>();
        while healthy() != [false, false, true] {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Counts checks; the first pod's take two seconds each.
    struct Slow(Arc<[AtomicUsize; 2]>);

    impl HealthCheck for Slow {
        async fn check(&self, pod: Pod) -> Health {
            let at = usize::from(pod.id().index() > 0);
            // Relaxed: a count that publishes nothing.
            self.0[at].fetch_add(1, Ordering::Relaxed);
            if at == 0 {
                tokio::time::sleep(Duration::from_secs(2)).await;
            }
            Health::Healthy(None)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_pod_waits_for_another_s_check() {
        let pods = ["a", "b"].map(|name| PodSpec::new(name, format!("{name}:1")));
        let router = Router::builder("m").pods(pods).build().unwrap();
        let counts = Arc::new([AtomicUsize::new(0), AtomicUsize::new(0)]);
        let _checks = router.spawn_health_checks(Slow(Arc::clone(&counts)), Duration::from_millis(100));
        tokio::time::sleep(Duration::from_millis(1_050)).await;
        assert_eq!([0, 1].map(|at| counts[at].load(Ordering::Relaxed)), [1, 11]);
    }
}
