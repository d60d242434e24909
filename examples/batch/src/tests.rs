//! Batches over simulated pods and real HTTP: a pod dies, a run is stopped and resumed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::input::Batch;
use crate::pods::PodEndpoint;
use crate::run::{BatchRunError, Options, run_batch};
use crate::summary::BatchSummary;
use crate::synthetic::synthetic_batch;
use crate::tokenizer;
use kv_index::BlockSize;
use pointsman_engine_sim::{Fault, MODEL, PodConfig, SimPod};
use routing_exec::batch::journal::JournalError;
use routing_exec::batch::{BatchProgress, ResultOrder};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Longer than anything takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

async fn pods(count: usize) -> (Vec<Arc<SimPod>>, Vec<PodEndpoint>) {
    let mut pods = Vec::new();
    for nth in 0..count {
        let mut config = PodConfig::new(&format!("pod-{nth}"), MODEL);
        config.speed = 20.0;
        pods.push(Arc::new(SimPod::start(config, Vec::new()).await.unwrap()));
    }
    let at = |pod: &Arc<SimPod>| PodEndpoint {
        name: pod.name().to_owned(),
        url: format!("http://{}", pod.address()),
        kv_tokens: 65_536,
    };
    let at = pods.iter().map(at).collect();
    (pods, at)
}

fn options(order: ResultOrder, journal: Option<PathBuf>) -> Options {
    let block_size = BlockSize::new(16).unwrap();
    let tokenizer = tokenizer::load(None).unwrap();
    Options { tokenizer, model: MODEL.to_owned(), block_size, in_flight: 8, order, journal, probe_interval: None }
}

/// What a run wrote.
#[derive(Debug, Default)]
struct Written(Vec<u8>, Vec<u8>);

impl Written {
    /// By custom id, what was answered; each once.
    fn answers(&self) -> BTreeMap<String, String> {
        let lines: Vec<Value> = lines(&self.0);
        let one = |line: &Value| {
            assert_eq!((&line["response"]["status_code"], &line["error"]), (&Value::from(200), &Value::Null));
            let text = line["response"]["body"]["choices"][0]["message"]["content"].as_str().unwrap();
            (line["custom_id"].as_str().unwrap().to_owned(), text.to_owned())
        };
        let answers: BTreeMap<_, _> = lines.iter().map(one).collect();
        assert_eq!(answers.len(), lines.len(), "none twice");
        answers
    }
}

fn lines(bytes: &[u8]) -> Vec<Value> {
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|l| serde_json::from_slice(l).unwrap())
        .collect()
}

async fn run_file(
    file: &str,
    pods: &[PodEndpoint],
    options: &Options,
    watch: impl FnMut(&BatchProgress) + Send + 'static,
) -> Result<(Written, BatchSummary), BatchRunError> {
    let (batch, mut written) = (Batch::read(file.as_bytes()).unwrap(), Written::default());
    let done = run_batch(batch, pods, options, || Ok((&mut written.0, &mut written.1)), watch);
    let summary = timeout(LONG, done).await.expect("it ends")?;
    Ok((written, summary))
}

#[tokio::test]
async fn a_batch_whose_pod_is_killed_midway_has_every_answer_once() {
    let file = synthetic_batch(150, 3);
    let (_undisturbed, at) = pods(3).await;
    let (expected, summary) = run_file(&file, &at, &options(ResultOrder::Completion, None), |_| {}).await.unwrap();
    assert_eq!((summary.progress.succeeded, summary.progress.replans), (150, 0));
    let cached = summary.progress.cached_tokens as f64 / summary.progress.prompt_tokens as f64;
    assert!(cached > 0.75, "12 requests a document, 1,200 words of 1,240 shared: {cached}");

    let (killed, at) = pods(3).await;
    let victim = Arc::clone(&killed[1]);
    let watch = move |progress: &BatchProgress| {
        if progress.completed() == 40 {
            victim.fault(Fault::Die);
        }
    };
    // Two lines that are no requests, and one that its pod refuses.
    let wrong =
        r#"{"custom_id":"wrong","method":"POST","url":"/v1/completions","body":{"model":"other","prompt":"x"}}"#;
    let file = format!("{{\n{file}{wrong}\n{wrong}\n");
    let (written, summary) = run_file(&file, &at, &options(ResultOrder::Completion, None), watch).await.unwrap();
    assert_eq!(summary.error, None);
    assert!(summary.progress.replans >= 1 && !summary.progress.pods[1].is_up);
    assert_eq!(written.answers(), expected.answers());
    let errors = lines(&written.1);
    let of = |nth: usize| (errors[nth]["error"]["code"].as_str(), errors[nth]["error"]["line"].as_u64());
    assert_eq!(errors.len(), 3);
    assert_eq!(of(0), (Some("invalid_json_line"), Some(1)));
    assert_eq!(of(1), (Some("duplicate_custom_id"), Some(153)));
    assert_eq!(errors[2]["response"]["status_code"], 404);
    let table = summary.to_string();
    assert!(table.contains("pod-1 (down)"), "{table}");
}

