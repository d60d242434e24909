//! Protocol Buffers form of the wire types, derived in code by prost: no schema compiler.
//!
//! The rule: encoding and decoding gives the same message, and what comes in is within the same bounds as JSON. An absent
//! field is not a value: enumerations start at 1.

pub mod codec;

use kv_index::{BlockHash, Digest, EventSemantics, Parent, Tier};

use crate::wire::bounds::{Bounded, Malformed};
use crate::wire::{self, AckStatus, Change, HashScheme, InventoryEntry, Message};

/// A worker's message: `oneof { report, digest, inventory }`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Frame {
    /// Which.
    #[prost(oneof = "Body", tags = "1, 2, 3")]
    pub body: Option<Body>,
}

/// The kinds of messages.
#[derive(Clone, PartialEq, prost::Oneof)]
#[expect(clippy::exhaustive_enums, reason = "the messages of the protocol: a further one is a new protocol")]
pub enum Body {
    /// Changes.
    #[prost(message, tag = "1")]
    Batch(EventBatch),
    /// A digest.
    #[prost(message, tag = "2")]
    Digest(DigestMessage),
    /// A part of an inventory.
    #[prost(message, tag = "3")]
    Inventory(Inventory),
}

/// Defines messages whose fields have their wire types and tags beside them.
macro_rules! messages {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* ($($wire:tt)*) $field:ident: $type:ty,)+ })+) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, prost::Message)]
        pub struct $name {
            $($(#[$field_doc])* #[prost($($wire)*)] pub $field: $type,)+
        }
    )+};
}

messages! {
    /// See [`wire::EventBatch`].
    EventBatch {
        /// The pod's name.
        (string, tag = "1") pod: String,
        /// The incarnation.
        (uint64, tag = "2") incarnation: u64,
        /// Its sequence number.
        (uint64, tag = "3") sequence: u64,
        /// Tokens in a block.
        (uint32, tag = "4") block_size: u32,
        /// 1 membership, 2 copies.
        (uint32, tag = "5") source: u32,
        /// In order.
        (message, repeated, tag = "6") changes: Vec<ChangeFrame>,
        /// See [`wire::HashScheme`].
        (fixed64, tag = "7") probe: u64,
    }

    /// See [`wire::Change`].
    ChangeFrame {
        /// 1 stored, 2 removed, 3 cleared.
        (uint32, tag = "1") kind: u32,
        /// Of a store: 1 the start of a prompt, 2 `parent`, 3 not known.
        (uint32, tag = "2") under: u32,
        /// The block before the first one.
        (fixed64, tag = "3") parent: u64,
        /// The blocks.
        (fixed64, repeated, tag = "4") blocks: Vec<u64>,
        /// 1 GPU, 2 host, 3 disk, 4 remote.
        (uint32, tag = "5") tier: u32,
    }

    /// See [`wire::DigestMessage`].
    DigestMessage {
        /// The pod's name.
        (string, tag = "1") pod: String,
        /// The incarnation.
        (uint64, tag = "2") incarnation: u64,
        /// The next message's sequence number.
        (uint64, tag = "3") sequence: u64,
        /// Sixteen bytes.
        (bytes = "vec", tag = "4") digest: Vec<u8>,
    }

    /// See [`wire::Inventory`].
    Inventory {
        /// The pod's name.
        (string, tag = "1") pod: String,
        /// The incarnation.
        (uint64, tag = "2") incarnation: u64,
        /// Its sequence number.
        (uint64, tag = "3") sequence: u64,
        /// Tokens in a block.
        (uint32, tag = "4") block_size: u32,
        /// Which part.
        (uint32, tag = "5") part: u32,
        /// Of how many.
        (uint32, tag = "6") parts: u32,
        /// The blocks.
        (message, repeated, tag = "7") blocks: Vec<EntryFrame>,
        /// See [`wire::HashScheme`].
        (fixed64, tag = "8") probe: u64,
    }

    /// See [`wire::InventoryEntry`].
    EntryFrame {
        /// The block.
        (fixed64, tag = "1") hash: u64,
        /// 1 the start of a prompt, 2 `parent`, 3 not known.
        (uint32, tag = "2") under: u32,
        /// The block before it.
        (fixed64, tag = "3") parent: u64,
        /// 1 GPU, 2 host, 3 disk, 4 remote.
        (uint32, tag = "4") tier: u32,
        /// How many.
        (uint32, tag = "5") copies: u32,
    }

    /// See [`wire::Ack`].
    Ack {
        /// From 1, in the order of [`wire::AckStatus`].
        (uint32, tag = "1") status: u32,
        /// Blocks that did not fit.
        (uint64, tag = "2") refused: u64,
    }
}

