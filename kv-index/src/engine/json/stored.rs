//! Blocks that TensorRT-LLM stored, as stretches that differ in nothing but their tokens.

use serde_json::{Map, Value};

use super::Pool;
use super::read::{Fault, hash, items, medium, object, optional, required, text, unsigned};
use crate::engine::event::{EngineEvent, EngineHash, EngineStored, ExtraKey, FieldProblem, TokenIds};

/// The stretches of a stored event, and how many partial blocks were left out.
pub(super) fn stored(data: &Map<String, Value>, pool: Pool) -> Result<(Vec<EngineEvent<'static>>, u64), Fault> {
    let mut before = optional(data, "parent_hash", hash)?;
    let mut stretches: Vec<EngineStored<'static>> = Vec::new();
    let mut partial = 0;
    // A stretch goes on only where its last block was the one before, and was not left out.
    let mut open = false;
    for block in required(data, "blocks", items)? {
        let block = Block::read(block, pool)?;
        let Some(tokens) = block.tokens else {
            (partial, open) = (partial + 1, false);
            before = Some(block.hash);
            continue;
        };
        match stretches.last_mut() {
            Some(last)
                if open && last.medium.as_deref() == Some(block.medium) && last.salt.as_deref() == block.salt =>
            {
                last.hashes.push(block.hash);
                join(&mut last.tokens, tokens);
                last.extra_keys.push(block.keys);
            }
            _ => stretches.push(EngineStored {
                hashes: vec![block.hash],
                parent: before,
                tokens,
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
    Ok((stretches.into_iter().map(EngineEvent::Stored).collect(), partial))
}

struct Block<'v> {
    hash: EngineHash,
    /// None, if the block is not full.
    tokens: Option<TokenIds>,
    medium: &'static str,
    salt: Option<&'v str>,
    keys: Vec<ExtraKey<'static>>,
}

impl<'v> Block<'v> {
    fn read(block: &'v Value, pool: Pool) -> Result<Self, Fault> {
        let block = object("blocks", block)?;
        let (tokens, extra) = read_tokens(required(block, "tokens", items)?)?;
        if tokens.len() > pool.block_size.tokens() {
            return Err(Fault::new("tokens", FieldProblem::OutOfRange));
        }
        let mut keys: Vec<_> = optional(block, "mm_keys", items)?.unwrap_or_default().iter().map(media).collect();
        keys.extend(extra.map(|ids| ExtraKey::Digest(ids.into())));
        Ok(Self {
            hash: required(block, "block_hash", hash)?,
            tokens: (tokens.len() == pool.block_size.tokens()).then_some(tokens),
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
