//! Token mode: our own chain hash over the engine's tokens, namespaced by adapter, salt and media.
//!
//! Events and requests must arrive at the same hash from different sides. Adapter and salt go into the chain's
//! seed, so everything below a root inherits them. Media and embeddings go into the blocks they touch.

use std::borrow::Cow;

use sha2::{Digest, Sha256};

use crate::blocks::BlockHash;
use crate::blocks::chain::{ChainHasher, ChainSeed};

use super::event::{EngineStored, ExtraKey};
use super::prompt::Prompt;

/// A namespace's seed: the model's, narrowed by the adapter and the salt that requests and events name.
///
/// An empty salt is none, as in the engines.
#[must_use]
pub fn native_seed(model: ChainSeed, adapter: Option<&str>, salt: Option<&str>) -> ChainSeed {
    let seed = adapter.map_or(model, |name| model.adapter(name));
    salt.filter(|salt| !salt.is_empty()).map_or(seed, |salt| seed.salt(salt))
}

/// The chain that token mode files a prompt's blocks under.
///
/// Takes the model's seed and the index's block size from `hasher`'s making: make it with [`native_seed`] for the
/// prompt's adapter and salt. For a prompt of tokens alone this is [`ChainHasher::hash`], which can also be lazy.
///
/// Embeddings match only where the engine's blocks are the index's: events bring one digest a page. Media match where events
/// say where an item begins: vLLM from 0.19.1 on.
///
/// # Examples
///
/// ```
/// use kv_index::engine::{Media, Prompt, native_chain, native_seed};
/// use kv_index::{BlockSize, ChainHasher, ChainSeed};
///
/// let seed = native_seed(ChainSeed::new("llava"), None, Some("tenant-42"));
/// let hasher = ChainHasher::new(seed, BlockSize::new(4).unwrap());
/// let tokens = [1, 99, 99, 99, 99, 2, 3, 4, 5];
/// let image = [Media { identifier: "8f3a", offset: 1, length: 4 }];
/// let chain = native_chain(&hasher, &Prompt::new(&tokens).media(&image));
/// assert_eq!(chain.len(), 2);
/// assert_ne!(chain, hasher.hash(&tokens));
/// ```
#[must_use]
pub fn native_chain(hasher: &ChainHasher, prompt: &Prompt<'_>) -> Vec<BlockHash> {
    if prompt.media.is_empty() && prompt.embeds.is_none() {
        return hasher.hash(prompt.tokens);
    }
    let size = hasher.block_size().tokens();
    let mut chain = Vec::with_capacity(prompt.tokens.len() / size);
    let mut bytes = Vec::new();
    for (at, tokens) in prompt.tokens.chunks_exact(size).enumerate() {
        bytes.clear();
        for key in prompt_keys(prompt, at * size..(at + 1) * size) {
            bytes.extend(key_bytes(&key, 0));
        }
        chain.extend(hasher.block(chain.last().copied(), tokens, &bytes));
    }
    chain
}

/// What a root block's event says of its namespace: the adapter and the salt.
pub(super) fn namespace<'e>(stored: &'e EngineStored<'_>) -> (Option<Cow<'e, str>>, Option<&'e str>) {
    let adapter = match (&stored.lora_name, stored.lora_id) {
        (Some(name), _) => Some(Cow::Borrowed(name.as_ref())),
        // Releases that do not know names: the number is the name.
        (None, Some(id)) => Some(Cow::Owned(id.to_string())),
        (None, None) => None,
    };
    let salt = stored.salt.as_deref().or_else(|| salt_key(stored).map(|at| text(&stored.extra_keys[0][at])));
    (adapter, salt)
}

/// The keys of one page of a store that its block's hash must depend on, besides what its namespace says.
///
/// `place` is how many tokens of the block come before the page: media are placed from the block's start.
pub(super) fn page_keys(stored: &EngineStored<'_>, page: usize, place: usize) -> Vec<Vec<u8>> {
    let Some(keys) = stored.extra_keys.get(page) else { return Vec::new() };
    let adapter = adapter_key(stored, keys);
    let salt = if page == 0 { salt_key(stored) } else { None };
    let own = keys.iter().enumerate().filter(|(at, _)| adapter != Some(*at) && salt != Some(*at));
    own.map(|(_, key)| key_bytes(key, place as i64)).collect()
}

/// Which of a block's keys is the adapter: the first that is its name or number. A salt may read the same.
fn adapter_key(stored: &EngineStored<'_>, keys: &[ExtraKey<'_>]) -> Option<usize> {
    keys.iter().position(|key| match key {
        ExtraKey::Text(text) => stored.lora_name.as_deref() == Some(text.as_ref()),
        ExtraKey::Number(id) => stored.lora_id == Some(*id),
        _ => false,
    })
}

/// Which key of a prompt's first block is the salt: the last text that is not the adapter's name.
///
/// Where the engine names the salt in a field of its own, no key is.
fn salt_key(stored: &EngineStored<'_>) -> Option<usize> {
    if stored.parent.is_some() || stored.salt.is_some() {
        return None;
    }
    let keys = stored.extra_keys.first()?;
    let adapter = adapter_key(stored, keys);
    (0..keys.len()).rev().find(|at| matches!(keys[*at], ExtraKey::Text(_)) && adapter != Some(*at))
}

