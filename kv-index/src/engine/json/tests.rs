//! Decoder cases: bodies written by hand after the engine's serializer.

use super::*;
use crate::engine::event::{EngineHash, EngineStored, ExtraKey, TokenIds};

fn decode(body: &str) -> TrtllmEvents {
    decode_trtllm(body.as_bytes(), BlockSize::new(2).unwrap()).unwrap()
}

/// An event of this number with this data.
fn event(id: u64, data: &str) -> String {
    format!(r#"{{"event_id": {id}, "data": {data}, "window_size": 4096}}"#)
}

fn block(hash: i128, tokens: &[u64], more: &str) -> String {
    let tokens: Vec<_> = tokens.iter().map(|id| format!(r#"{{"token_id": {id}, "token_extra_id": 0}}"#)).collect();
    format!(r#"{{"type": "stored_block", "block_hash": {hash}, "tokens": [{}]{more}}}"#, tokens.join(","))
}

fn stored(parent: &str, blocks: &[String]) -> TrtllmEvents {
    decode(&event(1, &format!(r#"{{"type": "stored", "parent_hash": {parent}, "blocks": [{}]}}"#, blocks.join(","))))
}

fn expected(parent: Option<u64>, hashes: &[u64], tokens: &[u32]) -> EngineStored<'static> {
    EngineStored {
        hashes: hashes.iter().copied().map(EngineHash::new).collect(),
        parent: parent.map(EngineHash::new),
        tokens: TokenIds::Plain(tokens.to_vec()),
        block_size: 2,
        medium: Some("GPU".into()),
        window: Some(4096),
        ..EngineStored::default()
    }
}

fn stretches(decoded: TrtllmEvents) -> Vec<EngineStored<'static>> {
    assert_eq!((decoded.malformed, decoded.fault, decoded.events.len()), (0, None, 1));
    let stored = |event| match event {
        EngineEvent::Stored(stored) => stored,
        other => panic!("{other:?}"),
    };
    decoded.events.into_iter().flat_map(|event| event.events).map(stored).collect()
}

#[test]
fn stored_blocks_of_one_level_are_one_stretch() {
    let decoded = stored("null", &[block(7, &[1, 2], r#", "cache_level": 0, "priority": 35"#), block(-1, &[3, 4], "")]);
    assert_eq!(stretches(decoded), [expected(None, &[7, u64::MAX], &[1, 2, 3, 4])]);
}

#[test]
fn levels_and_salts_part_stretches_and_each_hangs_on_the_block_before() {
    let decoded = stored(
        "18446744073709551615",
        &[
            block(1, &[1, 2], r#", "cache_level": 0, "cache_salt": null"#),
            block(2, &[3, 4], r#", "cache_level": 1, "cache_salt": """#),
            block(3, &[5, 6], r#", "cache_level": 1, "mm_keys": []"#),
            block(4, &[7, 8], r#", "cache_level": 2"#),
            block(5, &[9, 9], r#", "cache_level": 2, "cache_salt": "s""#),
        ],
    );
    let on =
        |medium: &'static str, stored: EngineStored<'static>| EngineStored { medium: Some(medium.into()), ..stored };
    assert_eq!(
        stretches(decoded),
        [
            expected(Some(u64::MAX), &[1], &[1, 2]),
            on("CPU", expected(Some(1), &[2, 3], &[3, 4, 5, 6])),
            on("DISK", expected(Some(3), &[4], &[7, 8])),
            EngineStored { salt: Some("s".into()), ..on("DISK", expected(Some(4), &[5], &[9, 9])) },
        ]
    );
}

#[test]
fn partial_blocks_are_dropped_and_counted() {
    let decoded = stored("9", &[block(1, &[1, 2], ""), block(2, &[3], ""), block(3, &[4, 5], ""), block(4, &[], "")]);
    assert_eq!(decoded.partial, 2);
    assert_eq!(stretches(decoded), [expected(Some(9), &[1], &[1, 2]), expected(Some(2), &[3], &[4, 5])]);
    let decoded = stored("null", &[block(1, &[1], "")]);
    assert_eq!((decoded.partial, decoded.events[0].events.len()), (1, 0));
}

#[test]
fn a_malformed_event_that_has_a_number_keeps_it() {
    let decoded = decode(&format!("[{}, {}]", event(4, r#"{"type": "removed"}"#), event(5, r#"{"type": "new"}"#)));
    assert_eq!(decoded.events.iter().map(|event| event.id).collect::<Vec<_>>(), [4, 5]);
    assert_eq!((decoded.malformed, decoded.unknown), (1, 1));
}

#[test]
fn a_block_that_cannot_be_of_the_size_that_was_said_is_noticed() {
    let odd_size = |blocks: &[String]| stored("null", blocks).odd_size;
    assert_eq!(odd_size(&[block(1, &[1, 2], ""), block(2, &[3], "")]), None, "the last one may be partial");
    assert_eq!(odd_size(&[block(1, &[1], ""), block(2, &[3], "")]), Some(1), "one that is followed may not");
    assert_eq!(odd_size(&[block(1, &[1, 2, 3, 4], "")]), Some(4));
}

#[test]
fn what_sets_a_block_apart_is_in_its_extra_keys() {
    let media = r#", "mm_keys": [{"type": "mm_key", "hash": "0a0b", "start_offset": 3}, {"type": "new"}]"#;
    let extra = r#"{"block_hash": 3, "tokens": [{"token_id": 5}, {"token_id": 6, "token_extra_id": 258}]}"#;
    let stretch = stretches(stored("null", &[block(1, &[1, 2], ""), block(2, &[3, 4], media), extra.into()])).remove(0);
    let keys = [
        vec![],
        vec![ExtraKey::Media { identifier: "0a0b".into(), offset: 3 }, ExtraKey::Other],
        vec![ExtraKey::Digest(b"\0\0\0\0\0\0\0\0\x02\x01\0\0\0\0\0\0"[..].into())],
    ];
    assert_eq!(stretch.extra_keys, keys);
    assert_eq!(stretch.tokens, TokenIds::Plain(vec![1, 2, 3, 4, 5, 6]));
}

#[test]
fn ids_beyond_32_bits_are_only_counted() {
    let stretch = stretches(stored("null", &[block(1, &[1, 2], ""), block(2, &[1 << 32, 4], "")])).remove(0);
    assert_eq!(stretch.tokens, TokenIds::Wide(4));
}

#[test]
fn the_other_kinds_become_what_they_stand_for() {
    let body = [
        r#"{"event_id": 0, "data": {"type": "created", "num_blocks_per_cache_level": [10, 20]}, "window_size": 8}"#
            .into(),
        r#"{"event_id": 1, "data": {"type": "removed", "block_hashes": [7, -1]}, "window_size": 8,
            "attention_dp_rank": 2, "hash_algo": "v1_block_key", "layer_group_id": 1}"#
            .into(),
        event(
            2,
            r#"{"type": "updated", "block_hash": 7, "priority": null,
            "cache_level": {"type": "event_diff", "new_value": 1, "old_value": 0}}"#,
        ),
        event(
            3,
            r#"{"type": "updated", "block_hash": 7, "cache_level": null,
            "priority": {"type": "event_diff", "new_value": 1, "old_value": 0}}"#,
        ),
        "{}".into(),
        event(4, r#"{"type": "relocated"}"#),
    ];
    let decoded = decode(&format!("[{}]", body.join(",\n")));
    let of = |id, rank, events| TrtllmEvent { id, rank, events };
    let hashes = vec![EngineHash::new(7), EngineHash::new(u64::MAX)];
    let removed = EngineRemoved { hashes, group: Some(1), window: Some(8), ..EngineRemoved::default() };
    let moved = EngineMoved { hash: EngineHash::new(7), from: "GPU".into(), to: "CPU".into(), window: Some(4096) };
    let created = EngineCreated { blocks_per_level: vec![10, 20], window: Some(8) };
    let expected = TrtllmEvents {
        events: vec![
            of(0, None, vec![EngineEvent::Created(created)]),
            of(1, Some(2), vec![EngineEvent::Removed(removed)]),
            of(2, None, vec![EngineEvent::Moved(moved)]),
            of(3, None, vec![]),
            of(4, None, vec![]),
        ],
        unknown: 1,
        ..TrtllmEvents::default()
    };
    assert_eq!(decoded, expected);
}

#[test]
fn a_malformed_event_costs_that_event() {
    use FieldProblem::{Missing, OutOfRange, WrongType};
    let with = |blocks: &str| event(1, &format!(r#"{{"type": "stored", "blocks": {blocks}}}"#));
    for (bad, field, problem) in [
        ("7".into(), "event", WrongType),
        (r#"{"event_id": 1}"#.into(), "data", Missing),
        (r#"{"event_id": 1, "data": []}"#.into(), "data", WrongType),
        (r#"{"data": {"type": "created"}}"#.into(), "event_id", Missing),
        (r#"{"event_id": -1, "data": {"type": "created"}}"#.into(), "event_id", OutOfRange),
        (r#"{"event_id": 1, "data": {"type": "removed"}, "window_size": "x"}"#.into(), "window_size", WrongType),
        (r#"{"event_id": 1, "data": {"type": "x"}, "attention_dp_rank": 1e9}"#.into(), "attention_dp_rank", OutOfRange),
        (event(1, "{}"), "type", Missing),
        (event(1, r#"{"type": 1}"#), "type", WrongType),
        (event(1, r#"{"type": "removed"}"#), "block_hashes", Missing),
        (event(1, r#"{"type": "removed", "block_hashes": ["7"]}"#), "block_hashes", WrongType),
        (event(1, r#"{"type": "removed", "block_hashes": [18446744073709551616]}"#), "block_hashes", OutOfRange),
        (event(1, r#"{"type": "created"}"#), "num_blocks_per_cache_level", Missing),
        (event(1, r#"{"type": "updated"}"#), "block_hash", Missing),
        (event(1, r#"{"type": "updated", "block_hash": 1, "cache_level": {"new_value": 1}}"#), "old_value", Missing),
        (event(1, r#"{"type": "stored"}"#), "blocks", Missing),
        (with("[7]"), "blocks", WrongType),
        (with(r#"[{"block_hash": 1}]"#), "tokens", Missing),
        (with(r#"[{"tokens": []}]"#), "block_hash", Missing),
        (with(r#"[{"block_hash": 1, "tokens": [5]}]"#), "tokens", WrongType),
        (with(r#"[{"block_hash": 1, "tokens": [{}]}]"#), "token_id", Missing),
        (with(&format!("[{}]", block(1, &[1, 2], r#", "cache_level": -1"#))), "cache_level", OutOfRange),
        (with(&format!("[{}]", block(1, &[1], ", \"mm_keys\": 1"))), "mm_keys", WrongType),
    ] {
        let decoded = decode(&format!("[{}, {bad}, 7]", event(5, r#"{"type": "removed", "block_hashes": []}"#)));
        let telling = decoded.events.iter().filter(|event| !event.events.is_empty()).count();
        assert_eq!((telling, decoded.malformed, decoded.partial), (1, 2, 0), "{bad}");
        assert_eq!(decoded.fault, Some(TrtllmFault { index: 1, field, problem }), "{bad}");
    }
}

#[test]
fn what_is_no_body_is_refused_by_place_and_reason() {
    use JsonProblem::{EndsEarly, NotEvents, Syntax};
    let deep = "[".repeat(1 << 20);
    for (body, at, problem) in [
        ("", 0, EndsEarly),
        ("[", 1, EndsEarly),
        ("[{\"event_id\"", 12, EndsEarly),
        ("[}", 1, Syntax),
        ("[\n\n 1,\n x]", 8, Syntax),
        ("[] []", 3, Syntax),
        ("[\"\u{1}\"]", 2, Syntax),
        ("7", 0, NotEvents { found: "a number" }),
        ("null", 0, NotEvents { found: "null" }),
        (&deep, 127, Syntax),
    ] {
        let error = decode_trtllm(body.as_bytes(), BlockSize::new(2).unwrap()).unwrap_err();
        assert_eq!(error, JsonError { at, problem }, "{:.20}", body);
    }
    let error = decode_trtllm(b"[\xff]", BlockSize::new(2).unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "body at byte 1: not the JSON of events");
}
