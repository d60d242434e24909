//! TensorRT-LLM's hashes recomputed from events, which carry the salt in newer builds and never the adapter.

use crate::engine::event::{EngineStored, TokenIds};
use crate::engine::recompute::{Recomputed, Unverifiable, begin};
use crate::engine::rules::ChainState;
use crate::engine::trtllm::rules::{Scope, number};
use crate::engine::trtllm::{TrtllmForm, TrtllmRules};

impl TrtllmRules {
    /// The digests that an event's tokens and keys give, and where the chain then stands. `before` is where it stood after
    /// the event's parent.
    pub(in crate::engine) fn recompute(&self, stored: &EngineStored<'_>, before: Option<&ChainState>) -> Recomputed {
        let TokenIds::Plain(tokens) = &stored.tokens else { return Err(Unverifiable::NotEstablished) };
        if stored.extra_keys.iter().any(|keys| !keys.is_empty()) {
            return Err(Unverifiable::NotEstablished);
        }
        let salt = stored.salt.as_deref().filter(|salt| !salt.is_empty());
        let adapter = stored.lora_id.map(u64::try_from).transpose().map_err(|_| Unverifiable::ExtraKeys)?;
        let scope = Scope { adapter, salt: salt.and_then(|salt| self.salt_id(salt)) };
        if salt.is_some() && scope.salt.is_none() {
            return Err(Unverifiable::NotEstablished);
        }
        let mut state = match stored.parent {
            // In the first form the announced hash is the whole of it.
            Some(parent) if self.form() == TrtllmForm::V1BlockKey => ChainState::after(number(parent.get()), None),
            _ => begin(stored, before, || ChainState::new(self.scope_root(scope), None))?,
        };
        let (mut digests, mut bytes) = (Vec::with_capacity(stored.hashes.len()), Vec::new());
        for tokens in tokens.chunks_exact(stored.block_size as usize) {
            state.digest = self.step(&state.digest, tokens, scope, &mut bytes);
            digests.push(state.digest);
        }
        Ok((digests, state))
    }
}
