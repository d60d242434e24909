//! An executor of its own: it records what it would send, responds by itself, and serves a gateway and a batch alike.

#![allow(clippy::unwrap_used, reason = "a recorder that fails is a failed test")]

use std::future::{Future, ready};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::executor_world::{Clock, block_on, dispatch_config, pods, request};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use routing_core::batch::{BatchPlan, Cohort, PodPlan};
use routing_core::{PlanStep, Pod, Role, RoutingPlan};
use routing_exec::batch::{BatchRunner, BatchSource, RequestSize};
use routing_exec::handoff::{HandoffMode, Plain};
use routing_exec::{
    Action, ClientRequest, Dispatch, DispatchHost, DispatchOutcome, DispatchReport, Executor, Hook, HookError, Input,
    Target, Timer,
};

/// Drives dispatches without a transport: every pod responds at once, with the name of the step.
#[derive(Clone, Default)]
struct RecordingExecutor {
    now: Option<Instant>,
    sent: Arc<Mutex<Vec<Sent>>>,
}

type Sent = (Pod, Request<Bytes>);

impl RecordingExecutor {
    fn at(now: Instant) -> Self {
        Self { now: Some(now), sent: Arc::default() }
    }

    fn pods(&self) -> Vec<Pod> {
        self.sent.lock().unwrap().iter().map(|(pod, _)| *pod).collect()
    }

    fn bodies(&self) -> Vec<Bytes> {
        self.sent.lock().unwrap().iter().map(|(_, request)| request.body().clone()).collect()
    }

    fn run<H: DispatchHost>(&self, mut dispatch: Dispatch, mut host: H) -> Response<Full<Bytes>> {
        let now = self.now.expect("a time to record at");
        let (mut head, mut body, mut guards) = (None, Vec::new(), Vec::new());
        dispatch.start(now);
        while let Some(action) = dispatch.next_action() {
            match action {
                Action::Acquire(_, pod, step) => guards.push(host.begin_attempt(pod, &dispatch.plan().steps()[step])),
                Action::Send { attempt, pod, step, request, .. } => {
                    self.sent.lock().unwrap().push((pod, request));
                    let name = Bytes::from(dispatch.plan().steps()[step].name.to_string());
                    dispatch.handle(now, Input::Head(attempt, Response::new(()).into_parts().0));
                    dispatch.handle(now, Input::Chunk(attempt, name));
                    dispatch.handle(now, Input::End(attempt, None));
                }
                Action::Head(parts) => head = Some(parts),
                Action::Forward(chunk) => body.extend_from_slice(&chunk),
                Action::Respond(response) => {
                    let (parts, whole) = response.into_parts();
                    head = Some(parts);
                    body.extend_from_slice(&whole);
                }
                Action::Finish(report) => host.finished(report),
                _ => {}
            }
        }
        Response::from_parts(head.expect("a head"), Full::from(body))
    }
}

impl Executor for RecordingExecutor {
    type Body<H: DispatchHost> = Full<Bytes>;

    fn execute<H: DispatchHost>(
        &self,
        dispatch: Dispatch,
        host: H,
    ) -> impl Future<Output = Response<Full<Bytes>>> + Send + 'static {
        ready(self.run(dispatch, host))
    }
}

/// What a gateway does, over any executor.
async fn serve<E: Executor>(executor: &E, dispatch: Dispatch) -> (Bytes, Option<DispatchOutcome>) {
    let report: Arc<Mutex<Option<DispatchReport>>> = Arc::default();
    let sink = Arc::clone(&report);
    let response = executor.execute(dispatch, move |report| *sink.lock().unwrap() = Some(report)).await;
    let body = response.into_body().collect().await.map_err(|error| error.to_string()).unwrap().to_bytes();
    let outcome = report.lock().unwrap().take().map(|report| report.outcome);
    (body, outcome)
}

