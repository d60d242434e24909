//! Journal reader: the results of a journal, up to the first torn record.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom};

use super::digest::BatchDigest;
use super::header::Header;
use super::record::{self, FRAME};
use crate::batch::result::BatchResult;

/// Why a journal cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JournalError {
    /// It is something else, or its header is damaged. The operator can act: it is not overwritten.
    #[error("not a batch journal, or its header is damaged")]
    NotAJournal,
    /// It was written by another version of this crate.
    #[error("unsupported journal version {0}")]
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

/// Iterates over the results of a journal, each with the offset of its record, up to the first torn one.
///
/// An index may come twice, if a request was executed again: the last one counts.
pub struct JournalReader<R> {
    input: R,
    header: Header,
    /// The offset of the next record; `None` if the header is torn.
    offset: Option<u64>,
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
        let offset = header.check(&found)?.then_some(Header::LENGTH as u64);
        Ok(Self { input, header, offset, content: Vec::new(), is_over: offset.is_none() })
    }

    /// The end of the last complete record read so far, where writing resumes. `None` if the header is torn.
    #[must_use]
    pub fn end(&self) -> Option<u64> {
        self.offset
    }

    /// The next record; `None` at the end, or if it is torn.
    fn read(&mut self) -> io::Result<Option<BatchResult>> {
        let Some(length) = read_content(&mut self.input, self.header.checksum(), &mut self.content)? else {
            return Ok(None);
        };
        let result = record::read(&self.content).filter(|result| result.index < self.header.requests);
        if result.is_some() {
            self.offset = self.offset.map(|offset| offset + length);
        }
        Ok(result)
    }
}

impl<R: Read + Seek> JournalReader<R> {
    /// The result of the record at an offset.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or there is no complete record.
    pub fn read_at(&mut self, offset: u64) -> Result<BatchResult, JournalError> {
        self.is_over = true;
        self.input.seek(SeekFrom::Start(offset))?;
        let whole = read_content(&mut self.input, self.header.checksum(), &mut self.content)?;
        let result = whole.and_then(|_| record::read(&self.content));
        result.ok_or(JournalError::Io(io::ErrorKind::InvalidData))
    }
}

impl<R: Read> Iterator for JournalReader<R> {
    type Item = Result<(u64, BatchResult), JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.offset.filter(|_| !self.is_over)?;
        let read = self.read();
        self.is_over = !matches!(read, Ok(Some(_)));
        match read {
            Ok(result) => result.map(|result| Ok((offset, result))),
            Err(error) => Some(Err(error.into())),
        }
    }
}

impl<R> fmt::Debug for JournalReader<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JournalReader")
            .field("header", &self.header)
            .field("offset", &self.offset)
            .finish_non_exhaustive()
    }
}

/// Reads a record's content if it is complete; the bytes of the record.
fn read_content(input: &mut impl Read, seed: u32, content: &mut Vec<u8>) -> io::Result<Option<u64>> {
    let mut frame = Vec::with_capacity(FRAME);
    input.by_ref().take(FRAME as u64).read_to_end(&mut frame)?;
    let Some((length, sum)) = frame.split_first_chunk::<4>() else { return Ok(None) };
    let bytes = u64::from(u32::from_le_bytes(*length));
    content.clear();
    // Bounded by what is there: a damaged length allocates nothing.
    input.by_ref().take(bytes).read_to_end(content)?;
    let is_whole = content.len() as u64 == bytes && record::checksum(seed, *length, content).to_le_bytes() == *sum;
    Ok(is_whole.then_some(FRAME as u64 + bytes))
}
