//! vLLM's hashes recomputed from events, whose extra keys get back the tags that newer releases hash.

use crate::engine::event::{EngineStored, ExtraKey, TokenIds};
use crate::engine::hash_error::PromptFeature;
use crate::engine::prompt::Prompt;
use crate::engine::recompute::{Recomputed, Unverifiable, begin};
use crate::engine::rules::{ChainState, Rules};
use crate::engine::vllm::VllmRules;
use crate::engine::vllm::keys::{AdapterKey, Keys};

impl VllmRules {
    /// The digests that an event's tokens and keys give, and where the chain then stands. `before` is where it stood after
    /// the event's parent.
    pub(in crate::engine) fn recompute(&self, stored: &EngineStored<'_>, before: Option<&ChainState>) -> Recomputed {
        let TokenIds::Plain(tokens) = &stored.tokens else { return Err(Unverifiable::NotEstablished) };
        // Releases before 0.17 do not send them, and a salt or an image would then pass for a disagreement.
        if stored.extra_keys.len() != stored.hashes.len() {
            return Err(Unverifiable::ExtraKeys);
        }
        let root = || ChainState::new(self.root(&Prompt::<u32>::new(&[])), None);
        let mut state = begin(stored, before, root)?;
        let (mut digests, mut bytes) = (Vec::with_capacity(stored.hashes.len()), Vec::new());
        let blocks = tokens.chunks_exact(stored.block_size as usize).zip(&stored.extra_keys);
        for (at, (tokens, extra)) in blocks.enumerate() {
            let keys = tagged(self, extra, stored.lora_name.as_deref(), stored.parent.is_none() && at == 0)?;
            state.digest = self.step(&state.digest, tokens, &keys, &mut bytes);
            digests.push(state.digest);
        }
        Ok((digests, state))
    }
}

/// What each key of a block is: the adapter's name comes first, and any other text in the first block is its salt.
fn tagged<'a>(
    rules: &VllmRules,
    extra: &'a [ExtraKey<'_>],
    adapter: Option<&'a str>,
    first: bool,
) -> Result<Keys<'a>, Unverifiable> {
    let mut keys = Keys::default();
    for key in extra {
        match key {
            ExtraKey::Text(text) if keys.adapter.is_none() && adapter == Some(text) => {
                established(rules, PromptFeature::Adapter)?;
                keys.adapter = Some(AdapterKey { name: text, path: "" });
            }
            ExtraKey::Text(text) if first && keys.salt.is_none() => keys.salt = Some(text),
            ExtraKey::Media { identifier, offset } => {
                established(rules, PromptFeature::Media)?;
                keys.media.push((identifier, *offset));
            }
            ExtraKey::Digest(digest) if keys.embeds.is_none() => {
                established(rules, PromptFeature::Embeds)?;
                keys.embeds = Some(<[u8; 32]>::try_from(&**digest).map_err(|_| Unverifiable::ExtraKeys)?);
            }
            ExtraKey::Number(_) => return Err(Unverifiable::NotEstablished),
            ExtraKey::Text(_) | ExtraKey::Digest(_) | ExtraKey::Other => return Err(Unverifiable::ExtraKeys),
        }
    }
    match (adapter, &keys.adapter) {
        (Some(_), None) => Err(Unverifiable::ExtraKeys),
        (_, Some(_)) if rules.hashes_paths() => Err(Unverifiable::AdapterPath),
        _ => Ok(keys),
    }
}

fn established(rules: &VllmRules, what: PromptFeature) -> Result<(), Unverifiable> {
    if rules.version() < Some(VllmRules::since(what)) { Err(Unverifiable::NotEstablished) } else { Ok(()) }
}
