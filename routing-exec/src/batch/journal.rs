//! What is done of a batch, on disk: a killed run goes on where it was.
//!
//! A journal is a header and then records, each written once and never changed.
//!
//! | part | bytes |
//! |---|---|
//! | header | `PMBATCH\0`, version (4), the batch's [`BatchDigest`] (16), its requests (4), CRC-32 of these (4) |
//! | record | length of its content (4), CRC-32 of that and the content (4), the content |
//! | content | place (4), attempts (4), microseconds (8), tokens of prompt, cache and output (3 × 4), kind (1), then |
//! | answer, kind 0 | status (2), body |
//! | failure, kind 1 | length of its code (2), code, message |
//!
//! Numbers are little-endian. A record's sum begins with the header's, so that one of another batch is none of this.
//!
//! The rule that must never break: a record counts only if it and all before it are whole. So a torn tail, or one whose
//! bytes changed, costs the records from there on, whose requests are done again, and nothing else. (A CRC-32 tells every
//! change within 32 bits in a row, and all but one in four thousand million of the others: it guards against accidents, not
//! against forgers.)
//!
//! A record is handed to the system before its result is handed out, so a killed process loses none. When it is on disk,
//! where a machine that loses power finds it, is the host's to say, by [`SyncPolicy`].

mod crc;
mod digest;
mod file;
mod header;
mod read;
mod record;

use std::fmt;
use std::fs::File;
use std::io::{self, Write};

pub use digest::BatchDigest;
pub use file::{Recovered, open};
use header::Header;
pub use read::{JournalError, JournalReader};

use super::result::BatchResult;

/// Where results are kept before they are handed out.
pub trait Keep {
    /// Keeps a result.
    ///
    /// # Errors
    ///
    /// When it cannot be written; the batch ends.
    fn keep(&mut self, result: &BatchResult) -> io::Result<()>;

    /// All results are kept.
    ///
    /// # Errors
    ///
    /// When they are not safe.
    fn close(&mut self) -> io::Result<()>;
}

/// What a journal is written to.
pub trait Durable: Write {
    /// Makes all that was written safe.
    ///
    /// # Errors
    ///
    /// When that cannot be.
    fn sync(&mut self) -> io::Result<()>;
}

impl Durable for File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

impl Durable for Vec<u8> {
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How often records are made safe against a machine that loses power. Each is handed to the system at once in any case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyncPolicy {
    /// After every record.
    Each,
    /// After so many records, and at the end.
    Every(u32),
    /// At the end.
    AtEnd,
}

impl Default for SyncPolicy {
    /// After 256 records: a second or two of work may be done again.
    fn default() -> Self {
        Self::Every(256)
    }
}

/// A journal that is being written.
pub struct Journal<W> {
    out: W,
    sync: SyncPolicy,
    /// What records' sums begin with.
    seed: u32,
    /// Records since the last time all was made safe.
    unsafe_records: u32,
    /// A record was written in part: what came behind it would not be read.
    is_broken: bool,
    record: Vec<u8>,
}

impl<W: Durable> Journal<W> {
    /// Begins a journal of a batch, in what is empty.
    ///
    /// # Errors
    ///
    /// When the header cannot be written.
    pub fn begin(mut out: W, batch: BatchDigest, requests: u32, sync: SyncPolicy) -> io::Result<Self> {
        let header = Header { batch, requests };
        out.write_all(&header.to_bytes())?;
        out.flush()?;
        out.sync()?;
        Ok(Self::resume(out, batch, requests, sync))
    }

    /// Goes on with a journal of the same batch that was read to its end, where its last whole record ends.
    pub fn resume(out: W, batch: BatchDigest, requests: u32, sync: SyncPolicy) -> Self {
        let seed = Header { batch, requests }.sum();
        Self { out, sync, seed, unsafe_records: 0, is_broken: false, record: Vec::new() }
    }

    /// What it is written to.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn make_safe(&mut self) -> io::Result<()> {
        self.unsafe_records = 0;
        self.out.sync()
    }
}

impl<W: Durable> Keep for Journal<W> {
    fn keep(&mut self, result: &BatchResult) -> io::Result<()> {
        if self.is_broken {
            return Err(io::Error::other("an earlier record was written in part"));
        }
        record::write(result, self.seed, &mut self.record)?;
        // In one call, so that what is torn is the last record.
        let written = self.out.write_all(&self.record).and_then(|()| self.out.flush());
        self.is_broken = written.is_err();
        written?;
        self.unsafe_records = self.unsafe_records.saturating_add(1);
        let often = match self.sync {
            SyncPolicy::Each => 1,
            SyncPolicy::Every(records) => records.max(1),
            SyncPolicy::AtEnd => u32::MAX,
        };
        if self.unsafe_records >= often { self.make_safe() } else { Ok(()) }
    }

    fn close(&mut self) -> io::Result<()> {
        self.make_safe()
    }
}

impl<W> fmt::Debug for Journal<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("sync", &self.sync).field("is_broken", &self.is_broken).finish_non_exhaustive()
    }
}
