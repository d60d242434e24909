//! What became of a request: the pods that it counts on, until its answer ends.

use http::{HeaderMap, Method, StatusCode};
use pointsman::core::Role;
use pointsman::exec::Failure;
use pointsman::exec::handoff::Api;
use pointsman::index::Pod;
use pointsman::{Attempt, Routed, WatchedAnswer};

/// A request that was sent on.
#[derive(Debug)]
pub(super) struct Sent {
    routed: Option<Routed>,
    /// None where nothing is counted.
    answer: Option<WatchedAnswer>,
    /// The prefill pod's share, until the first token.
    prefill: Option<Attempt>,
    api: Api,
    method: Method,
    /// Whether its answer's headers came.
    pub(super) has_head: bool,
}

impl Sent {
    /// One that counts nowhere.
    pub(super) fn unwatched() -> Self {
        Self { routed: None, answer: None, prefill: None, api: Api::Other, method: Method::GET, has_head: false }
    }

    /// Begins on the first pod of each step that may be sent something; none if none of those may that answer.
    pub(super) fn begin(routed: &mut Routed, api: Api, method: Method) -> Option<Self> {
        let answering = answering_step(routed);
        let prefilling = prefilling_step(routed).filter(|_| api.generates());
        let mut prefill = prefilling.and_then(|step| begin_first(routed, step));
        let answer = begin_first(routed, answering)?;
        if prefill.as_ref().is_some_and(|prefill| prefill.pod() == answer.pod()) {
            // It prefills for itself.
            prefill = None;
        }
        let answer = Some(answer.watch(api, method.clone()));
        Some(Self { routed: None, answer, prefill, api, method, has_head: false })
    }

    /// The same with the plan, in case another of its pods serves.
    pub(super) fn keep(self, routed: Routed) -> Self {
        Self { routed: Some(routed), ..self }
    }

    pub(super) fn pod(&self) -> Option<Pod> {
        self.answer.as_ref().map(WatchedAnswer::pod)
    }

    pub(super) fn prefill_pod(&self) -> Option<Pod> {
        self.prefill.as_ref().map(Attempt::pod)
    }

    /// The pod of a step by its name; of the one that answers, unless named.
    pub(super) fn pod_of(&self, step: Option<&str>) -> Option<Pod> {
        let Some(name) = step else { return self.pod() };
        let steps = self.routed.as_ref()?.plan().steps();
        let step = steps.iter().find(|step| &*step.name == name)?;
        if matches!(step.role, Role::Decode | Role::Both) { self.pod() } else { Some(step.candidates.first()?.pod) }
    }

    /// Another pod of the plan served: the first one did not take it.
    pub(super) fn served_by(&mut self, pod: Pod) {
        let Some(routed) = &mut self.routed else { return };
        if let Some(passed_over) = self.answer.take() {
            passed_over.failed(Failure::Connect("the proxy went on to the next endpoint".into()));
        }
        let answer = routed.begin(answering_step(routed), pod).ok();
        self.answer = answer.map(|attempt| attempt.watch(self.api, self.method.clone()));
    }

    pub(super) fn head(&mut self, status: StatusCode, headers: &HeaderMap) {
        self.has_head = true;
        if let Some(answer) = &mut self.answer {
            answer.head(status, headers);
        }
    }

    pub(super) fn chunk(&mut self, chunk: &[u8]) {
        let Some(answer) = &mut self.answer else { return };
        if answer.chunk(chunk) {
            // What was to be computed elsewhere is there.
            self.prefill.take().into_iter().for_each(Attempt::succeeded);
        }
    }

    /// The proxy could not reach the pod, and answered itself.
    pub(super) fn unreachable(&mut self, details: &str) {
        if let Some(answer) = self.answer.take() {
            answer.failed(Failure::Connect(details.into()));
        }
        // Of the prefill pod nothing is known.
        self.prefill = None;
    }

    /// No more of the answer will be seen than its headers.
    pub(super) fn end_unseen(mut self) -> Result<(), Failure> {
        let Some(answer) = self.answer.take() else { return Ok(()) };
        let status = answer.status().map_or(502, |status| status.as_u16());
        let (attempt, failure) = (answer.into_attempt(), Failure::Status(status));
        match status {
            200..300 => attempt.succeeded(),
            _ if failure.is_pod_fault() => {
                attempt.failed(failure.clone());
                return Err(failure);
            }
            // The request's own fault, or the pod is full: what the pod said of that came too early to be read.
            _ => {}
        }
        self.prefill.take().into_iter().for_each(Attempt::succeeded);
        Ok(())
    }

    /// The answer is over.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        let ended = self.answer.take().map_or(Ok(()), WatchedAnswer::end);
        let prefill = self.prefill.take().filter(|_| ended.is_ok());
        prefill.into_iter().for_each(Attempt::succeeded);
        ended
    }
}

/// The step whose pod answers.
pub(super) fn answering_step(routed: &Routed) -> usize {
    let steps = routed.plan().steps();
    steps
        .iter()
        .position(|step| matches!(step.role, Role::Decode | Role::Both))
        .unwrap_or(steps.len().saturating_sub(1))
}

fn prefilling_step(routed: &Routed) -> Option<usize> {
    routed.plan().steps().iter().position(|step| step.role == Role::Prefill)
}

fn begin_first(routed: &mut Routed, step: usize) -> Option<Attempt> {
    let pods: Vec<Pod> = routed.candidates(step).map(|(pod, _)| pod).collect();
    pods.into_iter().find_map(|pod| routed.begin(step, pod).ok())
}
