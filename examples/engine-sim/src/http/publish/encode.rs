//! Cache events as vLLM writes them, byte for byte: since 0.26, compared with captures up to 0.29.0.
//!
//! A batch is an array of time, events and rank; an event is a map with its type first, then its fields as they are
//! declared. Fields that have their default are left out, except those without one, which are nil; so what later releases
//! added (ownership, session) does not show in events of plain requests. The rule that must never
//! break: what an engine with one full-attention group publishes and what is written here are the same bytes
//! (`tests::captured_batches_are_written_byte_for_byte`).

use serde::Serialize;

use crate::http::events::CacheEvent;

/// The payload of a batch that is published at `time`, in seconds since 1970.
#[must_use]
pub fn batch(time: f64, events: &[CacheEvent]) -> Vec<u8> {
    let events: Vec<Event> = events.iter().map(event).collect();
    let mut bytes = Vec::new();
    (time, events, RANK)
        .serialize(&mut rmp_serde::Serializer::new(&mut bytes).with_struct_map())
        .expect("memory takes every byte, and every map knows its length");
    bytes
}

fn event(event: &CacheEvent) -> Event<'_> {
    match event {
        CacheEvent::Stored { parent, blocks, tokens, block_size, salt } => Event::Stored {
            block_hashes: blocks.iter().map(|block| block.engine_hash).collect(),
            parent_block_hash: parent.as_ref().map(|block| block.engine_hash),
            token_ids: tokens,
            block_size: *block_size,
            lora_id: (),
            medium: MEDIUM,
            lora_name: (),
            extra_keys: (0..blocks.len()).map(|at| salt.as_deref().filter(|_| at == 0).map(|salt| [salt])).collect(),
            group_idx: GROUP,
            kv_cache_spec_kind: "full_attention",
        },
        CacheEvent::Removed(block) => {
            Event::Removed { block_hashes: [block.engine_hash], medium: MEDIUM, group_idx: GROUP }
        }
        CacheEvent::Cleared => Event::Cleared,
    }
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum Event<'a> {
    #[serde(rename = "BlockStored")]
    Stored {
        block_hashes: Vec<u64>,
        parent_block_hash: Option<u64>,
        token_ids: &'a [u32],
        block_size: u32,
        /// Nil, as in every request without an adapter.
        lora_id: (),
        medium: &'static str,
        lora_name: (),
        /// What beside tokens went into each block's hash: the salt, for a prompt's first block.
        extra_keys: Vec<Option<[&'a str; 1]>>,
        group_idx: u32,
        kv_cache_spec_kind: &'static str,
    },
    #[serde(rename = "BlockRemoved")]
    Removed { block_hashes: [u64; 1], medium: &'static str, group_idx: u32 },
    #[serde(rename = "AllBlocksCleared")]
    Cleared,
}

/// The only data-parallel rank.
const RANK: u32 = 0;
/// The only group of layers.
const GROUP: u32 = 0;
const MEDIUM: &str = "GPU";

#[cfg(test)]
mod tests {
    use kv_index::BlockHash;
    use kv_index::engine::{EngineEvent, ExtraKey, TokenIds, decode_batch};
    use serde_json::Value;

    use super::*;
    use crate::http::events::Block;

    const VLLM: &str = include_str!("../../../../../kv-index/tests/vectors/vllm_events.json");
    const BY_VERSION: &str = include_str!("../../../../../kv-index/tests/vectors/events_by_version.json");

    fn payload(message: &Value) -> Vec<u8> {
        let hex = message["frames_hex"][2].as_str().unwrap();
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    fn block(engine_hash: u64) -> Block {
        Block { hash: BlockHash::new(0), engine_hash }
    }

    /// What a simulated pod would have to do for such a batch to be right.
    fn events(payload: &[u8]) -> (f64, Vec<CacheEvent>) {
        let batch = decode_batch(payload).unwrap();
        let events = batch.events.iter().map(|event| match event {
            EngineEvent::Stored(stored) => CacheEvent::Stored {
                parent: stored.parent.map(|name| block(name.get())),
                blocks: stored.hashes.iter().map(|name| block(name.get())).collect(),
                tokens: match &stored.tokens {
                    TokenIds::Plain(tokens) => tokens.clone(),
                    other => panic!("{other:?}"),
                },
                block_size: stored.block_size,
                salt: match stored.extra_keys.first().map_or(&[][..], |keys| keys) {
                    [] => None,
                    [ExtraKey::Text(salt)] => Some(salt.clone().into_owned()),
                    other => panic!("{other:?}"),
                },
            },
            EngineEvent::Removed(removed) => CacheEvent::Removed(block(removed.hashes[0].get())),
            EngineEvent::Cleared => CacheEvent::Cleared,
            other => panic!("{other:?}"),
        });
        (batch.timestamp, events.collect())
    }

    #[test]
    fn captured_batches_are_written_byte_for_byte() {
        let captured: Value = serde_json::from_str(VLLM).unwrap();
        let by_version: Value = serde_json::from_str(BY_VERSION).unwrap();
        let newest = by_version.as_array().unwrap().iter().rfind(|entry| entry["engine"] == "vllm").unwrap();
        // What text-only requests without an adapter cause.
        let plain = |message: &&Value| {
            let name = message["name"].as_str().unwrap();
            ["engine/prefill_10", "engine/prefix_hit", "engine/kv_cache_report", "engine/reset", "removed", "cleared"]
                .iter()
                .any(|start| name.starts_with(start))
        };
        let lists = [&captured["messages"], &newest["messages"]];
        let messages: Vec<&Value> = lists.into_iter().flat_map(|list| list.as_array().unwrap()).filter(plain).collect();
        assert_eq!(messages.len(), 6, "the captures have changed");
        for message in messages {
            let captured = payload(message);
            let (time, events) = events(&captured);
            assert_eq!(batch(time, &events), captured, "{}", message["name"]);
        }
    }

    #[test]
    fn what_is_written_is_read_back() {
        let stored = CacheEvent::Stored {
            parent: Some(block(u64::MAX)),
            blocks: [0, 127, 128, 65_536, u64::MAX].map(block).to_vec(),
            tokens: (0..80).map(|at| at * 4_001).collect(),
            block_size: 16,
            salt: None,
        };
        let salted = CacheEvent::Stored {
            parent: None,
            blocks: [1, 2].map(block).to_vec(),
            tokens: (0..32).collect(),
            block_size: 16,
            salt: Some("tenant".to_owned()),
        };
        let written = vec![CacheEvent::Removed(block(300)), stored, salted, CacheEvent::Cleared];
        let bytes = batch(1_755_900_001.125, &written);
        assert_eq!(events(&bytes), (1_755_900_001.125, written));
        let decoded = decode_batch(&bytes).unwrap();
        assert_eq!((decoded.rank, decoded.unknown, decoded.malformed), (Some(0), 0, 0));
    }
}
