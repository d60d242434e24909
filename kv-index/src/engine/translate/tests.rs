//! Normalizer cases: what is indexed, and what is dropped for which reason.

use super::*;
use crate::blocks::{BlockSize, Event};
use crate::engine::{EngineHash, ExtraKey};

fn size(tokens: u32) -> BlockSize {
    BlockSize::new(tokens).expect("not zero")
}

fn translator(mode: HashMode) -> Translator {
    let source = EventSemantics::Copies;
    Translator::new(EngineFeedConfig { semantics: source, max_pages: 1000, ..EngineFeedConfig::new(mode, size(2)) })
}

fn tokens() -> Translator {
    translator(HashMode::Tokens(ChainSeed::new("m")))
}

fn hasher(adapter: Option<&str>, salt: Option<&str>) -> ChainHasher {
    ChainHasher::new(native_seed(ChainSeed::new("m"), adapter, salt), size(2))
}

fn ids(ids: &[u64]) -> Vec<EngineHash> {
    ids.iter().copied().map(EngineHash::new).collect()
}

/// A store of blocks of two tokens.
fn stored(hashes: &[u64], parent: Option<u64>, tokens: &[u32]) -> EngineStored<'static> {
    EngineStored {
        hashes: ids(hashes),
        parent: parent.map(EngineHash::new),
        tokens: TokenIds::Plain(tokens.to_vec()),
        block_size: 2,
        ..EngineStored::default()
    }
}

fn removed(hashes: &[u64]) -> EngineRemoved<'static> {
    EngineRemoved { hashes: ids(hashes), ..EngineRemoved::default() }
}

/// What the index is told of events that come in one batch.
fn told(translator: &mut Translator, events: Vec<EngineEvent<'_>>) -> Vec<String> {
    translator.translate(&EngineBatch { events, ..EngineBatch::default() });
    translator.changes.events().map(|event| format!("{event:?}")).collect()
}

fn line(event: Event<'_>) -> String {
    format!("{event:?}")
}

fn blocks(told: &[BlockHash]) -> String {
    line(Event::Stored(crate::blocks::Stored::prompt(told)))
}

#[track_caller]
fn dropped(mut translator: Translator, event: EngineEvent<'_>, reason: DropReason, blocks: u64) {
    assert_eq!(told(&mut translator, vec![event]), [""; 0]);
    let drop_counts: Vec<_> =
        translator.drop_counts.iter().map(|(reason, drop)| (reason, drop.events, drop.blocks)).collect();
    assert_eq!(drop_counts, [(reason, 1, blocks)]);
}

#[test]
fn every_reason_to_leave_a_store_out_is_counted() {
    let store = || stored(&[11, 22], None, &[1, 2, 3, 4]);
    let event = EngineEvent::Stored;
    dropped(tokens(), event(stored(&[], None, &[1, 2])), DropReason::EmptyStore, 0);
    let placeholder = EngineStored { block_size: 0, ..stored(&[7], None, &[]) };
    dropped(tokens(), event(placeholder), DropReason::Placeholder, 1);
    let window = EngineStored { kind: Some("sliding_window".into()), group: Some(1), ..store() };
    dropped(tokens(), event(window), DropReason::NotPrefixGroup, 2);
    let abacus = EngineStored { medium: Some("abacus".into()), ..store() };
    dropped(tokens(), event(abacus), DropReason::UnknownMedium, 2);
    dropped(tokens(), event(stored(&[11], Some(5), &[1, 2])), DropReason::UnknownParent, 1);
    dropped(tokens(), event(stored(&[11, 22], None, &[])), DropReason::NoTokens, 2);
    let wide = EngineStored { tokens: TokenIds::Wide(4), ..store() };
    dropped(tokens(), event(wide), DropReason::WideTokens, 2);
    let chunk = EngineStored { block_size: 4, medium: Some("cpu".into()), ..stored(&[9], None, &[1, 2, 3, 4]) };
    dropped(tokens(), event(chunk), DropReason::OtherBlockSize, 1);
    let offloaded = EngineStored { group: Some(3), medium: Some("CPU".into()), ..store() };
    dropped(tokens(), event(offloaded), DropReason::UnknownGroup, 2);
    dropped(tokens(), EngineEvent::Removed(removed(&[1, 2, 3])), DropReason::UnknownGroup, 3);
}

