//! Edge cases: adapters, salts, extra keys and media.

use super::*;

/// salt equal to adapter's name
#[test]
fn a_salt_may_read_like_the_adapters_name() {
    setup(|index, pod| {
        let feed: Feed<'_> = EngineFeed::new(index, pod, EngineFeedConfig::tokens(model(), size(2))).unwrap();
        let mut s = st(&[1], None, &[1, 2], 2);
        s.lora_name = Some("sql".into());
        s.extra_keys = vec![vec![ExtraKey::Text("sql".into()), ExtraKey::Text("sql".into())]];
        feed.receive_batch(0, &batch(1.0, vec![EngineEvent::Stored(s)])).unwrap();
        let chain = |salt| ChainHasher::new(native_seed(model(), Some("sql"), salt), size(2)).hash(&[1, 2]);
        assert_eq!((depth(index, pod, &chain(Some("sql"))), depth(index, pod, &chain(None))), (1, 0));
    });
}

/// false disstats: SGLang dynamo with an extra_key and no adapter
#[test]
fn a_key_that_events_do_not_carry_is_no_disstats() {
    setup(|index, pod| {
        let dialect =
            Dialect::sglang(SglangHashing::new("0.5.23".parse().unwrap()).format(SglangFormat::Dynamo)).unwrap();
        let tokens = [1u32, 2, 3, 4];
        let hashes =
            DialectHasher::new(dialect.clone(), size(2)).hash(&Prompt::new(&tokens).extra_key("tenant-a")).unwrap();
        let mut c = EngineFeedConfig::tokens(model(), size(2));
        c.verify = Some(VerifyConfig::every(dialect, 1));
        let feed: Feed<'_> = EngineFeed::new(index, pod, c).unwrap();
        let r = feed
            .receive_batch(0, &batch(1.0, vec![stored(&[hashes[0].get(), hashes[1].get()], None, &tokens, 2)]))
            .unwrap();
        assert_eq!(r.mismatch.map(|d| d.to_string()), None);
    });
}

/// false disstats: TensorRT-LLM serving an adapter; its events never say so
#[test]
fn an_adapter_that_events_do_not_carry_is_no_disstats() {
    setup(|index, pod| {
        let dialect = Dialect::trtllm(TrtllmHashing::new(TrtllmForm::V1BlockKey)).unwrap();
        let hasher = DialectHasher::new(dialect.clone(), size(2));
        let with = hasher.hash(&Prompt::new(&[1u32, 2]).adapter(Adapter::named("sql").id(7))).unwrap();
        let plain = hasher.hash(&Prompt::new(&[1u32, 2])).unwrap();
        let mut c = EngineFeedConfig::tokens(model(), size(2));
        c.verify = Some(VerifyConfig::every(dialect, 1));
        c.semantics = EventSemantics::Membership;
        let feed: Feed<'_> = EngineFeed::new(index, pod, c).unwrap();
        let s = |id: u64, h: u64| {
            format!(
                r#"[{{"event_id": {id}, "window_size": 64, "data": {{"type": "stored", "parent_hash": null, "blocks": [{{"block_hash": {h}, "tokens": [{{"token_id": 1}}, {{"token_id": 2}}]}}]}}}}]"#
            )
        };
        feed.receive_json(s(0, plain[0].get()).as_bytes(), size(2)).unwrap();
        let r = feed.receive_json(s(1, with[0].get()).as_bytes(), size(2)).unwrap();
        assert_eq!(feed.verify_stats().unwrap().mismatched, 0, "{:?}", r[0].mismatch.as_ref().map(|d| d.to_string()));
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
            feed.receive_batch(0, &batch(1.0, vec![of("a")])).unwrap();
            feed.receive_batch(1, &batch(2.0, vec![of("b")])).unwrap();
            let chain = |name| ChainHasher::new(native_seed(model(), Some(name), None), size(2)).hash(&[1, 2]);
            assert_eq!((depth(index, pod, &chain("a")), depth(index, pod, &chain("b"))), (1, 0));
            assert_eq!(feed.drop_counts().of(DropReason::NameClash).events, 1, "{}", feed.drop_counts());
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
        feed.receive_batch(0, &batch(1.0, vec![EngineEvent::Stored(s)])).unwrap();
        let image = [Media { identifier: "8f3a", offset: 1, length: 4 }];
        let tokens = [7, 99, 99, 99, 99, 5, 6, 7];
        let chain = native_chain(&ChainHasher::new(model(), size(4)), &Prompt::new(&tokens).media(&image));
        assert_eq!(depth(index, pod, &chain), 2);
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
        feed.receive_batch(0, &batch(1.0, vec![EngineEvent::Stored(s)])).unwrap();
        assert_eq!(
            depth(index, pod, &ChainHasher::new(native_seed(model(), Some("7"), None), size(2)).hash(&[1, 2])),
            1
        );
    });
}
