//! A scripted world around a dispatch: it does what the dispatch says by virtual time, and checks after every action what must
//! always hold.

#![allow(clippy::unwrap_used, reason = "a world that cannot be set up is a failed test")]

mod parts;
mod rules;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, response};
use routing_core::{Pod, RoutingPlan};
use routing_exec::{
    Action, AttemptId, BreakerSample, ClientRequest, Dispatch, DispatchConfig, DispatchError, DispatchOutcome,
    DispatchPolicy, DispatchReport, Failure, Hook, Input, RetryBudget, TimerId,
};

pub(crate) use self::parts::*;
use self::rules::Rules;

/// What a world begins with.
pub(crate) struct Setup {
    pub(crate) dialect: Dialect,
    pub(crate) plan: RoutingPlan,
    pub(crate) config: DispatchPolicy,
    pub(crate) budget: Option<Arc<RetryBudget>>,
    pub(crate) deadline: Option<Duration>,
    pub(crate) hooks: Vec<Box<dyn Hook>>,
    pub(crate) body: &'static str,
    pub(crate) method: http::Method,
    pub(crate) path: &'static str,
}

impl Setup {
    pub(crate) fn new(dialect: Dialect, plan: RoutingPlan) -> Self {
        let (config, body, method) = (patience(), r#"{"stream":true}"#, http::Method::POST);
        let path = "/v1/chat/completions?x=1";
        Self { dialect, plan, config, budget: None, deadline: None, hooks: Vec::new(), body, method, path }
    }

    pub(crate) fn path(self, path: &'static str) -> Self {
        Self { path, ..self }
    }

    pub(crate) fn config(mut self, change: impl FnOnce(&mut DispatchPolicy)) -> Self {
        change(&mut self.config);
        self
    }

    pub(crate) fn deadline(mut self, deadline: u64) -> Self {
        self.deadline = Some(seconds(deadline));
        self
    }

    pub(crate) fn hook(mut self, hook: impl Hook + 'static) -> Self {
        self.hooks.push(Box::new(hook));
        self
    }

    pub(crate) fn dispatch(self) -> Dispatch {
        let mut dispatch_config = DispatchConfig::new(Arc::new(self.dialect), Arc::new(()));
        dispatch_config.policy = Arc::new(self.config);
        dispatch_config.retry_budget = self.budget;
        let request = Request::builder().method(self.method).uri(format!("http://gateway{}", self.path)).body(());
        let (parts, ()) = request.unwrap().into_parts();
        let mut request = ClientRequest::new(&parts, self.body.into(), 7);
        if let Some(deadline) = self.deadline {
            request = request.deadline(some_instant().checked_add(deadline).unwrap());
        }
        Dispatch::new(dispatch_config, request, self.plan, self.hooks)
    }

    pub(crate) fn start(self) -> World {
        let mut world = self.idle();
        world.dispatch.start(world.now);
        world.perform();
        world
    }

    /// A world whose dispatch has not begun.
    pub(crate) fn idle(self) -> World {
        let first = self.plan.clone();
        let total = some_instant().checked_add(self.config.request_timeout);
        let own = self.deadline.and_then(|deadline| some_instant().checked_add(deadline));
        let bound = total.into_iter().chain(own).min();
        World { rules: Rules::new(first, bound), bound, dispatch: self.dispatch(), ..World::empty() }
    }
}

/// A request that was sent.
#[derive(Debug)]
pub(crate) struct Sent {
    pub(crate) id: AttemptId,
    pub(crate) pod: Pod,
    pub(crate) step: usize,
    pub(crate) request: Request<Bytes>,
}

pub(crate) struct World {
    pub(crate) dispatch: Dispatch,
    pub(crate) now: Instant,
    pub(crate) sent: Vec<Sent>,
    /// Attempts that were given up, by their place in `sent`.
    pub(crate) cancelled: Vec<usize>,
    pub(crate) judged: Vec<(Pod, BreakerSample)>,
    /// Pods whose samples were taken back.
    pub(crate) exonerated: Vec<usize>,
    /// Attempts that went past a breaker.
    pub(crate) forced: Vec<usize>,
    pub(crate) replans: Vec<Vec<Pod>>,
    pub(crate) head: Option<response::Parts>,
    pub(crate) body: Vec<u8>,
    pub(crate) trailers: Option<HeaderMap>,
    pub(crate) answer: Option<Response<Bytes>>,
    pub(crate) aborted: bool,
    pub(crate) report: Option<DispatchReport>,
    /// What was done, in words.
    pub(crate) story: Vec<String>,
    /// When the request ends in all.
    bound: Option<Instant>,
    timers: BTreeMap<TimerId, Instant>,
    rules: Rules,
}

impl World {
    fn empty() -> Self {
        Self {
            dispatch: Setup::new(REUSABLE, RoutingPlan::default()).dispatch(),
            now: some_instant(),
            sent: Vec::new(),
            cancelled: Vec::new(),
            judged: Vec::new(),
            exonerated: Vec::new(),
            forced: Vec::new(),
            replans: Vec::new(),
            head: None,
            body: Vec::new(),
            trailers: None,
            answer: None,
            aborted: false,
            report: None,
            story: Vec::new(),
            bound: None,
            timers: BTreeMap::new(),
            rules: Rules::new(RoutingPlan::default(), None),
        }
    }

