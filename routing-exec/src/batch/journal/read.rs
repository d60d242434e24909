//! A journal read back, up to where it is whole.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};

use super::digest::BatchDigest;
use super::header::Header;
use super::record::{self, FRAME};
use crate::batch::result::BatchResult;

/// Why a journal is not read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// It is something else, or its header is damaged. An operator's to look at: it is not written over.
    #[error("this is no journal of a batch, or its header is damaged")]
    NotAJournal,
    /// It was written by another version of this crate.
    #[error("the journal has version {0}, which is not known here")]
    Version(u32),
    /// It is of another batch: the requests are not the same.
    #[error("the journal is of another batch")]
    OtherBatch,
    /// It cannot be read or written.
    #[error("the journal cannot be read or written: {0}")]
    Io(io::ErrorKind),
}

impl From<io::Error> for JournalError {
    fn from(error: io::Error) -> Self {
        Self::Io(error.kind())
    }
}

/// Reads the results of a journal, each with where its record begins, up to the last whole one.
///
/// A place may come twice, if a host had a request done again: the last one counts.
pub struct JournalReader<R> {
    input: R,
    header: Header,
    /// Where the next record begins; none of a journal that has no whole header.
    at: Option<u64>,
    content: Vec<u8>,
    is_over: bool,
}

impl<R: Read> JournalReader<R> {
    /// Reads a journal from its beginning.
    ///
    /// # Errors
    ///
    /// When it is not a journal of this batch. One that ends within its header is an empty one.
    pub fn new(mut input: R, batch: BatchDigest, requests: u32) -> Result<Self, JournalError> {
        let header = Header { batch, requests };
        let mut found = Vec::with_capacity(Header::LENGTH);
        input.by_ref().take(Header::LENGTH as u64).read_to_end(&mut found)?;
        let at = header.check(&found)?.then_some(Header::LENGTH as u64);
        Ok(Self { input, header, at, content: Vec::new(), is_over: at.is_none() })
    }

    /// Where the last whole record ends, of those read so far: where to go on writing. None if not even the header is whole.
    #[must_use]
    pub fn end(&self) -> Option<u64> {
        self.at
    }

    /// The next record; none if there is no further whole one.
    fn read(&mut self) -> io::Result<Option<BatchResult>> {
        let Some(length) = read_content(&mut self.input, self.header.sum(), &mut self.content)? else {
            return Ok(None);
        };
        let result = record::read(&self.content).filter(|result| result.place < self.header.requests);
        if result.is_some() {
            self.at = self.at.map(|at| at + length);
        }
        Ok(result)
    }
}

impl<R: Read + Seek> JournalReader<R> {
    /// The result whose record begins there.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or no whole record begins there.
    pub fn read_at(&mut self, at: u64) -> Result<BatchResult, JournalError> {
        self.is_over = true;
        self.input.seek(SeekFrom::Start(at))?;
        let whole = read_content(&mut self.input, self.header.sum(), &mut self.content)?;
        let result = whole.and_then(|_| record::read(&self.content));
        result.ok_or(JournalError::Io(io::ErrorKind::InvalidData))
    }
}

impl<R: Read> Iterator for JournalReader<R> {
    type Item = Result<(u64, BatchResult), JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at.filter(|_| !self.is_over)?;
        let read = self.read();
        self.is_over = !matches!(read, Ok(Some(_)));
        match read {
            Ok(result) => result.map(|result| Ok((at, result))),
            Err(error) => Some(Err(error.into())),
        }
    }
}

impl<R> fmt::Debug for JournalReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JournalReader").field("header", &self.header).field("at", &self.at).finish_non_exhaustive()
    }
}

/// Reads a record's content if it is whole; the bytes of the record.
fn read_content(input: &mut impl Read, seed: u32, content: &mut Vec<u8>) -> io::Result<Option<u64>> {
    let mut frame = Vec::with_capacity(FRAME);
    input.by_ref().take(FRAME as u64).read_to_end(&mut frame)?;
    let Some((length, sum)) = frame.split_first_chunk::<4>() else { return Ok(None) };
    let bytes = u64::from(u32::from_le_bytes(*length));
    content.clear();
    // What is there is read, whatever a damaged length says: it asks for no memory.
    input.by_ref().take(bytes).read_to_end(content)?;
    let is_whole = content.len() as u64 == bytes && record::sum(seed, *length, content).to_le_bytes() == *sum;
    Ok(is_whole.then_some(FRAME as u64 + bytes))
}
