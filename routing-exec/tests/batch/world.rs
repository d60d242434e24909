//! A batch in a world in memory: pods that are asked what was written for them, counted one by one.
#![allow(clippy::unwrap_used, reason = "a world that is wrong stops the test")]

use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use routing_core::Pod;
use routing_core::batch::{BatchPlan, Cohort, PodPlan};
use routing_exec::batch::journal::{BatchDigest, Durable};
use routing_exec::batch::{BatchError, BatchResult, BatchRunner, BatchRunnerConfig, BatchSource, RequestSize};
use routing_exec::{ClientRequest, Transport, TransportError, TransportExecutor};

use crate::executor_world::{Act, Clock, Play, Pods, block_on, chunk, dispatch_config, head};

/// What a fleet saw.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<(Pod, u32)>>>, Arc<Mutex<Vec<usize>>>);

impl Log {
    /// Who was sent what, in order.
    pub(crate) fn sent(&self) -> Vec<(Pod, u32)> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn sent_to(&self, pod: Pod) -> Vec<u32> {
        self.sent().into_iter().filter(|(to, _)| *to == pod).map(|(_, index)| index).collect()
    }

    pub(crate) fn indices(&self) -> Vec<u32> {
        self.sent().into_iter().map(|(_, index)| index).collect()
    }

    /// The most that each pod ever had under way.
    pub(crate) fn most(&self) -> Vec<usize> {
        self.1.lock().unwrap().clone()
    }
}

/// Pods by their numbers.
#[derive(Clone)]
pub(crate) struct Fleet {
    pods: Vec<Pods>,
    pub(crate) log: Log,
}

impl Fleet {
    /// Pods that do what is written: by pod number, place, and how often that place was sent before.
    pub(crate) fn new(
        clock: &Clock,
        pods: usize,
        script: impl Fn(usize, u32, usize) -> Vec<Act> + Send + Sync + 'static,
    ) -> Self {
        let log = Log::default();
        *log.1.lock().unwrap() = vec![0; pods];
        let script = Arc::new(script);
        let one = |number: usize| {
            let (script, log) = (Arc::clone(&script), log.clone());
            Pods::new(clock, move |pod, request| {
                let index = place_of(request.body());
                let mut sent = log.0.lock().unwrap();
                let before = sent.iter().filter(|(_, known)| *known == index).count();
                sent.push((pod, index));
                drop(sent);
                script(number, index, before)
            })
        };
        Self { pods: (0..pods).map(one).collect(), log }
    }
}

impl Transport for Fleet {
    type Body = Play;

    fn send(
        &self,
        pod: Pod,
        request: Request<Bytes>,
    ) -> impl Future<Output = Result<Response<Play>, TransportError>> + Send + 'static {
        let number = pod.id().index();
        let pods = &self.pods[number];
        let answer = pods.send(pod, request);
        let live = pods.seen.live.load(std::sync::atomic::Ordering::SeqCst);
        let mut most = self.log.1.lock().unwrap();
        most[number] = most[number].max(live);
        answer
    }
}