impl From<&Message> for Frame {
    fn from(message: &Message) -> Self {
        Self {
            body: Some(match message {
                Message::Batch(batch) => Body::Batch(EventBatch {
                    pod: batch.pod.clone(),
                    incarnation: batch.incarnation,
                    sequence: batch.sequence,
                    block_size: batch.hashing.block_size,
                    probe: batch.hashing.probe.get(),
                    source: place(&SOURCES, &batch.source),
                    changes: batch.changes.iter().map(ChangeFrame::from).collect(),
                }),
                Message::Digest(digest) => Body::Digest(DigestMessage {
                    pod: digest.pod.clone(),
                    incarnation: digest.incarnation,
                    sequence: digest.sequence,
                    digest: digest.digest.to_bytes().to_vec(),
                }),
                Message::Inventory(inventory) => Body::Inventory(Inventory {
                    pod: inventory.pod.clone(),
                    incarnation: inventory.incarnation,
                    sequence: inventory.sequence,
                    block_size: inventory.hashing.block_size,
                    probe: inventory.hashing.probe.get(),
                    part: inventory.part,
                    parts: inventory.parts,
                    blocks: inventory.blocks.iter().map(EntryFrame::from).collect(),
                }),
            }),
        }
    }
}

impl TryFrom<Frame> for Message {
    type Error = Malformed;

    fn try_from(frame: Frame) -> Result<Self, Malformed> {
        let message = match frame.body.ok_or(Malformed::Unknown { field: "body" })? {
            Body::Batch(batch) => Self::Batch(wire::EventBatch {
                source: named(&SOURCES, batch.source, "source")?,
                changes: batch.changes.into_iter().enumerate().map(read_change).collect::<Result<_, _>>()?,
                pod: batch.pod,
                incarnation: batch.incarnation,
                sequence: batch.sequence,
                hashing: read_hashing(batch.block_size, batch.probe)?,
            }),
            Body::Digest(digest) => Self::Digest(wire::DigestMessage {
                digest: Digest::from_bytes(
                    digest.digest.try_into().map_err(|_| Malformed::Unknown { field: "digest" })?,
                ),
                pod: digest.pod,
                incarnation: digest.incarnation,
                sequence: digest.sequence,
            }),
            Body::Inventory(inventory) => Self::Inventory(wire::Inventory {
                blocks: inventory.blocks.into_iter().enumerate().map(read_held).collect::<Result<_, _>>()?,
                pod: inventory.pod,
                incarnation: inventory.incarnation,
                sequence: inventory.sequence,
                hashing: read_hashing(inventory.block_size, inventory.probe)?,
                part: inventory.part,
                parts: inventory.parts,
            }),
        };
        message.check()?;
        Ok(message)
    }
}

impl From<&Change> for ChangeFrame {
    fn from(change: &Change) -> Self {
        let hashes = |blocks: &[BlockHash]| blocks.iter().map(|hash| hash.get()).collect();
        match change {
            Change::Stored { parent, blocks, tier } => {
                let (under, parent) = under(*parent);
                Self { kind: 1, under, parent, blocks: hashes(blocks), tier: place(&Tier::ALL, tier) }
            }
            Change::Removed { blocks, tier } => {
                Self { kind: 2, blocks: hashes(blocks), tier: place(&Tier::ALL, tier), ..Self::default() }
            }
            Change::Cleared => Self { kind: 3, ..Self::default() },
        }
    }
}

