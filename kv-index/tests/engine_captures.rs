//! Captured streams of real publishers, replayed into the index: after every message it holds what a literal count
//! of the captured events says.
#![cfg(all(feature = "vllm", feature = "sglang"))]

use std::collections::BTreeMap;
use std::path::Path;

use kv_index::engine::sglang::SglangHashing;
use kv_index::engine::vllm::{VllmAlgorithm, VllmHashing};
use kv_index::engine::{
    Dialect, EngineFeed, EngineFeedConfig, MismatchCause, VerifyConfig, VerifyStats, Version, decode_batch,
};
use kv_index::{BatchOutcome, BlockHash, BlockSize, ChainSeed, Config, Digest, Index, Tier};
use serde_json::Value;

/// What the captures' own meaning comes to: copies of each hash in GPU memory.
#[derive(Debug, Default)]
struct Count(BTreeMap<u64, u32>);

impl Count {
    fn message(&mut self, decoded: &Value) {
        for event in decoded[1].as_array().expect("events") {
            // A map's fields by name; an array's in their order.
            let field = |name: &str, at: usize| if event.is_object() { &event[name] } else { &event[at] };
            let hashes = || field("block_hashes", 1).as_array().expect("hashes").iter().map(hash);
            match field("type", 0).as_str().expect("a type") {
                "BlockStored" if event["kv_cache_spec_kind"] == "sliding_window" => {}
                "BlockStored" => hashes().for_each(|hash| *self.0.entry(hash).or_default() += 1),
                "BlockRemoved" if event["group_idx"].as_u64().unwrap_or(0) > 0 => {}
                "BlockRemoved" => hashes().for_each(|hash| {
                    if let Some(copies) = self.0.get_mut(&hash) {
                        *copies -= 1;
                    }
                    self.0.retain(|_, copies| *copies > 0);
                }),
                "AllBlocksCleared" => self.0.clear(),
                other => panic!("{other}"),
            }
        }
    }

    fn digest(&self) -> Digest {
        let mut digest = Digest::EMPTY;
        self.0.iter().for_each(|(hash, copies)| digest.add_copies(BlockHash::new(*hash), Tier::Gpu, *copies));
        digest
    }
}

fn hash(value: &Value) -> u64 {
    if let Some(hex) = value["bytes_hex"].as_str() {
        return u64::from_str_radix(&hex[hex.len() - 16..], 16).expect("hex");
    }
    value.as_u64().unwrap_or_else(|| value.as_i64().expect("a number") as u64)
}

fn bytes(hex: &Value) -> Vec<u8> {
    let hex = hex.as_str().expect("hex");
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
}

fn play(file: &str, dialect: Dialect) -> VerifyStats {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors").join(file);
    let captured: Value = serde_json::from_slice(&std::fs::read(path).expect("the capture")).expect("JSON");
    let messages = captured["messages"].as_array().expect("messages").iter();
    let messages: Vec<_> =
        messages.filter(|one| one["name"].as_str().is_some_and(|name| name.starts_with("engine/"))).collect();
    assert!(messages.len() >= 8, "{} messages", messages.len());
    let index: Index = Index::new(Config::default());
    let size = BlockSize::new(4).expect("not zero");
    let (named, rehashed) = (index.join("named").expect("room"), index.join("rehashed").expect("room"));
    let mut config = EngineFeedConfig::engine_hashes(size);
    config.verify = Some(VerifyConfig::every(dialect, 1));
    let by_name = EngineFeed::new(&index, named, config).expect("live");
    let by_token =
        EngineFeed::new(&index, rehashed, EngineFeedConfig::tokens(ChainSeed::new("m"), size)).expect("live");
    let mut count = Count::default();
    // Not all messages are here, so they are numbered anew.
    for (number, message) in messages.iter().enumerate() {
        let payload = bytes(&message["frames_hex"][2]);
        let batch = decode_batch(&payload).expect("a captured payload");
        by_name.receive_batch(number as u64, &batch).expect("of four tokens");
        by_token.receive_batch(number as u64, &batch).expect("of four tokens");
        count.message(&message["decoded_untyped"]);
        assert_eq!(index.digest(named), Ok(count.digest()), "{}", message["name"]);
        // Where a message that is not here stored the parent, token mode knows less; never more, and it says so.
        let known = index.pod_stats(rehashed).expect("live").blocks;
        assert!(known <= count.0.len(), "{}", message["name"]);
        assert!(known == count.0.len() || by_token.drop_counts().iter().count() > 0, "{}", message["name"]);
    }
    by_name.verify_stats().expect("verified")
}

