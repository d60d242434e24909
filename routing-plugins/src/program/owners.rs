//! Which context a block belongs to: some blocks of every prompt, and whether several contexts have them.
//!
//! Every block that ends on a multiple of [`SAMPLED_TOKENS`] is looked at, whatever the size of blocks, so that two prompts which begin alike are
//! compared at the same places. A request belongs to the context that alone has the last such block known of it, or to the program that all who
//! have it are of. One that several programs have, of a system prompt, says nothing. Each tenant has owners of its own: what others send says
//! nothing of whose a prompt is, but their pods' caches have its blocks once for all.
//!
//! A short question behind a system prompt has no such block of its own. So blocks behind a prompt's last one, its *tail*, are known too: whoever
//! goes on with the prompt has them behind the last one that it knows.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasherDefault;

use ahash::AHasher;
use kv_index::BlockHash;

use super::prompt::ProgramPrompt;

/// Owners of blocks.
#[derive(Debug, Default)]
pub(super) struct Owners {
    /// By tenant and block.
    owners: HashMap<(u64, u64), Owner, BuildHasherDefault<AHasher>>,
    /// How many contexts have a block, whoever's they are.
    holders: HashMap<u64, u32, BuildHasherDefault<AHasher>>,
}

#[derive(Clone, Copy, Debug)]
enum Owner {
    /// One context.
    Context(u64),
    /// Several: how many, the program that all of them are of, if they are of one, and the one that had it last.
    Shared { contexts: u32, program: Option<u64>, last: u64 },
}

/// Whose the last known block of a prompt is, and how many of its sampled blocks lead there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Of one context.
    Context { context: u64, depth: usize },
    /// Of several of one program, and the one that had it last.
    Program { program: u64, last: u64, depth: usize },
    /// Of several, or of nobody.
    Nobody,
}

impl Owners {
    /// How many of a tenant's prompt's sampled blocks lead to the last one that is known.
    pub(super) fn depth(&self, tenant: u64, sampled: &[u64]) -> usize {
        sampled.iter().rposition(|hash| self.owners.contains_key(&(tenant, *hash))).map_or(0, |at| at + 1)
    }

    /// The context that alone has the last known block of a tail behind so many of a prompt's sampled blocks, and the block.
    pub(super) fn find_tail(&self, tenant: u64, prompt: &ProgramPrompt, depth: usize) -> Option<(u64, u64)> {
        let known = |hash: &u64| self.owners.get(&(tenant, *hash)).map(|owner| (*hash, *owner));
        match prompt.behind(depth).iter().rev().find_map(known)? {
            (hash, Owner::Context(context)) => Some((context, hash)),
            (_, Owner::Shared { .. }) => None,
        }
    }

    /// A context of a program of a tenant has this tail now, and had that.
    pub(super) fn replace_tail(
        &mut self,
        tenant: u64,
        (context, program): (u64, u64),
        before: &[u64],
        now: &[u64],
        program_of: impl Fn(u64) -> Option<u64>,
    ) {
        before.iter().for_each(|hash| self.remove(context, (tenant, *hash)));
        now.iter().for_each(|hash| self.insert((context, program), (tenant, *hash), &program_of));
    }

    /// Whose the last of so many sampled blocks of a tenant's prompt is, which is known.
    pub(super) fn find(&self, tenant: u64, sampled: &[u64], depth: usize) -> Known {
        let last = depth.checked_sub(1).and_then(|at| self.owners.get(&(tenant, sampled[at])));
        match last {
            Some(Owner::Context(context)) => Known::Context { context: *context, depth },
            Some(Owner::Shared { program: Some(program), last, .. }) => {
                Known::Program { program: *program, last: *last, depth }
            }
            Some(Owner::Shared { .. }) | None => Known::Nobody,
        }
    }

    /// A context of a program of a tenant has these blocks now, and had those. `program_of` says whose another context is. How many of the
    /// blocks, from the first on, others have.
    pub(super) fn replace(
        &mut self,
        tenant: u64,
        (context, program): (u64, u64),
        before: &[u64],
        now: &[u64],
        program_of: impl Fn(u64) -> Option<u64>,
    ) -> usize {
        let common = before.iter().zip(now).take_while(|(a, b)| a == b).count();
        for hash in &before[common..] {
            self.remove(context, (tenant, *hash));
            if let Entry::Occupied(mut holders) = self.holders.entry(*hash) {
                *holders.get_mut() -= 1;
                if *holders.get() == 0 {
                    holders.remove();
                }
            }
        }
        for hash in &now[common..] {
            self.insert((context, program), (tenant, *hash), &program_of);
            *self.holders.entry(*hash).or_insert(0) += 1;
        }
        let is_shared = |hash: &&u64| self.holders.get(*hash).is_some_and(|holders| *holders > 1);
        now.iter().take_while(is_shared).count()
    }

    fn insert(&mut self, (context, program): (u64, u64), hash: (u64, u64), program_of: &impl Fn(u64) -> Option<u64>) {
        match self.owners.entry(hash) {
            Entry::Vacant(free) => {
                free.insert(Owner::Context(context));
            }
            Entry::Occupied(mut taken) => {
                let (contexts, of) = match *taken.get() {
                    Owner::Context(other) => (2, program_of(other)),
                    Owner::Shared { contexts, program, .. } => (contexts + 1, program),
                };
                let program = of.filter(|of| *of == program);
                taken.insert(Owner::Shared { contexts, program, last: context });
            }
        }
    }

    fn remove(&mut self, context: u64, hash: (u64, u64)) {
        let Entry::Occupied(mut known) = self.owners.entry(hash) else { return };
        match known.get_mut() {
            // Once shared it stays so until nobody has it: what is left says nothing of who it is.
            Owner::Shared { contexts, .. } if *contexts > 1 => *contexts -= 1,
            Owner::Context(owner) if *owner != context => {}
            _ => {
                known.remove();
            }
        }
    }
}

/// The blocks of a chain that are looked at, and those between them.
pub(super) fn sample(chain: &[BlockHash], block_tokens: usize) -> (Vec<u64>, Vec<u64>) {
    let stride = step(block_tokens) / block_tokens.max(1);
    let sampled = chain.iter().skip(stride - 1).step_by(stride).map(|hash| hash.get()).collect();
    let between = chain.chunks(stride).flat_map(|chunk| &chunk[..chunk.len().min(stride - 1)]);
    (sampled, between.map(|hash| hash.get()).collect())
}

/// Tokens from one block that is looked at to the next.
pub(super) fn step(block_tokens: usize) -> usize {
    let block = block_tokens.max(1);
    (SAMPLED_TOKENS / block).max(1) * block
}

const SAMPLED_TOKENS: usize = 64;
