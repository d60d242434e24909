//! Time to heal: from the end of a fault until its pod has finished some requests that it began afterwards.
//!
//! A pod that gets another such fault before has not been observed long enough, and its circuit breaker stays open for longer each
//! time in a row; so the bound doubles with each fault that the pod had not healed from.

use std::time::Duration;

use super::timeline::{ExecutionSpan, FaultPeriod};

/// How a pod healed from a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Healing {
    /// The fault's name.
    pub(crate) kind: &'static str,
    pub(crate) pod: usize,
    /// The fault's end.
    pub(crate) since: Duration,
    /// How long it took; none if the pod did not heal while it was observed.
    pub(crate) took: Option<Duration>,
    /// How long it was observed: until its next fault, or the end of the run.
    pub(crate) observed: Duration,
    /// How long it may take.
    pub(crate) bound: Duration,
}

impl Healing {
    /// Whether it took too long, as far as is known.
    pub(crate) fn is_late(&self) -> bool {
        self.took.unwrap_or(self.observed) > self.bound
    }
}

/// The times to heal of a run that lasted until `end`, by the faults' ends.
pub(crate) fn healings(
    periods: &[FaultPeriod],
    executions: &[ExecutionSpan],
    end: Duration,
    bounds: HealBounds,
) -> Vec<Healing> {
    let mut pods: Vec<usize> = periods.iter().filter_map(|period| period.pod).collect();
    pods.sort_unstable();
    pods.dedup();
    let mut all: Vec<Healing> = pods.iter().flat_map(|pod| of_pod(*pod, periods, executions, end, bounds)).collect();
    all.sort_by_key(|healing| healing.since);
    all
}

fn of_pod(
    pod: usize,
    periods: &[FaultPeriod],
    executions: &[ExecutionSpan],
    end: Duration,
    bounds: HealBounds,
) -> Vec<Healing> {
    let mut faults: Vec<&FaultPeriod> =
        periods.iter().filter(|period| period.pod == Some(pod) && period.kind.heals()).collect();
    faults.sort_by_key(|fault| fault.begin);
    // By their beginnings.
    let finished: Vec<(Duration, Duration)> = executions
        .iter()
        .filter(|execution| execution.pod == pod && execution.has_finished())
        .filter_map(|execution| Some((execution.begun, execution.ended?.0)))
        .collect();
    let mut unhealed = 0;
    let mut healings = Vec::with_capacity(faults.len());
    for (at, fault) in faults.iter().enumerate() {
        let since = fault.end.min(end);
        let until = faults.get(at + 1).map_or(end, |next| next.begin.min(end));
        let first = finished.partition_point(|(begun, _)| *begun < since);
        let mut ends: Vec<Duration> =
            finished[first..].iter().take_while(|(begun, _)| *begun < until).map(|(_, ended)| *ended).collect();
        ends.sort_unstable();
        let took = ends.get(HEALED_BY - 1).filter(|ended| **ended <= until).map(|ended| ended.saturating_sub(since));
        let bound = bounds.first.saturating_mul(1 << unhealed.min(16)).min(bounds.longest);
        let observed = until.saturating_sub(since);
        healings.push(Healing { kind: fault.kind.name(), pod, since, took, observed, bound });
        unhealed = if took.is_some() { 0 } else { unhealed + 1 };
    }
    healings
}

/// How long healing may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HealBounds {
    /// Of a pod that was well before its fault.
    pub(crate) first: Duration,
    /// Of any.
    pub(crate) longest: Duration,
}

/// Every late one, in words.
pub(crate) fn violations(healings: &[Healing]) -> Vec<String> {
    let late = healings.iter().filter(|healing| healing.is_late());
    late.map(|healing| {
        let Healing { kind, pod, since, took, observed, bound } = healing;
        let took = took.map_or_else(
            || format!("not in {:.1} s", observed.as_secs_f64()),
            |took| format!("after {:.1} s", took.as_secs_f64()),
        );
        format!(
            "pod-{pod} healed from `{kind}` at {:.1} s {took}, {} s are allowed",
            since.as_secs_f64(),
            bound.as_secs()
        )
    })
    .collect()
}

/// Finished requests that show that a pod serves again.
pub(crate) const HEALED_BY: usize = 3;

#[cfg(test)]
mod tests {
    use pointsman_engine_sim::ExecutionEnd;

    use super::super::fault_kind::FaultKind;
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn fault(kind: FaultKind, begin: u64, end: u64) -> FaultPeriod {
        FaultPeriod { kind, pod: Some(1), begin: s(begin), end: s(end) }
    }

    fn ran(pod: usize, begun: u64, ended: u64, end: ExecutionEnd) -> ExecutionSpan {
        ExecutionSpan { request: "a".to_owned(), pod, prefills: false, begun: s(begun), ended: Some((s(ended), end)) }
    }

    fn finished(begun: u64, ended: u64) -> ExecutionSpan {
        ran(1, begun, ended, ExecutionEnd::Finished)
    }

    const BOUNDS: HealBounds = HealBounds { first: Duration::from_secs(10), longest: Duration::from_secs(25) };

    #[test]
    fn a_pod_has_healed_when_it_finished_three_that_it_began_afterwards() {
        let faults = [fault(FaultKind::Die, 5, 8)];
        let executions = [
            finished(4, 9),
            finished(8, 9),
            finished(9, 12),
            ran(1, 9, 10, ExecutionEnd::Aborted),
            ran(2, 9, 10, ExecutionEnd::Finished),
            finished(10, 11),
        ];
        let healing = healings(&faults, &executions, s(60), BOUNDS);
        assert_eq!(healing[0].took, Some(s(4)));
        assert!(violations(&healing).is_empty());
        let healing = healings(&faults, &executions[..5], s(60), BOUNDS);
        assert_eq!(violations(&healing), ["pod-1 healed from `die` at 8.0 s not in 52.0 s, 10 s are allowed"]);
    }

    #[test]
    fn a_late_one_is_late_and_one_that_was_not_observed_long_enough_is_not() {
        let faults = [fault(FaultKind::Respond(500), 5, 8)];
        let late = [finished(15, 16), finished(17, 18), finished(18, 19)];
        let healing = healings(&faults, &late, s(60), BOUNDS);
        assert_eq!(violations(&healing), ["pod-1 healed from `answer 500` at 8.0 s after 11.0 s, 10 s are allowed"]);
        assert!(violations(&healings(&faults, &late, s(17), BOUNDS)).is_empty());
    }

    #[test]
    fn each_fault_that_a_pod_had_not_healed_from_doubles_the_bound() {
        let faults = [2, 5, 9, 50].map(|begin| fault(FaultKind::Hang, begin, begin + 1));
        let executions = [finished(30, 31), finished(31, 32), finished(32, 33)];
        let healing = healings(&faults, &executions, s(70), BOUNDS);
        let bounds: Vec<u64> = healing.iter().map(|healing| healing.bound.as_secs()).collect();
        assert_eq!(bounds, [10, 20, 25, 10]);
        let late: Vec<bool> = healing.iter().map(Healing::is_late).collect();
        assert_eq!(late, [false, false, false, true]);
    }

    #[test]
    fn faults_of_events_leave_a_pod_serving() {
        let faults = [fault(FaultKind::DropEvents(3), 5, 5), fault(FaultKind::PartitionEvents, 6, 9)];
        assert!(healings(&faults, &[], s(60), BOUNDS).is_empty());
    }
}
