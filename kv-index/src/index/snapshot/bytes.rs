//! Little-endian numbers in a buffer, and a reader that never goes past the end.

use crate::pods::SnapshotError;

pub(crate) fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u64(out: &mut Vec<u8>, value: u64) {
    out.extend_from_slice(&value.to_le_bytes());
}

/// Takes bytes off a slice, never past its end.
pub(crate) struct Reader<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) at: usize,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], SnapshotError> {
        let end = self.at.checked_add(count).ok_or(self.malformed())?;
        let taken = self.bytes.get(self.at..end).ok_or(self.malformed())?;
        self.at = end;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], SnapshotError> {
        let taken = self.take(N)?;
        taken.try_into().map_err(|_| self.malformed())
    }

    pub(crate) fn u8(&mut self) -> Result<u8, SnapshotError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, SnapshotError> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, SnapshotError> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub(crate) fn rest(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn malformed(&self) -> SnapshotError {
        SnapshotError::Malformed { at: self.at }
    }

    /// A number of things that take at least so many bytes each: one that lies is noticed before anything is reserved.
    pub(crate) fn count(&mut self, least: usize) -> Result<usize, SnapshotError> {
        let count = self.u64()?;
        if count > (self.rest() / least) as u64 { Err(self.malformed()) } else { Ok(count as usize) }
    }
}
