//! Fuzzer input as an engine's stream: invariants that hold however little sense its events make.

use crate::blocks::chain::ChainSeed;
use crate::engine::{
    EngineBatch, EngineEvent, EngineFeed, EngineFeedConfig, EngineHash, EngineMoved, EngineRemoved, EngineStored,
    ExtraKey, TokenIds,
};
use crate::{BatchOutcome, BlockSize, Config, EventSemantics, Index};

/// Any bytes as batches of events over few names, tokens and groups. Nothing panics; the index's structures agree with
/// each other; a batch that comes again changes nothing; and a clear leaves nothing, not even names.
///
/// # Panics
///
/// When it does not hold.
pub fn any_stream(bytes: &[u8]) {
    let Some((choice, bytes)) = bytes.split_first() else { return };
    let mut bytes = Bytes(bytes);
    let index: Index<1> = Index::with_width(Config::default());
    let pod = index.join("a").expect("room");
    let size = BlockSize::new(if choice & 1 == 0 { 2 } else { 4 }).expect("not zero");
    let mut config = match choice & 2 {
        0 => EngineFeedConfig::tokens(ChainSeed::new("m"), size),
        _ => EngineFeedConfig::engine_hashes(size),
    };
    config.accumulate = choice & 1 != 0;
    config.semantics = if choice & 4 == 0 { EventSemantics::Copies } else { EventSemantics::Membership };
    config.max_pages = if choice & 8 == 0 { 1_000 } else { 6 };
    let feed = EngineFeed::new(&index, pod, config).expect("live");
    let mut sequence = 0;
    while !bytes.0.is_empty() {
        let events = (0..=bytes.below(3)).map(|_| event(&mut bytes)).collect();
        let batch = EngineBatch { timestamp: sequence as f64, events, ..EngineBatch::default() };
        // Blocks of another size are refused whole, and leave no gap.
        let Ok(received) = feed.receive_batch(sequence, &batch) else { continue };
        assert!(matches!(received.outcome, BatchOutcome::Applied(_)), "{received:?}");
        index.audit();
        let before = (index.digest(pod), feed.drop_counts(), feed.page_map_size().0);
        let again = feed.receive_batch(sequence, &batch).expect("of the same size");
        assert_eq!(again.outcome, BatchOutcome::Duplicate);
        assert_eq!((index.digest(pod), feed.drop_counts(), feed.page_map_size().0), before);
        sequence += 1;
    }
    let events = vec![EngineEvent::Cleared];
    let cleared = EngineBatch { timestamp: sequence as f64, events, ..EngineBatch::default() };
    feed.receive_batch(sequence, &cleared).expect("no blocks, no size");
    assert_eq!((index.stats().blocks, feed.page_map_size().0), (0, 0));
}

/// Bytes to choose by; zeros when they are used up.
struct Bytes<'b>(&'b [u8]);

impl Bytes<'_> {
    fn below(&mut self, bound: u8) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first % bound
    }

    fn name(&mut self) -> EngineHash {
        EngineHash::new(u64::from(self.below(12)))
    }

    fn one_of(&mut self, words: &[&'static str]) -> Option<&'static str> {
        words.get(usize::from(self.below(words.len() as u8 + 2))).copied()
    }

    fn group(&mut self) -> Option<u32> {
        (self.below(4) == 0).then(|| u32::from(self.below(3)))
    }
}

fn event(bytes: &mut Bytes<'_>) -> EngineEvent<'static> {
    const MEDIA: [&str; 4] = ["GPU", "cpu", "DISK", "abacus"];
    match bytes.below(16) {
        0 => EngineEvent::Cleared,
        1 => EngineEvent::Moved(EngineMoved {
            hash: bytes.name(),
            from: bytes.one_of(&MEDIA).unwrap_or("GPU").into(),
            to: bytes.one_of(&MEDIA).unwrap_or("CPU").into(),
            window: None,
        }),
        2..=6 => EngineEvent::Removed(EngineRemoved {
            hashes: (0..bytes.below(4)).map(|_| bytes.name()).collect(),
            medium: bytes.one_of(&MEDIA[..2]).map(Into::into),
            group: bytes.group(),
            ..EngineRemoved::default()
        }),
        _ => EngineEvent::Stored(stored(bytes, &MEDIA)),
    }
}

fn stored(bytes: &mut Bytes<'_>, media: &[&'static str]) -> EngineStored<'static> {
    let hashes: Vec<_> = (0..bytes.below(5)).map(|_| bytes.name()).collect();
    let count = 2 * hashes.len() + usize::from(bytes.below(16) == 0);
    let mut token = || u32::from(bytes.below(3));
    let plain: Vec<u32> = (0..count).map(|_| token()).collect();
    EngineStored {
        extra_keys: match bytes.below(4) {
            0 => vec![vec![ExtraKey::Text("salt".into())]; hashes.len().min(2)],
            _ => Vec::new(),
        },
        hashes,
        tokens: match bytes.below(8) {
            0 => TokenIds::default(),
            1 => TokenIds::Wide(count),
            2 => TokenIds::Pairs(plain.iter().map(|token| [*token, 0]).collect()),
            _ => TokenIds::Plain(plain),
        },
        parent: (bytes.below(3) > 0).then(|| bytes.name()),
        block_size: if bytes.below(24) == 0 { u32::from(bytes.below(4)) } else { 2 },
        medium: bytes.one_of(media).map(Into::into),
        lora_name: bytes.one_of(&["sql"]).filter(|_| bytes.below(4) == 0).map(Into::into),
        group: bytes.group(),
        kind: bytes.one_of(&["full_attention", "mamba"]).map(Into::into),
        ..EngineStored::default()
    }
}
