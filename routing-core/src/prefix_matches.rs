//! The slot of prefix matches: the one that the framework itself reads, for cache hints in plans.

use kv_index::{DEFAULT_POD_WORDS, Matches};

use crate::slot::Slot;

/// How many leading blocks of the prompt each pod holds; written by whatever searches the index.
#[derive(Debug)]
pub struct PrefixMatches<const W: usize = DEFAULT_POD_WORDS>;

impl<const W: usize> Slot for PrefixMatches<W> {
    type Value = Matches<W>;
    const NAME: &'static str = "kv.prefix_matches";

    fn clear(value: &mut Matches<W>) {
        value.clear();
    }
}
