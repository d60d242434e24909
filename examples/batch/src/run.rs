//! Batch execution over pods, resumable by a journal.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kv_index::BlockSize;
use routing_exec::adapter::{HyperTransport, TokioTimer};
use routing_exec::batch::journal::{self, Journal, JournalError, JournalReader, Recovered, SyncPolicy};
use routing_exec::batch::{BatchProgress, BatchResult, BatchRunner, BatchRunnerConfig, ConcurrencyLimit, ResultOrder};
use routing_exec::handoff::{Plain, PodAddresses};
use routing_exec::{DispatchConfig, TransportExecutor};
use routing_plugins::tokenize::PromptTokenizer;

use crate::input::Batch;
use crate::output::Output;
use crate::planning::{PromptChains, plan};
use crate::pods::{PodEndpoint, PodError, client, join};
use crate::source::FileSource;
use crate::summary::{BatchSummary, Planned};

/// How a batch is executed.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Makes the tokens of prompts.
    pub(crate) tokenizer: Arc<dyn PromptTokenizer>,
    /// The model that prompts are hashed for.
    pub(crate) model: String,
    /// Tokens in a block.
    pub(crate) block_size: BlockSize,
    /// Concurrency limit of a pod.
    pub(crate) in_flight: u32,
    /// The order of the output's lines.
    pub(crate) order: ResultOrder,
    /// Journal of completed requests, which are not repeated.
    pub(crate) journal: Option<PathBuf>,
    /// When a pod that is down is probed.
    pub(crate) probe_interval: Option<Duration>,
}

/// Why a batch was not executed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BatchRunError {
    /// The pods cannot run it.
    #[error(transparent)]
    Pods(#[from] PodError),
    /// More requests than a journal has indices.
    #[error("{0} requests are too many")]
    TooManyRequests(usize),
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// A file cannot be written.
    #[error("the output cannot be written")]
    Output(#[from] io::Error),
}

/// Executes a batch and writes results to the files that `open` opens: answers, and errors. Results of the journal are written
/// first, or in order if lines are to be. A run that was stopped resumes with the same journal and new files, which are opened
/// only if the journal belongs to this batch.
pub(crate) async fn run_batch<O: Write, E: Write>(
    batch: Batch,
    pods: &[PodEndpoint],
    options: &Options,
    open: impl FnOnce() -> io::Result<(O, E)>,
    watch: impl FnMut(&BatchProgress) + Send + 'static,
) -> Result<BatchSummary, BatchRunError> {
    let batch = Arc::new(batch);
    let requests = u32::try_from(batch.lines.len()).map_err(|_| BatchRunError::TooManyRequests(batch.lines.len()))?;
    let (journal, mut recovered_results) = match &options.journal {
        Some(path) => RecoveredResults::open(path, &batch, requests)
            .map(|(journal, recovered_results)| (Some(journal), recovered_results))?,
        None => (None, RecoveredResults::default()),
    };
    let (members, addresses) = join(pods)?;
    let chains = PromptChains::of(&batch.lines, &*options.tokenizer, &options.model, options.block_size);
    if let Some((count, why)) = &chains.unread {
        eprintln!("batch: the prompts of {count} requests cannot be read, so that what they share is not known: {why}");
    }
    let (good, errors) = open()?;
    let mut output = Output { good, errors };
    batch.invalid.iter().try_for_each(|invalid| output.invalid(invalid))?;
    if options.order == ResultOrder::Completion {
        recovered_results.write_until(u32::MAX, &batch, &mut output)?;
    }
    let rest: Vec<u32> = (0..requests).filter(|index| recovered_results.recovered.offset(*index).is_none()).collect();
    let first = plan(&chains, &rest, &members);
    let planned = Planned { distinct_tokens: first.distinct_tokens(), prefill_tokens: first.prefill_tokens() };
    let limit = ConcurrencyLimit::default().requests(options.in_flight).tokens(None);
    let config = BatchRunnerConfig::default().limit(limit).order(options.order).probe_interval(options.probe_interval);
    let source = FileSource { batch: Arc::clone(&batch), chains, pods: members.clone() };
    let addresses: Arc<dyn PodAddresses> = Arc::new(addresses);
    let transport = HyperTransport::new(client(), Arc::clone(&addresses));
    let executor: TransportExecutor<_, _> = TransportExecutor::new(transport, TokioTimer::new());
    let dispatch_config = DispatchConfig::new(Arc::new(Plain::default()), addresses);
    let mut runner = BatchRunner::new(executor, TokioTimer::new(), dispatch_config, source, requests, first)
        .config(config)
        .completed(recovered_results.recovered.indices())
        .on_progress(watch);
    for member in &members {
        runner = runner.limit(member.pod, limit.tokens(Some(member.kv_tokens)));
    }
    if let Some(journal) = journal {
        runner = runner.journal(journal);
    }
    let mut error = None;
    while let Some(result) = runner.next().await {
        match result {
            Ok(result) => {
                recovered_results.write_until(result.index, &batch, &mut output)?;
                output.result(&batch, &result)?;
            }
            Err(ended) => error = Some(ended),
        }
    }
    recovered_results.write_until(u32::MAX, &batch, &mut output)?;
    output.flush()?;
    let names = pods.iter().map(|pod| pod.name.clone()).collect();
    let (progress, failed_before) = (runner.progress(), recovered_results.failed.len());
    Ok(BatchSummary { progress, planned, names, invalid: batch.invalid.len(), failed_before, error })
}

/// Results of earlier runs, from the journal.
#[derive(Debug, Default)]
struct RecoveredResults {
    recovered: Recovered,
    /// Those without success.
    failed: HashSet<u32>,
    reader: Option<JournalReader<File>>,
    /// Results before this index are written.
    next: u32,
}

impl RecoveredResults {
    fn open(path: &Path, batch: &Batch, requests: u32) -> Result<(Journal<File>, Self), JournalError> {
        let digest = batch.digest();
        let mut failed = HashSet::new();
        // If an index comes twice, the last one counts.
        let note = |result: BatchResult| {
            _ = if result.is_success() { failed.remove(&result.index) } else { failed.insert(result.index) };
        };
        let (journal, recovered) = journal::open(path, digest, requests, SyncPolicy::default(), note)?;
        let reader = JournalReader::new(File::open(path)?, digest, requests)?;
        Ok((journal, Self { recovered, failed, reader: Some(reader), next: 0 }))
    }

    /// Writes those before an index that are not yet written.
    fn write_until<O: Write, E: Write>(
        &mut self,
        index: u32,
        batch: &Batch,
        output: &mut Output<O, E>,
    ) -> Result<(), BatchRunError> {
        let Some(reader) = &mut self.reader else { return Ok(()) };
        let end = index.min(batch.lines.len() as u32);
        while self.next < end {
            if let Some(at) = self.recovered.offset(self.next) {
                output.result(batch, &reader.read_at(at)?)?;
            }
            self.next += 1;
        }
        Ok(())
    }
}
