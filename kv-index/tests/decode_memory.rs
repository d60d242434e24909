//! Decoder memory bounds: a payload's claims cost nothing, its content a bounded multiple of its length.

#![cfg(feature = "engine")]

use kv_index::engine::{DecodeProblem, decode_batch};
use pointsman_test_support::alloc::{CountingAllocator, peak_bytes};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

#[test]
fn a_claim_of_four_billion_elements_costs_nothing() {
    let stored = b"\x92\x01\x91\x99\xabBlockStored";
    let removed = b"\x92\x01\x91\x82\xa4type\xacBlockRemoved\xacblock_hashes";
    let claims = [&b"\xdd\xff\xff\xff\xff"[..], b"\xdf\xff\xff\xff\xff", b"\xdb\xff\xff\xff\xff"];
    let more = [&b"\xc6\xff\xff\xff\xff"[..], b"\xc9\xff\xff\xff\xff"];
    let mut refused = 0;
    for claim in claims.into_iter().chain(more) {
        for before in [&b""[..], b"\x92\x01", b"\x92\x01\x91", b"\x92\x01\x91\x92", b"\x93\x01\x90", stored, removed] {
            for after in [&b""[..], b"\x01\x02\x03\x04\x05"] {
                let payload = [before, claim, after].concat();
                let (bytes, result) = peak_bytes(|| decode_batch(&payload).map(drop));
                assert_eq!(bytes, 0, "{payload:02x?}");
                let error = result.expect_err("the claim is wrong");
                assert!(matches!(error.problem, DecodeProblem::EndsEarly { .. }), "{error}");
                refused += 1;
            }
        }
    }
    assert_eq!(refused, 70);
}

/// What [`decode_batch`] promises: a byte is at worst an extra key, in a list that has just doubled.
const TIMES: usize = 128;

#[test]
fn what_is_decoded_costs_a_bounded_multiple_of_the_payload() {
    // One more than a list has room for after doubling.
    let count = 131_073_u32;
    let many =
        |before: &[u8], each: &[u8]| [before, b"\xdd", &count.to_be_bytes(), &each.repeat(count as usize)].concat();
    let keys = b"\x92\x01\x91\x99\xabBlockStored\x90\xc0\xc0\xc0\xc0\xc0\xc0";
    for payload in [
        many(b"\x92\x01", b"\x92\xabBlockStored\x90"),
        many(b"\x92\x01", b"\x91\xb0AllBlocksCleared"),
        many(b"\x92\x01", b"\xc0"),
        many(b"\x92\x01\x91\x92\xabBlockStored", b"\x01"),
        many(b"\x92\x01\x91\x94\xabBlockStored\x90\xc0", b"\x01"),
        many(b"\x92\x01\x91\x94\xabBlockStored\x90\xc0", b"\x92\x01\x02"),
        many(keys, b"\xc0"),
        many(keys, b"\x91\xc0"),
        many(&[&keys[..], b"\x91"].concat(), b"\xc0"),
    ] {
        let (bytes, result) = peak_bytes(|| decode_batch(&payload).map(|batch| batch.events.len()));
        let times = bytes / payload.len();
        println!("{times} times {} bytes", payload.len());
        assert!(result.is_ok(), "{result:?}");
        assert!(times < TIMES, "{times} times {} bytes", payload.len());
    }
}
