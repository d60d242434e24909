//! Journal header: magic, version and the batch's digest.

use super::crc32;
use super::digest::BatchDigest;
use super::read::JournalError;

/// The header of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) batch: BatchDigest,
    pub(super) requests: u32,
}

impl Header {
    /// Its bytes, checksum included.
    pub(super) const LENGTH: usize = 36;

    pub(super) fn to_bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        let parts = [&MAGIC[..], &VERSION.to_le_bytes(), &self.batch.to_bytes(), &self.requests.to_le_bytes()];
        let mut at = 0;
        for part in parts {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        let sum = crc32::update(0, &bytes[..at]);
        bytes[at..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The checksum at its end.
    pub(super) fn checksum(self) -> u32 {
        let bytes = self.to_bytes();
        crc32::update(0, &bytes[..Self::LENGTH - 4])
    }

    /// Checks the first bytes of a journal; false if the header is torn.
    pub(super) fn check(self, found: &[u8]) -> Result<bool, JournalError> {
        let expected = self.to_bytes();
        if found.len() < Self::LENGTH {
            let is_torn = expected.starts_with(found);
            return if is_torn { Ok(false) } else { Err(JournalError::NotAJournal) };
        }
        let (said, sum) = found[..Self::LENGTH].split_at(Self::LENGTH - 4);
        if !said.starts_with(&MAGIC) || crc32::update(0, said).to_le_bytes() != *sum {
            return Err(JournalError::NotAJournal);
        }
        let version = u32::from_le_bytes([said[8], said[9], said[10], said[11]]);
        if version != VERSION {
            return Err(JournalError::Version(version));
        }
        let mut batch = [0; 16];
        batch.copy_from_slice(&said[12..28]);
        let requests = u32::from_le_bytes([said[28], said[29], said[30], said[31]]);
        let found = Self { batch: BatchDigest::from_bytes(batch), requests };
        if found == self { Ok(true) } else { Err(JournalError::OtherBatch) }
    }
}

const MAGIC: [u8; 8] = *b"PMBATCH\0";
const VERSION: u32 = 1;
