//! Decoder cases, payloads written by hand: what is accepted, what is refused, and where.

use super::*;
use crate::engine::event::{EngineHash, EngineRemoved, EngineStored, ExtraKey, TokenIds};

/// A batch of rank 3 at time 1 with these events, each already encoded.
fn batch(events: &[&[u8]]) -> Vec<u8> {
    let mut payload = vec![0x93, 0x01, 0x90 | events.len() as u8];
    events.iter().for_each(|event| payload.extend(*event));
    payload.push(3);
    payload
}

/// The offset of the first event of such a batch.
const FIRST: usize = 3;

fn stored(hashes: &[u64]) -> EngineStored<'static> {
    EngineStored { hashes: hashes.iter().copied().map(EngineHash::new).collect(), ..EngineStored::default() }
}

fn removed(hashes: &[u64]) -> EngineRemoved<'static> {
    EngineRemoved { hashes: hashes.iter().copied().map(EngineHash::new).collect(), ..EngineRemoved::default() }
}

fn one(event: &[u8]) -> EngineEvent<'static> {
    // A test may leak a few bytes for the sake of reading well.
    let payload = Box::leak(batch(&[event]).into_boxed_slice());
    let mut batch = decode_batch(payload).unwrap();
    assert_eq!((batch.unknown, batch.malformed, batch.fault), (0, 0, None), "{event:02x?}");
    assert_eq!(batch.events.len(), 1);
    batch.events.remove(0)
}

fn fault(event: &[u8]) -> (&'static str, FieldProblem) {
    let payload = batch(&[b"\x91\xb0AllBlocksCleared", event, b"\x92\xacBlockRemoved\x91\x07"]);
    let batch = decode_batch(&payload).unwrap();
    assert_eq!(batch.events, [EngineEvent::Cleared, EngineEvent::Removed(removed(&[7]))], "{event:02x?}");
    assert_eq!((batch.unknown, batch.malformed, batch.rank), (0, 1, Some(3)), "{event:02x?}");
    let fault = batch.fault.unwrap();
    assert_eq!(fault.at, FIRST + 18);
    (fault.field, fault.problem)
}

#[test]
fn short_arrays_leave_the_rest_at_its_default() {
    assert_eq!(one(b"\x92\xabBlockStored\x91\x07"), EngineEvent::Stored(stored(&[7])));
    assert_eq!(one(b"\x92\xacBlockRemoved\x91\x07"), EngineEvent::Removed(removed(&[7])));
    assert_eq!(one(b"\x91\xb0AllBlocksCleared"), EngineEvent::Cleared);
}

#[test]
fn a_full_array_is_read_by_place_and_what_follows_is_passed_over() {
    let event = one(b"\x9e\xabBlockStored\x92\x07\xff\xd0\xfe\x92\x01\x02\x02\x05\xa3GPU\xa1l\x92\xc0\x91\xa1s\x01\
        \xa4full\x08\xa4more\x81\xa1a\x01");
    let expected = EngineStored {
        parent: Some(EngineHash::from_signed(-2)),
        tokens: TokenIds::Plain(vec![1, 2]),
        block_size: 2,
        lora_id: Some(5),
        medium: Some("GPU".into()),
        lora_name: Some("l".into()),
        extra_keys: vec![vec![], vec![ExtraKey::Text("s".into())]],
        group: Some(1),
        kind: Some("full".into()),
        window: Some(8),
        ..stored(&[7, u64::MAX])
    };
    assert_eq!(event, EngineEvent::Stored(expected));
    let expected = EngineRemoved { medium: Some("CPU".into()), group: Some(2), ..removed(&[7]) };
    assert_eq!(one(b"\x95\xacBlockRemoved\x91\x07\xa3CPU\x02\x90"), EngineEvent::Removed(expected));
    assert_eq!(one(b"\x93\xb0AllBlocksCleared\x91\x07\xa3GPU"), EngineEvent::Cleared);
}

