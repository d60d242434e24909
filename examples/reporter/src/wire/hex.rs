//! Serde codecs: hashes, parents, tiers, sources and digests as JSON strings.
//!
//! A hash is always 16 lower-case hex digits and never 0: one value has one spelling.

use std::fmt;
use std::marker::PhantomData;

use kv_index::{BlockHash, Digest, EventSemantics, Parent, Tier};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserializer, Serializer};

/// A type with one spelling as a string. Fields of it are `#[serde(with = "hex")]`.
pub(crate) trait Spelled: Sized {
    const EXPECTED: &'static str;
    fn read(text: &str) -> Option<Self>;
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

pub(crate) fn serialize<T: Spelled, S: Serializer>(value: &T, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&Spelling(value))
}

pub(crate) fn deserialize<'de, T: Spelled, D: Deserializer<'de>>(from: D) -> Result<T, D::Error> {
    from.deserialize_str(Reads(PhantomData))
}

struct Spelling<'v, T>(&'v T);

impl<T: Spelled> fmt::Display for Spelling<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f)
    }
}

struct Reads<T>(PhantomData<T>);

impl<T: Spelled> Visitor<'_> for Reads<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::read(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// Lists of block hashes.
pub(crate) mod list {
    use super::{BlockHash, Deserializer, Serializer};
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    #[serde(transparent)]
    struct Element(#[serde(with = "super")] BlockHash);

    pub(crate) fn serialize<S: Serializer>(hashes: &[BlockHash], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(hashes.iter().map(|&hash| Element(hash)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<BlockHash>, D::Error> {
        Ok(Vec::<Element>::deserialize(from)?.into_iter().map(|Element(hash)| hash).collect())
    }
}

impl Spelled for BlockHash {
    const EXPECTED: &'static str = "a block hash: 16 lower-case hex digits, not all 0";

    fn read(text: &str) -> Option<Self> {
        digits(text).filter(|&raw| raw != 0).map(Self::new)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
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

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("root"),
            Self::Unknown => f.write_str("unknown"),
            Self::Block(hash) => hash.write(f),
        }
    }
}

impl Spelled for Tier {
    const EXPECTED: &'static str = "`gpu`, `host`, `disk` or `remote`";

    fn read(text: &str) -> Option<Self> {
        TIERS.iter().find(|(_, name)| *name == text).map(|(tier, _)| *tier)
    }

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(TIERS.iter().find(|(tier, _)| tier == self).map_or("", |(_, name)| name))
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

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if *self == Self::Copies { "copies" } else { "membership" })
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

    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.to_bytes()))
    }
}

const TIERS: [(Tier, &str); 4] =
    [(Tier::Gpu, "gpu"), (Tier::Host, "host"), (Tier::Disk, "disk"), (Tier::Remote, "remote")];

fn digits(text: &str) -> Option<u64> {
    let digit = |b: &u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    (text.len() == 16 && text.as_bytes().iter().all(digit)).then(|| u64::from_str_radix(text, 16).ok()).flatten()
}