fn plan(pods: &[Pod]) -> RoutingPlan {
    let step = |(nth, pod): (usize, &Pod)| {
        let is_last = nth + 1 == pods.len();
        let role = if is_last { Role::Decode } else { Role::Prefill };
        PlanStep::new(if is_last { "decode" } else { "prefill" }, role, &[*pod])
    };
    RoutingPlan::new(1, pods.iter().enumerate().map(step))
}

#[test]
fn a_gateway_runs_on_an_executor_that_records_for_one_two_and_three_steps() {
    let clock = Clock::default();
    for steps in 1..=3 {
        let (executor, pods) = (RecordingExecutor::at(clock.now()), pods(steps));
        let mut config = dispatch_config();
        config.handoff = Arc::new(Plain::new(HandoffMode::Serial));
        let dispatch = Dispatch::new(config, request(), plan(&pods), Vec::new());
        let (body, outcome) = block_on(&clock, serve(&executor, dispatch));
        assert_eq!((&*body, outcome), (&b"decode"[..], Some(DispatchOutcome::Completed(200))), "{steps} steps");
        assert_eq!(executor.pods(), pods, "each step was sent once, in order");
    }
}

/// Injects into the body of each request, and changes the response.
struct Shout;

impl Hook for Shout {
    fn name(&self) -> &str {
        "shout"
    }

    fn before_send(&mut self, target: &Target<'_>, request: &mut Request<Bytes>) -> Result<(), HookError> {
        *request.body_mut() = Bytes::from(format!(r#"{{"step":"{}"}}"#, target.step));
        Ok(())
    }

    fn on_chunk(&mut self, chunk: Bytes) -> Result<Bytes, HookError> {
        Ok(Bytes::from(chunk.to_ascii_uppercase()))
    }
}

#[test]
fn hooks_work_with_any_executor_that_drives_the_dispatch() {
    let (clock, pods) = (Clock::default(), pods(2));
    let executor = RecordingExecutor::at(clock.now());
    let mut config = dispatch_config();
    config.handoff = Arc::new(Plain::new(HandoffMode::Serial));
    let dispatch = Dispatch::new(config, request(), plan(&pods), vec![Box::new(Shout)]);
    let (body, _) = block_on(&clock, serve(&executor, dispatch));
    assert_eq!(body, "DECODE");
    assert_eq!(executor.bodies(), [r#"{"step":"prefill"}"#, r#"{"step":"decode"}"#]);
}

/// Numbers, for one pod.
struct Numbers;

impl BatchSource for Numbers {
    fn size(&self, _: u32) -> RequestSize {
        RequestSize { prompt: 1, output: 1 }
    }

    fn request(&mut self, index: u32) -> ClientRequest {
        let (parts, ()) = Request::post("/v1/completions").body(()).unwrap().into_parts();
        ClientRequest::new(&parts, Bytes::from(format!(r#"{{"prompt":{index}}}"#)), u64::from(index))
    }

    fn replan(&mut self, _: &[u32], _: &[Pod]) -> Option<BatchPlan> {
        None
    }
}

#[test]
fn a_batch_runs_on_an_executor_that_records() {
    let (clock, pods) = (Clock::default(), pods(1));
    let executor = RecordingExecutor::at(clock.now());
    let mut plan = BatchPlan::default();
    plan.pods.push(PodPlan::new(pods[0], vec![Cohort::new(0, vec![2, 0, 1], 0)]));
    let mut runner = BatchRunner::new(executor.clone(), clock.clone(), dispatch_config(), Numbers, 3, plan);
    let mut results = Vec::new();
    while let Some(result) = block_on(&clock, runner.next()) {
        results.push(result.unwrap());
    }
    assert!(results.iter().all(|result| result.outcome.as_ref().is_ok_and(|response| response.body == "batch")));
    assert_eq!(results.iter().map(|result| result.index).collect::<Vec<_>>(), [2, 0, 1]);
    assert_eq!(executor.bodies(), [2, 0, 1].map(|index| format!(r#"{{"prompt":{index}}}"#)));
    assert_eq!(runner.progress().succeeded, 3);
}