#[test]
fn a_sparse_store_is_never_zipped() {
    for mode in [HashMode::Tokens(ChainSeed::new("m")), HashMode::EngineHashes] {
        let mut translator = translator(mode);
        // Two hashes for three blocks of tokens: nothing says which.
        let sparse =
            || EngineEvent::Stored(EngineStored { group: Some(1), ..stored(&[22, 33], None, &[1, 2, 3, 4, 5, 6]) });
        assert_eq!(
            told(&mut translator, vec![sparse()]),
            [line(Event::Cleared)],
            "what was taken for the prefix is none"
        );
        assert_eq!(translator.drop_counts.of(DropReason::Sparse).blocks, 2);
        // Its evictions are none of ours either, and another group may be the prefix.
        let evicted = EngineRemoved { group: Some(1), ..removed(&[22]) };
        assert_eq!(told(&mut translator, vec![EngineEvent::Removed(evicted)]), [""; 0]);
        let full = EngineStored { group: Some(0), ..stored(&[11], None, &[1, 2]) };
        assert_eq!(told(&mut translator, vec![EngineEvent::Stored(full)]).len(), 1);
    }
}

#[test]
fn engine_names_are_looked_up_and_copies_counted() {
    let mut translator = tokens();
    let chain = hasher(None, None).hash(&[1, 2, 3, 4]);
    let store = || EngineEvent::Stored(stored(&[11, 22], None, &[1, 2, 3, 4]));
    assert_eq!(told(&mut translator, vec![store()]), [blocks(&chain)]);
    assert_eq!(told(&mut translator, vec![store()]), [""; 0], "a second copy of each");
    let evict = || EngineEvent::Removed(removed(&[22]));
    assert_eq!(told(&mut translator, vec![evict()]), [""; 0], "a copy is left");
    let gone = line(Event::Removed(crate::blocks::Removed::new(&chain[1..])));
    assert_eq!(told(&mut translator, vec![evict()]), [gone]);
    assert_eq!(told(&mut translator, vec![evict()]), [""; 0]);
    assert_eq!(translator.drop_counts.of(DropReason::UnknownBlock).blocks, 1);
    assert_eq!(translator.map_size().0, 1);
}

#[test]
fn a_namespace_is_inherited_from_the_root() {
    let mut translator = tokens();
    let root = EngineStored {
        lora_name: Some("sql".into()),
        extra_keys: vec![vec![ExtraKey::Text("sql".into()), ExtraKey::Text("tenant".into())]],
        ..stored(&[11], None, &[1, 2])
    };
    // What follows does not say the salt again.
    let next = EngineStored { lora_name: Some("sql".into()), ..stored(&[22], Some(11), &[3, 4]) };
    let chain = hasher(Some("sql"), Some("tenant")).hash(&[1, 2, 3, 4]);
    let events = vec![EngineEvent::Stored(root), EngineEvent::Stored(next)];
    assert_eq!(told(&mut translator, events), [blocks(&chain)]);
}

#[test]
fn pairs_unfold_to_their_first_tokens() {
    let mut translator = tokens();
    let pairs = TokenIds::Pairs(vec![[1, 2], [2, 3], [3, 4], [4, 5]]);
    let eagle = EngineStored { tokens: pairs, ..stored(&[11, 22], None, &[]) };
    let chain = hasher(None, None).hash(&[1, 2, 3, 4]);
    assert_eq!(told(&mut translator, vec![EngineEvent::Stored(eagle)]), [blocks(&chain)]);
}