fn place_of(body: &[u8]) -> u32 {
    let text = std::str::from_utf8(body).unwrap();
    text.trim_start_matches(r#"{"prompt":"#).trim_end_matches('}').parse().unwrap()
}

/// The answer to a request: it depends on nothing but its place.
pub(crate) fn answer(index: u32) -> String {
    format!(
        r#"{{"text":{},"usage":{{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{{"cached_tokens":8}}}}}}"#,
        index * 7
    )
}

/// A pod that takes its time and answers.
pub(crate) fn answers(index: u32, after: u64) -> Vec<Act> {
    vec![Act::Wait(Duration::from_millis(after)), head(200, "application/json"), chunk(&answer(index))]
}

pub(crate) fn says(status: u16) -> Vec<Act> {
    vec![head(status, "application/json"), chunk("{}")]
}

/// A batch whose requests are 10 tokens long and their answers 5, as is expected, in cohorts of so many.
#[derive(Clone)]
pub(crate) struct Made {
    pub(crate) cohort: usize,
    /// What it was asked to plan.
    pub(crate) replans: Arc<Mutex<Vec<Asked>>>,
}

/// The requests, and the pods that lived.
type Asked = (Vec<u32>, Vec<Pod>);

impl Made {
    pub(crate) fn new(cohort: usize) -> Self {
        Self { cohort, replans: Arc::default() }
    }
}

impl BatchSource for Made {
    fn size(&self, _: u32) -> RequestSize {
        RequestSize { prompt: 10, output: 5 }
    }

    fn request(&mut self, index: u32) -> ClientRequest {
        let body = Bytes::from(format!(r#"{{"prompt":{index}}}"#));
        let (parts, body) = Request::post("/v1/completions").body(body).unwrap().into_parts();
        ClientRequest::new(&parts, body, u64::from(index))
    }

    fn replan(&mut self, rest: &[u32], living: &[Pod]) -> Option<BatchPlan> {
        self.replans.lock().unwrap().push((rest.to_vec(), living.to_vec()));
        Some(split(rest, living, self.cohort))
    }
}

/// The trivial plan: contiguous parts of equal length, in cohorts of so many.
pub(crate) fn split(rest: &[u32], pods: &[Pod], cohort: usize) -> BatchPlan {
    let mut plan = BatchPlan::default();
    let share = rest.len().div_ceil(pods.len().max(1)).max(1);
    let mut parts = rest.chunks(share);
    for &pod in pods {
        let cohorts = parts.next().unwrap_or(&[]).chunks(cohort.max(1));
        plan.pods.push(PodPlan::new(pod, cohorts.map(|part| Cohort::new(1, part.to_vec(), 0)).collect()));
    }
    plan
}

pub(crate) type Runner = BatchRunner<TransportExecutor<Fleet, Clock>, Clock, Made>;

/// A runner of a whole batch by the trivial plan.
pub(crate) fn runner(
    clock: &Clock,
    fleet: &Fleet,
    pods: &[Pod],
    requests: u32,
    source: Made,
    config: BatchRunnerConfig,
) -> Runner {
    let all: Vec<u32> = (0..requests).collect();
    let plan = split(&all, pods, source.cohort);
    BatchRunner::new(
        TransportExecutor::new(fleet.clone(), clock.clone()),
        clock.clone(),
        dispatch_config(),
        source,
        requests,
        plan,
    )
    .config(config)
}

/// All results, and the error if it ended with one.
pub(crate) fn run_all<S: BatchSource>(
    clock: &Clock,
    runner: &mut BatchRunner<TransportExecutor<Fleet, Clock>, Clock, S>,
) -> (Vec<BatchResult>, Option<BatchError>) {
    let mut results = Vec::new();
    loop {
        match block_on(clock, runner.next()) {
            Some(Ok(result)) => results.push(result),
            Some(Err(error)) => return (results, Some(error)),
            None => return (results, None),
        }
    }
}

/// A place, and a status and body or the code of a failure.
pub(crate) type Essence = (u32, Result<(u16, Bytes), String>);

/// What a result is about, without what differs from run to run.
pub(crate) fn essence(results: &[BatchResult]) -> Vec<Essence> {
    let one = |result: &BatchResult| {
        let outcome = result.outcome.as_ref().map(|answer| (answer.status, answer.body.clone()));
        (result.index, outcome.map_err(|failure| failure.code.to_string()))
    };
    let mut all: Vec<_> = results.iter().map(one).collect();
    all.sort_by_key(|(index, _)| *index);
    all
}

/// A file in memory that outlives whoever writes it.
#[derive(Clone, Default)]
pub(crate) struct Disk(pub(crate) Arc<Mutex<Vec<u8>>>);

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Durable for Disk {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

pub(crate) fn digest() -> BatchDigest {
    BatchDigest::default().with(b"the batch")
}
