//! Edge cases: other ranks, layers and tiers.

use super::*;

/// other rank's batch wipes this rank's state
#[test]
fn another_ranks_batch_changes_nothing() {
    setup(|index, pod| {
        let mut c = EngineFeedConfig::engine_hashes(size(2));
        c.rank = Some(0);
        let feed: Feed<'_> = EngineFeed::new(index, pod, c).unwrap();
        let of = |rank, time, h| {
            let mut b = batch(time, vec![stored(&[h], None, &[1, 2], 2)]);
            b.rank = Some(rank);
            b
        };
        feed.receive_batch(0, &of(0, 1.0, 10)).unwrap();
        let r = feed.receive_batch(0, &of(1, 1.5, 20)).unwrap();
        assert_eq!(blocks(index, pod), 1, "{r:?}");
    });
}

/// a malformed event of another rank passes for a restart of this one
#[test]
fn a_malformed_event_of_another_rank_changes_nothing() {
    setup(|index, pod| {
        let mut c = EngineFeedConfig::engine_hashes(size(1));
        c.rank = Some(1);
        c.semantics = EventSemantics::Membership;
        let feed: Feed<'_> = EngineFeed::new(index, pod, c).unwrap();
        let s = |id: u64, rank: u32, h: u64| {
            format!(
                r#"{{"event_id": {id}, "attention_dp_rank": {rank}, "window_size": 64, "data": {{"type": "stored", "parent_hash": null, "blocks": [{{"block_hash": {h}, "tokens": [{{"token_id": 1}}]}}]}}}}"#
            )
        };
        let body = format!("[{},{},{}]", s(0, 1, 11), s(1, 1, 12), s(2, 1, 13));
        feed.receive_json(body.as_bytes(), size(1)).unwrap();
        assert_eq!(blocks(index, pod), 3);
        let bad = r#"{"event_id": 1, "attention_dp_rank": 0, "window_size": 64, "data": {"type": "removed", "block_hashes": ["x"]}}"#;
        let r = feed.receive_json(format!("[{bad}]").as_bytes(), size(1)).unwrap();
        assert_eq!(blocks(index, pod), 3, "{r:?}");
    });
}

/// a partial chunk of another layer condemns the engine's own group
#[test]
fn another_layers_partial_chunk_condemns_no_group() {
    setup(|index, pod| {
        let feed: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::tokens(model(), size(2))).unwrap();
        feed.receive_batch(0, &batch(1.0, vec![stored(&[1], None, &[1, 2], 2)])).unwrap();
        let mut chunk = st(&[900], None, &[1, 2, 3], 256);
        chunk.medium = Some("cpu".into());
        feed.receive_batch(1, &batch(2.0, vec![EngineEvent::Stored(chunk)])).unwrap();
        feed.receive_batch(2, &batch(3.0, vec![stored(&[2], Some(1), &[3, 4], 2)])).unwrap();
        assert_eq!(blocks(index, pod), 2, "{}", feed.drop_counts());
    });
}

/// the first event is another layer's: the engine's own group is then "a second one"
#[test]
fn another_layers_chunk_claims_no_group() {
    setup(|index, pod| {
        let feed: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::tokens(model(), size(2))).unwrap();
        let mut chunk = st(&[900], None, &[0; 256], 256);
        chunk.medium = Some("cpu".into());
        feed.receive_batch(0, &batch(1.0, vec![EngineEvent::Stored(chunk)])).unwrap();
        let mut own = st(&[1], None, &[1, 2], 2);
        own.medium = Some("GPU".into());
        own.group = Some(0);
        own.kind = Some("full_attention".into());
        feed.receive_batch(1, &batch(2.0, vec![EngineEvent::Stored(own)])).unwrap();
        assert_eq!(blocks(index, pod), 1, "{}", feed.drop_counts());
    });
}

/// moved within one tier: lost
#[test]
fn a_move_within_a_tier_changes_nothing() {
    for tokens in [true, false] {
        setup(|index, pod| {
            let mut c = if tokens {
                EngineFeedConfig::tokens(model(), size(2))
            } else {
                EngineFeedConfig::engine_hashes(size(2))
            };
            c.semantics = EventSemantics::Membership;
            let feed: Feed<'_> = EngineFeed::new(index, pod, c).unwrap();
            let mut s = st(&[1], None, &[1, 2], 2);
            s.medium = Some("DISK".into());
            s.window = Some(64);
            feed.receive_batch(0, &batch(1.0, vec![EngineEvent::Stored(s)])).unwrap();
            assert_eq!(blocks(index, pod), 1);
            let m =
                EngineMoved { hash: EngineHash::new(1), from: "DISK".into(), to: "STORAGE".into(), window: Some(64) };
            feed.receive_batch(1, &batch(2.0, vec![EngineEvent::Moved(m)])).unwrap();
            assert_eq!(blocks(index, pod), 1, "tokens {tokens}");
        });
    }
}

/// index core: a run's last hash is wrong after a block whose parent was contradicted and learned anew leaves
#[test]
fn a_block_that_was_contradicted_never_stands_for_another() {
    setup(|index, pod| {
        let feed: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::engine_hashes(size(1))).unwrap();
        let (x, y, z, q, w) = (1, 2, 3, 40, 50);
        feed.receive_batch(0, &batch(0.0, vec![stored(&[x, y, z], None, &[1, 2, 3], 1)])).unwrap();
        feed.receive_batch(1, &batch(1.0, vec![stored(&[z], Some(q), &[3], 1)])).unwrap();
        feed.receive_batch(2, &batch(2.0, vec![stored(&[z], Some(w), &[3], 1)])).unwrap();
        feed.receive_batch(3, &batch(3.0, vec![removed(&[z, z, z])])).unwrap();
        assert_eq!(blocks(index, pod), 2);
        let chain: Vec<_> = [x, w].into_iter().map(BlockHash::new).collect();
        assert_eq!(depth(index, pod, &chain), 1, "the pod holds x and y, and never held w");
    });
}
