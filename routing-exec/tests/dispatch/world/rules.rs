//! What holds for every dispatch, whatever happens to it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use routing_core::{Pod, RoutingPlan};
use routing_exec::{
    Action, AttemptId, AttemptOutcome, BreakerSample, DispatchOutcome, DispatchReport, Failure, Input, TimerId,
};

pub(super) struct Rules {
    /// The first one, and the latest: one that names no other pods than those that failed is not followed.
    plans: [RoutingPlan; 2],
    attempts: BTreeMap<AttemptId, Stage>,
    judged: BTreeSet<Pod>,
    begun: bool,
    answered: bool,
    forwarded: bool,
    aborted: bool,
    over: bool,
    replanning: bool,
    /// When the request ends in all.
    bound: Option<Instant>,
}

/// Where an attempt stands.
#[derive(Default)]
struct Stage {
    sent: bool,
    first_byte: bool,
    /// Its end came in, or it was cancelled.
    ended: bool,
    released: bool,
}

impl Rules {
    pub(super) fn new(plan: RoutingPlan, bound: Option<Instant>) -> Self {
        Self {
            bound,
            plans: [plan.clone(), plan],
            attempts: BTreeMap::new(),
            judged: BTreeSet::new(),
            begun: false,
            answered: false,
            forwarded: false,
            aborted: false,
            over: false,
            replanning: false,
        }
    }

    pub(super) fn told(&mut self, input: &Input) {
        if let Input::End(id, _) | Input::Failed(id, _) | Input::Refused(id, _) = input {
            if let Some(stage) = self.attempts.get_mut(id) {
                stage.ended = true;
            }
        }
    }

    pub(super) fn replanned(&mut self, plan: Option<&RoutingPlan>) {
        // Without a plan it may go on by the old one, past breakers.
        let was_replanning = std::mem::take(&mut self.replanning);
        if let Some(plan) = plan.filter(|_| was_replanning) {
            self.plans[1] = plan.clone();
        }
    }

    pub(super) fn check(&mut self, action: &Action, now: Instant) {
        assert!(!self.over, "after the end: {action:?}");
        if self.bound.is_some_and(|bound| bound <= now) {
            let is_timeout = |failure: &Failure| matches!(failure, Failure::FirstByteTimeout | Failure::IdleTimeout);
            match action {
                Action::Send { .. } => panic!("sent when it is too late"),
                Action::Sample(_, _, BreakerSample::Failure(failure)) => {
                    assert!(!is_timeout(failure), "charged for all")
                }
                _ => {}
            }
        }
        match action {
            Action::Acquire(id, ..) => {
                assert!(self.attempts.insert(*id, Stage::default()).is_none(), "{id:?} is held twice");
            }
            Action::Send { attempt, pod, step, request, .. } => {
                assert!(!self.begun && !self.answered, "sent after the client's answer began");
                let mut steps = self.plans.iter().filter_map(|plan| plan.steps().get(*step));
                let is_planned = steps.any(|step| step.candidates.iter().any(|candidate| candidate.pod == *pod));
                assert!(is_planned, "{pod:?} is not in the plan");
                assert!(request.uri().authority().is_none(), "where a pod is is not the request's to say");
                let stage = self.attempts.get_mut(attempt).expect("sent without being held");
                assert!(!stage.sent && !stage.released);
                stage.sent = true;
            }
            Action::FirstByte(id) => {
                let stage = self.attempts.get_mut(id).expect("no such attempt");
                assert!(!stage.first_byte && !stage.released);
                stage.first_byte = true;
            }
            Action::Cancel(id) => {
                let stage = self.attempts.get_mut(id).expect("no such attempt");
                assert!(stage.sent && !stage.ended && !stage.released, "cancelled, though not under way");
                stage.ended = true;
            }
            Action::Release(id) => {
                let stage = self.attempts.get_mut(id).expect("released without being held");
                assert!(stage.ended, "released while under way");
                assert!(!std::mem::replace(&mut stage.released, true), "released twice");
            }
            Action::SetTimer(TimerId::Attempt(id), _) => assert!(!self.attempts[id].released, "armed for what is over"),
            Action::Sample(_, _, BreakerSample::Failure(Failure::LocalResources(_))) => {
                panic!("charged for our own want")
            }
            Action::Sample(_, pod, _) => assert!(self.judged.insert(*pod), "{pod:?} is judged twice"),
            Action::Exonerate(_, pod) => assert!(self.judged.contains(pod), "{pod:?} was not judged"),
            Action::Replan(_) => {
                // A pod that refused keeps its answer ready.
                assert!(!self.begun);
                self.replanning = true;
            }
            Action::Head(_) => {
                assert!(!self.answered && !std::mem::replace(&mut self.begun, true), "two answers");
            }
            Action::Forward(chunk) => {
                assert!(self.begun && !self.aborted && !chunk.is_empty());
                self.forwarded = true;
            }
            Action::Trailers(_) => assert!(self.begun && !self.aborted),
            Action::Abort => assert!(self.begun && !std::mem::replace(&mut self.aborted, true)),
            Action::Respond(_) => {
                assert!(!self.begun && !std::mem::replace(&mut self.answered, true), "two answers");
            }
            Action::Finish(_) => self.over = true,
            _ => {}
        }
    }

    /// What holds when a dispatch is over.
    pub(super) fn check_end(&self, report: &DispatchReport, bytes: u64) {
        assert!(self.over);
        assert!(self.attempts.values().all(|stage| stage.sent && stage.ended && stage.released), "left under way");
        assert_eq!(report.attempts.len(), self.attempts.len());
        assert_eq!(report.bytes, bytes);
        match &report.outcome {
            DispatchOutcome::ClientDisconnected => assert!(!self.answered && !self.aborted),
            DispatchOutcome::Completed(_) => assert!(self.begun && !self.aborted),
            _ => assert!(self.begun != self.answered, "told once"),
        }
        for (at, attempt) in report.attempts.iter().enumerate() {
            assert!(attempt.outcome != AttemptOutcome::Pending && attempt.ended.is_some());
            let mut later = report.attempts[at + 1..].iter();
            let again = later.any(|later| later.pod == attempt.pod && later.step == attempt.step);
            // One that its breaker refused, or that nothing was left for, was sent nothing.
            let is_unsent = |failure: &Failure| matches!(failure, Failure::BreakerOpen | Failure::LocalResources(_));
            let failed = matches!(&attempt.outcome, AttemptOutcome::Failed(failure) if !is_unsent(failure));
            assert!(!(again && failed), "{:?} failed and was asked again", attempt.pod);
        }
    }
}
