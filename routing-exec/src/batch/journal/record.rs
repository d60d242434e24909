//! Journal record: one result as bytes, framed by length and CRC-32.

use std::io;
use std::time::Duration;

use bytes::Bytes;

use super::crc32;
use crate::batch::result::{BatchFailure, BatchResponse, BatchResult, BatchUsage};

/// Bytes before a record's content: its length and its checksum.
pub(super) const FRAME: usize = 8;

/// Writes a record in place of what `out` holds.
pub(super) fn write(result: &BatchResult, seed: u32, out: &mut Vec<u8>) -> io::Result<()> {
    out.clear();
    out.extend([0; FRAME]);
    let micros = u64::try_from(result.duration.as_micros()).unwrap_or(u64::MAX);
    out.extend(result.index.to_le_bytes());
    out.extend(result.attempts.to_le_bytes());
    out.extend(micros.to_le_bytes());
    for tokens in [result.usage.prompt, result.usage.cached, result.usage.output] {
        out.extend(tokens.to_le_bytes());
    }
    match &result.outcome {
        Ok(response) => {
            out.push(RESPONSE);
            out.extend(response.status.to_le_bytes());
            out.extend_from_slice(&response.body);
        }
        Err(failure) => {
            let length = u16::try_from(failure.code.len()).map_err(|_| too_long())?;
            out.push(FAILURE);
            out.extend(length.to_le_bytes());
            out.extend_from_slice(failure.code.as_bytes());
            out.extend_from_slice(failure.message.as_bytes());
        }
    }
    let length = u32::try_from(out.len() - FRAME).map_err(|_| too_long())?.to_le_bytes();
    let sum = checksum(seed, length, &out[FRAME..]).to_le_bytes();
    out[..4].copy_from_slice(&length);
    out[4..FRAME].copy_from_slice(&sum);
    Ok(())
}

/// The checksum of a record.
pub(super) fn checksum(seed: u32, length: [u8; 4], content: &[u8]) -> u32 {
    crc32::update(crc32::update(seed, &length), content)
}

/// Decodes a record's content; `None` if it is none.
pub(super) fn read(content: &[u8]) -> Option<BatchResult> {
    let mut rest = content;
    let (index, attempts) = (number(&mut rest)?, number(&mut rest)?);
    let duration = Duration::from_micros(u64::from_le_bytes(take(&mut rest)?));
    let usage = BatchUsage { prompt: number(&mut rest)?, cached: number(&mut rest)?, output: number(&mut rest)? };
    let [kind] = take(&mut rest)?;
    let short = u16::from_le_bytes(take(&mut rest)?);
    let outcome = match kind {
        RESPONSE => Ok(BatchResponse { status: short, body: Bytes::copy_from_slice(rest) }),
        FAILURE => {
            let (code, message) = rest.split_at_checked(usize::from(short))?;
            let text = |bytes| std::str::from_utf8(bytes).ok();
            Err(BatchFailure::new(text(code)?, text(message)?))
        }
        _ => return None,
    };
    Some(BatchResult { index, outcome, attempts, usage, duration, pod: None })
}

fn number(rest: &mut &[u8]) -> Option<u32> {
    take(rest).map(u32::from_le_bytes)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*taken)
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "a result of more than 4 GiB")
}

const RESPONSE: u8 = 0;
const FAILURE: u8 = 1;
