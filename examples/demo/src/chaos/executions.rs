//! The pods' side of "ended exactly once": what ran on pods, compared with what clients asked for and the gateway counted.

use std::collections::HashMap;
use std::time::Duration;

use pointsman_engine_sim::ExecutionEnd;

use super::timeline::{ExecutionSpan, RequestSpan};
use crate::load_generator::Outcome;

/// What does not add up, in words.
///
/// - A pod ran what no client asked for.
/// - An execution never ended, or went on long after its client had its end, or after the gateway had begun another in its place.
/// - A request was answered, and no pod had finished it.
/// - A request ran to its end twice at the same time: no retry explains that, since the gateway tries again once it has given up.
/// - A request ran more often than the gateway may try.
pub(crate) fn violations(requests: &[RequestSpan], executions: &[ExecutionSpan], limits: Limits) -> Vec<String> {
    let asked: HashMap<&str, &RequestSpan> = requests.iter().map(|request| (request.id.as_str(), request)).collect();
    let mut runs: HashMap<(&str, bool), Vec<&ExecutionSpan>> = HashMap::new();
    let mut odd = Odd::default();
    for execution in executions {
        match asked.get(execution.request.as_str()) {
            None => odd.note("ran without being asked for", execution),
            Some(request) => odd.note_end(execution, request, limits),
        }
        runs.entry((&execution.request, execution.prefills)).or_default().push(execution);
    }
    for runs in runs.values() {
        if runs.len() > limits.runs {
            odd.note("ran more often than is tried", runs[0]);
        }
        for (at, run) in runs.iter().enumerate() {
            for later in &runs[at + 1..] {
                odd.note_pair(run, later, limits);
            }
        }
    }
    for request in requests.iter().filter(|request| request.outcome == Outcome::Answered) {
        let finished =
            runs.get(&(request.id.as_str(), false)).is_some_and(|runs| runs.iter().any(|run| run.has_finished()));
        if !finished {
            odd.add("was answered and never finished", format!("{} ", request.id));
        }
    }
    odd.texts()
}

/// What is still in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// How often one step of a request may run in all.
    pub(crate) runs: usize,
    /// How long after nobody wants it any more an execution may go on: until a pod has heard of it.
    pub(crate) lag: Duration,
}

/// Violations by kind, with the first of each.
#[derive(Default)]
struct Odd(Vec<(&'static str, usize, String)>);

impl Odd {
    fn note(&mut self, kind: &'static str, execution: &ExecutionSpan) {
        self.add(
            kind,
            format!("{} on pod-{} at {:.1} s", execution.request, execution.pod, execution.begun.as_secs_f64()),
        );
    }

    fn add(&mut self, kind: &'static str, example: String) {
        match self.0.iter_mut().find(|(known, ..)| *known == kind) {
            Some((_, count, _)) => *count += 1,
            None => self.0.push((kind, 1, example)),
        }
    }

    fn note_end(&mut self, execution: &ExecutionSpan, request: &RequestSpan, limits: Limits) {
        match execution.ended {
            None => self.note("never ended", execution),
            Some((ended, _)) if ended > request.ended + limits.lag => {
                self.note("went on without its client", execution)
            }
            Some(_) => {}
        }
    }

    /// Two runs of one step, in the order of their beginnings.
    fn note_pair(&mut self, run: &ExecutionSpan, later: &ExecutionSpan, limits: Limits) {
        let Some((ended, end)) = run.ended else { return };
        if ended <= later.begun {
            return;
        }
        if end == ExecutionEnd::Finished && later.has_finished() {
            self.note("ran twice at once", run);
        } else if end == ExecutionEnd::Aborted && ended > later.begun + limits.lag {
            self.note("went on beside its retry", run);
        }
    }

    fn texts(&self) -> Vec<String> {
        self.0.iter().map(|(kind, count, example)| format!("{count} {kind}, such as {}", example.trim_end())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load_generator::Failure;

    fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn asked(id: &str, outcome: Outcome) -> RequestSpan {
        RequestSpan { id: id.to_owned(), begun: s(1), ended: s(10), outcome }
    }

    fn ran(id: &str, pod: usize, begun: u64, ended: Option<(u64, ExecutionEnd)>) -> ExecutionSpan {
        let ended = ended.map(|(at, end)| (s(at), end));
        ExecutionSpan { request: id.to_owned(), pod, prefills: false, begun: s(begun), ended }
    }

    fn found(requests: &[RequestSpan], executions: &[ExecutionSpan]) -> Vec<String> {
        violations(requests, executions, Limits { runs: 3, lag: s(2) })
    }

    const FINISHED: ExecutionEnd = ExecutionEnd::Finished;
    const ABORTED: ExecutionEnd = ExecutionEnd::Aborted;

    #[test]
    fn a_request_that_ran_once_or_was_tried_again_in_time_is_in_order() {
        let requests = [asked("a", Outcome::Answered), asked("b", Outcome::Answered), asked("c", Outcome::Left)];
        let executions = [
            ran("a", 0, 2, Some((9, FINISHED))),
            ran("b", 0, 2, Some((4, ExecutionEnd::Lost))),
            ran("b", 1, 4, Some((6, ABORTED))),
            ran("b", 2, 5, Some((9, FINISHED))),
            ran("c", 1, 2, Some((11, ABORTED))),
        ];
        assert_eq!(found(&requests, &executions), Vec::<String>::new());
        let prefilled = ExecutionSpan { prefills: true, ..executions[0].clone() };
        assert!(found(&requests, &[executions.as_slice(), &[prefilled]].concat()).is_empty(), "a step of its own");
    }

    #[test]
    fn what_ran_twice_at_once_is_found() {
        let executions = [ran("a", 0, 2, Some((7, FINISHED))), ran("a", 1, 5, Some((9, FINISHED)))];
        assert_eq!(
            found(&[asked("a", Outcome::Answered)], &executions),
            ["1 ran twice at once, such as a on pod-0 at 2.0 s"]
        );
        let executions = [ran("a", 0, 2, Some((8, ABORTED))), ran("a", 1, 5, Some((9, FINISHED)))];
        let found = found(&[asked("a", Outcome::Answered)], &executions);
        assert_eq!(found, ["1 went on beside its retry, such as a on pod-0 at 2.0 s"]);
    }

    #[test]
    fn what_is_left_running_and_what_nobody_asked_for_is_found() {
        let failed = Outcome::Failed(Failure::Status(502));
        let executions =
            [ran("a", 0, 2, None), ran("b", 0, 2, Some((13, ABORTED))), ran("x", 3, 4, Some((5, FINISHED)))];
        let found = found(&[asked("a", failed), asked("b", Outcome::Left)], &executions);
        assert_eq!(
            found,
            [
                "1 never ended, such as a on pod-0 at 2.0 s",
                "1 went on without its client, such as b on pod-0 at 2.0 s",
                "1 ran without being asked for, such as x on pod-3 at 4.0 s"
            ]
        );
    }

    #[test]
    fn an_answer_from_nowhere_and_endless_retries_are_found() {
        let executions = [1, 2, 3, 4].map(|begun| ran("a", 0, begun, Some((begun, ExecutionEnd::Lost))));
        let found = found(&[asked("a", Outcome::Answered)], &executions);
        assert_eq!(
            found,
            [
                "1 ran more often than is tried, such as a on pod-0 at 1.0 s",
                "1 was answered and never finished, such as a"
            ]
        );
    }
}
