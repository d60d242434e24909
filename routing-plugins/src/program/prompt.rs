//! A prompt as programs are recognized by it.

use kv_index::BlockHash;

use super::owners::{sample, step};

/// A request's prompt, as programs are recognized by it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProgramPrompt {
    pub(super) key: Option<u64>,
    pub(super) kind: u64,
    pub(super) sampled: Vec<u64>,
    /// Blocks between them, as many before each.
    between: Vec<u64>,
    each: usize,
    /// Tokens from one of them to the next.
    pub(super) step: u64,
    pub(super) tokens: u64,
    /// A hash of whose it is: what one says is nothing of another's.
    pub(super) tenant: u64,
}

impl ProgramPrompt {
    /// A prompt by the hashes of its whole blocks, of so many tokens each, and the tokens that it has in all.
    #[must_use]
    pub fn new(chain: &[BlockHash], block_tokens: usize, tokens: u64) -> Self {
        let (step, (sampled, between)) = (step(block_tokens), sample(chain, block_tokens));
        let each = step / block_tokens.max(1) - 1;
        Self { key: None, kind: 0, sampled, between, each, step: step as u64, tokens, tenant: 0 }
    }

    /// The blocks behind so many that are looked at, up to the next one.
    pub(super) fn behind(&self, depth: usize) -> &[u64] {
        let rest = self.between.get(depth * self.each..).unwrap_or_default();
        &rest[..rest.len().min(self.each)]
    }

    /// The blocks behind the last one that is looked at.
    pub(super) fn tail(&self) -> &[u64] {
        self.behind(self.sampled.len())
    }

    /// The same of a program that the client names: contexts of other keys are not looked at.
    #[must_use]
    pub fn key(self, key: Option<u64>) -> Self {
        Self { key, ..self }
    }

    /// The same of a tenant, by a hash of its name: programs of one go on with nothing of another's.
    #[must_use]
    pub fn tenant(self, tenant: u64) -> Self {
        Self { tenant, ..self }
    }

    /// The same after a pause of a kind, such as that of a tool: those of one kind are learned together, and all are of one unless told. The
    /// next pause of its program is taken to be of the same.
    #[must_use]
    pub fn kind(self, kind: u64) -> Self {
        Self { kind, ..self }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sampled.is_empty() && self.between.is_empty() && self.key.is_none()
    }
}
