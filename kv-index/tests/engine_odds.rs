//! Streams that are odd in one way each: other layers and ranks, clocks that lie, names that clash.
#![cfg(all(feature = "vllm", feature = "sglang", feature = "trtllm"))]
#![allow(clippy::unwrap_used, reason = "what does not go well fails the test")]

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

/// the map is not freed with its blocks: a revived page that nothing follows stays for ever, past most_pages
#[test]
fn a_page_that_was_brought_back_for_nothing_is_forgotten_again() {
    setup(|index, pod| {
        let mut config = EngineFeedConfig::tokens(model(), size(4));
        config.accumulate = true;
        config.most_pages = 4;
        let feed: Feed<'_> = EngineFeed::new(index, pod, config).unwrap();
        let mut seq = 0;
        for n in 0..100u64 {
            let a = 1000 + n;
            // page a comes and leaves; what is announced under it has no tokens and is dropped
            for events in [
                vec![stored(&[a], None, &[1, n as u32], 2)],
                vec![removed(&[a])],
                vec![stored(&[5000 + n], Some(a), &[], 2)],
            ] {
                feed.batch(seq, &batch(seq as f64, events)).unwrap();
                seq += 1;
            }
        }
        assert_eq!(blocks(index, pod), 0);
        assert_eq!(feed.names().0, 0, "nothing is held, most_pages is 4; {}", feed.drops());
    });
}

/// deep recursion
#[test]
fn pages_that_left_in_odd_orders_come_back_without_end() {
    setup(|index, pod| {
        let mut config = EngineFeedConfig::tokens(model(), size(8));
        config.accumulate = true;
        let feed: Feed<'_> = EngineFeed::new(index, pod, config).unwrap();
        let mut seq = 0;
        let n = 4000u64;
        for i in (1..=n).rev() {
            feed.batch(
                seq,
                &batch(seq as f64, vec![stored(&[i - 1, i], None, &[1, 2, 3, 4], 2), removed(&[i]), removed(&[i - 1])]),
            )
            .unwrap();
            seq += 1;
        }
        assert_eq!(feed.names().0, 0);
        feed.batch(seq, &batch(seq as f64, vec![stored(&[99_999], Some(n), &[1, 2], 2)])).unwrap();
    });
}

/// a restarted engine with another (fitting) page size is refused for ever, and the old engine's blocks stay
#[test]
fn a_restart_with_another_page_size_is_a_restart() {
    setup(|index, pod| {
        let mut config = EngineFeedConfig::tokens(model(), size(4));
        config.accumulate = true;
        let feed: Feed<'_> = EngineFeed::new(index, pod, config).unwrap();
        feed.batch(0, &batch(1.0, vec![stored(&[1, 2], None, &[1, 2, 3, 4], 2)])).unwrap();
        assert_eq!(blocks(index, pod), 1);
        let r = feed.batch(0, &batch(9.0, vec![stored(&[7], None, &[1, 2, 3, 4], 4)]));
        assert!(
            matches!(r, Ok(Received { verdict: Verdict::Restarted(_), .. })),
            "{r:?}, {} blocks",
            blocks(index, pod)
        );
    });
}

/// page size learnt from another layer's chunk
#[test]
fn the_page_size_is_learned_from_the_engine_itself() {
    setup(|index, pod| {
        let mut config = EngineFeedConfig::tokens(model(), size(4));
        config.accumulate = true;
        let feed: Feed<'_> = EngineFeed::new(index, pod, config).unwrap();
        let mut chunk = st(&[900], None, &[1, 2, 3, 4], 4);
        chunk.medium = Some("cpu".into());
        feed.batch(0, &batch(1.0, vec![EngineEvent::Stored(chunk)])).unwrap();
        let r = feed.batch(1, &batch(2.0, vec![stored(&[1, 2], None, &[1, 2, 3, 4], 2)]));
        assert!(r.is_ok(), "{r:?}");
    });
}

