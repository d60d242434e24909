//! Fault injection: what each fault of a schedule does, and the timeline of what was done when.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pointsman_gateway::Gateway;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::fault_kind::FaultKind;
use super::fault_schedule::{FaultSchedule, ScheduledFault, Step};
use super::sabotage::Sabotage;
use super::starved::StarvedGateway;
use super::timeline::FaultPeriod;
use crate::fleet::Fleet;
use crate::load_generator::LoadGenerator;

/// Injects the faults of a schedule.
pub(super) struct Injector<'a> {
    pub(super) fleet: &'a mut Fleet,
    pub(super) gateway: &'a Gateway,
    /// A gateway with few descriptors; without one that fault does nothing.
    pub(super) starved: Option<&'a StarvedGateway>,
    /// Tells clients to leave.
    pub(super) leaves: Arc<AtomicBool>,
    /// Conversations of clients that read slowly while this is set.
    pub(super) slow: (LoadGenerator, Arc<AtomicBool>),
    pub(super) sabotage: Option<Sabotage>,
    /// The beginning of the load.
    pub(super) begun: Instant,
}

/// What was injected.
#[derive(Debug, Default)]
pub(super) struct Injected {
    pub(super) periods: Vec<FaultPeriod>,
    /// What did not work as it should.
    pub(super) violations: Vec<String>,
}

impl Injector<'_> {
    /// Injects all of it, each in its time.
    pub(super) async fn run(mut self, schedule: &FaultSchedule) -> Injected {
        let (mut injected, mut readers) = (Injected::default(), SlowReaders::default());
        let mut numbers = vec![0; schedule.faults().len()];
        let lost = self.lost(schedule);
        for (at, step) in schedule.steps() {
            sleep_until(self.begun + at).await;
            let now = self.begun.elapsed();
            match step {
                Step::Begin(nth) => {
                    let ScheduledFault { kind, pod, .. } = schedule.faults()[nth];
                    numbers[nth] = injected.periods.len();
                    let end = if kind.lasts() { Duration::MAX } else { now };
                    injected.periods.push(FaultPeriod { kind, pod, begin: now, end });
                    self.begin(kind, pod, &mut readers, &mut injected.violations);
                }
                Step::End(nth) if Some(nth) == lost => injected.periods[numbers[nth]].end = self.begun.elapsed(),
                Step::End(nth) => {
                    let ScheduledFault { kind, pod, .. } = schedule.faults()[nth];
                    self.end(kind, pod, &mut readers, &mut injected.violations).await;
                    injected.periods[numbers[nth]].end = self.begun.elapsed();
                }
            }
        }
        readers.join().await;
        injected
    }

    fn begin(&self, kind: FaultKind, pod: Option<usize>, readers: &mut SlowReaders, violations: &mut Vec<String>) {
        if let (Some(pod), Some(fault)) = (pod, kind.begin()) {
            self.fleet.fault(pod, fault);
        }
        match kind {
            FaultKind::Reload => violations.extend(self.reload()),
            FaultKind::ClientsLeave => self.leaves.store(true, Ordering::Relaxed),
            FaultKind::SlowReaders => readers.begin(&self.slow),
            FaultKind::Descriptors => {
                if let Some(starved) = self.starved {
                    starved.flood();
                }
            }
            _ => {}
        }
    }

    async fn end(
        &mut self,
        kind: FaultKind,
        pod: Option<usize>,
        readers: &mut SlowReaders,
        violations: &mut Vec<String>,
    ) {
        if let (Some(pod), Some(fault)) = (pod, kind.end()) {
            self.fleet.fault(pod, fault);
        }
        match kind {
            FaultKind::Move => violations.extend(self.arrive(pod.unwrap_or_default()).await),
            FaultKind::ClientsLeave => self.leaves.store(false, Ordering::Relaxed),
            FaultKind::SlowReaders => readers.end(),
            FaultKind::Descriptors => {
                if let Some(starved) = self.starved {
                    starved.end_flood();
                }
            }
            _ => {}
        }
    }

    /// The fault that does not end though it should, if there is to be one.
    fn lost(&self, schedule: &FaultSchedule) -> Option<usize> {
        lone_death(schedule).filter(|_| self.sabotage == Some(Sabotage::LostPod))
    }

    /// A pod that died comes back at another address, which the gateway's configuration names.
    async fn arrive(&mut self, pod: usize) -> Option<String> {
        if let Err(error) = self.fleet.replace(pod).await {
            return Some(format!("pod-{pod} cannot come back: {error}"));
        }
        let mut config = self.gateway.config();
        config.pods = self.fleet.gateway_config().pods;
        let error = self.gateway.reload(config).err()?;
        Some(format!("a configuration with pod-{pod} at a new address was refused: {error}"))
    }

    /// Another configuration takes effect under load, and one that is wrong does not.
    fn reload(&self) -> Option<String> {
        let before = self.gateway.config();
        let mut config = before.clone();
        config.retry.max_attempts = if before.retry.max_attempts == ATTEMPTS { ATTEMPTS + 1 } else { ATTEMPTS };
        if self.sabotage == Some(Sabotage::NoRetries) {
            config.retry.max_attempts = 1;
        }
        if let Err(error) = self.gateway.reload(config.clone()) {
            return Some(format!("a right configuration was refused: {error}"));
        }
        let mut wrong = before;
        wrong.retry.max_attempts = 0;
        if self.gateway.reload(wrong).is_ok() || self.gateway.config() != config {
            return Some("a wrong configuration was taken".to_owned());
        }
        None
    }
}

/// The first death of a pod that has no other fault to heal from, so that the bound of its healing is the shortest.
fn lone_death(schedule: &FaultSchedule) -> Option<usize> {
    let faults = schedule.faults();
    let is_alone = |pod| faults.iter().filter(|fault| fault.pod == pod && fault.kind.heals()).count() == 1;
    faults.iter().position(|fault| matches!(fault.kind, FaultKind::Die | FaultKind::Move) && is_alone(fault.pod))
}

/// Clients that read slowly, while they do.
#[derive(Default)]
struct SlowReaders {
    under_way: Option<(Arc<AtomicBool>, CancellationToken)>,
    tasks: JoinSet<()>,
}

impl SlowReaders {
    fn begin(&mut self, (load, is_slow): &(LoadGenerator, Arc<AtomicBool>)) {
        let stop = CancellationToken::new();
        let load = LoadGenerator { stop: stop.clone(), ..load.clone() };
        is_slow.store(true, Ordering::Relaxed);
        self.under_way = Some((Arc::clone(is_slow), stop));
        // What becomes of their requests is in the tracker.
        self.tasks.spawn(async { drop(load.run(|| {}).await) });
    }

    /// They read what is left as fast as it comes, and begin no more.
    fn end(&mut self) {
        if let Some((is_slow, stop)) = self.under_way.take() {
            is_slow.store(false, Ordering::Relaxed);
            stop.cancel();
        }
    }

    async fn join(mut self) {
        self.end();
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Pods that are tried for a step, unless a reload says otherwise.
pub(super) const ATTEMPTS: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    /// Or `--sabotage lost-pod` would break nothing in the run that the program's tests make.
    #[test]
    fn a_pod_can_be_lost_in_the_run_that_loses_one() {
        let seeds: Vec<u64> = (0..20)
            .filter(|seed| lone_death(&FaultSchedule::new(*seed, 16, Duration::from_secs(12))).is_some())
            .collect();
        assert!(seeds.contains(&2), "{seeds:?}");
    }
}
