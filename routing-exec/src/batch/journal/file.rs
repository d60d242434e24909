//! Journal file: created, or recovered and appended to.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, Seek, SeekFrom};
use std::num::NonZeroU64;
use std::path::Path;

use super::read::{JournalError, JournalReader};
use super::{BatchDigest, Journal, SyncPolicy};
use crate::batch::result::BatchResult;

/// The results that a journal holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// By index, the offset of the record.
    offsets: Vec<Option<NonZeroU64>>,
    finished: usize,
    /// Bytes of a torn record at the end, which were removed.
    pub truncated_bytes: u64,
}

impl Recovered {
    /// The indices with results, in order.
    pub fn indices(&self) -> impl Iterator<Item = u32> {
        let found = self.offsets.iter().enumerate().filter(|(_, offset)| offset.is_some());
        found.map(|(index, _)| index as u32)
    }

    /// The offset of a request's record, for [`JournalReader::read_at`].
    #[must_use]
    pub fn offset(&self, index: u32) -> Option<u64> {
        self.offsets.get(index as usize).copied().flatten().map(NonZeroU64::get)
    }

    /// The number of results.
    #[must_use]
    pub fn len(&self) -> usize {
        self.finished
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.finished == 0
    }

    fn insert(&mut self, index: u32, offset: u64) {
        if let Some(known) = self.offsets.get_mut(index as usize) {
            self.finished += usize::from(known.is_none());
            *known = NonZeroU64::new(offset);
        }
    }
}

/// Opens or creates a batch's journal, and truncates a torn record at its end. Every result in it is passed to `on_result`.
///
/// Two processes must not have the same journal open; the caller sees to that.
///
/// # Errors
///
/// When it is no journal of this batch, or cannot be read or written. Then it is unchanged.
pub fn open(
    path: &Path,
    batch: BatchDigest,
    requests: u32,
    sync: SyncPolicy,
    mut on_result: impl FnMut(BatchResult),
) -> Result<(Journal<File>, Recovered), JournalError> {
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    let length = file.metadata()?.len();
    let mut recovered = Recovered { offsets: vec![None; requests as usize], finished: 0, truncated_bytes: 0 };
    let mut reader = JournalReader::new(BufReader::new(&file), batch, requests)?;
    for record in &mut reader {
        let (offset, result) = record?;
        recovered.insert(result.index, offset);
        on_result(result);
    }
    let end = reader.end();
    drop(reader);
    recovered.truncated_bytes = length - end.unwrap_or(0);
    file.set_len(end.unwrap_or(0))?;
    file.seek(SeekFrom::End(0))?;
    let journal = match end {
        Some(_) => Journal::resume(file, batch, requests, sync),
        None => Journal::create(file, batch, requests, sync)?,
    };
    Ok((journal, recovered))
}
