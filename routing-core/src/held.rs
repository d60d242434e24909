//! What pods hold of the prompt: the one slot that the framework itself knows, to put a cache hint in plans.

use kv_index::{DEFAULT_POD_WORDS, Matches};

use crate::slot::Slot;

/// How many leading blocks of the prompt each pod holds; written by whatever searches the index.
#[derive(Debug)]
pub struct Held<const W: usize = DEFAULT_POD_WORDS>;

impl<const W: usize> Slot for Held<W> {
    type Value = Matches<W>;
    const NAME: &'static str = "kv.held";

    fn clear(value: &mut Matches<W>) {
        value.clear();
    }
}