/// making a feed for stream 0 anew loses stream 1's blocks, and stream 1 is not told to begin anew
#[test]
fn a_feed_made_anew_makes_other_streams_begin_anew() {
    setup(|index, pod| {
        let one: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::engine_hashes(size(2))).unwrap();
        let mut c = EngineFeedConfig::engine_hashes(size(2));
        c.stream = StreamId(1);
        let two: Feed<'_> = EngineFeed::new(index, pod, c).unwrap();
        one.batch(0, &batch(1.0, vec![stored(&[1], None, &[1, 2], 2)])).unwrap();
        two.batch(0, &batch(1.0, vec![stored(&[5], None, &[1, 3], 2)])).unwrap();
        let _again: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::engine_hashes(size(2))).unwrap();
        let r = two.batch(1, &batch(2.0, vec![stored(&[6], Some(5), &[1, 4], 2)])).unwrap();
        assert!(
            matches!(r.verdict, Verdict::Gap { from: 0, .. }),
            "{r:?}: block 5 is held by the engine; blocks {}",
            blocks(index, pod)
        );
    });
}

/// the same when a replayed batch is damaged
#[test]
fn a_batch_that_cannot_be_had_makes_other_streams_begin_anew() {
    setup(|index, pod| {
        let one: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::engine_hashes(size(2))).unwrap();
        let mut c = EngineFeedConfig::engine_hashes(size(2));
        c.stream = StreamId(1);
        let two: Feed<'_> = EngineFeed::new(index, pod, c).unwrap();
        one.batch(0, &batch(1.0, vec![stored(&[1], None, &[1, 2], 2)])).unwrap();
        two.batch(0, &batch(1.0, vec![stored(&[5], None, &[1, 3], 2)])).unwrap();
        one.connected();
        let reply =
            ReplayReply::Batch(Message { topic: b"", sequence: 1, payload: &[0xc1] }).to_frames(ReplayForm::WithTopic);
        assert!(one.replayed(&reply).is_err());
        let r = two.batch(1, &batch(2.0, vec![stored(&[6], Some(5), &[1, 4], 2)])).unwrap();
        assert!(matches!(r.verdict, Verdict::Gap { from: 0, .. }), "{r:?}");
    });
}

/// AllBlocksCleared of one stream
#[test]
fn a_clear_makes_other_streams_begin_anew() {
    setup(|index, pod| {
        let one: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::engine_hashes(size(2))).unwrap();
        let mut c = EngineFeedConfig::engine_hashes(size(2));
        c.stream = StreamId(1);
        let two: Feed<'_> = EngineFeed::new(index, pod, c).unwrap();
        two.batch(0, &batch(1.0, vec![stored(&[5], None, &[1, 3], 2)])).unwrap();
        one.batch(0, &batch(1.0, vec![EngineEvent::Cleared])).unwrap();
        let r = two.batch(1, &batch(2.0, vec![stored(&[6], Some(5), &[1, 4], 2)])).unwrap();
        assert!(matches!(r.verdict, Verdict::Gap { from: 0, .. }), "{r:?}");
    });
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
    feed.live(&[b"".to_vec(), seq.to_be_bytes().to_vec(), payload(time, hash)]).unwrap()
}
fn reply(feed: &Feed<'_>, seq: u64, time: f64, hash: u64) -> Received {
    match feed.replayed(&[b"".to_vec(), b"".to_vec(), seq.to_be_bytes().to_vec(), payload(time, hash)]).unwrap() {
        Replayed::Batch(b) => b,
        other => panic!("{other:?}"),
    }
}
fn end(feed: &Feed<'_>) -> Option<u64> {
    match feed.replayed(&[b"".to_vec(), b"".to_vec(), vec![0xff; 8], vec![]]).unwrap() {
        Replayed::End { ask } => ask,
        other => panic!("{other:?}"),
    }
}

/// a restart on a clock that is behind is noticed, and then everything of the new engine is stale until the clock catches up
#[test]
fn a_restart_seen_in_a_replay_under_a_clock_that_is_behind_is_followed() {
    setup(|index, pod| {
        let feed: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::engine_hashes(size(2))).unwrap();
        for n in 0..6 {
            live(&feed, n, 1000.0 + n as f64, 10 + n);
        }
        // new process, clock 900 s behind, published 0..=7 while we were away
        let mut ask = Some(feed.connected());
        let mut rounds = 0;
        while let Some(from) = ask {
            for n in from..8 {
                reply(&feed, n, 100.0 + n as f64, 50 + n);
            }
            ask = end(&feed);
            rounds += 1;
            assert!(rounds < 10);
        }
        let mut last = None;
        for n in 8..20 {
            last = Some(live(&feed, n, 100.0 + n as f64, 50 + n));
            if let Some(from) = last.as_ref().unwrap().ask {
                for m in from..=n {
                    reply(&feed, m, 100.0 + m as f64, 50 + m);
                }
                end(&feed);
            }
        }
        assert_eq!(blocks(index, pod), 20, "{last:?}");
    });
}

