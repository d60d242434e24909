//! SGLang's hashes recomputed from events, which carry the salt and the adapter but no `extra_key`.

use crate::engine::event::{EngineStored, TokenIds};
use crate::engine::prompt::Prompt;
use crate::engine::recompute::{Recomputed, Unverifiable, begin};
use crate::engine::rules::{ChainState, Rules};
use crate::engine::sglang::SglangRules;

pub(super) fn recompute(rules: &SglangRules, stored: &EngineStored<'_>, before: Option<&ChainState>) -> Recomputed {
    if stored.lora_name.is_some() && rules.folds_adapters() {
        return Err(Unverifiable::AdapterKey);
    }
    let prompt = Prompt { salt: stored.salt.as_deref(), ..Prompt::<u32>::new(&[]) };
    let mut state = begin(stored, before, || ChainState::new(rules.root(&prompt), rules.namespace(&prompt)))?;
    let (mut digests, mut bytes) = (Vec::with_capacity(stored.hashes.len()), Vec::new());
    for at in 0..stored.hashes.len() {
        let page = at * stored.block_size as usize..(at + 1) * stored.block_size as usize;
        state.digest = match &stored.tokens {
            TokenIds::Plain(_) if rules.eagle() => return Err(Unverifiable::NotPairs),
            TokenIds::Plain(ids) => rules.step(&state.digest, ids[page].iter().map(|&id| [id]), &mut bytes),
            TokenIds::Pairs(ids) if rules.eagle() => rules.step(&state.digest, ids[page].iter().copied(), &mut bytes),
            // The engine hashes pairs and the dialect does not: hash as the dialect would, and disagree.
            TokenIds::Pairs(ids) => rules.step(&state.digest, ids[page].iter().map(|pair| [pair[0]]), &mut bytes),
            TokenIds::Wide(_) => return Err(Unverifiable::WideTokens),
        };
        digests.push(state.digest);
    }
    Ok((digests, state))
}