fn read_change((at, frame): (usize, ChangeFrame)) -> Result<Change, Malformed> {
    let hashes = || frame.blocks.iter().map(|&raw| hash(raw, "changes", at)).collect::<Result<Vec<_>, _>>();
    let tier = || named(&Tier::ALL, frame.tier, "tier");
    match frame.kind {
        1 => {
            let parent = read_under(frame.under, frame.parent, "changes", at)?;
            Ok(Change::Stored { parent, blocks: hashes()?, tier: tier()? })
        }
        2 => Ok(Change::Removed { blocks: hashes()?, tier: tier()? }),
        3 => Ok(Change::Cleared),
        _ => Err(Malformed::Unknown { field: "kind" }),
    }
}

impl From<&InventoryEntry> for EntryFrame {
    fn from(block: &InventoryEntry) -> Self {
        let (under, parent) = under(block.parent);
        Self { hash: block.hash.get(), under, parent, tier: place(&Tier::ALL, &block.tier), copies: block.copies }
    }
}

fn read_held((at, frame): (usize, EntryFrame)) -> Result<InventoryEntry, Malformed> {
    Ok(InventoryEntry {
        hash: hash(frame.hash, "blocks", at)?,
        parent: read_under(frame.under, frame.parent, "blocks", at)?,
        tier: named(&Tier::ALL, frame.tier, "tier")?,
        copies: frame.copies,
    })
}

impl From<wire::Ack> for Ack {
    fn from(ack: wire::Ack) -> Self {
        Self { status: place(&AckStatus::ALL, &ack.status), refused: ack.refused }
    }
}

impl TryFrom<Ack> for wire::Ack {
    type Error = Malformed;

    fn try_from(ack: Ack) -> Result<Self, Malformed> {
        Ok(Self { status: named(&AckStatus::ALL, ack.status, "verdict")?, refused: ack.refused })
    }
}

fn under(parent: Parent) -> (u32, u64) {
    match parent {
        Parent::Root => (1, 0),
        Parent::Block(hash) => (2, hash.get()),
        Parent::Unknown => (3, 0),
    }
}

fn read_under(under: u32, parent: u64, field: &'static str, at: usize) -> Result<Parent, Malformed> {
    match under {
        1 => Ok(Parent::Root),
        2 => hash(parent, field, at).map(Parent::Block),
        3 => Ok(Parent::Unknown),
        _ => Err(Malformed::Unknown { field: "under" }),
    }
}

fn read_hashing(block_size: u32, probe: u64) -> Result<HashScheme, Malformed> {
    Ok(HashScheme { block_size, probe: hash(probe, "probe", 0)? })
}

fn hash(raw: u64, field: &'static str, at: usize) -> Result<BlockHash, Malformed> {
    if raw == 0 { Err(Malformed::ZeroHash { field, at }) } else { Ok(BlockHash::new(raw)) }
}

/// A value's number: its place in the list, from 1.
fn place<T: PartialEq>(all: &[T], value: &T) -> u32 {
    all.iter().position(|other| other == value).map_or(0, |at| at as u32 + 1)
}

fn named<T: Copy>(all: &[T], number: u32, field: &'static str) -> Result<T, Malformed> {
    number.checked_sub(1).and_then(|at| all.get(at as usize)).copied().ok_or(Malformed::Unknown { field })
}

const SOURCES: [EventSemantics; 2] = [EventSemantics::Membership, EventSemantics::Copies];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use prost::Message as _;

    use super::*;

    proptest! {
        #[test]
        fn every_message_comes_back(message in wire::tests::message()) {
            let bytes = Frame::from(&message).encode_to_vec();
            prop_assert_eq!(Message::try_from(Frame::decode(&bytes[..]).expect("own bytes")), Ok(message));
        }

        #[test]
        fn any_bytes_are_a_message_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Frame::decode(&bytes[..]).map(Message::try_from);
        }
    }

    #[test]
    fn every_ack_comes_back_and_an_empty_one_is_malformed() {
        for status in AckStatus::ALL {
            let ack = wire::Ack { status, refused: 7 };
            assert_eq!(wire::Ack::try_from(Ack::from(ack)), Ok(ack));
        }
        assert_eq!(wire::Ack::try_from(Ack::default()), Err(Malformed::Unknown { field: "verdict" }));
        assert_eq!(Message::try_from(Frame::default()), Err(Malformed::Unknown { field: "body" }));
    }
}
