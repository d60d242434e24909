//! Deterministic hash map for the slow paths.
//!
//! Keyed by fixed keys rather than by chance: the same events give the same index, byte for byte.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// A map hashed by `ahash` with fixed keys.
pub(crate) type FixedMap<K, V> = HashMap<K, V, BuildHasherDefault<ahash::AHasher>>;