/// clock steps back in one life, then a duplicate from before: a false restart
#[test]
fn a_clock_that_steps_back_is_no_restart() {
    setup(|index, pod| {
        let mut c = EngineFeedConfig::engine_hashes(size(2));
        c.replay = false;
        let feed: Feed<'_> = EngineFeed::new(index, pod, c).unwrap();
        for n in 0..6 {
            live(&feed, n, 1000.0 + n as f64, 10 + n);
        }
        live(&feed, 6, 990.0, 16);
        let r = live(&feed, 3, 1003.0, 13); // the other transport is a little late
        assert_eq!(r.verdict, Verdict::Duplicate);
        assert_eq!(blocks(index, pod), 7);
    });
}

/// after a skipped batch, a restart is not noticed and new life's batches pass for duplicates
#[test]
fn a_restart_after_a_batch_that_could_not_be_had_is_noticed() {
    setup(|index, pod| {
        let feed: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::engine_hashes(size(2))).unwrap();
        for n in 0..3 {
            live(&feed, n, n as f64, 10 + n);
        }
        feed.connected();
        let bad =
            ReplayReply::Batch(Message { topic: b"", sequence: 3, payload: &[0xc1] }).to_frames(ReplayForm::WithTopic);
        assert!(feed.replayed(&bad).is_err());
        end(&feed);
        // engine restarts
        let mut verdicts = Vec::new();
        for n in 0..6 {
            verdicts.push(live(&feed, n, 100.0 + n as f64, 50 + n).verdict);
        }
        assert_eq!(blocks(index, pod), 6, "{verdicts:?}");
    });
}

/// replies of the dead engine, still in the replay socket, are taken for the new one's
#[test]
fn replies_of_the_dead_engine_are_stale() {
    setup(|index, pod| {
        let feed: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::engine_hashes(size(2))).unwrap();
        for n in 0..10 {
            live(&feed, n, n as f64, 10 + n);
        }
        assert_eq!(live(&feed, 12, 12.0, 22).ask, Some(9)); // 10 and 11 were lost
        // the engine answers, dies and restarts; the live socket is read first
        assert!(matches!(live(&feed, 0, 100.0, 50).verdict, Verdict::Restarted(_)));
        assert_eq!(reply(&feed, 9, 9.0, 19).verdict, Verdict::Stale);
        let v = reply(&feed, 10, 10.0, 20).verdict;
        assert_eq!(
            v,
            Verdict::Stale,
            "an old engine's batch; depth of its block {}",
            depth(index, pod, &[BlockHash::new(20)])
        );
    });
}

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
        feed.batch(0, &of(0, 1.0, 10)).unwrap();
        let r = feed.batch(0, &of(1, 1.5, 20)).unwrap();
        assert_eq!(blocks(index, pod), 1, "{r:?}");
    });
}

/// a malformed event of another rank passes for a restart of this one
#[test]
fn a_malformed_event_of_another_rank_changes_nothing() {
    setup(|index, pod| {
        let mut c = EngineFeedConfig::engine_hashes(size(1));
        c.rank = Some(1);
        c.source = Source::Membership;
        let feed: Feed<'_> = EngineFeed::new(index, pod, c).unwrap();
        let s = |id: u64, rank: u32, h: u64| {
            format!(
                r#"{{"event_id": {id}, "attention_dp_rank": {rank}, "window_size": 64, "data": {{"type": "stored", "parent_hash": null, "blocks": [{{"block_hash": {h}, "tokens": [{{"token_id": 1}}]}}]}}}}"#
            )
        };
        let body = format!("[{},{},{}]", s(0, 1, 11), s(1, 1, 12), s(2, 1, 13));
        feed.pulled(body.as_bytes(), size(1)).unwrap();
        assert_eq!(blocks(index, pod), 3);
        let bad = r#"{"event_id": 1, "attention_dp_rank": 0, "window_size": 64, "data": {"type": "removed", "block_hashes": ["x"]}}"#;
        let r = feed.pulled(format!("[{bad}]").as_bytes(), size(1)).unwrap();
        assert_eq!(blocks(index, pod), 3, "{r:?}");
    });
}