#[test]
fn vllm() {
    let hashing = VllmHashing::new(Version::new(0, 29, 0)).algorithm(VllmAlgorithm::Sha256Cbor);
    let stats = play("vllm_events.json", Dialect::vllm(hashing).expect("computable"));
    assert!(stats.matched >= 8 && stats.mismatched == 0, "{stats:?}");
}

/// 120 messages of a vLLM 0.32.0 that ran, from the midst of its life: evictions of blocks that came before them are part of
/// it. They are decoded here by another reader, and counted.
#[test]
fn vllm_0_32_as_it_ran() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/vllm_0.32.0_capture.jsonl");
    let text = std::fs::read_to_string(path).expect("the capture");
    let messages: Vec<Vec<Vec<u8>>> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .map(|message| message["frames"].as_array().expect("frames").iter().map(bytes).collect())
        .collect();
    assert_eq!(messages.len(), 120);
    let size = BlockSize::new(32).expect("not zero");
    let first = u64::from_be_bytes(messages[0][1].as_slice().try_into().expect("eight bytes"));
    let index: Index = Index::new(Config::default());
    let (named, rehashed) = (index.join("named").expect("room"), index.join("rehashed").expect("room"));
    let hashing = VllmHashing::new(Version::new(0, 32, 0)).algorithm(VllmAlgorithm::Sha256Cbor).seed("0");
    let mut config = EngineFeedConfig::engine_hashes(size);
    config.verify = Some(VerifyConfig::every(Dialect::vllm(hashing).expect("computable"), 1));
    config.first_sequence = first;
    let by_name = EngineFeed::new(&index, named, config).expect("live");
    let mut config = EngineFeedConfig::tokens(ChainSeed::new("tiny"), size);
    config.first_sequence = first;
    let by_token = EngineFeed::new(&index, rehashed, config).expect("live");
    let mut count = Count::default();
    for frames in &messages {
        let received = by_name.receive(frames).expect("as it came");
        assert!(matches!(received.outcome, BatchOutcome::Applied(_)), "{received:?}");
        by_token.receive(frames).expect("as it came");
        let decoded: Value = rmp_serde::from_slice(&frames[2]).expect("another reader's");
        decoded[1].as_array().expect("events").iter().for_each(has_known_fields);
        count.message(&decoded);
        assert_eq!(index.digest(named), Ok(count.digest()));
        assert!(index.pod_stats(rehashed).expect("live").blocks <= count.0.len());
    }
    let stats = by_name.verify_stats().expect("verified");
    assert!(stats.matched > 10 && stats.mismatched == 0, "{stats:?}");
}

/// A field that is not known is dropped unseen: a new one of a later release shows here.
fn has_known_fields(event: &Value) {
    let stored = [
        "parent_block_hash",
        "token_ids",
        "block_size",
        "lora_id",
        "lora_name",
        "extra_keys",
        "kv_cache_spec_kind",
        "kv_cache_spec_sliding_window",
        "session_id",
    ];
    let all = ["type", "block_hashes", "medium", "group_idx", "locality", "ownership"];
    for name in event.as_object().expect("a map").keys() {
        assert!(stored.contains(&&**name) || all.contains(&&**name), "{name}");
    }
}

#[test]
fn sglang() {
    let hashing = SglangHashing::new(Version::new(0, 5, 18));
    let stats = play("sglang_events.json", Dialect::sglang(hashing).expect("computable"));
    assert!(stats.matched >= 3, "{stats:?}");
    // One message is of an engine that speculates with EAGLE, and that is what is said of it.
    assert_eq!(stats.mismatched, 3, "{stats:?}");
    let actual = Dialect::sglang(hashing.eagle()).expect("computable");
    assert_eq!(stats.last_mismatch.map(|last| last.cause), Some(MismatchCause::Algorithm { actual }));
}
