//! Wire format of what gateways tell each other: compact, versioned, bounded.
//!
//! ```text
//! magic "pmp" · version · fingerprint (8) · gateway (8) · sequence · scope
//! pods:   count, then each: length of name, name, requests, prefilling, prompt, uncached, output tokens, queued µs
//! blocks: count, then each: pod, parent kind, parent (8) if a block, expiry ms, count, hashes (8 each)
//! ```
//!
//! Numbers are LEB128 but for hashes and ids, which are little-endian. The rule that must never break: whatever the bytes, decoding ends with a
//! value or an error, and allocates no more than in proportion to them.

pub(crate) mod turns;

use std::time::Duration;

use kv_index::{BlockHash, Parent};
use routing_plugins::load::InFlight;
use routing_plugins::peers::{FreshBlocks, GatewayId, PeerSummary, PodSummary, SummaryScope};

/// Why bytes are no message of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerMessageError {
    /// It does not begin as one, or is of another version.
    #[error("it does not begin as a message of version {VERSION}")]
    Version,
    /// It ends too early.
    #[error("cut short at byte {0}")]
    Truncated(usize),
    /// A field has a value that it cannot have.
    #[error("not a value of its field before byte {0}")]
    Value(usize),
    /// Something follows its end.
    #[error("{0} bytes follow its end")]
    Trailing(usize),
}

/// The message of a summary, from a router with this fingerprint.
pub(crate) fn encode(terms: u64, summary: &PeerSummary) -> Vec<u8> {
    let hashes: usize = summary.blocks.iter().map(|fresh| fresh.blocks.len() + 3).sum();
    let mut bytes = Vec::with_capacity(64 + summary.pods.len() * 48 + hashes * 8);
    bytes.extend_from_slice(MAGIC);
    bytes.push(VERSION);
    bytes.extend_from_slice(&terms.to_le_bytes());
    bytes.extend_from_slice(&summary.gateway.get().to_le_bytes());
    put(&mut bytes, summary.sequence);
    bytes.push(u8::from(summary.scope == SummaryScope::Whole));
    put(&mut bytes, summary.pods.len() as u64);
    for pod in &summary.pods {
        put(&mut bytes, pod.name.len() as u64);
        bytes.extend_from_slice(pod.name.as_bytes());
        let InFlight { requests, prefilling, prompt_tokens, uncached_tokens, output_tokens } = pod.in_flight;
        let figures = [requests.into(), prefilling.into(), prompt_tokens, uncached_tokens, output_tokens];
        figures.into_iter().chain([pod.queued_micros]).for_each(|figure| put(&mut bytes, figure));
    }
    put(&mut bytes, summary.blocks.len() as u64);
    for fresh in &summary.blocks {
        put(&mut bytes, fresh.pod.into());
        match fresh.parent {
            Parent::Block(hash) => {
                bytes.push(1);
                bytes.extend_from_slice(&hash.get().to_le_bytes());
            }
            // A router says what blocks follow, so there is no third kind.
            _ => bytes.push(0),
        }
        put(&mut bytes, u64::try_from(fresh.expires_in.as_millis()).unwrap_or(u64::MAX));
        put(&mut bytes, fresh.blocks.len() as u64);
        fresh.blocks.iter().for_each(|hash| bytes.extend_from_slice(&hash.get().to_le_bytes()));
    }
    bytes
}

/// The fingerprint of who sent a message, and its summary.
pub(crate) fn decode(bytes: &[u8]) -> Result<(u64, PeerSummary), PeerMessageError> {
    let mut reader = Reader { bytes, at: 0 };
    if reader.take(MAGIC.len())? != MAGIC || reader.byte()? != VERSION {
        return Err(PeerMessageError::Version);
    }
    let (terms, gateway, sequence) = (reader.fixed()?, GatewayId::new(reader.fixed()?), reader.number()?);
    let scope = match reader.byte()? {
        0 => SummaryScope::Changes,
        1 => SummaryScope::Whole,
        _ => return Err(reader.wrong()),
    };
    let pods = reader.list(LEAST_POD, Reader::pod)?;
    let blocks = reader.list(LEAST_BLOCKS, Reader::fresh)?;
    match bytes.len() - reader.at {
        0 => Ok((terms, PeerSummary { gateway, sequence, scope, pods, blocks })),
        rest => Err(PeerMessageError::Trailing(rest)),
    }
}

