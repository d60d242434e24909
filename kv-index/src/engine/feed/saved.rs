//! Warm restart: what a feed knows beside the index, as bytes of the index's snapshot.

use super::{EngineFeedConfig, Shared, State};
use crate::blocks::{EventSemantics, chain};
use crate::engine::HashMode;
use crate::engine::incarnations::Incarnations;
use crate::engine::translate::Translator;
use crate::index::cache::PodCache;
use crate::index::snapshot::bytes::{Reader, put_u64};
use crate::index::streams::{Cursor, SaveFeed};
use crate::pods::SnapshotError;

impl SaveFeed for Shared {
    fn with_saved(&self, act: &mut dyn FnMut(u64, Box<[u8]>)) {
        let state = self.state.lock();
        let mut out = Vec::new();
        put_u64(&mut out, self.fingerprint);
        out.push(u8::from(state.forgot));
        state.incarnations.write(&mut out);
        state.translator.write(&mut out);
        act(state.clears, out.into());
    }
}

impl State {
    /// Goes on where the saved feed was: if it was configured alike, its number is that of the pod's blocks, and the engine
    /// can be asked for what came since.
    pub(super) fn resume(config: &EngineFeedConfig, saved: &[u8], cache: &PodCache) -> Option<Self> {
        let (forgot, translator, incarnations) = read(config, &mut Reader::new(saved)).ok()?;
        let applied = match incarnations.last() {
            Some(last) => Some(Cursor { incarnation: incarnations.incarnation, next: last.sequence.checked_add(1)? }),
            None => None,
        };
        let fits = config.replay && cache.cursors.of(config.stream) == applied;
        fits.then(|| Self { forgot, ..Self::new(config, translator, incarnations, cache.clears) })
    }
}

type Saved = (bool, Translator, Incarnations);

fn read(config: &EngineFeedConfig, reader: &mut Reader<'_>) -> Result<Saved, SnapshotError> {
    if reader.u64()? != fingerprint(config) {
        return Err(reader.malformed());
    }
    let forgot = reader.u8()? == 1;
    let incarnations = Incarnations::read(reader)?;
    let translator = Translator::read(config.clone(), reader)?;
    if reader.rest() == 0 { Ok((forgot, translator, incarnations)) } else { Err(reader.malformed()) }
}

/// All that names and numbers depend on.
pub(super) fn fingerprint(config: &EngineFeedConfig) -> u64 {
    let mode = match config.mode {
        HashMode::Tokens(model) => model.get(),
        HashMode::EngineHashes => 0,
    };
    let flags = u64::from(config.mode == HashMode::EngineHashes)
        | u64::from(config.accumulate) << 1
        | u64::from(config.semantics == EventSemantics::Copies) << 2
        | u64::from(config.rank.is_some()) << 3;
    let rank = u64::from(config.rank.unwrap_or(0));
    let parts = [mode, flags, rank, config.block_size.tokens() as u64, config.first_sequence];
    chain::checksum(&parts.map(u64::to_le_bytes).concat())
}

#[cfg(all(test, not(routing_loom)))]
mod tests {
    use super::*;
    use crate::engine::{EngineBatch, EngineEvent, EngineFeed, EngineHash, EngineRemoved, EngineStored, TokenIds};
    use crate::{BlockSize, ChainSeed, Config, Index};

    /// Pages of four tokens, four of which make a block.
    fn stored(names: std::ops::Range<u64>, parent: Option<u64>) -> EngineEvent<'static> {
        let tokens = names.clone().flat_map(|name| [name as u32; 4]).collect();
        EngineEvent::Stored(EngineStored {
            hashes: names.map(EngineHash::new).collect(),
            parent: parent.map(EngineHash::new),
            tokens: TokenIds::Plain(tokens),
            block_size: 4,
            ..EngineStored::default()
        })
    }

    fn removed(name: u64) -> EngineEvent<'static> {
        EngineEvent::Removed(EngineRemoved { hashes: vec![EngineHash::new(name)], ..EngineRemoved::default() })
    }

    fn batch(time: f64, events: Vec<EngineEvent<'static>>) -> EngineBatch<'static> {
        EngineBatch { timestamp: time, events, ..EngineBatch::default() }
    }

    fn config() -> EngineFeedConfig {
        let mut config = EngineFeedConfig::tokens(ChainSeed::new("m"), BlockSize::new(16).expect("not zero"));
        config.accumulate = true;
        config
    }

    /// Whatever stands in the bytes, the worst that comes of it is wrong names: no panic, and no loop without end.
    #[test]
    fn any_bytes_are_safe_to_resume_from() {
        let index: Index = Index::new(Config::default());
        let pod = index.join("a").expect("room");
        let feed = EngineFeed::new(&index, pod, config()).expect("live");
        let events = vec![stored(1..9, None), stored(20..22, Some(5)), removed(8), removed(21), removed(20)];
        feed.receive_batch(0, &batch(1.0, events)).expect("live");
        let mut good = Box::default();
        feed.shared.with_saved(&mut |_, bytes| good = bytes);
        let mut read_back = 0;
        for at in 0..=good.len() {
            for value in [0, 1, 2, 5, 9, 0xFF] {
                let mut bytes = good.clone();
                bytes.get_mut(at).into_iter().for_each(|byte| *byte = value);
                let Ok((_, translator, incarnations)) = read(&config(), &mut Reader::new(&bytes)) else { continue };
                read_back += 1;
                let index: Index = Index::new(Config::default());
                let pod = index.join("a").expect("room");
                let again = EngineFeed::new(&index, pod, config()).expect("live");
                *again.shared.state.lock() = State::new(&config(), translator, incarnations, 1);
                let all = (1..9).chain(20..22).map(removed);
                let events = [stored(9..12, Some(8)), stored(22..24, Some(21))].into_iter().chain(all).collect();
                // An error is as good as an answer: other sizes, say.
                let _ = again.receive_batch(1, &batch(2.0, events));
            }
        }
        assert!(read_back > 6, "the whole bytes at least");
    }
}
