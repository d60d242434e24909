//! TensorRT-LLM's stored blocks, grouped into stretches that differ in nothing but their tokens.

use serde_json::{Map, Value};

use super::Pool;
use super::read::{Fault, hash, items, medium, object, optional, required, text, unsigned};
use crate::engine::event::{EngineHash, EngineStored, ExtraKey, TokenIds};

/// What a stored event comes to.
#[derive(Debug, Default)]
pub(super) struct StoredBlocks {
    pub(super) stretches: Vec<EngineStored<'static>>,
    /// Blocks that are not full, left out.
    pub(super) partial: u64,
    /// Tokens of a block that cannot be one of the size that was said: it is larger, or not full and followed.
    pub(super) odd_size: Option<u32>,
}

/// The stretches of a stored event.
pub(super) fn stored(data: &Map<String, Value>, pool: Pool) -> Result<StoredBlocks, Fault> {
    let mut before = optional(data, "parent_hash", hash)?;
    let StoredBlocks { mut stretches, mut partial, mut odd_size } = StoredBlocks::default();
    let mut last_partial = None;
    // A stretch goes on only where its last block was the one before, and was not left out.
    let mut open = false;
    for block in required(data, "blocks", items)? {
        let block = Block::read(block)?;
        let count = block.tokens.len() as u32;
        odd_size = odd_size.or(last_partial.take());
        if block.tokens.len() != pool.block_size.tokens() {
            if block.tokens.len() > pool.block_size.tokens() {
                odd_size = odd_size.or(Some(count));
            } else {
                (partial, last_partial) = (partial + 1, Some(count));
            }
            open = false;
            before = Some(block.hash);
            continue;
        }
        match stretches.last_mut() {
            Some(last)
                if open && last.medium.as_deref() == Some(block.medium) && last.salt.as_deref() == block.salt =>
            {
                last.hashes.push(block.hash);
                join(&mut last.tokens, block.tokens);
                last.extra_keys.push(block.keys);
            }
            _ => stretches.push(EngineStored {
                hashes: vec![block.hash],
                parent: before,
                tokens: block.tokens,
                block_size: pool.block_size.tokens() as u32,
                medium: Some(block.medium.into()),
                salt: block.salt.map(|salt| salt.to_owned().into()),
                extra_keys: vec![block.keys],
                group: pool.group,
                window: pool.window,
                ..EngineStored::default()
            }),
        }
        (before, open) = (Some(block.hash), true);
    }
    for stretch in &mut stretches {
        if stretch.extra_keys.iter().all(Vec::is_empty) {
            stretch.extra_keys = Vec::new();
        }
    }
    Ok(StoredBlocks { stretches, partial, odd_size })
}

struct Block<'v> {
    hash: EngineHash,
    tokens: TokenIds,
    medium: &'static str,
    salt: Option<&'v str>,
    keys: Vec<ExtraKey<'static>>,
}

impl<'v> Block<'v> {
    fn read(block: &'v Value) -> Result<Self, Fault> {
        let block = object("blocks", block)?;
        let (tokens, extra) = read_tokens(required(block, "tokens", items)?)?;
        let mut keys: Vec<_> = optional(block, "mm_keys", items)?.unwrap_or_default().iter().map(media).collect();
        keys.extend(extra.map(|ids| ExtraKey::Digest(ids.into())));
        Ok(Self {
            hash: required(block, "block_hash", hash)?,
            tokens,
            medium: optional(block, "cache_level", medium)?.unwrap_or("GPU"),
            // An empty salt is none, as everywhere.
            salt: optional(block, "cache_salt", text)?.filter(|salt| !salt.is_empty()),
            keys,
        })
    }
}

/// A block's token ids, and its tokens' extra ids as bytes, if any of them says something.
fn read_tokens(tokens: &[Value]) -> Result<(TokenIds, Option<Vec<u8>>), Fault> {
    let mut ids = Vec::with_capacity(tokens.len());
    let (mut extra, mut plain, mut wide) = (Vec::with_capacity(8 * tokens.len()), true, false);
    for token in tokens {
        let token = object("tokens", token)?;
        // Reads any whole number, and so does not care whether it has a sign.
        let id = required(token, "token_id", hash)?.get();
        u32::try_from(id).map_or_else(|_| wide = true, |id| ids.push(id));
        let id: u64 = optional(token, "token_extra_id", unsigned)?.unwrap_or(0);
        extra.extend(id.to_le_bytes());
        plain &= id == 0;
    }
    let ids = if wide { TokenIds::Wide(tokens.len()) } else { TokenIds::Plain(ids) };
    Ok((ids, (!plain).then_some(extra)))
}

/// `{"type": "mm_key", "hash": ..., "start_offset": ...}`, or something unknown.
fn media(key: &Value) -> ExtraKey<'static> {
    match (key.get("hash").and_then(Value::as_str), key.get("start_offset").and_then(Value::as_i64)) {
        (Some(identifier), Some(offset)) => ExtraKey::Media { identifier: identifier.to_owned().into(), offset },
        _ => ExtraKey::Other,
    }
}

/// Appends a block's tokens to those of its stretch.
fn join(tokens: &mut TokenIds, more: TokenIds) {
    match (tokens, more) {
        (TokenIds::Plain(tokens), TokenIds::Plain(more)) => tokens.extend(more),
        (tokens, more) => *tokens = TokenIds::Wide(tokens.len() + more.len()),
    }
}
