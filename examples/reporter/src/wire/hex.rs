//! Serde codecs: hashes, parents, tiers, sources and digests as JSON strings.
//!
//! A hash is always 16 lower-case hex digits and never 0: one value has one spelling.

use std::fmt;

use kv_index::{BlockHash, Digest, EventSemantics, Parent, Tier};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserializer, Serializer};

/// Spells a type as a string.
trait Spelled: Sized {
    const EXPECTED: &'static str;
    fn read(text: &str) -> Option<Self>;
}

struct Reads<T>(std::marker::PhantomData<T>);

impl<T: Spelled> Visitor<'_> for Reads<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::read(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

fn read<'de, T: Spelled, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    from.deserialize_str(Reads(std::marker::PhantomData))
}

fn digits(text: &str) -> Option<u64> {
    let digit = |b: &u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    (text.len() == 16 && text.as_bytes().iter().all(digit)).then(|| u64::from_str_radix(text, 16).ok()).flatten()
}

impl Spelled for BlockHash {
    const EXPECTED: &'static str = "a block hash: 16 lower-case hex digits, not all 0";

    fn read(text: &str) -> Option<Self> {
        digits(text).filter(|&raw| raw != 0).map(Self::new)
    }
}

impl Spelled for Parent {
    const EXPECTED: &'static str = "`root`, `unknown`, or a block hash: 16 lower-case hex digits, not all 0";

    fn read(text: &str) -> Option<Self> {
        match text {
            "root" => Some(Self::Root),
            "unknown" => Some(Self::Unknown),
            hash => BlockHash::read(hash).map(Self::Block),
        }
    }
}

impl Spelled for Tier {
    const EXPECTED: &'static str = "`gpu`, `host`, `disk` or `remote`";

    fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|&tier| tier_name(tier) == text)
    }
}

impl Spelled for EventSemantics {
    const EXPECTED: &'static str = "`membership` or `copies`";

    fn read(text: &str) -> Option<Self> {
        match text {
            "membership" => Some(Self::Membership),
            "copies" => Some(Self::Copies),
            _ => None,
        }
    }
}

impl Spelled for Digest {
    const EXPECTED: &'static str = "a digest: 32 lower-case hex digits";

    fn read(text: &str) -> Option<Self> {
        let (high, low) = text.split_at_checked(16)?;
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&digits(high)?.to_be_bytes());
        bytes[8..].copy_from_slice(&digits(low)?.to_be_bytes());
        Some(Self::from_bytes(bytes))
    }
}

fn tier_name(tier: Tier) -> &'static str {
    match tier {
        Tier::Gpu => "gpu",
        Tier::Host => "host",
        Tier::Disk => "disk",
        Tier::Remote => "remote",
    }
}

/// A block hash.
pub(crate) mod hash {
    use super::{BlockHash, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(hash: &BlockHash, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(hash)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<BlockHash, D::Error> {
        super::read(from)
    }
}

/// A list of block hashes.
pub(crate) mod hashes {
    use super::{BlockHash, Deserializer, Serializer};
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Spelled(#[serde(with = "super::hash")] BlockHash);

    pub(crate) fn serialize<S: Serializer>(hashes: &[BlockHash], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(hashes.iter().map(|&hash| Spelled(hash)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<BlockHash>, D::Error> {
        Ok(Vec::<Spelled>::deserialize(from)?.into_iter().map(|Spelled(hash)| hash).collect())
    }
}

/// What a block follows.
pub(crate) mod parent {
    use super::{Deserializer, Parent, Serializer};

    pub(crate) fn serialize<S: Serializer>(parent: &Parent, to: S) -> Result<S::Ok, S::Error> {
        match parent {
            Parent::Root => to.serialize_str("root"),
            Parent::Unknown => to.serialize_str("unknown"),
            Parent::Block(hash) => to.collect_str(hash),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Parent, D::Error> {
        super::read(from)
    }
}

/// Where a block is.
pub(crate) mod tier {
    use super::{Deserializer, Serializer, Tier};

    pub(crate) fn serialize<S: Serializer>(tier: &Tier, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(super::tier_name(*tier))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Tier, D::Error> {
        super::read(from)
    }
}

/// What changes count.
pub(crate) mod source {
    use super::{Deserializer, EventSemantics, Serializer};

    pub(crate) fn serialize<S: Serializer>(source: &EventSemantics, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(match source {
            EventSemantics::Membership => "membership",
            EventSemantics::Copies => "copies",
        })
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<EventSemantics, D::Error> {
        super::read(from)
    }
}

/// A cache's digest, byte by byte.
pub(crate) mod digest {
    use super::{Deserializer, Digest, Serializer};

    pub(crate) fn serialize<S: Serializer>(digest: &Digest, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&format_args!("{:032x}", u128::from_be_bytes(digest.to_bytes())))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Digest, D::Error> {
        super::read(from)
    }
}