/// a partial chunk of another layer condemns the engine's own group
#[test]
fn another_layers_partial_chunk_condemns_no_group() {
    setup(|index, pod| {
        let feed: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::tokens(model(), size(2))).unwrap();
        feed.batch(0, &batch(1.0, vec![stored(&[1], None, &[1, 2], 2)])).unwrap();
        let mut chunk = st(&[900], None, &[1, 2, 3], 256);
        chunk.medium = Some("cpu".into());
        feed.batch(1, &batch(2.0, vec![EngineEvent::Stored(chunk)])).unwrap();
        feed.batch(2, &batch(3.0, vec![stored(&[2], Some(1), &[3, 4], 2)])).unwrap();
        assert_eq!(blocks(index, pod), 2, "{}", feed.drops());
    });
}

/// the first event is another layer's: the engine's own group is then "a second one"
#[test]
fn another_layers_chunk_claims_no_group() {
    setup(|index, pod| {
        let feed: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::tokens(model(), size(2))).unwrap();
        let mut chunk = st(&[900], None, &[0; 256], 256);
        chunk.medium = Some("cpu".into());
        feed.batch(0, &batch(1.0, vec![EngineEvent::Stored(chunk)])).unwrap();
        let mut own = st(&[1], None, &[1, 2], 2);
        own.medium = Some("GPU".into());
        own.group = Some(0);
        own.kind = Some("full_attention".into());
        feed.batch(1, &batch(2.0, vec![EngineEvent::Stored(own)])).unwrap();
        assert_eq!(blocks(index, pod), 1, "{}", feed.drops());
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
            c.source = Source::Membership;
            let feed: Feed<'_> = EngineFeed::new(index, pod, c).unwrap();
            let mut s = st(&[1], None, &[1, 2], 2);
            s.medium = Some("DISK".into());
            s.window = Some(64);
            feed.batch(0, &batch(1.0, vec![EngineEvent::Stored(s)])).unwrap();
            assert_eq!(blocks(index, pod), 1);
            let m =
                EngineMoved { hash: EngineHash::new(1), from: "DISK".into(), to: "STORAGE".into(), window: Some(64) };
            feed.batch(1, &batch(2.0, vec![EngineEvent::Moved(m)])).unwrap();
            assert_eq!(blocks(index, pod), 1, "tokens {tokens}");
        });
    }
}

/// salt equal to adapter's name
#[test]
fn a_salt_may_read_like_the_adapters_name() {
    setup(|index, pod| {
        let feed: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::tokens(model(), size(2))).unwrap();
        let mut s = st(&[1], None, &[1, 2], 2);
        s.lora_name = Some("sql".into());
        s.extra_keys = vec![vec![ExtraKey::Text("sql".into()), ExtraKey::Text("sql".into())]];
        feed.batch(0, &batch(1.0, vec![EngineEvent::Stored(s)])).unwrap();
        let chain = |salt| ChainHasher::new(native_seed(model(), Some("sql"), salt), size(2)).hash(&[1, 2]);
        assert_eq!((depth(index, pod, &chain(Some("sql"))), depth(index, pod, &chain(None))), (1, 0));
    });
}

/// false disagreement: SGLang dynamo with an extra_key and no adapter
#[test]
fn a_key_that_events_do_not_carry_is_no_disagreement() {
    setup(|index, pod| {
        let dialect =
            Dialect::sglang(SglangHashing::new("0.5.23".parse().unwrap()).format(SglangFormat::Dynamo)).unwrap();
        let tokens = [1u32, 2, 3, 4];
        let hashes =
            DialectHasher::new(dialect.clone(), size(2)).hash(&Prompt::new(&tokens).extra_key("tenant-a")).unwrap();
        let mut c = EngineFeedConfig::tokens(model(), size(2));
        c.verify = Some(Verify::every(dialect, 1));
        let feed: Feed<'_> = EngineFeed::new(index, pod, c).unwrap();
        let r =
            feed.batch(0, &batch(1.0, vec![stored(&[hashes[0].get(), hashes[1].get()], None, &tokens, 2)])).unwrap();
        assert_eq!(r.disagreement.map(|d| d.to_string()), None);
    });
}