    pub(crate) fn handle(&mut self, input: Input) {
        self.rules.told(&input);
        self.dispatch.handle(self.now, input);
        self.perform();
    }

    pub(crate) fn perform(&mut self) {
        while let Some(action) = self.dispatch.next_action() {
            self.rules.check(&action, self.now);
            self.story.push(self.in_words(&action));
            self.note(action);
        }
        assert_eq!(self.dispatch.is_over(), self.report.is_some(), "a dispatch that is over has said so");
        if let Some(report) = &self.report {
            self.rules.check_end(report, self.body.len() as u64);
        }
    }

    fn note(&mut self, action: Action) {
        match action {
            Action::Send { attempt, pod, step, request, forced } => {
                self.forced.extend(forced.then_some(pod.id().index()));
                self.sent.push(Sent { id: attempt, pod, step, request });
            }
            Action::Cancel(id) => self.cancelled.extend(self.place(id)),
            Action::Release(id) => drop(self.timers.remove(&TimerId::Attempt(id))),
            Action::Sample(_, pod, sample) => self.judged.push((pod, sample)),
            Action::Exonerate(_, pod) => self.exonerated.push(pod.id().index()),
            Action::SetTimer(timer, at) => drop(self.timers.insert(timer, at)),
            Action::Replan(without) => self.replans.push(without),
            Action::Head(head) => self.head = Some(head),
            Action::Forward(chunk) => self.body.extend_from_slice(&chunk),
            Action::Trailers(trailers) => self.trailers = Some(trailers),
            Action::Respond(answer) => self.answer = Some(answer),
            Action::Abort => self.aborted = true,
            Action::Finish(report) => self.report = Some(report),
            _ => {}
        }
    }

    fn place(&self, id: AttemptId) -> Option<usize> {
        self.sent.iter().position(|sent| sent.id == id)
    }

    fn in_words(&self, action: &Action) -> String {
        match action {
            Action::Send { pod, step, .. } => format!("send {step} to {}", pod.id().index()),
            Action::Cancel(id) => format!("cancel {}", self.place(*id).unwrap()),
            Action::Acquire(_, pod, step) => format!("hold {step} on {}", pod.id().index()),
            Action::FirstByte(id) => format!("first byte {}", self.place(*id).unwrap()),
            Action::Release(id) => format!("release {}", self.place(*id).unwrap()),
            Action::Sample(_, pod, BreakerSample::Failure(_)) => format!("charge {}", pod.id().index()),
            Action::Sample(_, pod, _) => format!("praise {}", pod.id().index()),
            Action::SetTimer(..) => "arm".into(),
            Action::Replan(_) => "replan".into(),
            Action::Head(_) => "head".into(),
            Action::Forward(_) => "forward".into(),
            Action::Trailers(_) => "trailers".into(),
            Action::Respond(_) => "answer".into(),
            Action::Abort => "abort".into(),
            Action::Finish(_) => "finish".into(),
            _ => "?".into(),
        }
    }