#[tokio::test]
async fn a_run_that_is_stopped_goes_on_from_its_journal() {
    let journal = std::env::temp_dir().join(format!("pointsman-batch-{}.journal", std::process::id()));
    _ = std::fs::remove_file(&journal);
    let file = synthetic_batch(90, 5);
    let (pods, at) = pods(3).await;
    let in_order = options(ResultOrder::Index, Some(journal.clone()));
    for stop in [20, 50] {
        let enough = Arc::new(Notify::new());
        let told = Arc::clone(&enough);
        let watch = move |progress: &BatchProgress| {
            if progress.completed() >= stop {
                told.notify_one();
            }
        };
        tokio::select! {
            _ = run_file(&file, &at, &in_order, watch) => panic!("it is stopped before its end"),
            () = enough.notified() => {}
        }
    }
    // A pod may still end what the stopped run had in flight: that is no request of the next one.
    let idle = |pod: &Arc<SimPod>| (pod.metrics().running, pod.metrics().waiting) == (0, 0);
    let drained = async {
        while !pods.iter().all(idle) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(LONG, drained).await.expect("pods become idle");
    let before: u64 = pods.iter().map(|pod| pod.metrics().finished()).sum();
    let (written, summary) = run_file(&file, &at, &in_order, |_| {}).await.unwrap();
    let resumed = summary.progress.resumed;
    assert!((50..90).contains(&resumed), "{resumed}");
    let after: u64 = pods.iter().map(|pod| pod.metrics().finished()).sum();
    assert_eq!((after - before) as usize, 90 - resumed, "nothing is done again: {summary}");
    let ids: Vec<String> =
        lines(&written.0).iter().map(|line| line["custom_id"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids, (0..90).map(|nth| format!("request-{nth}")).collect::<Vec<_>>(), "in the order of the input");
    // Once more: there is nothing left to do, and the output is the same.
    let (again, summary) = run_file(&file, &at, &in_order, |_| {}).await.unwrap();
    assert_eq!((summary.progress.resumed, summary.progress.succeeded), (90, 0));
    assert_eq!(again.answers(), written.answers());
    let other = run_file(&synthetic_batch(90, 6), &at, &in_order, |_| {}).await;
    assert!(matches!(other, Err(BatchRunError::Journal(JournalError::OtherBatch))));
    std::fs::remove_file(&journal).unwrap();
}

#[tokio::test]
async fn a_failure_of_an_earlier_run_is_not_forgotten_and_a_wrong_journal_touches_no_file() {
    let journal = std::env::temp_dir().join(format!("pointsman-batch-failed-{}.journal", std::process::id()));
    _ = std::fs::remove_file(&journal);
    let wrong =
        r#"{"custom_id":"wrong","method":"POST","url":"/v1/completions","body":{"model":"other","prompt":"x"}}"#;
    let (file, (_pods, at)) = (format!("{}{wrong}\n", synthetic_batch(5, 3)), pods(1).await);
    let options = options(ResultOrder::Completion, Some(journal.clone()));
    for (resumed, failed, failed_before) in [(0, 1, 0), (6, 0, 1)] {
        let (written, summary) = run_file(&file, &at, &options, |_| {}).await.unwrap();
        let progress = &summary.progress;
        assert_eq!((progress.resumed, progress.failed, summary.failed_before), (resumed, failed, failed_before));
        assert!(!summary.is_success(), "as the exit code says");
        assert_eq!((lines(&written.0).len(), lines(&written.1).len()), (5, 1));
        assert_eq!(summary.to_string().contains("failed before"), failed_before > 0);
    }
    let other = Batch::read(synthetic_batch(5, 3).as_bytes()).unwrap();
    let open = || -> std::io::Result<(Vec<u8>, Vec<u8>)> { panic!("its files would be lost") };
    let refused = run_batch(other, &at, &options, open, |_| {}).await;
    assert!(matches!(refused, Err(BatchRunError::Journal(JournalError::OtherBatch))));
    std::fs::remove_file(&journal).unwrap();
}
