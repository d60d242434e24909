//! Slot of the hash key.

use routing_core::Slot;

/// What a consistent hash places a request by.
#[derive(Debug)]
pub struct HashKey;

impl Slot for HashKey {
    type Value = u64;
    const NAME: &'static str = "hash.key";
}