    /// What was done since the story was last told, but for timers.
    pub(crate) fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.story).into_iter().filter(|line| line != "arm").collect()
    }

    // What pods do. An attempt is named by its place in `sent`.

    pub(crate) fn head_with(&mut self, at: usize, status: u16, headers: &[(&'static str, &'static str)]) -> &mut Self {
        let mut answer = Response::builder().status(status);
        for (name, value) in headers {
            answer = answer.header(*name, *value);
        }
        let id = self.sent[at].id;
        self.handle(Input::Head(id, answer.body(()).unwrap().into_parts().0));
        self
    }

    /// The head of an answer in JSON.
    pub(crate) fn head(&mut self, at: usize, status: u16) -> &mut Self {
        self.head_with(at, status, &[("content-type", "application/json")])
    }

    /// The head of a stream of events.
    pub(crate) fn stream(&mut self, at: usize) -> &mut Self {
        self.head_with(at, 200, &[("content-type", "text/event-stream; charset=utf-8")])
    }

    pub(crate) fn chunk(&mut self, at: usize, chunk: &'static str) -> &mut Self {
        self.bytes(at, chunk.as_bytes())
    }

    pub(crate) fn bytes(&mut self, at: usize, chunk: &[u8]) -> &mut Self {
        let id = self.sent[at].id;
        self.handle(Input::Chunk(id, Bytes::copy_from_slice(chunk)));
        self
    }

    pub(crate) fn end(&mut self, at: usize) -> &mut Self {
        let id = self.sent[at].id;
        self.handle(Input::End(id, None));
        self
    }

    pub(crate) fn fails(&mut self, at: usize, failure: Failure) -> &mut Self {
        let id = self.sent[at].id;
        self.handle(Input::Failed(id, failure));
        self
    }

    /// Its breaker does not admit it, for so many seconds.
    pub(crate) fn refused(&mut self, at: usize, wait: u64) -> &mut Self {
        let id = self.sent[at].id;
        self.handle(Input::Refused(id, seconds(wait)));
        self
    }

    /// A whole answer of a leg that is kept.
    pub(crate) fn prefilled(&mut self, at: usize) -> &mut Self {
        self.head(at, 200).chunk(at, "blocks").end(at)
    }

    /// Time passes; timers go off as it does.
    pub(crate) fn pass(&mut self, time: Duration) -> &mut Self {
        let until = self.now.checked_add(time).unwrap();
        while let Some((&timer, &at)) = self.timers.iter().min_by_key(|(_, at)| **at).filter(|(_, at)| **at <= until) {
            self.timers.remove(&timer);
            self.now = self.now.max(at);
            self.handle(Input::Expired(timer));
        }
        self.now = until;
        let is_late = self.bound.is_some_and(|bound| bound <= until);
        assert!(!is_late || self.report.is_some(), "it goes on after its end in all");
        self
    }

    // What came of it.

    pub(crate) fn pods(&self) -> Vec<usize> {
        self.sent.iter().map(|sent| sent.pod.id().index()).collect()
    }

    pub(crate) fn request(&self, at: usize) -> String {
        String::from_utf8(self.sent[at].request.body().to_vec()).unwrap()
    }

    pub(crate) fn outcome(&self) -> &DispatchOutcome {
        &self.report.as_ref().expect("it is over").outcome
    }

    pub(crate) fn error(&self) -> &DispatchError {
        let DispatchOutcome::Failed(error) = self.outcome() else { panic!("{:?}", self.outcome()) };
        error
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.answer.as_ref().expect("an answer").status()
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn charged(&self) -> Vec<usize> {
        let bad = self.judged.iter().filter(|(_, sample)| matches!(sample, BreakerSample::Failure(_)));
        bad.map(|(pod, _)| pod.id().index()).collect()
    }

    pub(crate) fn replanned(&mut self, plan: Option<RoutingPlan>) {
        self.rules.replanned(plan.as_ref());
        self.handle(Input::Replanned(plan));
    }
}