#[test]
fn in_an_array_a_map_in_the_adapters_place_is_metadata() {
    let event = one(b"\x98\xabBlockStored\x91\x07\xc0\x90\x04\xc0\xc0\x82\xa3new\x91\x01\xaacache_salt\xa1s");
    assert_eq!(event, EngineEvent::Stored(EngineStored { block_size: 4, salt: Some("s".into()), ..stored(&[7]) }));
    let map = b"\x83\xa4type\xabBlockStored\xacblock_hashes\x90\xa9lora_name\x80";
    assert_eq!(fault(map), ("lora_name", FieldProblem::WrongType));
}

#[test]
fn a_maps_type_may_stand_anywhere_and_its_fields_in_any_order() {
    let expected = EngineRemoved { medium: Some("GPU".into()), ..removed(&[7]) };
    let event =
        one(b"\x85\xa6medium\xa3GPU\x91\x01\x02\xacblock_hashes\x91\x07\xa3new\x91\xc0\xa4type\xacBlockRemoved");
    assert_eq!(event, EngineEvent::Removed(expected));
}

#[test]
fn of_a_field_sent_twice_the_later_counts_and_nil_counts_as_not_sent() {
    let event =
        one(b"\x84\xa4type\xacBlockRemoved\xacblock_hashes\x91\x07\xacblock_hashes\x91\x08\xacblock_hashes\xc0");
    assert_eq!(event, EngineEvent::Removed(removed(&[8])));
    // Of the type, the first.
    let event = one(b"\x83\xa4type\xb0AllBlocksCleared\xa4type\xacBlockRemoved\xacblock_hashes\x91\x07");
    assert_eq!(event, EngineEvent::Cleared);
}

#[test]
fn mooncake_maps_without_tokens_are_accepted() {
    let event = one(b"\x87\xaaevent_type\xa6stored\xa4type\xabBlockStored\xacblock_hashes\x91\xfe\xa9token_ids\xc0\
        \xaablock_size\xc0\xaaseq_hashes\x91\xcf\xff\xff\xff\xff\xff\xff\xff\xfe\xa6medium\xa3cpu");
    let expected = EngineStored { medium: Some("cpu".into()), ..stored(&[u64::MAX - 1]) };
    assert_eq!(event, EngineEvent::Stored(expected));
}

#[test]
fn token_ids_are_plain_or_pairs_or_only_counted() {
    let tokens = |tokens: &[u8]| {
        let event = [b"\x94\xabBlockStored\x90\xc0", tokens].concat();
        let EngineEvent::Stored(stored) = one(&event) else { panic!("another event") };
        stored.tokens
    };
    assert_eq!(tokens(b"\x90"), TokenIds::Plain(vec![]));
    assert_eq!(tokens(b"\x92\x01\xce\xff\xff\xff\xff"), TokenIds::Plain(vec![1, u32::MAX]));
    assert_eq!(tokens(b"\x92\x92\x01\x02\x92\x02\x03"), TokenIds::Pairs(vec![[1, 2], [2, 3]]));
    assert_eq!(tokens(b"\x93\x01\xcf\0\0\0\x01\0\0\0\0\x02"), TokenIds::Wide(3));
    assert_eq!(tokens(b"\x92\xff\x01"), TokenIds::Wide(2));
    assert_eq!(tokens(b"\x92\x01\x92\x01\x02"), TokenIds::Wide(2));
    assert_eq!(tokens(b"\x92\x92\x01\x02\x01"), TokenIds::Wide(2));
    assert_eq!(tokens(b"\x91\x92\x01\xff"), TokenIds::Wide(1));
}

#[test]
fn extra_keys_of_every_kind_are_read_and_others_keep_their_place() {
    let event = one(b"\x99\xabBlockStored\x91\x07\xc0\x90\x00\xc0\xc0\xc0\x92\xc0\x9b\xa1s\xc4\x02\xfe\xff\x07\xff\
        \x92\xa2id\xfd\x93\xa2mm\xa2id\x01\x92\x01\x02\x92\xa2id\xcf\xff\xff\xff\xff\xff\xff\xff\xff\xc0\xa1\xff\
        \xcf\xff\xff\xff\xff\xff\xff\xff\xff");
    let EngineEvent::Stored(stored) = event else { panic!("another event") };
    let expected = [
        ExtraKey::Text("s".into()),
        ExtraKey::Digest(b"\xfe\xff"[..].into()),
        ExtraKey::Number(7),
        ExtraKey::Number(-1),
        ExtraKey::Media { identifier: "id".into(), offset: -3 },
    ];
    assert_eq!(stored.extra_keys[0], []);
    assert_eq!(stored.extra_keys[1][..5], expected);
    assert_eq!(stored.extra_keys[1][5..], vec![ExtraKey::Other; 6]);
}

