//! SGLang's hashes recomputed from events, which carry the salt and the adapter but no `extra_key`.

use crate::engine::event::{EngineStored, TokenIds};
use crate::engine::prompt::Prompt;
use crate::engine::recompute::{Recomputed, Unverifiable, begin};
use crate::engine::rules::{ChainState, Rules};
use crate::engine::sglang::SglangRules;

impl SglangRules {
    /// The digests that an event's tokens and keys give, and where the chain then stands. `before` is where it stood after
    /// the event's parent.
    pub(in crate::engine) fn recompute(&self, stored: &EngineStored<'_>, before: Option<&ChainState>) -> Recomputed {
        if stored.lora_name.is_some() && self.folds_adapters() {
            return Err(Unverifiable::AdapterKey);
        }
        let prompt = Prompt { salt: stored.salt.as_deref(), ..Prompt::<u32>::new(&[]) };
        let mut state = begin(stored, before, || ChainState::new(self.root(&prompt), self.namespace(&prompt)))?;
        let (mut digests, mut bytes) = (Vec::with_capacity(stored.hashes.len()), Vec::new());
        for at in 0..stored.hashes.len() {
            let page = at * stored.block_size as usize..(at + 1) * stored.block_size as usize;
            state.digest = match &stored.tokens {
                TokenIds::Plain(_) if self.eagle() => return Err(Unverifiable::NotPairs),
                TokenIds::Plain(ids) => self.step(&state.digest, ids[page].iter().map(|&id| [id]), &mut bytes),
                TokenIds::Pairs(ids) if self.eagle() => self.step(&state.digest, ids[page].iter().copied(), &mut bytes),
                // The engine hashes pairs and the dialect does not: hash as the dialect would, and disagree.
                TokenIds::Pairs(ids) => self.step(&state.digest, ids[page].iter().map(|pair| [pair[0]]), &mut bytes),
                TokenIds::Wide(_) => return Err(Unverifiable::WideTokens),
            };
            digests.push(state.digest);
        }
        Ok((digests, state))
    }
}
