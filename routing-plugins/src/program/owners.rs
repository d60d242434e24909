//! Which context a block belongs to: some blocks of every prompt, and whether several contexts have them.
//!
//! Every block that ends on a multiple of [`SAMPLED_TOKENS`] is looked at, whatever the size of blocks, so that two prompts which begin alike are
//! compared at the same places. A request belongs to the context that alone has the last such block known of it. One that several have,
//! of a system prompt, says nothing.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;

use ahash::AHasher;
use kv_index::BlockHash;

/// Owners of blocks.
#[derive(Debug, Default)]
pub(super) struct Owners {
    owners: HashMap<u64, Owner, BuildHasherDefault<AHasher>>,
}

#[derive(Clone, Copy, Debug)]
enum Owner {
    Context(u64),
    /// So many contexts have it.
    Shared(u32),
}

impl Owners {
    /// Blocks that are known.
    pub(super) fn len(&self) -> usize {
        self.owners.len()
    }

    /// The context that alone has the last known block of a prompt, and how many of its sampled blocks lead there.
    pub(super) fn find(&self, sampled: &[u64]) -> Option<(u64, usize)> {
        for (at, hash) in sampled.iter().enumerate().rev() {
            match self.owners.get(hash) {
                None => {}
                Some(Owner::Shared(_)) => return None,
                Some(Owner::Context(context)) => return Some((*context, at + 1)),
            }
        }
        None
    }

    /// A context has these blocks now, and had those.
    pub(super) fn replace(&mut self, context: u64, before: &[u64], now: &[u64]) {
        let common = before.iter().zip(now).take_while(|(a, b)| a == b).count();
        before[common..].iter().for_each(|hash| self.remove(context, *hash));
        now[common..].iter().for_each(|hash| self.insert(context, *hash));
    }

    fn insert(&mut self, context: u64, hash: u64) {
        match self.owners.entry(hash) {
            Entry::Vacant(free) => {
                free.insert(Owner::Context(context));
            }
            Entry::Occupied(mut taken) => match taken.get_mut() {
                Owner::Shared(contexts) => *contexts += 1,
                owner => *owner = Owner::Shared(2),
            },
        }
    }

    fn remove(&mut self, context: u64, hash: u64) {
        let Entry::Occupied(mut known) = self.owners.entry(hash) else { return };
        match known.get_mut() {
            // Once shared it stays so until nobody has it: what is left says nothing of who it is.
            Owner::Shared(contexts) if *contexts > 1 => *contexts -= 1,
            Owner::Context(owner) if *owner != context => {}
            _ => {
                known.remove();
            }
        }
    }
}

/// The blocks of a chain that are looked at.
pub(super) fn sample(chain: &[BlockHash], block_tokens: usize) -> Vec<u64> {
    let stride = (SAMPLED_TOKENS / block_tokens.max(1)).max(1);
    chain.iter().skip(stride - 1).step_by(stride).map(|hash| hash.get()).collect()
}

/// Tokens from one block that is looked at to the next.
const SAMPLED_TOKENS: usize = 64;