/// false disagreement: TensorRT-LLM serving an adapter; its events never say so
#[test]
fn an_adapter_that_events_do_not_carry_is_no_disagreement() {
    setup(|index, pod| {
        let dialect = Dialect::trtllm(TrtllmHashing::new(TrtllmForm::V1BlockKey)).unwrap();
        let hasher = DialectHasher::new(dialect.clone(), size(2));
        let with = hasher.hash(&Prompt::new(&[1u32, 2]).adapter(Adapter::named("sql").id(7))).unwrap();
        let plain = hasher.hash(&Prompt::new(&[1u32, 2])).unwrap();
        let mut c = EngineFeedConfig::tokens(model(), size(2));
        c.verify = Some(Verify::every(dialect, 1));
        c.source = Source::Membership;
        let feed: Feed<'_> = EngineFeed::new(index, pod, c).unwrap();
        let s = |id: u64, h: u64| {
            format!(
                r#"[{{"event_id": {id}, "window_size": 64, "data": {{"type": "stored", "parent_hash": null, "blocks": [{{"block_hash": {h}, "tokens": [{{"token_id": 1}}, {{"token_id": 2}}]}}]}}}}]"#
            )
        };
        feed.pulled(s(0, plain[0].get()).as_bytes(), size(2)).unwrap();
        let r = feed.pulled(s(1, with[0].get()).as_bytes(), size(2)).unwrap();
        assert_eq!(feed.agreement().unwrap().disagree, 0, "{:?}", r[0].disagreement.as_ref().map(|d| d.to_string()));
    });
}

/// "A feed starts from nothing: what the pod held before is forgotten"
#[test]
fn a_feed_starts_from_nothing() {
    setup(|index, pod| {
        let old = [BlockHash::new(5)];
        index.apply(pod, Source::Membership, &Event::Stored(Stored::prompt(&old))).unwrap();
        let _feed: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::engine_hashes(size(2))).unwrap();
        assert_eq!(blocks(index, pod), 0);
    });
}

/// a lost replay is never asked for again, and the state goes stale
#[test]
fn a_replay_that_never_comes_is_asked_for_again() {
    setup(|index, pod| {
        let feed: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::engine_hashes(size(2))).unwrap();
        live(&feed, 0, 0.0, 10);
        assert_eq!(live(&feed, 2, 2.0, 12).ask, Some(0));
        // nobody answers (vLLM has no replay socket unless it is set up)
        let asked = (3..1000).filter(|n| live(&feed, *n, *n as f64, 10 + n).ask.is_some()).count();
        assert!(asked > 0, "{:?}; blocks {}", live(&feed, 1000, 1000.0, 1010).verdict, blocks(index, pod));
    });
}

/// infinite time
#[test]
fn a_time_without_end_is_no_time() {
    setup(|index, pod| {
        let mut c = EngineFeedConfig::engine_hashes(size(2));
        c.replay = false;
        let feed: Feed<'_> = EngineFeed::new(index, pod, c).unwrap();
        live(&feed, 0, f64::INFINITY, 10);
        live(&feed, 0, 5.0, 11);
        let v: Vec<_> = (1..5).map(|n| live(&feed, n, 5.0 + n as f64, 11 + n).verdict).collect();
        assert!(matches!(v[3], Verdict::Applied(_)), "{v:?}");
    });
}

