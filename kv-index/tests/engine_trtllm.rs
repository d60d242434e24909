//! TensorRT-LLM end to end, JSON to index: levels, windows, partial blocks, lost events, restarts.
#![cfg(feature = "trtllm")]

use kv_index::engine::{DropReason, EngineFeed, EngineFeedConfig, ReceiveError};
use kv_index::{BatchOutcome, BlockSize, ChainHasher, ChainSeed, Config, EventSemantics, Index, Matches, Tier};

fn size(tokens: u32) -> BlockSize {
    BlockSize::new(tokens).expect("not zero")
}

fn config(mode: EngineFeedConfig) -> EngineFeedConfig {
    let mut config = mode;
    // Its tree holds a block once: events say whether a block is there, not how often.
    config.semantics = EventSemantics::Membership;
    config
}

fn stored(id: u64, parent: &str, blocks: &[(u64, &[u32])], window: u32) -> String {
    let blocks: Vec<_> = blocks
        .iter()
        .map(|(hash, tokens)| {
            let tokens: Vec<_> = tokens.iter().map(|t| format!(r#"{{"token_id": {t}, "token_extra_id": 0}}"#)).collect();
            let tokens = tokens.join(",");
            format!(r#"{{"type": "stored_block", "block_hash": {hash}, "tokens": [{tokens}], "cache_level": 0, "priority": 35}}"#)
        })
        .collect();
    let blocks = blocks.join(",");
    let data = format!(r#"{{"type": "stored", "parent_hash": {parent}, "blocks": [{blocks}]}}"#);
    format!(r#"{{"event_id": {id}, "data": {data}, "window_size": {window}}}"#)
}

fn other(id: u64, data: &str, window: u32) -> String {
    format!(r#"{{"event_id": {id}, "data": {data}, "window_size": {window}}}"#)
}

fn body(events: &[String]) -> Vec<u8> {
    format!("[{}]", events.join(",")).into_bytes()
}

#[test]
fn events_come_to_the_same_in_both_modes() {
    let model = ChainSeed::new("m");
    for tokens in [true, false] {
        let index: Index = Index::new(Config::default());
        let pod = index.join("a").expect("room");
        let mode =
            if tokens { EngineFeedConfig::tokens(model, size(2)) } else { EngineFeedConfig::engine_hashes(size(2)) };
        let feed = EngineFeed::new(&index, pod, config(mode)).expect("live");
        let chain = match tokens {
            true => ChainHasher::new(model, size(2)).hash(&[1, 2, 3, 4, 5, 6]),
            false => [11, 22, 33].map(Into::into).to_vec(),
        };
        let depth = || {
            let mut matches = Matches::default();
            index.search(&chain, &mut matches);
            matches.depth(pod.id())
        };
        let first = [
            other(0, r#"{"type": "created", "num_blocks_per_cache_level": [100, 50]}"#, 512),
            other(1, r#"{"type": "created", "num_blocks_per_cache_level": [100, 50]}"#, 4096),
            stored(2, "null", &[(11, &[1, 2]), (22, &[3, 4]), (99, &[5])], 4096),
            stored(3, "null", &[(11, &[1, 2]), (22, &[3, 4])], 512),
            stored(4, "22", &[(33, &[5, 6])], 4096),
        ];
        let received = feed.receive_json(&body(&first), size(2)).expect("well-formed");
        assert!(received.iter().all(|one| matches!(one.outcome, BatchOutcome::Applied(_))), "{received:?}");
        assert_eq!(depth(), 3);
        assert_eq!(feed.drop_counts().of(DropReason::PartialBlock).blocks, 1);
        assert_eq!(feed.drop_counts().of(DropReason::NotPrefixGroup).blocks, 2);

        // To host memory it is still held; the eviction does not say from where.
        let diff = r#"{"type": "event_diff", "new_value": 1, "old_value": 0}"#;
        let update = format!(r#"{{"type": "updated", "block_hash": 33, "cache_level": {diff}}}"#);
        feed.receive_json(&body(&[other(5, &update, 4096)]), size(2)).expect("well-formed");
        assert_eq!(depth(), 3);
        let mut runs = Vec::new();
        index.locate(pod, &chain, &mut runs).expect("live");
        let places: Vec<_> = runs.iter().map(|run| (run.tier, run.from, run.to)).collect();
        assert_eq!(places, [(Tier::Gpu, 0, 2), (Tier::Host, 2, 3)]);
        let removed = r#"{"type": "removed", "block_hashes": [33]}"#;
        feed.receive_json(&body(&[other(6, removed, 4096)]), size(2)).expect("well-formed");
        assert_eq!(depth(), 2);
        assert_eq!(index.pod_stats(pod).expect("live").blocks, 2);

        // An event was lost: nothing is sure any more.
        let received =
            feed.receive_json(&body(&[stored(8, "null", &[(11, &[1, 2])], 4096)]), size(2)).expect("well-formed");
        assert!(matches!(received[0].outcome, BatchOutcome::GapSkipped(_)), "{received:?}");
        assert_eq!(depth(), 1);
        // The engine started anew.
        let received = feed.receive_json(&body(&[other(0, removed, 4096)]), size(2)).expect("well-formed");
        assert!(matches!(received[0].outcome, BatchOutcome::Restarted(_)), "{received:?}");
        assert_eq!(depth(), 0);
    }
}

#[test]
fn ranks_that_share_a_body_are_told_apart() {
    let index: Index = Index::new(Config::default());
    let of_rank = |rank: u32, id: u64, hash: u64| {
        stored(id, "null", &[(hash, &[1, 2])], 4096)
            .replace("\"window_size\"", &format!("\"attention_dp_rank\": {rank}, \"window_size\""))
    };
    let events = body(&[of_rank(0, 0, 11), of_rank(1, 0, 22), of_rank(1, 1, 33), of_rank(0, 1, 44)]);
    for rank in 0..2 {
        let pod = index.join(&format!("rank-{rank}")).expect("room");
        let mut config = config(EngineFeedConfig::engine_hashes(size(2)));
        config.rank = Some(rank);
        let feed = EngineFeed::new(&index, pod, config).expect("live");
        let received = feed.receive_json(&events, size(2)).expect("well-formed");
        assert!(
            received.iter().all(|one| matches!(one.outcome, BatchOutcome::Applied(_) | BatchOutcome::Foreign)),
            "{received:?}"
        );
        assert_eq!(index.pod_stats(pod).expect("live").blocks, 2);
        assert_eq!(feed.drop_counts().of(DropReason::OtherRank).events, 2);
    }
}

#[test]
fn another_block_size_is_an_error_that_names_both_and_the_pod() {
    let index: Index = Index::new(Config::default());
    let pod = index.join("trt-0").expect("room");
    let feed = EngineFeed::new(&index, pod, config(EngineFeedConfig::engine_hashes(size(2)))).expect("live");
    let events = body(&[stored(0, "null", &[(11, &[1, 2, 3, 4])], 4096)]);
    let error = feed.receive_json(&events, size(2)).expect_err("4 is not 2");
    assert_eq!(error, ReceiveError::BlockSize { pod: "trt-0".into(), engine: 4, index: 2 });
    let error = feed.receive_json(&events, size(4)).expect_err("4 is not 2");
    assert_eq!(error, ReceiveError::BlockSize { pod: "trt-0".into(), engine: 4, index: 2 });
}
