//! A journal in a file: begun if there is none, gone on with if there is.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, Seek, SeekFrom};
use std::num::NonZeroU64;
use std::path::Path;

use super::read::{JournalError, JournalReader};
use super::{BatchDigest, Journal, SyncPolicy};
use crate::batch::result::BatchResult;

/// What a journal held.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// By place, where the result's record begins.
    at: Vec<Option<NonZeroU64>>,
    finished: usize,
    /// Bytes behind the last whole record, which were cut off.
    pub cut_off: u64,
}

impl Recovered {
    /// The places that have results, in order.
    pub fn places(&self) -> impl Iterator<Item = u32> {
        let at = self.at.iter().enumerate().filter(|(_, at)| at.is_some());
        at.map(|(place, _)| place as u32)
    }

    /// Where the record of a place begins, for [`JournalReader::read_at`].
    #[must_use]
    pub fn at(&self, place: u32) -> Option<u64> {
        self.at.get(place as usize).copied().flatten().map(NonZeroU64::get)
    }

    /// How many places have results.
    #[must_use]
    pub fn len(&self) -> usize {
        self.finished
    }

    /// Whether none has.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.finished == 0
    }

    fn note(&mut self, place: u32, at: u64) {
        if let Some(known) = self.at.get_mut(place as usize) {
            self.finished += usize::from(known.is_none());
            *known = NonZeroU64::new(at);
        }
    }
}

/// Opens a batch's journal, or begins it, and cuts off what is not whole at its end. Every result in it is shown to `seen`.
///
/// Two processes must not have the same journal open; that is the host's to see to.
///
/// # Errors
///
/// When it is something else than a journal of this batch, or cannot be read or written. Then it is as it was.
pub fn open(
    path: &Path,
    batch: BatchDigest,
    requests: u32,
    sync: SyncPolicy,
    mut seen: impl FnMut(BatchResult),
) -> Result<(Journal<File>, Recovered), JournalError> {
    let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
    let length = file.metadata()?.len();
    let mut recovered = Recovered { at: vec![None; requests as usize], finished: 0, cut_off: 0 };
    let mut reader = JournalReader::new(BufReader::new(&file), batch, requests)?;
    for record in &mut reader {
        let (at, result) = record?;
        recovered.note(result.place, at);
        seen(result);
    }
    let end = reader.end();
    drop(reader);
    recovered.cut_off = length - end.unwrap_or(0);
    file.set_len(end.unwrap_or(0))?;
    file.seek(SeekFrom::End(0))?;
    let journal = match end {
        Some(_) => Journal::resume(file, batch, requests, sync),
        None => Journal::begin(file, batch, requests, sync)?,
    };
    Ok((journal, recovered))
}