#[test]
fn a_malformed_event_costs_that_event() {
    use FieldProblem::{Missing, OutOfRange, WrongType};
    for (event, expected) in [
        (&b"\x07"[..], ("event", WrongType)),
        (b"\xa4text", ("event", WrongType)),
        (b"\xc0", ("event", WrongType)),
        (b"\x90", ("type", Missing)),
        (b"\x91\x07", ("type", WrongType)),
        (b"\x80", ("type", Missing)),
        (b"\x81\xacblock_hashes\x91\x07", ("type", Missing)),
        (b"\x81\xa4type\xc0", ("type", WrongType)),
        (b"\x91\xabBlockStored", ("block_hashes", Missing)),
        (b"\x92\xabBlockStored\xc0", ("block_hashes", Missing)),
        (b"\x81\xa4type\xacBlockRemoved", ("block_hashes", Missing)),
        (b"\x92\xabBlockStored\x07", ("block_hashes", WrongType)),
        (b"\x92\xabBlockStored\x92\x07\xc0", ("block_hashes", WrongType)),
        (b"\x92\xabBlockStored\x91\xa17", ("block_hashes", WrongType)),
        (b"\x92\xabBlockStored\x91\xc4\x07abcdefg", ("block_hashes", WrongType)),
        (b"\x93\xabBlockStored\x91\x07\xa16", ("parent_block_hash", WrongType)),
        (b"\x94\xabBlockStored\x91\x07\xc0\x07", ("token_ids", WrongType)),
        (b"\x94\xabBlockStored\x91\x07\xc0\x91\xa11", ("token_ids", WrongType)),
        (b"\x94\xabBlockStored\x91\x07\xc0\x91\x91\x01", ("token_ids", WrongType)),
        (b"\x94\xabBlockStored\x91\x07\xc0\x91\x92\x92\x01\x01\x01", ("token_ids", WrongType)),
        (b"\x95\xabBlockStored\x91\x07\xc0\x90\xff", ("block_size", OutOfRange)),
        (b"\x95\xabBlockStored\x91\x07\xc0\x90\xcf\0\0\0\x01\0\0\0\0", ("block_size", OutOfRange)),
        (b"\x95\xabBlockStored\x91\x07\xc0\x90\xca\x3f\x80\0\0", ("block_size", WrongType)),
        (b"\x96\xabBlockStored\x91\x07\xc0\x90\x04\xcf\x80\0\0\0\0\0\0\0", ("lora_id", OutOfRange)),
        (b"\x97\xabBlockStored\x91\x07\xc0\x90\x04\xc0\x07", ("medium", WrongType)),
        (b"\x97\xabBlockStored\x91\x07\xc0\x90\x04\xc0\xa1\xff", ("medium", WrongType)),
        (b"\x98\xabBlockStored\x91\x07\xc0\x90\x04\xc0\xc0\x81\xaacache_salt\x01", ("cache_salt", WrongType)),
        (b"\x99\xabBlockStored\x91\x07\xc0\x90\x04\xc0\xc0\xc0\x91\x01", ("extra_keys", WrongType)),
        (b"\x94\xacBlockRemoved\x91\x07\xc0\xff", ("group_idx", OutOfRange)),
    ] {
        assert_eq!(fault(event), expected, "{event:02x?}");
    }
}

#[test]
fn unknown_types_are_counted_and_the_first_fault_is_kept() {
    let payload =
        batch(&[b"\x92\xa6Future\x81\x01\x02", b"\x07", b"\x90", b"\x82\xa1a\x90\xa4type\xa6Future", b"\x91\xa0"]);
    let batch = decode_batch(&payload).unwrap();
    assert_eq!((batch.unknown, batch.malformed, batch.events.len()), (3, 2, 0));
    assert_eq!(batch.fault.unwrap().to_string(), "event at byte 14: event is of the wrong type");
}

