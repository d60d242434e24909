//! Availability: the share of requests that were answered, of those begun and ended while at least one pod could answer.
//!
//! What counts, and what does not:
//!
//! - A request during which there was a moment without any able pod does not count, nor does one whose client left.
//! - How often the gateway tries is its own business: a request that was answered at the third pod is answered.
//! - A stream that had begun and was ended with an error because its pod died, hung, restarted or was cut is *truncated*: no gateway
//!   can go on with it. It is counted apart, if such a fault of a pod that ran it explains it; else it failed.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use super::timeline::{ExecutionSpan, FaultPeriod, RequestSpan, outages};
use crate::load_generator::{Failure, Outcome};

/// What became of requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Availability {
    /// Those that count and were answered.
    pub(crate) answered: usize,
    /// Those that count and were not, by failure and by the faults at that time.
    pub(crate) failed: BTreeMap<String, usize>,
    /// Streams that a fault of their pod ended.
    pub(crate) truncated: usize,
    /// Those whose client left.
    pub(crate) left: usize,
    /// Those during which no pod could answer for a moment.
    pub(crate) without_pods: usize,
}

impl Availability {
    /// Sums up requests.
    pub(crate) fn of(
        requests: &[RequestSpan],
        executions: &[ExecutionSpan],
        periods: &[FaultPeriod],
        groups: &[Vec<usize>],
    ) -> Self {
        let mut pods: HashMap<&str, Vec<usize>> = HashMap::new();
        for execution in executions {
            pods.entry(&execution.request).or_default().push(execution.pod);
        }
        let outages = outages(periods, groups);
        let mut sum = Self::default();
        for request in requests {
            let ran_on = pods.get(request.id.as_str()).map_or(&[][..], Vec::as_slice);
            sum.add(request, ran_on, periods, &outages);
        }
        sum
    }

    fn add(
        &mut self,
        request: &RequestSpan,
        ran_on: &[usize],
        periods: &[FaultPeriod],
        outages: &[(Duration, Duration)],
    ) {
        let failure = match &request.outcome {
            Outcome::Left => return self.left += 1,
            _ if outages.iter().any(|(from, to)| *from <= request.ended && request.begun <= *to) => {
                return self.without_pods += 1;
            }
            Outcome::Answered => return self.answered += 1,
            Outcome::Failed(failure) => failure,
        };
        let during: Vec<&FaultPeriod> =
            periods.iter().filter(|period| period.overlaps(request.begun, request.ended)).collect();
        let breaks =
            |period: &&FaultPeriod| period.kind.breaks_streams() && period.pod.is_some_and(|pod| ran_on.contains(&pod));
        match failure {
            Failure::ErrorEvent if during.iter().copied().any(|period| breaks(&period)) => self.truncated += 1,
            failure => *self.failed.entry(described(failure, &during)).or_default() += 1,
        }
    }

    /// Those that count and were not answered.
    pub(crate) fn failures(&self) -> usize {
        self.failed.values().sum()
    }

    /// The share of those that count; 1 if there are none.
    pub(crate) fn share(&self) -> f64 {
        match self.answered + self.failures() {
            0 => 1.0,
            counted => self.answered as f64 / counted as f64,
        }
    }

    /// Whether too few were answered, and how they failed.
    pub(crate) fn violations(&self, least: f64) -> Vec<String> {
        if self.share() >= least && self.answered > 0 {
            return Vec::new();
        }
        let mut failed: Vec<_> = self.failed.iter().collect();
        failed.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let worst: Vec<String> = failed.iter().take(5).map(|(kind, count)| format!("{count} × {kind}")).collect();
        vec![format!("{:.2}% answered, below {:.0}%: {}", 100.0 * self.share(), 100.0 * least, worst.join(", "))]
    }
}

