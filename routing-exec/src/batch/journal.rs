//! Batch journal: a write-ahead log of results, from which a killed run is resumed.
//!
//! A journal is a header and then records, append-only.
//!
//! | part | bytes |
//! |---|---|
//! | header | `PMBATCH\0`, version (4), the batch's [`BatchDigest`] (16), its requests (4), CRC-32 of these (4) |
//! | record | length of its content (4), CRC-32 of that and the content (4), the content |
//! | content | index (4), attempts (4), microseconds (8), tokens of prompt, cache and output (3 × 4), kind (1), then |
//! | response, kind 0 | status (2), body |
//! | failure, kind 1 | length of its code (2), code, message |
//!
//! Numbers are little-endian. A record's checksum is seeded with the header's, so that a record of another batch is invalid.
//!
//! The rule that must never break: a record is valid only if it and all before it are complete. So a torn or corrupt record
//! invalidates the records from there on, whose requests are executed again, and nothing else. (CRC-32 detects every burst of 32
//! bits, and all but one in 2³² of other changes; it is no defence against forgery.)
//!
//! A record is written to the system before its result is returned, so a killed process loses none. Durability against power
//! loss is set by [`SyncPolicy`].

mod crc32;
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

/// A sink to which results are written before they are returned.
pub trait ResultSink {
    /// Writes a result.
    ///
    /// # Errors
    ///
    /// When it cannot be written; the batch ends.
    fn write(&mut self, result: &BatchResult) -> io::Result<()>;

    /// Makes all results durable, after the last one.
    ///
    /// # Errors
    ///
    /// When they are not durable.
    fn close(&mut self) -> io::Result<()>;
}

/// A writer whose contents can be made durable.
pub trait Durable: Write {
    /// Makes all that was written durable, as `fdatasync` does.
    ///
    /// # Errors
    ///
    /// When that fails.
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

/// How often records are synced to disk. Each is written to the system at once in any case.
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
    /// After 256 records: a power loss costs a second or two of work.
    fn default() -> Self {
        Self::Every(256)
    }
}

/// A journal writer.
pub struct Journal<W> {
    out: W,
    sync: SyncPolicy,
    /// The seed of records' checksums.
    seed: u32,
    /// Records since the last sync.
    unsynced_records: u32,
    /// A record was written in part: records behind it would be invalid.
    is_torn: bool,
    record: Vec<u8>,
}

impl<W: Durable> Journal<W> {
    /// Creates a journal, in an empty writer.
    ///
    /// # Errors
    ///
    /// When the header cannot be written.
    pub fn create(mut out: W, batch: BatchDigest, requests: u32, sync: SyncPolicy) -> io::Result<Self> {
        let header = Header { batch, requests };
        out.write_all(&header.to_bytes())?;
        out.flush()?;
        out.sync()?;
        Ok(Self::resume(out, batch, requests, sync))
    }

    /// Resumes a journal of the same batch, at the end of its last complete record.
    pub fn resume(out: W, batch: BatchDigest, requests: u32, sync: SyncPolicy) -> Self {
        let seed = Header { batch, requests }.checksum();
        Self { out, sync, seed, unsynced_records: 0, is_torn: false, record: Vec::new() }
    }

    /// The writer.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn sync_now(&mut self) -> io::Result<()> {
        self.unsynced_records = 0;
        self.out.sync()
    }
}

impl<W: Durable> ResultSink for Journal<W> {
    fn write(&mut self, result: &BatchResult) -> io::Result<()> {
        if self.is_torn {
            return Err(io::Error::other("an earlier record was written in part"));
        }
        record::write(result, self.seed, &mut self.record)?;
        // In one call, so that only the last record can be torn.
        let written = self.out.write_all(&self.record).and_then(|()| self.out.flush());
        self.is_torn = written.is_err();
        written?;
        self.unsynced_records = self.unsynced_records.saturating_add(1);
        let interval = match self.sync {
            SyncPolicy::Each => 1,
            SyncPolicy::Every(records) => records.max(1),
            SyncPolicy::AtEnd => u32::MAX,
        };
        if self.unsynced_records >= interval { self.sync_now() } else { Ok(()) }
    }

    fn close(&mut self) -> io::Result<()> {
        self.sync_now()
    }
}

impl<W> fmt::Debug for Journal<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("sync", &self.sync).field("is_torn", &self.is_torn).finish_non_exhaustive()
    }
}
