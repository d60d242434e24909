//! Timeline of a chaos run: faults as they happened, requests as clients saw them, executions as pods saw them.
//!
//! All times are since the beginning of the load, so that checks are functions of data.

use std::time::Duration;

use pointsman_engine_sim::ExecutionEnd;

use super::fault_kind::FaultKind;
use crate::load_generator::Outcome;

/// A fault that happened.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct FaultPeriod {
    pub(crate) kind: FaultKind,
    /// The pod's number; none if it is not one of a pod.
    pub(crate) pod: Option<usize>,
    pub(crate) begin: Duration,
    /// [`Duration::MAX`] while it lasts.
    pub(crate) end: Duration,
}

impl FaultPeriod {
    /// Whether it is of that time, or part of it.
    pub(crate) fn overlaps(&self, from: Duration, to: Duration) -> bool {
        self.begin <= to && from <= self.end
    }

    /// Until when its pod cannot answer because of it; none if it can.
    fn disabled_until(&self) -> Option<Duration> {
        match self.kind {
            kind if kind.restarts() => Some(self.begin.saturating_add(START)),
            FaultKind::Die | FaultKind::Move => Some(self.end.saturating_add(START)),
            kind if kind.disables() => Some(self.end),
            _ => None,
        }
    }
}

/// A request, from its client's side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestSpan {
    pub(crate) id: String,
    pub(crate) begun: Duration,
    pub(crate) ended: Duration,
    pub(crate) outcome: Outcome,
}

/// One run of a request on a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExecutionSpan {
    pub(crate) request: String,
    pub(crate) pod: usize,
    /// Whether it only prefills.
    pub(crate) prefills: bool,
    pub(crate) begun: Duration,
    /// None if it never ended.
    pub(crate) ended: Option<(Duration, ExecutionEnd)>,
}

impl ExecutionSpan {
    pub(crate) fn has_finished(&self) -> bool {
        matches!(self.ended, Some((_, ExecutionEnd::Finished)))
    }
}

/// The times in which no pod of some group could answer. A request needs one pod of each group: all pods are one group, unless
/// some prefill and others decode.
pub(crate) fn outages(periods: &[FaultPeriod], groups: &[Vec<usize>]) -> Vec<(Duration, Duration)> {
    let mut outages = Vec::new();
    for group in groups {
        let of_group = |period: &&FaultPeriod| period.pod.is_some_and(|pod| group.contains(&pod));
        let mut changes: Vec<(Duration, usize, i32)> = Vec::new();
        for period in periods.iter().filter(of_group) {
            let (Some(pod), Some(until)) = (period.pod, period.disabled_until()) else { continue };
            changes.extend([(period.begin, pod, 1), (until, pod, -1)]);
        }
        changes.sort_unstable();
        let mut faults: std::collections::BTreeMap<usize, i32> = std::collections::BTreeMap::new();
        let mut began = None;
        for (at, pod, change) in changes {
            *faults.entry(pod).or_default() += change;
            let is_out = faults.values().filter(|count| **count > 0).count() == group.len();
            match (is_out, began) {
                (true, None) => began = Some(at),
                (false, Some(from)) => {
                    outages.push((from, at));
                    began = None;
                }
                _ => {}
            }
        }
        outages.extend(began.map(|from| (from, Duration::MAX)));
    }
    outages
}

/// How long a new process of a pod may take until it listens.
const START: Duration = Duration::from_millis(250);

#[cfg(test)]
mod tests {
    use super::*;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn period(kind: FaultKind, pod: usize, begin: u64, end: u64) -> FaultPeriod {
        FaultPeriod { kind, pod: Some(pod), begin: s(begin), end: s(end) }
    }

    #[test]
    fn an_outage_is_when_every_pod_of_a_group_is_out() {
        let periods = [
            period(FaultKind::Hang, 0, 1, 5),
            period(FaultKind::Respond(503), 1, 3, 7),
            period(FaultKind::Slow(9), 1, 8, 9),
            period(FaultKind::Die, 0, 8, 9),
        ];
        assert_eq!(outages(&periods, &[vec![0, 1]]), [(s(3), s(5))], "a slow pod answers");
        assert_eq!(outages(&periods, &[vec![0, 1, 2]]), []);
        let prefill = outages(&periods, &[vec![0], vec![1, 2]]);
        assert_eq!(prefill, [(s(1), s(5)), (s(8), s(9) + START)], "nobody prefills, and a pod takes time to start");
    }

    #[test]
    fn the_moment_of_a_restart_counts_and_what_never_ends_goes_on() {
        let mut periods = vec![period(FaultKind::Hang, 0, 1, 5), period(FaultKind::Restart, 1, 2, 2)];
        assert_eq!(outages(&periods, &[vec![0, 1]]), [(s(2), s(2) + START)]);
        periods[0].end = Duration::MAX;
        periods.push(FaultPeriod { end: Duration::MAX, ..period(FaultKind::Die, 1, 3, 3) });
        assert_eq!(outages(&periods, &[vec![0, 1]])[1], (s(3), Duration::MAX));
    }
}