/// A failure and the faults at that time, for an engineer to begin with.
fn described(failure: &Failure, during: &[&FaultPeriod]) -> String {
    let mut kinds: Vec<&str> =
        during.iter().filter(|period| period.kind.heals()).map(|period| period.kind.name()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let faults = if kinds.is_empty() { "no fault of a pod".to_owned() } else { kinds.join(" + ") };
    format!("{} during {faults}", failure.kind())
}

#[cfg(test)]
mod tests {
    use pointsman_engine_sim::ExecutionEnd;

    use super::*;
    use crate::chaos::fault_kind::FaultKind;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn request(id: &str, begun: u64, ended: u64, outcome: Outcome) -> RequestSpan {
        RequestSpan { id: id.to_owned(), begun: s(begun), ended: s(ended), outcome }
    }

    fn ran(id: &str, pod: usize, begun: u64, end: ExecutionEnd) -> ExecutionSpan {
        let ended = Some((s(begun), end));
        ExecutionSpan { request: id.to_owned(), pod, prefills: false, begun: s(begun), ended }
    }

    fn period(kind: FaultKind, pod: usize, begin: u64, end: u64) -> FaultPeriod {
        FaultPeriod { kind, pod: Some(pod), begin: s(begin), end: s(end) }
    }

    fn failed(failure: Failure) -> Outcome {
        Outcome::Failed(failure)
    }

    const GROUP: &[usize] = &[0, 1];

    #[test]
    fn the_share_is_of_what_some_pod_could_have_answered() {
        let periods = [period(FaultKind::Hang, 0, 10, 20), period(FaultKind::Hang, 1, 15, 20)];
        let requests = [
            request("a", 1, 2, Outcome::Answered),
            request("b", 11, 12, failed(Failure::Status(502))),
            request("c", 14, 16, failed(Failure::Status(502))),
            request("d", 16, 30, Outcome::Answered),
            request("e", 1, 2, Outcome::Left),
        ];
        let sum = Availability::of(&requests, &[], &periods, &[GROUP.to_vec()]);
        assert_eq!((sum.answered, sum.failures(), sum.without_pods, sum.left), (1, 1, 2, 1));
        assert!((sum.share() - 0.5).abs() < 1e-9);
        assert_eq!(sum.violations(0.5), Vec::<String>::new());
        let violations = sum.violations(0.97);
        assert_eq!(violations, ["50.00% answered, below 97%: 1 × status 502 during hang"]);
    }

    #[test]
    fn a_truncated_stream_is_excused_by_a_fault_of_its_own_pod_alone() {
        let periods = [period(FaultKind::Die, 1, 5, 8), period(FaultKind::Respond(500), 0, 5, 8)];
        let executions = [ran("a", 1, 4, ExecutionEnd::Lost), ran("b", 0, 4, ExecutionEnd::Aborted)];
        let cut = || failed(Failure::ErrorEvent);
        let requests = [request("a", 4, 6, cut()), request("b", 4, 6, cut()), request("c", 1, 2, cut())];
        let groups = [vec![0, 1, 2]];
        let sum = Availability::of(&requests, &executions, &periods, &groups);
        assert_eq!((sum.truncated, sum.failures()), (1, 2));
        let sum = Availability::of(&[request("a", 4, 6, failed(Failure::Status(502)))], &executions, &periods, &groups);
        assert_eq!((sum.truncated, sum.failures()), (0, 1), "before its first byte it could have been tried elsewhere");
    }

    #[test]
    fn a_400_of_a_pod_that_says_so_to_all_is_a_failure() {
        let periods = [period(FaultKind::Respond(400), 1, 5, 8)];
        let requests = [request("a", 6, 7, failed(Failure::Status(400)))];
        let sum = Availability::of(&requests, &[], &periods, &[GROUP.to_vec()]);
        assert_eq!(sum.failures(), 1, "another pod could have answered");
    }

    #[test]
    fn a_run_that_answered_nothing_is_not_available() {
        assert_eq!(Availability::default().violations(0.9).len(), 1);
    }
}
