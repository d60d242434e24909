//! Copies: evictions that say how many copies are left are believed, whatever was counted.

use kv_index::engine::{
    EngineBatch, EngineEvent, EngineFeed, EngineFeedConfig, EngineHash, EngineRemoved, EngineStored, TokenIds,
};
use kv_index::{BlockSize, ChainSeed, Config, EventSemantics, Index};

fn stored() -> EngineEvent<'static> {
    let tokens = TokenIds::Plain((0..4).collect());
    EngineEvent::Stored(EngineStored {
        hashes: vec![EngineHash::new(7)],
        tokens,
        block_size: 4,
        ..EngineStored::default()
    })
}

fn removed(remaining: &[u32]) -> EngineEvent<'static> {
    let hashes = vec![EngineHash::new(7)];
    EngineEvent::Removed(EngineRemoved { hashes, remaining: remaining.to_vec(), ..EngineRemoved::default() })
}

fn by(usual: &EngineFeedConfig, semantics: EventSemantics) -> EngineFeedConfig {
    let mut config = usual.clone();
    config.semantics = semantics;
    config
}

/// Blocks held after each event.
fn held(config: &EngineFeedConfig, events: &[EngineEvent<'static>]) -> Vec<usize> {
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").expect("room");
    let feed = EngineFeed::new(&index, pod, config.clone()).expect("live");
    let step = |(at, event): (usize, &EngineEvent<'static>)| {
        let mut batch = EngineBatch::default();
        (batch.timestamp, batch.events) = (at as f64, vec![event.clone()]);
        feed.receive_batch(at as u64, &batch).expect("live");
        index.pod_stats(pod).expect("live").blocks
    };
    events.iter().enumerate().map(step).collect()
}

#[test]
fn the_engines_own_count_is_believed() {
    let size = BlockSize::new(4).expect("not zero");
    let configs = [EngineFeedConfig::tokens(ChainSeed::new("m"), size), EngineFeedConfig::engine_hashes(size)];
    for usual in configs {
        for semantics in [EventSemantics::Copies, EventSemantics::Membership] {
            let config = by(&usual, semantics);
            // Announced twice without a second copy, as a client may have it (`kv_cache_report_mode`): the first eviction is the last.
            assert_eq!(held(&config, &[stored(), stored(), removed(&[0])]), [1, 1, 0], "{config:?}");
            // A copy that was never announced, or by another stream: the first eviction is not the last.
            assert_eq!(held(&config, &[stored(), removed(&[1]), removed(&[0])]), [1, 1, 0], "{config:?}");
            // Counts that do not fit the hashes say nothing.
            assert_eq!(held(&config, &[stored(), removed(&[1, 2])]), [1, 0], "{config:?}");
        }
        // Without counts the two rules differ in what one eviction of two copies means.
        let twice = [stored(), stored(), removed(&[]), removed(&[])];
        assert_eq!(held(&by(&usual, EventSemantics::Copies), &twice), [1, 1, 1, 0]);
        assert_eq!(held(&by(&usual, EventSemantics::Membership), &twice), [1, 1, 0, 0]);
    }
}
