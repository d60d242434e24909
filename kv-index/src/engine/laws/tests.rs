//! Property tests of the invariants: arbitrary bytes, damaged captures, arbitrary batches.

use std::borrow::Cow;

use proptest::prelude::*;

use super::input::CAPTURED;
use super::*;
use crate::engine::event::{EngineHash, EngineRemoved, EngineStored, ExtraKey};

#[test]
fn the_laws_hold_for_every_capture() {
    assert!(CAPTURED.len() > 90, "{}", CAPTURED.len());
    CAPTURED.iter().for_each(|payload| any_payload(payload));
}

#[test]
fn a_capture_cut_anywhere_is_no_batch() {
    for payload in CAPTURED.iter() {
        for cut in 0..payload.len() {
            let error = decode_batch(&payload[..cut]).unwrap_err();
            assert!(matches!(error.problem, DecodeProblem::EndsEarly { .. }), "{error}");
        }
    }
}

#[test]
fn a_capture_with_any_byte_changed_keeps_the_laws() {
    for mut payload in CAPTURED.iter().cloned() {
        for at in 0..payload.len() {
            let byte = payload[at];
            for changed in [byte ^ 1, byte ^ 0x80, !byte, 0xc0, 0xc1, 0xdd, 0xff] {
                payload[at] = changed;
                any_payload(&payload);
            }
            payload[at] = byte;
        }
    }
}

#[test]
fn fuzz_findings_stay_fixed() {
    let findings = |target: &str| {
        let folder = format!("{}/../fuzz/regressions/{target}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_dir(folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| std::fs::read(entry.path()).expect("a file"))
    };
    findings("decode").for_each(|bytes| Input::new(&bytes).check());
    findings("stream").for_each(|bytes| any_stream(&bytes));
}

fn text() -> impl Strategy<Value = Option<Cow<'static, str>>> {
    prop::option::of(prop_oneof!["GPU", "[a-z]{0,40}", ".{0,4}"].prop_map(Cow::Owned))
}

fn hashes() -> impl Strategy<Value = Vec<EngineHash>> {
    prop::collection::vec(any::<u64>().prop_map(EngineHash::new), 0..20)
}

fn tokens() -> impl Strategy<Value = TokenIds> {
    prop_oneof![
        prop::collection::vec(any::<u32>(), 0..40).prop_map(TokenIds::Plain),
        prop::collection::vec(any::<[u32; 2]>(), 1..40).prop_map(TokenIds::Pairs),
        (1usize..40).prop_map(TokenIds::Wide),
    ]
}

fn key() -> impl Strategy<Value = ExtraKey<'static>> {
    prop_oneof![
        ".{0,9}".prop_map(|text| ExtraKey::Text(text.into())),
        (".{0,9}", any::<i64>()).prop_map(|(text, offset)| ExtraKey::Media { identifier: text.into(), offset }),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(|digest| ExtraKey::Digest(digest.into())),
        any::<i64>().prop_map(ExtraKey::Number),
        Just(ExtraKey::Other),
    ]
}

fn event() -> impl Strategy<Value = EngineEvent<'static>> {
    let keys = prop::collection::vec(prop::collection::vec(key(), 0..4), 0..4);
    let names = (text(), text(), text(), text(), text(), text(), text());
    let numbers =
        (any::<Option<u64>>(), any::<u32>(), any::<Option<i64>>(), any::<Option<u32>>(), any::<Option<u32>>());
    let stored = (hashes(), tokens(), keys, names, numbers).prop_map(|(hashes, tokens, extra_keys, names, numbers)| {
        let (medium, lora_name, salt, kind, locality, ownership, session) = names;
        let (parent, block_size, lora_id, group, window) = numbers;
        let parent = parent.map(EngineHash::new);
        EngineEvent::Stored(EngineStored {
            hashes,
            parent,
            tokens,
            block_size,
            medium,
            lora_id,
            lora_name,
            salt,
            extra_keys,
            group,
            kind,
            window,
            locality,
            ownership,
            session,
        })
    });
    let removed = (hashes(), text(), any::<Option<u32>>(), text(), text()).prop_map(
        |(hashes, medium, group, locality, ownership)| {
            EngineEvent::Removed(EngineRemoved {
                hashes,
                medium,
                group,
                window: None,
                locality,
                ownership,
                remaining: Vec::new(),
            })
        },
    );
    prop_oneof![4 => stored, 2 => removed, 1 => Just(EngineEvent::Cleared)]
}

proptest! {
    #[test]
    fn any_stream_of_events_keeps_the_laws(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        any_stream(&bytes);
    }

    #[test]
    fn any_bytes_keep_the_laws(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        any_payload(&bytes);
        any_frames(&bytes);
        Input::new(&bytes).check();
        any_payload(&[b"\x93\x01\x94", &bytes[..]].concat());
        any_payload(&[b"\x92\x01\x91\x9c\xabBlockStored", &bytes[..]].concat());
    }

    /// What an engine could say comes through whole.
    #[test]
    fn any_batch_comes_back_from_its_payload(
        events in prop::collection::vec(event(), 0..6), rank in any::<Option<u32>>(), timestamp in any::<f64>(),
    ) {
        let batch = EngineBatch { timestamp, rank, events, ..EngineBatch::default() };
        let payload = encode(&batch);
        prop_assert_eq!(decode_batch(&payload).expect("whole"), batch);
        any_payload(&payload);
    }
}

#[cfg(feature = "trtllm")]
mod json {
    use super::super::input::BODY;
    use super::*;

    #[test]
    fn a_body_cut_or_changed_anywhere_keeps_the_laws() {
        let two = crate::BlockSize::new(2).expect("not zero");
        let mut body = BODY.as_bytes().to_vec();
        let decoded = crate::engine::decode_trtllm(&body, two).expect("whole");
        assert_eq!((decoded.events.len(), decoded.partial, decoded.malformed, decoded.unknown), (4, 1, 0, 0));
        for at in 0..body.len() {
            any_json(&body[..at], two);
            let byte = body[at];
            for changed in [byte ^ 1, byte ^ 0x80, b'9', b'-', b'"', b'{', b']', b' ', b'.'] {
                body[at] = changed;
                any_json(&body, two);
            }
            body[at] = byte;
        }
    }

    proptest! {
        #[test]
        fn any_bytes_keep_the_laws(bytes in prop::collection::vec(any::<u8>(), 0..300), text in ".{0,80}") {
            any_json(&bytes, crate::BlockSize::new(4).expect("not zero"));
            any_json(format!("[{text}]").as_bytes(), crate::BlockSize::new(4).expect("not zero"));
        }
    }
}
