//! Edge cases of engine streams, one oddity each: other layers and ranks, clocks that lie, hashes that clash.
#![cfg(all(feature = "vllm", feature = "sglang", feature = "trtllm"))]
#![allow(clippy::unwrap_used, reason = "what does not go well fails the test")]

mod copies;
mod incarnations;
mod layers;
mod names;
mod pages;
mod streams;

use kv_index::engine::sglang::{SglangFormat, SglangHashing};
use kv_index::engine::trtllm::{TrtllmForm, TrtllmHashing};
use kv_index::engine::*;
use kv_index::*;

type Feed<'i> = EngineFeed<&'i Index>;
fn size(n: u32) -> BlockSize {
    BlockSize::new(n).unwrap()
}
fn model() -> ChainSeed {
    ChainSeed::new("m")
}
fn ids(ids: &[u64]) -> Vec<EngineHash> {
    ids.iter().copied().map(EngineHash::new).collect()
}
fn st(hashes: &[u64], parent: Option<u64>, tokens: &[u32], bs: u32) -> EngineStored<'static> {
    EngineStored {
        hashes: ids(hashes),
        parent: parent.map(EngineHash::new),
        tokens: TokenIds::Plain(tokens.to_vec()),
        block_size: bs,
        ..Default::default()
    }
}
fn stored(hashes: &[u64], parent: Option<u64>, tokens: &[u32], bs: u32) -> EngineEvent<'static> {
    EngineEvent::Stored(st(hashes, parent, tokens, bs))
}
fn removed(hashes: &[u64]) -> EngineEvent<'static> {
    EngineEvent::Removed(EngineRemoved { hashes: ids(hashes), ..Default::default() })
}
fn batch(time: f64, events: Vec<EngineEvent<'static>>) -> EngineBatch<'static> {
    let mut b = EngineBatch::default();
    b.timestamp = time;
    b.events = events;
    b
}
fn blocks(index: &Index, pod: Pod) -> usize {
    index.pod_stats(pod).unwrap().blocks
}
fn setup(f: impl FnOnce(&Index, Pod)) {
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").unwrap();
    f(&index, pod)
}
fn depth(index: &Index, pod: Pod, chain: &[BlockHash]) -> usize {
    let mut m = Matches::default();
    index.search(chain, &mut m);
    m.depth(pod.id())
}
fn payload(time: f64, hash: u64) -> Vec<u8> {
    let mut p = vec![0x93, 0xcb];
    p.extend(time.to_be_bytes());
    p.extend(b"\x91\x97\xabBlockStored\x91\xcf");
    p.extend(hash.to_be_bytes());
    p.extend(b"\xc0\x92\x01\x02\x02\xc0\xa3GPU\x00");
    p
}
fn live(feed: &Feed<'_>, seq: u64, time: f64, hash: u64) -> Received {
    feed.receive(&[b"".to_vec(), seq.to_be_bytes().to_vec(), payload(time, hash)]).unwrap()
}
fn reply(feed: &Feed<'_>, seq: u64, time: f64, hash: u64) -> Received {
    match feed.receive_replay(&[b"".to_vec(), b"".to_vec(), seq.to_be_bytes().to_vec(), payload(time, hash)]).unwrap() {
        Replayed::Batch(b) => b,
        other => panic!("{other:?}"),
    }
}
fn end(feed: &Feed<'_>) -> Option<u64> {
    match feed.receive_replay(&[b"".to_vec(), b"".to_vec(), vec![0xff; 8], vec![]]).unwrap() {
        Replayed::End { replay_from } => replay_from,
        other => panic!("{other:?}"),
    }
}