#[test]
fn a_batch_may_lack_its_rank_and_have_more_than_we_know() {
    let rank = |payload: &[u8]| decode_batch(payload).map(|batch| (batch.timestamp, batch.rank));
    assert_eq!(rank(b"\x92\x01\x90"), Ok((1.0, None)));
    assert_eq!(rank(b"\x92\xff\x90"), Ok((-1.0, None)));
    assert_eq!(rank(b"\x93\xca\x3f\x80\0\0\x90\xc0"), Ok((1.0, None)));
    assert_eq!(rank(b"\x93\x01\x90\x05"), Ok((1.0, Some(5))));
    assert_eq!(rank(b"\x95\x01\x90\x05\x81\x01\x02\xc3"), Ok((1.0, Some(5))));
}

#[test]
fn what_is_no_batch_is_refused_by_place_and_reason() {
    use DecodeProblem::{EndsEarly, Field, NotABatch, Reserved, ShortBatch, Trailing};
    let wrong = |field, problem| Field { field, problem };
    for (payload, at, problem) in [
        (&b""[..], 0, EndsEarly { needed: 1, left: 0 }),
        (b"\x81\x01\x02", 0, NotABatch { found: "a map" }),
        (b"\xa4text", 0, NotABatch { found: "a string" }),
        (b"\x91\x01", 0, ShortBatch { elements: 1 }),
        (b"\x92\xa1t\x90", 1, wrong("ts", FieldProblem::WrongType)),
        (b"\x92\x01\x80", 2, wrong("events", FieldProblem::WrongType)),
        (b"\x93\x01\x90\xa10", 3, wrong("data_parallel_rank", FieldProblem::WrongType)),
        (b"\x93\x01\x90\xff", 3, wrong("data_parallel_rank", FieldProblem::OutOfRange)),
        (b"\x93\x01\x90\xcf\xff\xff\xff\xff\xff\xff\xff\xff", 3, wrong("data_parallel_rank", FieldProblem::OutOfRange)),
        (b"\x92\x01\x90\x00\x00", 3, Trailing { extra: 2 }),
        (b"\xc1", 0, Reserved),
        (b"\x92\x01\x91\x92\xa6Future\xc1", 11, Reserved),
        // The event is malformed before its damage, and the damage counts.
        (b"\x92\x01\x91\x93\x07\xc1\x01", 5, Reserved),
        (b"\x92\x01\x91\x92\xabBlockStored\x92\x07", 16, EndsEarly { needed: 3, left: 2 }),
        (b"\x92\x01\xdd\xff\xff\xff\xff\x90\x90\x90", 2, EndsEarly { needed: 4_294_967_300, left: 8 }),
    ] {
        assert_eq!(decode_batch(payload), Err(DecodeError { at, problem }), "{payload:02x?}");
    }
    assert_eq!(
        decode_batch(b"\x93\x01").unwrap_err().to_string(),
        "payload at byte 0: a value of at least 4 bytes begins here, but 2 are left"
    );
    let error = decode_batch(b"\x92\x01\x80").unwrap_err();
    assert_eq!(error.to_string(), "payload at byte 2: events is of the wrong type");
}

#[test]
fn nesting_costs_no_stack_wherever_it_is() {
    let deep = [vec![0x92; 1 << 20], vec![0xc0; (1 << 20) + 1]].concat();
    for before in [
        &b"\x92\x01\x91"[..],
        b"\x92\x01\x91\x92\xa6Future",
        b"\x92\x01\x91\x92\xabBlockStored",
        b"\x92\x01\x91\x94\xabBlockStored\x90\xc0",
        b"\x92\x01\x91\x94\xabBlockStored\x90\xc0\x91",
        b"\x92\x01\x91\x99\xabBlockStored\x90\xc0\xc0\xc0\xc0\xc0\xc0\x91\x91",
        b"\x92\x01\x91\x81",
        b"\x93\x01\x90",
    ] {
        let _ = decode_batch(&[before, &deep[..]].concat());
    }
    let mut payload = b"\x92\x01\x91\x92\xabBlockStored".to_vec();
    payload.extend(&deep);
    assert_eq!(decode_batch(&payload).unwrap().malformed, 1);
}
