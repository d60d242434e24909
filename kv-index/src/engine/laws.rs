//! Fuzzing invariants of decoders and feeds: what holds whatever the bytes are.

mod encode;
mod input;
mod stream;
#[cfg(test)]
mod tests;

pub use encode::encode;
pub use input::Input;
pub use stream::any_stream;

use super::{
    DecodeProblem, EngineBatch, EngineEvent, Message, ReplayForm, ReplayReply, TokenIds, decode_batch,
    parse_replay_request, replay_request,
};

/// Any bytes as a payload. An error points into them. A batch that was decoded comes back from its own encoding, and
/// is in these bytes only: not with one byte less, not with one more.
///
/// # Panics
///
/// When it does not hold.
pub fn any_payload(bytes: &[u8]) {
    let batch = match decode_batch(bytes) {
        Ok(batch) => batch,
        Err(error) => {
            assert!(error.at <= bytes.len(), "{error}");
            return;
        }
    };
    let again = encode(&batch);
    let again = decode_batch(&again).expect("what we encode is a batch");
    assert_eq!(again.timestamp.to_bits(), batch.timestamp.to_bits());
    assert_eq!((again.rank, &again.events), (batch.rank, &batch.events));
    assert_eq!((again.unknown, again.malformed, again.fault), (0, 0, None));
    assert_eq!(batch.fault.is_some(), batch.malformed > 0);
    measured(&batch, bytes.len());

    for cut in [bytes.len() / 3, bytes.len() / 2, bytes.len() - 1] {
        let error = decode_batch(&bytes[..cut]).expect_err("a part of a batch is none");
        assert!(matches!(error.problem, DecodeProblem::EndsEarly { .. }), "{error}");
    }
    let longer = [bytes, &[0xc0]].concat();
    let error = decode_batch(&longer).expect_err("more than a batch is none");
    assert_eq!((error.at, error.problem), (bytes.len(), DecodeProblem::Trailing { extra: 1 }));
}

/// Nothing is decoded that takes no bytes: what a batch holds is bounded by the payload.
fn measured(batch: &EngineBatch<'_>, bytes: usize) {
    let held = |event: &EngineEvent<'_>| match event {
        EngineEvent::Stored(stored) => {
            let keys: usize = stored.extra_keys.iter().map(|keys| 1 + keys.len()).sum();
            let tokens = stored.tokens.len() * if matches!(stored.tokens, TokenIds::Pairs(_)) { 3 } else { 1 };
            stored.hashes.len() + tokens + keys
        }
        EngineEvent::Removed(removed) => removed.hashes.len(),
        _ => 0,
    };
    let held: usize = batch.events.iter().map(held).sum();
    let counted = batch.events.len() + batch.unknown as usize + batch.malformed as usize;
    assert!(held + counted <= bytes, "{held} values of {counted} events from {bytes} bytes");
}

/// Any bytes as frames: one byte says how many, and one before each how long it is. What is understood as a message,
/// a request or a reply comes back from its own frames.
///
/// # Panics
///
/// When it does not hold.
pub fn any_frames(bytes: &[u8]) {
    let Some((count, mut rest)) = bytes.split_first() else { return };
    let mut frames = Vec::new();
    for _ in 0..count % 7 {
        let (length, bytes) = rest.split_first().unwrap_or((&0, &[]));
        let (frame, bytes) = bytes.split_at(bytes.len().min(usize::from(length % 24)));
        frames.push(frame);
        rest = bytes;
    }
    if let Ok(message) = Message::parse(&frames) {
        assert_eq!(message.to_frames(), frames[..]);
    }
    if let Ok(start) = parse_replay_request(&frames) {
        assert_eq!(replay_request(start), frames[..]);
    }
    if let Ok(reply) = ReplayReply::parse(&frames) {
        assert_eq!(ReplayReply::parse(&reply.to_frames(ReplayForm::WithTopic)), Ok(reply));
        let plain = match reply {
            ReplayReply::Batch(message) => ReplayReply::Batch(Message { topic: b"", ..message }),
            ReplayReply::End => ReplayReply::End,
        };
        assert_eq!(ReplayReply::parse(&reply.to_frames(ReplayForm::WithoutTopic)), Ok(plain));
    }
}

/// Any bytes as the body of TensorRT-LLM's events. An error points into them. Blocks that were decoded are full, and
/// none was left out in silence.
///
/// # Panics
///
/// When it does not hold.
#[cfg(feature = "trtllm")]
pub fn any_json(bytes: &[u8], block_size: crate::BlockSize) {
    use super::{JsonProblem, decode_trtllm};

    let decoded = match decode_trtllm(bytes, block_size) {
        Ok(decoded) => decoded,
        Err(error) => {
            assert!(error.at <= bytes.len(), "{error}");
            return;
        }
    };
    assert_eq!(decoded.fault.is_some(), decoded.malformed > 0);
    for event in decoded.events.iter().flat_map(|event| &event.events) {
        if let EngineEvent::Stored(stored) = event {
            assert_eq!(stored.tokens.len(), stored.hashes.len() * block_size.tokens());
            let keys = &stored.extra_keys;
            assert!(keys.is_empty() || keys.len() == stored.hashes.len() && keys.iter().any(|keys| !keys.is_empty()));
        }
    }
    // A body ends in a bracket; without it there is none.
    let body = bytes.trim_ascii_end();
    let error = decode_trtllm(&body[..body.len() - 1], block_size).expect_err("a part of a body is none");
    assert_eq!(error.problem, JsonProblem::EndsEarly);
}
