//! Property tests of the codecs: every message round-trips; out-of-bounds input is an error with its place.

use proptest::prelude::*;

use super::bounds::{Bounded, MAX_BLOCKS, MAX_NUMBER};
use super::*;

pub(crate) fn hash() -> impl Strategy<Value = BlockHash> {
    prop_oneof![1u64..20, any::<u64>()].prop_map(BlockHash::new)
}

fn parent() -> impl Strategy<Value = Parent> {
    prop_oneof![Just(Parent::Root), Just(Parent::Unknown), hash().prop_map(Parent::Block)]
}

fn tier() -> impl Strategy<Value = Tier> {
    prop::sample::select(&Tier::ALL[..])
}

fn change() -> impl Strategy<Value = Change> {
    let blocks = || prop::collection::vec(hash(), 1..6);
    prop_oneof![
        (parent(), blocks(), tier()).prop_map(|(parent, blocks, tier)| Change::Stored { parent, blocks, tier }),
        (blocks(), tier()).prop_map(|(blocks, tier)| Change::Removed { blocks, tier }),
        Just(Change::Cleared),
    ]
}

pub(crate) fn message() -> impl Strategy<Value = Message> {
    let head = || ("[a-z.-]{1,12}", 0..=MAX_NUMBER, 0..=MAX_NUMBER);
    let hashing = || (1..=u32::MAX, hash()).prop_map(|(block_size, probe)| HashScheme { block_size, probe });
    let held = (hash(), parent(), tier(), 1..=u32::MAX).prop_map(|(hash, parent, tier, copies)| InventoryEntry {
        hash,
        parent,
        tier,
        copies,
    });
    let source = prop_oneof![Just(EventSemantics::Membership), Just(EventSemantics::Copies)];
    let changes = prop::collection::vec(change(), 0..6);
    prop_oneof![
        (head(), hashing(), source, changes).prop_map(|((pod, incarnation, sequence), hashing, source, changes)| {
            Message::Batch(EventBatch { pod, incarnation, sequence, hashing, source, changes })
        }),
        (head(), any::<[u8; 16]>()).prop_map(|((pod, incarnation, sequence), digest)| {
            Message::Digest(DigestMessage { pod, incarnation, sequence, digest: Digest::from_bytes(digest) })
        }),
        (head(), hashing(), 0..8u32, 8..20u32, prop::collection::vec(held, 0..6)).prop_map(
            |((pod, incarnation, sequence), hashing, part, parts, blocks)| {
                Message::Inventory(Inventory { pod, incarnation, sequence, hashing, part, parts, blocks })
            }
        ),
    ]
}

proptest! {
    #[test]
    fn json_brings_every_message_back(message in message()) {
        let json = serde_json::to_vec(&message).expect("plain data");
        prop_assert_eq!(decode::<Message>(&json), Ok(message));
    }

    #[test]
    fn any_bytes_are_an_answer_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode::<Message>(&bytes);
    }
}

fn report(json: &str) -> Result<EventBatch, DecodeError> {
    decode(json.as_bytes())
}

fn with(changes: &str) -> String {
    let hashing = r#"{"block_size":16,"probe":"00000000000000a0"}"#;
    format!(r#"{{"pod":"a","incarnation":1,"sequence":0,"hashing":{hashing},"source":"copies","changes":[{changes}]}}"#)
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    let shape = |json: &str| match report(json) {
        Err(DecodeError::Shape { line, column, what }) => (line, column, what),
        other => panic!("{other:?}"),
    };
    let (line, column, what) = shape(&with(r#"{"removed":{"blocks":["7"],"tier":"gpu"}}"#));
    assert_eq!((line, column), (1, 149), "right after it");
    assert_eq!(what, r#"invalid value: string "7", expected a block hash: 16 lower-case hex digits, not all 0"#);
    assert!(shape(&with(r#"{"removed":{"blocks":[7],"tier":"gpu"}}"#)).2.contains("invalid type: integer `7`"));
    assert!(shape(&with(r#"{"removed":{"blocks":["0000000000000000"],"tier":"gpu"}}"#)).2.contains("not all 0"));
    assert!(shape(&with(r#"{"removed":{"blocks":["00000000000000AB"],"tier":"gpu"}}"#)).2.contains("lower-case"));
    assert!(shape(&with(r#"{"removed":{"blocks":[],"tier":"hbm"}}"#)).2.contains("`gpu`, `host`"));
    assert!(shape(&with(r#"{"removed":{"blocks":[],"tier":"gpu","x":1}}"#)).2.contains("unknown field `x`"));
    assert!(shape(&with(r#"{"evicted":{}}"#)).2.contains("unknown variant `evicted`"));
    assert!(shape("{}").2.contains("missing field `pod`"));
    assert!(shape(&(with("") + "x")).2.contains("trailing"));
}

#[test]
fn what_is_out_of_bounds_is_told_by_name() {
    assert_eq!(
        report(&with(r#""cleared",{"removed":{"blocks":[],"tier":"gpu"}}"#)),
        Err(DecodeError::Malformed(Malformed::NoBlocks { at: 1 }))
    );
    let good: EventBatch = report(&with("")).expect("an empty report is one");
    assert_eq!(EventBatch { pod: String::new(), ..good.clone() }.check(), Err(Malformed::Name { found: 0 }));
    let found = MAX_NUMBER + 1;
    let number = Malformed::Number { field: "sequence", found };
    assert_eq!(EventBatch { sequence: found, ..good.clone() }.check(), Err(number));
    assert_eq!(number.to_string(), "`sequence` is 9007199254740992, above 2^53 - 1");
    let blocks = vec![BlockHash::new(1); MAX_BLOCKS / 2 + 1];
    let changes = vec![Change::Removed { blocks, tier: Tier::Gpu }; 2];
    assert_eq!(EventBatch { changes, ..good.clone() }.check(), Err(Malformed::Blocks { found: MAX_BLOCKS + 2 }));
    assert_eq!(
        EventBatch { hashing: HashScheme { block_size: 0, ..good.hashing }, ..good }.check(),
        Err(Malformed::BlockSize)
    );
}

#[test]
fn a_full_part_fits_a_nats_message() {
    let widest = BlockHash::new(u64::MAX);
    let block = InventoryEntry { hash: widest, parent: Parent::Block(widest), tier: Tier::Remote, copies: u32::MAX };
    let full = Message::Inventory(Inventory {
        pod: "p".repeat(super::bounds::MAX_NAME),
        incarnation: MAX_NUMBER,
        sequence: MAX_NUMBER,
        hashing: HashScheme { block_size: u32::MAX, probe: widest },
        part: 0,
        parts: 1,
        blocks: vec![block; MAX_BLOCKS],
    });
    full.check().expect("within bounds");
    let bytes = serde_json::to_vec(&full).expect("plain data").len();
    assert!(bytes < 1 << 20, "{bytes} bytes");
    let full = Message::Batch(EventBatch {
        pod: "p".repeat(super::bounds::MAX_NAME),
        incarnation: MAX_NUMBER,
        sequence: MAX_NUMBER,
        hashing: HashScheme { block_size: u32::MAX, probe: widest },
        source: EventSemantics::Membership,
        changes: vec![
            Change::Stored { parent: Parent::Block(widest), blocks: vec![widest], tier: Tier::Remote };
            MAX_BLOCKS
        ],
    });
    full.check().expect("within bounds");
    let bytes = serde_json::to_vec(&full).expect("plain data").len();
    assert!(bytes < 1 << 20, "{bytes} bytes");
}
