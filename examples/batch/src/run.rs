//! A batch carried out over pods, with its journal and its files.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer as PoolTimer};
use kv_index::{BlockSize, Config, Index, Pod};
use routing_core::batch::BatchPod;
use routing_exec::adapter::{HyperTransport, TokioTimer};
use routing_exec::batch::journal::{self, Journal, JournalError, JournalReader, Recovered, SyncPolicy};
use routing_exec::batch::{BatchError, BatchProgress, BatchResult, BatchRunConfig, BatchRunner, Bound, Order};
use routing_exec::handoff::{Addresses, Plain};
use routing_exec::{Driver, Settings};
use routing_plugins::tokenize::TemplateError;

use crate::Batch;
use crate::output::Output;
use crate::planning::{Chains, plan};
use crate::work::Work;

/// A pod that takes part.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::exhaustive_structs, reason = "what a caller says of a pod, by name")]
pub struct PodAt {
    /// What tables call it.
    pub name: String,
    /// Where it serves, such as `http://127.0.0.1:8000`.
    pub url: String,
    /// Tokens that its cache has room for.
    pub kv_tokens: u64,
}

/// How a batch is carried out.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "what a caller chooses by name")]
pub struct Options {
    /// The model that prompts are hashed for.
    pub model: String,
    /// Tokens in a block.
    pub block_size: BlockSize,
    /// Requests that a pod has under way.
    pub in_flight: u32,
    /// The order of the output's lines.
    pub order: Order,
    /// What is done is kept here, and not done again.
    pub journal: Option<PathBuf>,
    /// When a dead pod is looked after.
    pub revive: Option<Duration>,
}

/// What became of a batch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Summary {
    /// In figures.
    pub progress: BatchProgress,
    /// What its pods are called, in the order of the figures.
    pub names: Vec<String>,
    /// Lines that were no requests.
    pub bad: usize,
    /// Requests that an earlier run did, by the journal, and that were not answered well.
    pub failed_before: usize,
    /// Why it ended, if requests are left.
    pub error: Option<BatchError>,
}

impl Summary {
    /// Whether every line was answered well, by this run or an earlier one.
    #[must_use]
    pub fn is_well(&self) -> bool {
        self.error.is_none() && self.progress.failed + self.failed_before + self.bad == 0
    }
}

/// Why a batch was not carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// More pods than an index has places for.
    #[error("{0} pods are too many")]
    TooManyPods(usize),
    /// More requests than places in a journal.
    #[error("{0} requests are too many")]
    TooManyRequests(usize),
    /// The journal is of no use.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The vocabulary of words is broken.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A file cannot be written.
    #[error("the output cannot be written")]
    Output(#[from] io::Error),
}

/// Carries a batch out, and writes its results to what `open` opens: those of success, and the others. What a journal has
/// already is written first, or in its place if lines are to be in order. A run that is stopped is gone on with by running it
/// again with the same journal and empty files, which are opened only if the journal is one of this batch.
///
/// # Errors
///
/// When it cannot begin, or its files cannot be written. What pods do is in the [`Summary`].
pub async fn run<O: Write, E: Write>(
    batch: Batch,
    pods: &[PodAt],
    options: &Options,
    open: impl FnOnce() -> io::Result<(O, E)>,
    watch: impl FnMut(&BatchProgress) + Send + 'static,
) -> Result<Summary, RunError> {
    let batch = Arc::new(batch);
    let requests = u32::try_from(batch.lines.len()).map_err(|_| RunError::TooManyRequests(batch.lines.len()))?;
    let (journal, mut past) = match &options.journal {
        Some(path) => Past::open(path, &batch, requests).map(|(journal, past)| (Some(journal), past))?,
        None => (None, Past::default()),
    };
    let (members, addresses) = join(pods)?;
    let chains = Chains::of(&batch.lines, &options.model, options.block_size)?;
    let (good, errors) = open()?;
    let mut output = Output { good, errors };
    batch.bad.iter().try_for_each(|bad| output.bad(bad))?;
    if options.order == Order::AsTheyCome {
        past.write_until(u32::MAX, &batch, &mut output)?;
    }
    let rest: Vec<u32> = (0..requests).filter(|place| past.recovered.at(*place).is_none()).collect();
    let first = plan(&chains, &rest, &members);
    let bound = Bound { requests: options.in_flight, tokens: None };
    let config = BatchRunConfig { bound, order: options.order, revive: options.revive, ..BatchRunConfig::default() };
    let work = Work { batch: Arc::clone(&batch), chains, pods: members.clone() };
    let addresses: Arc<dyn Addresses> = Arc::new(addresses);
    let driver: Driver<_, _> = Driver::new(HyperTransport::new(client(), Arc::clone(&addresses)), TokioTimer::new());
    let settings = Settings::new(Arc::new(Plain::default()), addresses);
    let mut runner = BatchRunner::new(driver, settings, work, requests, first)
        .config(config)
        .done(past.recovered.places())
        .on_progress(watch);
    for member in &members {
        runner = runner.bound(member.pod, Bound { tokens: Some(member.kv_tokens), ..bound });
    }
    if let Some(journal) = journal {
        runner = runner.journal(journal);
    }
    let mut error = None;
    while let Some(result) = runner.next().await {
        match result {
            Ok(result) => {
                past.write_until(result.place, &batch, &mut output)?;
                output.result(&batch, &result)?;
            }
            Err(ended) => error = Some(ended),
        }
    }
    past.write_until(u32::MAX, &batch, &mut output)?;
    output.flush()?;
    let names = pods.iter().map(|pod| pod.name.clone()).collect();
    let (progress, failed_before) = (runner.progress(), past.failed.len());
    Ok(Summary { progress, names, bad: batch.bad.len(), failed_before, error })
}

