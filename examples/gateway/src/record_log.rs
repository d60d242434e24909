//! Record log: a file with a JSON object a line for every request that ended. The decision log and the access log are such files.
//!
//! Lines are written once a second. In the decision log a request whose cached tokens differ from what was expected waits until the
//! cause is known. The rule: a slow disk costs lines, which are counted, and never a request.

use std::collections::VecDeque;
use std::path::Path;

use parking_lot::Mutex;
use tokio::io::AsyncWriteExt;
use tracing::warn;

use super::error::StartError;
use super::request_record::RequestRecord;

/// A file that records are appended to.
#[derive(Debug)]
pub(super) struct RecordLog {
    /// The setting that names it.
    setting: &'static str,
    order: Order,
    file: tokio::sync::Mutex<tokio::fs::File>,
    records: Mutex<Records>,
}

/// When a record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// As requests end.
    AsTheyEnd,
    /// Once the cause of a difference is known.
    WithCauses,
}

#[derive(Debug, Default)]
struct Records {
    waiting: VecDeque<RequestRecord>,
    /// Records that found no room.
    dropped: u64,
}

impl RecordLog {
    /// Opens a file, made if it is not there.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub(super) fn open(setting: &'static str, path: &Path, order: Order) -> Result<Self, StartError> {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let failed = |error: std::io::Error| {
            let path = path.display().to_string().into();
            StartError::RecordLog { setting, path, kind: error.kind() }
        };
        let file = tokio::sync::Mutex::new(file.map_err(failed)?.into());
        Ok(Self { setting, order, file, records: Mutex::default() })
    }

    /// Takes a record, to be written within some seconds.
    pub(super) fn push(&self, record: RequestRecord) {
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
            warn!(log = self.setting, %error, "lines of a log cannot be written");
        }
    }

    fn take_lines(&self, all: bool) -> Vec<u8> {
        let mut records = self.records.lock();
        let waiting = std::mem::take(&mut records.waiting);
        let dropped = std::mem::take(&mut records.dropped);
        let all = all || self.order == Order::AsTheyEnd;
        let (done, waiting) = waiting.into_iter().partition::<VecDeque<_>, _>(|record| all || record.is_done());
        records.waiting = waiting;
        drop(records);
        if dropped > 0 {
            warn!(log = self.setting, lines = dropped, "lines of a log were dropped: the disk is too slow");
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

/// Records that may wait: some seconds of a busy gateway.
const MAX_WAITING: usize = 1 << 17;
