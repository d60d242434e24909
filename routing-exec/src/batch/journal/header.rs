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

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let parts = [&MAGIC[..], &VERSION.to_le_bytes(), &self.batch.to_bytes(), &self.requests.to_le_bytes()];
        let mut bytes = parts.concat();
        bytes.extend(crc32::update(0, &bytes).to_le_bytes());
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
        if expected.starts_with(said) { Ok(true) } else { Err(JournalError::OtherBatch) }
    }
}

const MAGIC: [u8; 8] = *b"PMBATCH\0";
const VERSION: u32 = 1;