#[test]
fn blocks_that_are_known_need_no_tokens_to_come_to_another_tier() {
    for mode in [HashMode::Tokens(ChainSeed::new("m")), HashMode::EngineHashes] {
        let mut translator = translator(mode);
        let on_gpu = EngineStored { group: Some(0), ..stored(&[11, 22], None, &[1, 2, 3, 4]) };
        told(&mut translator, vec![EngineEvent::Stored(on_gpu)]);
        let in_memory = EngineStored { group: Some(0), medium: Some("cpu".into()), ..stored(&[22], Some(11), &[]) };
        let events = told(&mut translator, vec![EngineEvent::Stored(in_memory)]);
        assert_eq!(events.len(), 1, "{events:?}");
        assert!(events[0].contains("tier: Host"), "{events:?}");
    }
}

#[test]
fn a_moved_block_changes_its_tier() {
    for mode in [HashMode::Tokens(ChainSeed::new("m")), HashMode::EngineHashes] {
        let mut translator = translator(mode);
        let window = Some(4096);
        let on_gpu = EngineStored { window, ..stored(&[11], None, &[1, 2]) };
        told(&mut translator, vec![EngineEvent::Stored(on_gpu)]);
        let moved = EngineMoved { hash: EngineHash::new(11), from: "GPU".into(), to: "CPU".into(), window };
        let events = told(&mut translator, vec![EngineEvent::Moved(moved)]);
        assert!(events[0].starts_with("Stored") && events[0].contains("Host"), "{events:?}");
        assert!(events[1].starts_with("Removed") && events[1].contains("Gpu"), "{events:?}");
    }
}

#[test]
fn a_clear_forgets_the_names() {
    let mut translator = tokens();
    told(&mut translator, vec![EngineEvent::Stored(stored(&[11], None, &[1, 2]))]);
    assert_eq!(told(&mut translator, vec![EngineEvent::Cleared]), [line(Event::Cleared)]);
    assert_eq!(translator.map_size().0, 0);
    let orphan = EngineEvent::Stored(stored(&[22], Some(11), &[3, 4]));
    assert_eq!(told(&mut translator, vec![orphan]), [""; 0]);
    assert_eq!(translator.drop_counts.of(DropReason::UnknownParent).blocks, 1);
}

#[test]
fn unknown_and_malformed_events_are_counted() {
    let mut translator = tokens();
    translator.translate(&EngineBatch { unknown: 2, malformed: 3, ..EngineBatch::default() });
    assert_eq!(translator.drop_counts.of(DropReason::UnknownType).events, 2);
    assert_eq!(translator.drop_counts.of(DropReason::Malformed).events, 3);
}

#[test]
fn a_block_size_is_refused_before_anything_is_changed() {
    let batch = |block_size, count| {
        let tokens = TokenIds::Plain(vec![1; block_size as usize * count]);
        let hashes = (1..=count as u64).map(EngineHash::new).collect();
        let stored = EngineStored { block_size, tokens, hashes, ..EngineStored::default() };
        EngineBatch { events: vec![EngineEvent::Stored(stored)], ..EngineBatch::default() }
    };
    assert_eq!(tokens().check(&batch(16, 1), false), Err(OddSize(16)));
    assert_eq!(tokens().check(&batch(1, 2), false), Err(OddSize(1)));
    assert_eq!(tokens().check(&batch(2, 1), false), Ok(()));
    let config = EngineFeedConfig { accumulate: true, block_size: size(6), ..tokens().config };
    let mut accumulating = Translator::new(config.clone());
    assert_eq!(accumulating.check(&batch(4, 1), false), Err(OddSize(4)));
    assert_eq!(accumulating.check(&batch(12, 1), false), Err(OddSize(12)));
    assert_eq!(accumulating.check(&batch(2, 3), false), Ok(()));
    accumulating.translate(&batch(2, 3));
    assert_eq!(accumulating.check(&batch(3, 2), false), Err(OddSize(3)), "pages do not change their size");
}

#[test]
fn forgetting_repeats_nothing_of_the_batch_before() {
    let mut translator = tokens();
    assert_eq!(told(&mut translator, vec![EngineEvent::Stored(stored(&[11], None, &[1, 2]))]).len(), 1);
    translator.forget();
    let events: Vec<_> = translator.changes.events().map(line).collect();
    assert_eq!(events, [line(Event::Cleared)]);
}
