//! Input validation: the size limits of messages, and [`decode`], the one way in.
//!
//! A message that came through [`decode`] is within every bound.

use serde::de::DeserializeOwned;

use crate::wire::{Change, DigestMessage, EventBatch, Inventory, Message, ResyncRequest};

/// Changes in a batch.
pub const MAX_CHANGES: usize = 8_192;
/// Blocks in a batch, over all its changes; and blocks in a part of an inventory.
///
/// A part of so many blocks stays below NATS's 1 MiB in JSON (`wire::tests::a_full_part_fits_a_nats_message`).
pub const MAX_BLOCKS: usize = 8_192;
/// Parts of an inventory: eight million blocks.
pub const MAX_PARTS: u32 = 1_024;
/// Bytes of a pod's name.
pub const MAX_NAME: usize = 253;
/// The highest incarnation and sequence number: above, other languages' JSON numbers lose bits.
pub const MAX_NUMBER: u64 = (1 << 53) - 1;

/// Why bytes are not a message. The worker's author can act.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// Not JSON, or not of this shape.
    #[error("line {line}, column {column}: {what}")]
    Shape {
        /// Counted from 1.
        line: usize,
        /// Counted from 1.
        column: usize,
        /// What was found and what was expected there, in serde's words: its own error cannot be compared.
        what: String,
    },
    /// Of the right shape, with contents out of bounds.
    #[error(transparent)]
    Malformed(#[from] Malformed),
}

/// Which part of a message is out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Malformed {
    /// The pod's name is empty or too long.
    #[error("`pod` has {found} bytes, not 1 to {MAX_NAME}")]
    Name {
        /// Its bytes.
        found: usize,
    },
    /// A number is too high.
    #[error("`{field}` is {found}, above 2^53 - 1")]
    Number {
        /// Which.
        field: &'static str,
        /// Its value.
        found: u64,
    },
    /// Blocks have no tokens.
    #[error("`block_size` is 0")]
    BlockSize,
    /// Too many changes.
    #[error("{found} `changes`, at most {MAX_CHANGES}")]
    Changes {
        /// How many.
        found: usize,
    },
    /// Too many blocks.
    #[error("{found} blocks, at most {MAX_BLOCKS} in a message")]
    Blocks {
        /// How many.
        found: usize,
    },
    /// A change of nothing.
    #[error("`changes[{at}]` names no block")]
    NoBlocks {
        /// Which change, from 0.
        at: usize,
    },
    /// A part that is not among its parts, or too many parts.
    #[error("part {part} of {parts}, parts are counted from 0 and at most {MAX_PARTS}")]
    Part {
        /// Which.
        part: u32,
        /// Of how many.
        parts: u32,
    },
    /// A block of no copies.
    #[error("`blocks[{at}]` has 0 copies")]
    NoCopies {
        /// Which block, from 0.
        at: usize,
    },
    /// A block's hash is 0; in JSON that is an error of shape.
    #[error("`{field}[{at}]` has the hash 0")]
    ZeroHash {
        /// In which list.
        field: &'static str,
        /// At which place, from 0.
        at: usize,
    },
    /// A number that stands for nothing, or a part that must be there and is not.
    #[error("`{field}` is missing or unknown")]
    Unknown {
        /// Which.
        field: &'static str,
    },
}

/// A message with bounds.
pub trait Bounded {
    /// Checks every bound.
    ///
    /// # Errors
    ///
    /// The first that is broken.
    fn check(&self) -> Result<(), Malformed>;
}

/// Reads a message from JSON.
///
/// # Errors
///
/// When the bytes are anything but one message within its bounds.
pub fn decode<T: DeserializeOwned + Bounded>(json: &[u8]) -> Result<T, DecodeError> {
    let message: T = serde_json::from_slice(json).map_err(|error| DecodeError::Shape {
        line: error.line(),
        column: error.column(),
        what: without_place(&error.to_string()).to_owned(),
    })?;
    message.check()?;
    Ok(message)
}

/// The message without its place, which has fields of its own.
fn without_place(text: &str) -> &str {
    text.rfind(" at line ").map_or(text, |end| &text[..end])
}

impl Bounded for EventBatch {
    fn check(&self) -> Result<(), Malformed> {
        check_head(&self.pod, self.incarnation, self.sequence)?;
        check_block_size(self.hashing.block_size)?;
        if self.changes.len() > MAX_CHANGES {
            return Err(Malformed::Changes { found: self.changes.len() });
        }
        let empty = |change: &Change| *change != Change::Cleared && change.blocks().is_empty();
        if let Some(at) = self.changes.iter().position(empty) {
            return Err(Malformed::NoBlocks { at });
        }
        check_blocks(self.changes.iter().map(|change| change.blocks().len()).sum())
    }
}

impl Bounded for DigestMessage {
    fn check(&self) -> Result<(), Malformed> {
        check_head(&self.pod, self.incarnation, self.sequence)
    }
}

impl Bounded for Inventory {
    fn check(&self) -> Result<(), Malformed> {
        check_head(&self.pod, self.incarnation, self.sequence)?;
        check_block_size(self.hashing.block_size)?;
        if self.part >= self.parts || self.parts > MAX_PARTS {
            return Err(Malformed::Part { part: self.part, parts: self.parts });
        }
        if let Some(at) = self.blocks.iter().position(|block| block.copies == 0) {
            return Err(Malformed::NoCopies { at });
        }
        check_blocks(self.blocks.len())
    }
}

impl Bounded for Message {
    fn check(&self) -> Result<(), Malformed> {
        match self {
            Self::Batch(batch) => batch.check(),
            Self::Digest(digest) => digest.check(),
            Self::Inventory(inventory) => inventory.check(),
        }
    }
}

impl Bounded for ResyncRequest {
    fn check(&self) -> Result<(), Malformed> {
        check_head(&self.pod, self.incarnation, self.from)
    }
}

fn check_head(pod: &str, incarnation: u64, sequence: u64) -> Result<(), Malformed> {
    if pod.is_empty() || pod.len() > MAX_NAME {
        return Err(Malformed::Name { found: pod.len() });
    }
    for (field, found) in [("incarnation", incarnation), ("sequence", sequence)] {
        if found > MAX_NUMBER {
            return Err(Malformed::Number { field, found });
        }
    }
    Ok(())
}

fn check_block_size(tokens: u32) -> Result<(), Malformed> {
    if tokens == 0 { Err(Malformed::BlockSize) } else { Ok(()) }
}

fn check_blocks(found: usize) -> Result<(), Malformed> {
    if found > MAX_BLOCKS { Err(Malformed::Blocks { found }) } else { Ok(()) }
}