/// Results of earlier runs, until they are written.
#[derive(Debug, Default)]
struct Past {
    recovered: Recovered,
    /// Those that were not answered well.
    failed: HashSet<u32>,
    reader: Option<JournalReader<File>>,
    /// Places before this one are written.
    next: u32,
}

impl Past {
    fn open(path: &Path, batch: &Batch, requests: u32) -> Result<(Journal<File>, Self), JournalError> {
        let digest = batch.digest();
        let mut failed = HashSet::new();
        // If a place comes twice, the last one counts.
        let note = |result: BatchResult| {
            _ = if result.is_success() { failed.remove(&result.place) } else { failed.insert(result.place) };
        };
        let (journal, recovered) = journal::open(path, digest, requests, SyncPolicy::default(), note)?;
        let reader = JournalReader::new(File::open(path)?, digest, requests)?;
        Ok((journal, Self { recovered, failed, reader: Some(reader), next: 0 }))
    }

    /// Writes those before a place that are not yet written.
    fn write_until<O: Write, E: Write>(
        &mut self,
        place: u32,
        batch: &Batch,
        output: &mut Output<O, E>,
    ) -> Result<(), RunError> {
        let Some(reader) = &mut self.reader else { return Ok(()) };
        let end = place.min(batch.lines.len() as u32);
        while self.next < end {
            if let Some(at) = self.recovered.at(self.next) {
                output.result(batch, &reader.read_at(at)?)?;
            }
            self.next += 1;
        }
        Ok(())
    }
}

/// Where pods are, by their numbers.
#[derive(Debug)]
struct Directory(Vec<(Pod, String)>);

impl Addresses for Directory {
    fn address(&self, pod: Pod) -> Option<Cow<'_, str>> {
        self.0.iter().find(|(known, _)| *known == pod).map(|(_, url)| Cow::Borrowed(&**url))
    }
}

fn join(pods: &[PodAt]) -> Result<(Vec<BatchPod>, Directory), RunError> {
    let index: Index = Index::new(Config::default());
    let mut members = Vec::with_capacity(pods.len());
    let mut directory = Vec::with_capacity(pods.len());
    for (nth, at) in pods.iter().enumerate() {
        let joined = index.join(&format!("{nth}"));
        let pod = joined.map_err(|_| RunError::TooManyPods(pods.len()))?;
        members.push(BatchPod { pod, kv_tokens: at.kv_tokens, speed: 1.0 });
        directory.push((pod, at.url.clone()));
    }
    Ok((members, Directory(directory)))
}

fn client() -> Client<HttpConnector, Full<Bytes>> {
    let mut connector = HttpConnector::new();
    connector.set_nodelay(true);
    connector.set_connect_timeout(Some(Duration::from_secs(5)));
    let mut builder = Client::builder(TokioExecutor::new());
    builder.pool_timer(PoolTimer::new()).pool_idle_timeout(Duration::from_secs(5));
    // What is sent again is the runner's to say.
    builder.retry_canceled_requests(false);
    builder.build(connector)
}
