//! Decision log: a JSON object a line for every request that ended, with cached tokens expected and reported.
//!
//! Lines are written once a second. A request whose cached tokens differ from what was expected is written when the cause is
//! known. The rule: a slow disk costs lines, which are counted, and never a request.

use std::collections::VecDeque;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::io::AsyncWriteExt;

use super::cache_audit::{Audited, Cause};
use super::error::StartError;

/// One line.
#[derive(Debug, Serialize)]
pub(super) struct DecisionRecord {
    /// When the request ended, in milliseconds since 1970.
    pub(super) unix_ms: u64,
    pub(super) id: String,
    pub(super) profile: String,
    /// The pods it was sent to, in order.
    pub(super) pods: Vec<String>,
    pub(super) prompt_tokens: u64,
    /// Prompt tokens that the pod was expected to have cached; none if its engine reported nothing.
    pub(super) expected_tokens: Option<u64>,
    /// Those that its engine says were cached.
    pub(super) cached_tokens: Option<u64>,
    /// Why the two differ.
    pub(super) cause: Option<Cause>,
    pub(super) outcome: String,
    pub(super) ttft_ms: Option<f64>,
    pub(super) total_ms: f64,
    #[serde(skip)]
    pub(super) audited: Option<Audited>,
}

impl DecisionRecord {
    /// Whether its cause is known, if it needs one.
    fn is_done(&self) -> bool {
        self.audited.as_ref().is_none_or(|audited| !audited.differs() || audited.cause.get().is_some())
    }
}

/// A file that decisions are appended to.
#[derive(Debug)]
pub(super) struct DecisionLog {
    file: tokio::sync::Mutex<tokio::fs::File>,
    records: Mutex<Records>,
}

#[derive(Debug, Default)]
struct Records {
    waiting: VecDeque<DecisionRecord>,
    /// Records that found no room.
    dropped: u64,
}

impl DecisionLog {
    /// Opens a file, made if it is not there.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub(super) fn open(path: &Path) -> Result<Self, StartError> {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let file = file
            .map_err(|error| StartError::DecisionLog { path: path.display().to_string().into(), kind: error.kind() })?;
        Ok(Self { file: tokio::sync::Mutex::new(file.into()), records: Mutex::default() })
    }

    /// Takes a record, to be written within some seconds.
    pub(super) fn push(&self, record: DecisionRecord) {
        let mut records = self.records.lock();
        if records.waiting.len() < MAX_WAITING {
            records.waiting.push_back(record);
        } else {
            records.dropped += 1;
        }
    }

    /// Writes the records that are done; all of them, if told so.
    pub(super) async fn flush(&self, all: bool) {
        let text = self.take_lines(all);
        if text.is_empty() {
            return;
        }
        let mut file = self.file.lock().await;
        let written = async {
            file.write_all(&text).await?;
            file.flush().await
        };
        if let Err(error) = written.await {
            eprintln!("cannot write the decision log: {error}");
        }
    }

    fn take_lines(&self, all: bool) -> Vec<u8> {
        let mut records = self.records.lock();
        let waiting = std::mem::take(&mut records.waiting);
        let dropped = std::mem::take(&mut records.dropped);
        let (done, waiting) = waiting.into_iter().partition::<VecDeque<_>, _>(|record| all || record.is_done());
        records.waiting = waiting;
        drop(records);
        if dropped > 0 {
            eprintln!("{dropped} lines of the decision log were dropped: the disk is too slow");
        }
        let mut text = Vec::new();
        for mut record in done {
            record.cause = record.audited.as_ref().and_then(|audited| audited.cause.get().copied());
            // Writing to memory, of plain fields: neither fails.
            let _ = serde_json::to_writer(&mut text, &record);
            text.push(b'\n');
        }
        text
    }
}

/// Now, in milliseconds since 1970.
pub(super) fn unix_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64)
}

/// Records that may wait: some seconds of a busy gateway.
const MAX_WAITING: usize = 1 << 17;