fn text<'e>(key: &'e ExtraKey<'_>) -> &'e str {
    if let ExtraKey::Text(text) = key { text } else { "" }
}

/// The keys of a request's block, in the order events have them.
fn prompt_keys<'p>(prompt: &Prompt<'p>, block: std::ops::Range<usize>) -> Vec<ExtraKey<'p>> {
    let overlapping = prompt
        .media
        .iter()
        .filter(|item| item.offset < block.end && item.offset.saturating_add(item.length) > block.start);
    let mut keys: Vec<_> = overlapping
        .map(|item| ExtraKey::Media {
            identifier: item.identifier.into(),
            offset: item.offset as i64 - block.start as i64,
        })
        .collect();
    if let Some(embeds) = prompt.embeds {
        keys.push(ExtraKey::Digest(Sha256::digest(embeds.rows(block)).to_vec().into()));
    }
    keys
}

/// A key as bytes that no other key has, a media item `place` tokens further on.
fn key_bytes(key: &ExtraKey<'_>, place: i64) -> Vec<u8> {
    let put = |kind: u8, content: &[u8], tail: &[u8]| {
        [&[kind][..], &(content.len() as u64).to_le_bytes(), content, tail].concat()
    };
    match key {
        ExtraKey::Text(text) => put(b't', text.as_bytes(), &[]),
        ExtraKey::Digest(digest) => put(b'd', digest, &[]),
        ExtraKey::Number(number) => put(b'n', &number.to_le_bytes(), &[]),
        ExtraKey::Media { identifier, offset } => {
            put(b'm', identifier.as_bytes(), &offset.saturating_add(place).to_le_bytes())
        }
        ExtraKey::Other => put(b'o', &[], &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::blocks::BlockSize;
    use crate::engine::prompt::{Embeds, Media};
    use crate::engine::{EngineHash, TokenIds};

    fn text(text: &'static str) -> ExtraKey<'static> {
        ExtraKey::Text(text.into())
    }

    fn media(identifier: &'static str, offset: i64) -> ExtraKey<'static> {
        ExtraKey::Media { identifier: identifier.into(), offset }
    }

    fn keys_of(stored: &EngineStored<'_>, block: usize) -> Vec<u8> {
        page_keys(stored, block, 0).concat()
    }

    #[test]
    fn events_and_requests_agree_on_media_and_embeddings() {
        let tokens = [1, 99, 99, 99, 99, 2, 3, 4];
        let hasher = ChainHasher::new(ChainSeed::new("m"), BlockSize::new(4).unwrap());
        let image = [Media { identifier: "i", offset: 1, length: 4 }];
        let chain = native_chain(&hasher, &Prompt::new(&tokens).media(&image));
        let stored = EngineStored {
            extra_keys: vec![vec![media("i", 1)], vec![media("i", -3)]],
            tokens: TokenIds::Plain(tokens.to_vec()),
            ..EngineStored::default()
        };
        let first = hasher.block(None, &tokens[..4], &keys_of(&stored, 0));
        let second = hasher.block(first, &tokens[4..], &keys_of(&stored, 1));
        assert_eq!(chain, [first.unwrap(), second.unwrap()]);

        let rows: Vec<u8> = (0..24).collect();
        let embeds = Embeds { bytes: &rows, row: 3 };
        let chain = native_chain(&hasher, &Prompt::new(&[0; 8]).embeds(embeds));
        let digest = |rows: &[u8]| vec![ExtraKey::Digest(Sha256::digest(rows).to_vec().into())];
        let extra_keys = vec![digest(&rows[..12]), digest(&rows[12..])];
        let stored = EngineStored { extra_keys, ..EngineStored::default() };
        let first = hasher.block(None, &[0; 4], &keys_of(&stored, 0));
        let second = hasher.block(first, &[0; 4], &keys_of(&stored, 1));
        assert_eq!(chain, [first.unwrap(), second.unwrap()]);
    }

    #[test]
    fn adapter_and_salt_are_the_namespace_and_nothing_else_is() {
        let keys = vec![text("sql"), media("i", 0), text("tenant")];
        let stored = EngineStored {
            lora_name: Some("sql".into()),
            extra_keys: vec![keys, vec![text("sql")]],
            ..EngineStored::default()
        };
        assert_eq!(namespace(&stored), (Some("sql".into()), Some("tenant")));
        let image = key_bytes(&media("i", 0), 0);
        assert_eq!(keys_of(&stored, 0), image);
        assert!(keys_of(&stored, 1).is_empty());

        // A block that is not the first has no salt: what it carries is its own.
        let later = EngineStored { parent: Some(EngineHash::new(1)), ..stored.clone() };
        assert_eq!(namespace(&later).1, None);
        assert_ne!(keys_of(&later, 0), image);

        let sglang = EngineStored { salt: Some("s".into()), lora_id: Some(7), ..EngineStored::default() };
        assert_eq!(namespace(&sglang), (Some("7".into()), Some("s")));
    }

    #[test]
    fn an_empty_salt_is_none() {
        let model = ChainSeed::new("m");
        assert_eq!(native_seed(model, None, Some("")), model);
        assert_ne!(native_seed(model, None, Some("s")), model);
        assert_ne!(native_seed(model, Some("s"), None), native_seed(model, None, Some("s")));
    }
}