/// index core: a run's last hash is wrong after a block whose parent was contradicted and learned anew leaves
#[test]
fn a_block_that_was_contradicted_never_stands_for_another() {
    setup(|index, pod| {
        let feed: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::engine_hashes(size(1))).unwrap();
        let (x, y, z, q, w) = (1, 2, 3, 40, 50);
        feed.batch(0, &batch(0.0, vec![stored(&[x, y, z], None, &[1, 2, 3], 1)])).unwrap();
        feed.batch(1, &batch(1.0, vec![stored(&[z], Some(q), &[3], 1)])).unwrap();
        feed.batch(2, &batch(2.0, vec![stored(&[z], Some(w), &[3], 1)])).unwrap();
        feed.batch(3, &batch(3.0, vec![removed(&[z, z, z])])).unwrap();
        assert_eq!(blocks(index, pod), 2);
        let chain: Vec<_> = [x, w].into_iter().map(BlockHash::new).collect();
        assert_eq!(depth(index, pod, &chain), 1, "the pod holds x and y, and never held w");
    });
}

/// SGLang 0.5.22, default format: two adapters announce the same hashes. The second is left out, and that is said.
#[test]
fn one_name_for_two_adapters_is_noticed() {
    for accumulate in [false, true] {
        setup(|index, pod| {
            let mut config = EngineFeedConfig::tokens(model(), size(2));
            config.accumulate = accumulate;
            let feed: Feed<'_> = EngineFeed::new(index, pod, config).unwrap();
            let pages: (&[u64], u32) = if accumulate { (&[1, 2], 1) } else { (&[1], 2) };
            let of = |name: &'static str| {
                let mut s = st(pages.0, None, &[1, 2], pages.1);
                s.lora_name = Some(name.into());
                EngineEvent::Stored(s)
            };
            feed.batch(0, &batch(1.0, vec![of("a")])).unwrap();
            feed.batch(1, &batch(2.0, vec![of("b")])).unwrap();
            let chain = |name| ChainHasher::new(native_seed(model(), Some(name), None), size(2)).hash(&[1, 2]);
            assert_eq!((depth(index, pod, &chain("a")), depth(index, pod, &chain("b"))), (1, 0));
            assert_eq!(feed.drops().of(DropReason::NameClash).events, 1, "{}", feed.drops());
        });
    }
}

/// An image that spans the pages of a block is one key of the block, placed from the block's start.
#[test]
fn media_match_where_pages_accumulate() {
    setup(|index, pod| {
        let mut config = EngineFeedConfig::tokens(model(), size(4));
        config.accumulate = true;
        let feed: Feed<'_> = EngineFeed::new(index, pod, config).unwrap();
        let item = |offset| vec![ExtraKey::Media { identifier: "8f3a".into(), offset }];
        let mut s = st(&[1, 2, 3, 4], None, &[7, 99, 99, 99, 99, 5, 6, 7], 2);
        s.extra_keys = vec![item(1), item(-1), item(-3), vec![]];
        feed.batch(0, &batch(1.0, vec![EngineEvent::Stored(s)])).unwrap();
        let image = [Media { identifier: "8f3a", offset: 1, length: 4 }];
        let tokens = [7, 99, 99, 99, 99, 5, 6, 7];
        let chain = native_chain(&ChainHasher::new(model(), size(4)), &Prompt::new(&tokens).media(&image));
        assert_eq!(depth(index, pod, &chain), 2);
    });
}

/// The replay socket is known to be gone: the stream goes on without what is missing.
#[test]
fn a_replay_that_failed_is_not_waited_for() {
    setup(|index, pod| {
        let feed: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::engine_hashes(size(2))).unwrap();
        live(&feed, 0, 0.0, 10);
        assert_eq!(live(&feed, 2, 2.0, 12).ask, Some(0));
        feed.replay_failed();
        assert!(matches!(live(&feed, 3, 3.0, 13).verdict, Verdict::GapGivenUp(_)));
        assert_eq!(blocks(index, pod), 1);
    });
}

/// Before 0.11.2 a number stands for the adapter, in the keys too.
#[test]
fn an_adapter_known_by_number_is_called_by_it() {
    setup(|index, pod| {
        let feed: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::tokens(model(), size(2))).unwrap();
        let mut s = st(&[1], None, &[1, 2], 2);
        s.lora_id = Some(7);
        s.extra_keys = vec![vec![ExtraKey::Number(7)]];
        feed.batch(0, &batch(1.0, vec![EngineEvent::Stored(s)])).unwrap();
        assert_eq!(
            depth(index, pod, &ChainHasher::new(native_seed(model(), Some("7"), None), size(2)).hash(&[1, 2])),
            1
        );
    });
}
