//! Deterministic hash map for the slow paths.
//!
//! Keyed by fixed keys rather than by chance, so that maps of the same history are walked in the same order.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

/// A map hashed by `ahash` with fixed keys.
pub(crate) type FixedMap<K, V> = HashMap<K, V, BuildHasherDefault<ahash::AHasher>>;
