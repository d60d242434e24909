//! What became of a request: the pods that it counts on, until its answer ends.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, Method, StatusCode};
use pointsman::core::Role;
use pointsman::exec::Failure;
use pointsman::exec::handoff::Api;
use pointsman::index::Pod;
use pointsman::{Attempt, Routed, WatchedAnswer};

use crate::metrics::RequestMeter;

/// A request that was sent on.
#[derive(Debug)]
pub(super) struct Sent {
    routed: Option<Routed>,
    /// None where nothing is counted.
    answer: Option<WatchedAnswer>,
    /// The shares of the pods that work before the first token, until that comes.
    prefill: Option<Attempt>,
    encode: Option<Attempt>,
    /// How the pod failed that the proxy sent it to.
    failure: Option<Failure>,
    /// None where there is no body, and so no model.
    meter: Option<RequestMeter>,
    api: Api,
    method: Method,
}

impl Sent {
    /// One that counts nowhere.
    pub(super) fn unwatched() -> Self {
        Self::with(None, Api::Other, Method::GET)
    }

    fn with(answer: Option<WatchedAnswer>, api: Api, method: Method) -> Self {
        Self { routed: None, answer, prefill: None, encode: None, failure: None, meter: None, api, method }
    }

    /// Begins on the first pod of each step that may be sent something; none if none of those may that answer.
    pub(super) fn begin(routed: &mut Routed, api: Api, method: Method) -> Option<Self> {
        let answering = answering_step(routed);
        // One that is first for both prefills for itself.
        let first = |step: usize| Some(routed.candidates(step).next()?.0);
        let is_split = |step: &usize| api.generates() && first(*step) != first(answering);
        let (prefilling, encoding) =
            (step_of(routed, Role::Prefill).filter(is_split), step_of(routed, Role::Encode).filter(is_split));
        let [encode, prefill] = [encoding, prefilling].map(|step| step.and_then(|step| begin_first(routed, step)));
        let answer = begin_first(routed, answering)?.watch(api, method.clone());
        Some(Self { encode, prefill, ..Self::with(Some(answer), api, method) })
    }

    /// The same with the plan, in case another of its pods serves.
    pub(super) fn keep(self, routed: Routed) -> Self {
        Self { routed: Some(routed), ..self }
    }

    /// The same, counted.
    pub(super) fn metered(self, meter: RequestMeter) -> Self {
        Self { meter: Some(meter), ..self }
    }

    /// Whether anybody wants to know what the answer says.
    pub(super) fn is_watched(&self) -> bool {
        self.answer.is_some() || self.meter.is_some()
    }

    pub(super) fn pod(&self) -> Option<Pod> {
        self.answer.as_ref().map(WatchedAnswer::pod)
    }

    pub(super) fn prefill_pod(&self) -> Option<Pod> {
        self.prefill.as_ref().map(Attempt::pod)
    }

    /// The addresses of the pods that encode.
    pub(super) fn encoders(&self, routed: &Routed) -> Vec<String> {
        let step = self.encode.as_ref().and(step_of(routed, Role::Encode));
        step.map(|step| routed.candidates(step).map(|(_, address)| address).collect()).unwrap_or_default()
    }

    /// The pod of a step by its name; of the one that answers, unless named.
    pub(super) fn pod_of(&self, step: Option<&str>) -> Option<Pod> {
        let Some(name) = step else { return self.pod() };
        let steps = self.routed.as_ref()?.plan().steps();
        let step = steps.iter().find(|step| &*step.name == name)?;
        if matches!(step.role, Role::Decode | Role::Both) { self.pod() } else { Some(step.candidates.first()?.pod) }
    }

    /// Another pod of the plan served. The first one did not take the request, if it was tried.
    pub(super) fn served_by(&mut self, pod: Pod, was_tried: bool) {
        let Some(routed) = &mut self.routed else { return };
        if let Some(passed_over) = self.answer.take().filter(|_| was_tried) {
            passed_over.failed(Failure::Connect("the proxy went on to the next endpoint".into()));
        }
        let answer = routed.begin(answering_step(routed), pod).ok();
        self.answer = answer.map(|attempt| attempt.untimed().watch(self.api, self.method.clone()));
    }

    /// More of its body went on, or the last of it.
    pub(super) fn request_piece(&mut self, bytes: usize, is_last: bool) {
        let Some(meter) = &mut self.meter else { return };
        meter.request_piece(bytes);
        if is_last {
            meter.request_ended();
        }
    }

    pub(super) fn head(&mut self, status: StatusCode, headers: &HeaderMap) {
        if let Some(meter) = &mut self.meter {
            let kind = headers.get(CONTENT_TYPE).map_or(&b""[..], |kind| kind.as_bytes());
            meter.head(status.is_success(), kind.starts_with(b"text/event-stream"));
        }
        if let Some(answer) = &mut self.answer {
            answer.head(status, headers);
        }
    }

    pub(super) fn chunk(&mut self, chunk: &[u8]) {
        if let Some(meter) = &mut self.meter {
            meter.chunk(chunk.len());
        }
        let Some(answer) = &mut self.answer else { return };
        if answer.chunk(chunk) {
            self.prefilled();
        }
    }

    /// The proxy answered itself: the pod failed it, or nobody knows.
    pub(super) fn unserved(&mut self, failure: Option<Failure>) {
        if let Some((answer, failure)) = self.answer.take().zip(failure.clone()) {
            answer.failed(failure);
        }
        // Of the others nothing is known.
        (self.prefill, self.encode, self.failure) = (None, None, failure);
    }

    /// What was to be computed elsewhere is there.
    fn prefilled(&mut self) {
        [self.encode.take(), self.prefill.take()].into_iter().flatten().for_each(Attempt::succeeded);
    }

    /// No more of the answer will be seen than its headers.
    pub(super) fn end_unseen(mut self) -> Result<(), Failure> {
        let meter = self.meter.take();
        let ended = self.judge_unseen();
        if let Some(meter) = meter {
            meter.end(None, ended.is_ok());
        }
        ended
    }

    fn judge_unseen(mut self) -> Result<(), Failure> {
        let Some(answer) = self.answer.take() else { return self.failure.map_or(Ok(()), Err) };
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
        self.prefilled();
        Ok(())
    }

    /// The answer is over.
    pub(super) fn end(mut self) -> Result<(), Failure> {
        let usage = self.answer.as_ref().and_then(WatchedAnswer::usage);
        let ended = match self.answer.take() {
            Some(answer) => answer.end(),
            None => self.failure.take().map_or(Ok(()), Err),
        };
        if let Some(meter) = self.meter.take() {
            meter.end(usage, ended.is_ok());
        }
        if ended.is_ok() {
            self.prefilled();
        }
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

fn step_of(routed: &Routed, role: Role) -> Option<usize> {
    routed.plan().steps().iter().position(|step| step.role == role)
}

fn begin_first(routed: &mut Routed, step: usize) -> Option<Attempt> {
    let pods: Vec<Pod> = routed.candidates(step).map(|(pod, _)| pod).collect();
    pods.into_iter().find_map(|pod| routed.begin(step, pod).ok())
}
