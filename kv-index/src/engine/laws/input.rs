//! Fuzzer input as what an engine could send, or as something damaged on the way.

use std::sync::LazyLock;

use super::{any_frames, any_payload};
use crate::engine::decode_batch;

/// A fuzzer's bytes, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Input {
    /// A payload, of whatever make.
    Payload(Vec<u8>),
    /// Frames.
    Frames(Vec<u8>),
    /// TensorRT-LLM's events, and the tokens of a block.
    Json(Vec<u8>, u32),
}

impl Input {
    /// Any bytes. The first chooses: the others as they are, or as edits to something that an engine sent.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        let (choice, bytes) = bytes.split_first().unwrap_or((&0, &[]));
        match choice % 8 {
            0 | 1 => Self::Payload(bytes.to_vec()),
            2..=4 => {
                let (which, edits) = bytes.split_first().unwrap_or((&0, &[]));
                Self::Payload(edited(CAPTURED[usize::from(*which) % CAPTURED.len()].clone(), edits))
            }
            5 => Self::Frames(bytes.to_vec()),
            6 => Self::Json(bytes.to_vec(), 1 + u32::from(choice >> 3) % 4),
            _ => Self::Json(edited(BODY.into(), bytes), 2),
        }
    }

    /// Checks the laws.
    ///
    /// # Panics
    ///
    /// When one does not hold.
    pub fn check(&self) {
        match self {
            Self::Payload(bytes) => any_payload(bytes),
            Self::Frames(bytes) => any_frames(bytes),
            #[cfg(feature = "trtllm")]
            Self::Json(bytes, tokens) => super::any_json(bytes, crate::BlockSize::new(*tokens).expect("not zero")),
            #[cfg(not(feature = "trtllm"))]
            Self::Json(..) => {}
        }
    }
}

/// Pieces replaced: by two bytes of place, one of lengths, and the new bytes.
fn edited(mut bytes: Vec<u8>, mut edits: &[u8]) -> Vec<u8> {
    while let [high, low, lengths, rest @ ..] = edits {
        let at = usize::from(u16::from_be_bytes([*high, *low])) % (bytes.len() + 1);
        let gone = usize::from(lengths >> 4).min(bytes.len() - at);
        let (new, rest) = rest.split_at(rest.len().min(usize::from(lengths & 15)));
        bytes.splice(at..at + gone, new.iter().copied());
        edits = rest;
    }
    bytes
}

/// Payloads that engines sent: whatever in the files is long, in quotes, and the hex of a batch.
pub(super) static CAPTURED: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let files = [
        include_str!("../../../tests/vectors/vllm_events.json"),
        include_str!("../../../tests/vectors/sglang_events.json"),
        include_str!("../../../tests/vectors/events_by_version.json"),
    ];
    let hex = |text: &&str| text.len() > 40 && text.len() % 2 == 0 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let byte = |text: &str, at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex");
    let strings = files.iter().flat_map(|file| file.split('"')).filter(hex);
    let payloads = strings.map(|text| (0..text.len()).step_by(2).map(|at| byte(text, at)).collect());
    payloads.filter(|payload: &Vec<u8>| decode_batch(payload).is_ok()).collect()
});

/// One event of each kind, as TensorRT-LLM writes them, in blocks of two tokens.
pub(super) const BODY: &str = r#"[
    {"event_id": 0, "data": {"type": "created", "num_blocks_per_cache_level": [10, 0]}, "window_size": 64},
    {"event_id": 1, "data": {"type": "stored", "parent_hash": null, "blocks": [
        {"type": "stored_block", "block_hash": 11, "cache_level": 0, "tokens": [
            {"type": "unique_token", "token_id": 1, "token_extra_id": 0}, {"token_id": 2, "token_extra_id": 7}]},
        {"block_hash": -12, "cache_level": 1, "cache_salt": "s", "tokens": [{"token_id": 3}, {"token_id": 4}],
            "mm_keys": [{"type": "mm_key", "hash": "ab", "start_offset": 1}]},
        {"block_hash": 13, "tokens": [{"token_id": 3}]}]}, "window_size": 64, "attention_dp_rank": 1},
    {"event_id": 2, "data": {"type": "removed", "block_hashes": [11]}, "layer_group_id": 0},
    {"event_id": 3, "data": {"type": "updated", "block_hash": 11,
        "cache_level": {"type": "event_diff", "new_value": 1, "old_value": 0}}, "window_size": 64}]"#;