/// A number that differs where any of the parts does (FNV-1a): gateways that are set up alike have the same.
pub(crate) fn fingerprint(parts: &[&[u8]]) -> u64 {
    let lengths = parts.iter().flat_map(|part| part.len().to_le_bytes());
    let bytes = lengths.chain(parts.iter().flat_map(|part| part.iter().copied()));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> Result<&'b [u8], PeerMessageError> {
        let rest = &self.bytes[self.at..];
        let taken = rest.get(..count).ok_or(PeerMessageError::Truncated(self.bytes.len()))?;
        self.at += count;
        Ok(taken)
    }

    fn byte(&mut self) -> Result<u8, PeerMessageError> {
        Ok(self.take(1)?[0])
    }

    fn fixed(&mut self) -> Result<u64, PeerMessageError> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(bytes))
    }

    fn number(&mut self) -> Result<u64, PeerMessageError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if bits << shift >> shift != bits {
                return Err(self.wrong());
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.wrong())
    }

    fn small<T: TryFrom<u64>>(&mut self) -> Result<T, PeerMessageError> {
        let number = self.number()?;
        T::try_from(number).map_err(|_| self.wrong())
    }

    /// So many of something as its count says, if there are bytes for them.
    fn list<T>(
        &mut self,
        least: usize,
        mut each: impl FnMut(&mut Self) -> Result<T, PeerMessageError>,
    ) -> Result<Vec<T>, PeerMessageError> {
        let count: usize = self.small()?;
        if count > (self.bytes.len() - self.at) / least {
            return Err(PeerMessageError::Truncated(self.bytes.len()));
        }
        (0..count).map(|_| each(self)).collect()
    }

    fn name(&mut self) -> Result<Box<str>, PeerMessageError> {
        let length = self.small()?;
        Ok(std::str::from_utf8(self.take(length)?).map_err(|_| self.wrong())?.into())
    }

    fn pod(&mut self) -> Result<PodSummary, PeerMessageError> {
        let name = self.name()?;
        let in_flight = InFlight {
            requests: self.small()?,
            prefilling: self.small()?,
            prompt_tokens: self.number()?,
            uncached_tokens: self.number()?,
            output_tokens: self.number()?,
        };
        Ok(PodSummary { name, in_flight, queued_micros: self.number()? })
    }

    fn fresh(&mut self) -> Result<FreshBlocks, PeerMessageError> {
        let pod = self.small()?;
        let parent = match self.byte()? {
            0 => Parent::Root,
            1 => Parent::Block(BlockHash::new(self.fixed()?)),
            _ => return Err(self.wrong()),
        };
        let expires_in = Duration::from_millis(self.number()?);
        let blocks = self.list(8, |reader| reader.fixed().map(BlockHash::new))?;
        Ok(FreshBlocks { pod, parent, blocks, expires_in })
    }

    fn wrong(&self) -> PeerMessageError {
        PeerMessageError::Value(self.at)
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

const MAGIC: &[u8] = b"pmp";
const VERSION: u8 = 1;

/// Bytes that each of a list takes at least, so that a count beyond what is there allocates nothing.
const LEAST_POD: usize = 7;
const LEAST_BLOCKS: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn summary() -> PeerSummary {
        let in_flight = InFlight {
            requests: 3,
            prefilling: 1,
            prompt_tokens: 300,
            uncached_tokens: 1 << 40,
            output_tokens: u64::MAX,
        };
        let pod = |name: &str| PodSummary { name: name.into(), in_flight, queued_micros: 1_500_000 };
        let hashes = |count| (1..=count).map(|at| BlockHash::new(at << 50)).collect();
        let fresh = |pod, parent, count| FreshBlocks {
            pod,
            parent,
            blocks: hashes(count),
            expires_in: Duration::from_millis(1_999),
        };
        PeerSummary {
            gateway: GatewayId::new(u64::MAX),
            sequence: 129,
            scope: SummaryScope::Changes,
            pods: vec![pod("a"), pod("pöd-2"), pod("")],
            blocks: vec![fresh(0, Parent::Root, 5), fresh(2, Parent::Block(BlockHash::new(77)), 0)],
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let whole = PeerSummary { scope: SummaryScope::Whole, pods: vec![], blocks: vec![], ..summary() };
        for summary in [summary(), whole] {
            assert_eq!(decode(&encode(9, &summary)), Ok((9, summary)));
        }
        let pods = (0..256).map(|at| PodSummary { name: format!("pod-{at}").into(), ..summary().pods[0].clone() });
        let large = encode(9, &PeerSummary { pods: pods.collect(), blocks: vec![], ..summary() });
        assert!(large.len() < 256 * 40, "{} bytes", large.len());
    }

    #[test]
    fn every_beginning_of_a_message_is_cut_short_and_every_longer_one_too_long() {
        let bytes = encode(9, &summary());
        for end in 0..bytes.len() {
            assert!(matches!(decode(&bytes[..end]), Err(PeerMessageError::Truncated(at)) if at == end), "{end}");
        }
        let longer = [&bytes[..], b"!"].concat();
        assert_eq!(decode(&longer), Err(PeerMessageError::Trailing(1)));
        for (at, byte) in [(0, b'x'), (3, VERSION + 1)] {
            let mut other = bytes.clone();
            other[at] = byte;
            assert_eq!(decode(&other), Err(PeerMessageError::Version));
        }
    }

    #[test]
    fn counts_and_numbers_beyond_all_bounds_are_values_like_any_other() {
        let head = &encode(9, &PeerSummary { pods: vec![], blocks: vec![], ..summary() })[..23];
        let with = |rest: &[u8]| decode(&[head, rest].concat());
        let most = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01];
        assert!(matches!(with(&most), Err(PeerMessageError::Truncated(_))), "{:?}", with(&most));
        assert!(matches!(with(&[0xFF; 20]), Err(PeerMessageError::Value(_))));
        assert_eq!(with(&[0, 0]).map(|(_, summary)| summary.pods.len()), Ok(0));
    }

    proptest::proptest! {
        /// Whatever the bytes, and whichever of a message's are others, there is an answer.
        #[test]
        fn no_bytes_do_harm(
            noise in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200),
            changes in proptest::collection::vec((0..200usize, proptest::prelude::any::<u8>()), 0..4),
        ) {
            let _ = decode(&noise);
            let mut bytes = encode(9, &summary());
            for (at, byte) in changes {
                if let Some(place) = bytes.get_mut(at) {
                    *place = byte;
                }
            }
            if let Ok((terms, summary)) = decode(&bytes) {
                proptest::prop_assert_eq!(decode(&encode(terms, &summary)), Ok((terms, summary)));
            }
        }
    }
}
