//! Page accumulation against a reference map.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::blocks::chain::ChainSeed;
use crate::blocks::{BlockSize, Event};
use crate::engine::drop_reason::DropCount;

/// A page as the model knows it: the engine's alias of the cache it is in, and every token up to its end.
type Path = (u8, Vec<u32>);

/// The contract in its dullest form: copies are counted by page and tier; a block is there while all its pages are.
struct Model {
    page: usize,
    per_block: usize,
    copies: BTreeMap<(Path, Tier), u32>,
    /// Every page since the last clear: none is forgotten in so short a time.
    seen: BTreeSet<Path>,
}

impl Model {
    fn present(&self, path: &Path, tier: Tier) -> bool {
        self.copies.get(&(path.clone(), tier)).is_some_and(|&copies| copies > 0)
    }

    /// Stores pages `from..to` of a prompt; how many could not be placed.
    fn store(&mut self, alias: u8, prompt: &[u32], from: usize, to: usize, tier: Tier) -> usize {
        let path = |page: usize| (alias, prompt[..page * self.page].to_vec());
        for page in from..to {
            let here = self.copies.keys().any(|(known, _)| *known == path(page + 1));
            if page > 0 && !here && !self.seen.contains(&path(page)) {
                return to - page;
            }
            self.seen.insert(path(page + 1));
            *self.copies.entry((path(page + 1), tier)).or_default() += 1;
        }
        0
    }

    fn remove(&mut self, path: &Path, tier: Tier) -> bool {
        let Some(copies) = self.copies.get_mut(&(path.clone(), tier)).filter(|copies| **copies > 0) else {
            return false;
        };
        *copies -= 1;
        true
    }

    /// How often each block is in each tier, one for each alias of its last page.
    fn blocks(&self, hasher: &ChainHasher) -> BTreeMap<(BlockHash, Tier), usize> {
        let mut blocks = BTreeMap::new();
        for ((alias, tokens), tier) in self.copies.keys() {
            let pages = tokens.len() / self.page;
            if pages % self.per_block != 0 {
                continue;
            }
            let of_block =
                (pages - self.per_block + 1..=pages).map(|page| (*alias, tokens[..page * self.page].to_vec()));
            if of_block.into_iter().all(|path| self.present(&path, *tier)) {
                *blocks.entry((*hasher.hash(tokens).last().expect("a whole block"), *tier)).or_default() += 1;
            }
        }
        blocks
    }
}

fn id(path: &Path) -> EngineHash {
    let mut hash = 0xcbf2_9ce4_8422_2325 ^ u64::from(path.0);
    for token in &path.1 {
        hash = (hash ^ u64::from(*token + 1)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    }
    EngineHash::new(hash)
}

#[derive(Clone, Debug)]
enum Op {
    Store { alias: u8, prompt: usize, from: usize, len: usize, tier: Tier },
    Remove { alias: u8, prompt: usize, page: usize, tier: Tier },
    Clear,
}

fn tiers() -> impl Strategy<Value = Tier> {
    prop_oneof![4 => Just(Tier::Gpu), 1 => Just(Tier::Host)]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let store = (0..2_u8, 0..4_usize, 0..6_usize, 1..7_usize, tiers()).prop_map(|(alias, prompt, from, len, tier)| {
        // Most stores begin a prompt: others would seldom find their parent.
        Op::Store { alias, prompt, from: from.saturating_sub(3), len, tier }
    });
    let remove = (0..2_u8, 0..4_usize, 0..8_usize, tiers()).prop_map(|(alias, prompt, page, tier)| Op::Remove {
        alias,
        prompt,
        page,
        tier,
    });
    prop::collection::vec(prop_oneof![30 => store, 60 => remove, 1 => Just(Op::Clear)], 0..120)
}

/// Keeps what the index was told, as copies.
fn tell(index: &mut BTreeMap<(BlockHash, Tier), usize>, changes: &Changes) {
    for event in changes.events() {
        match event {
            Event::Stored(stored) => {
                stored.blocks.iter().for_each(|block| *index.entry((*block, stored.tier)).or_default() += 1);
            }
            Event::Removed(removed) => {
                for block in removed.blocks {
                    let copies = index.get_mut(&(*block, removed.tier)).expect("only what was stored is removed");
                    *copies -= 1;
                    if *copies == 0 {
                        index.remove(&(*block, removed.tier));
                    }
                }
            }
            Event::Cleared => index.clear(),
        }
    }
}

proptest! {
    /// Whatever comes and goes, the index is told exactly the blocks whose pages are all there.
    #[test]
    fn blocks_are_there_while_all_their_pages_are(ops in ops(), page in 1..3_usize, per_block in 1..5_usize) {
        let size = BlockSize::new((page * per_block) as u32).unwrap();
        let hasher = ChainHasher::new(ChainSeed::new("m"), size);
        // Four prompts that share more and less of their beginnings.
        let prompts: Vec<Vec<u32>> = [(0, 0), (1, 9), (5, 9), (11, 9)]
            .map(|(shared, other)| (0..16).map(|at| if at < shared || other == 0 { at } else { other }).collect())
            .to_vec();
        let mut model = Model { page, per_block, copies: BTreeMap::new(), seen: BTreeSet::new() };
        let mut pages = Pages::new(per_block as u16, usize::MAX);
        let (mut index, mut drop_counts) = (BTreeMap::new(), DropCounts::default());
        for op in ops {
            let mut changes = Changes::default();
            match op {
                Op::Store { alias, prompt, from, len, tier } => {
                    let tokens = &prompts[prompt][from * page..(from + len) * page];
                    let name = |page_end: usize| id(&(alias, prompts[prompt][..page_end * page].to_vec()));
                    let names: Vec<_> = (from..from + len).map(|at| name(at + 1)).collect();
                    let new = NewPages {
                        names: &names,
                        before: (from > 0).then(|| name(from)),
                        tokens: Some(tokens),
                        tier,
                        source: EventSemantics::Copies,
                        keys: &|_, _| Vec::new(),
                        naming: Naming::Native(&hasher),
                    };
                    let before = drop_counts.of(DropReason::UnknownParent);
                    pages.store(&new, &mut changes, &mut drop_counts);
                    let lost = model.store(alias, &prompts[prompt], from, from + len, tier);
                    let DropCount { blocks, .. } = drop_counts.of(DropReason::UnknownParent);
                    prop_assert_eq!(blocks - before.blocks, lost as u64);
                }
                Op::Remove { alias, prompt, page: at, tier } => {
                    let path = (alias, prompts[prompt][..((at + 1) * page).min(16)].to_vec());
                    let found = pages.remove(id(&path), tier, CopiesLeft::OneLess, &mut changes);
                    prop_assert_eq!(found, model.remove(&path, tier));
                }
                Op::Clear => {
                    pages.clear();
                    changes.cleared();
                    model.copies.clear();
                    model.seen.clear();
                }
            }
            tell(&mut index, &changes);
            model.copies.retain(|_, copies| *copies > 0);
            prop_assert_eq!(&index, &model.blocks(&hasher));
        }
        // The map is freed with its blocks.
        for ((path, tier), copies) in std::mem::take(&mut model.copies) {
            for _ in 0..copies {
                prop_assert!(pages.remove(id(&path), tier, CopiesLeft::OneLess, &mut Changes::default()));
            }
        }
        prop_assert_eq!(pages.len(), 0);
        prop_assert!(pages.links.is_empty());
    }
}

#[test]
fn memory_follows_the_pages_down() {
    let hasher = ChainHasher::new(ChainSeed::new("m"), BlockSize::new(1).unwrap());
    let mut pages = Pages::new(1, usize::MAX);
    let names: Vec<_> = (0..100_000).map(EngineHash::new).collect();
    let tokens: Vec<u32> = (0..100_000).collect();
    let new = NewPages {
        names: &names,
        before: None,
        tokens: Some(&tokens),
        tier: Tier::Gpu,
        source: EventSemantics::Copies,
        keys: &|_, _| Vec::new(),
        naming: Naming::Native(&hasher),
    };
    let (mut changes, mut drop_counts) = (Changes::default(), DropCounts::default());
    pages.store(&new, &mut changes, &mut drop_counts);
    let full = pages.bytes();
    for name in &names {
        assert!(pages.remove(*name, Tier::Gpu, CopiesLeft::OneLess, &mut changes));
    }
    assert!(pages.bytes() < full / 4, "{} of {full} bytes", pages.bytes());
}

#[test]
fn a_full_map_leaves_out_what_does_not_fit_and_says_so() {
    let hasher = ChainHasher::new(ChainSeed::new("m"), BlockSize::new(1).unwrap());
    let mut pages = Pages::new(1, 3);
    let names: Vec<_> = (0..5).map(EngineHash::new).collect();
    let (mut changes, mut drop_counts) = (Changes::default(), DropCounts::default());
    let new = NewPages {
        names: &names,
        before: None,
        tokens: Some(&[1, 2, 3, 4, 5]),
        tier: Tier::Gpu,
        source: EventSemantics::Copies,
        keys: &|_, _| Vec::new(),
        naming: Naming::Native(&hasher),
    };
    pages.store(&new, &mut changes, &mut drop_counts);
    assert_eq!(pages.len(), 3);
    assert_eq!(drop_counts.of(DropReason::MapFull).blocks, 2);
    let Some(Event::Stored(stored)) = changes.events().next() else { panic!("three blocks fit") };
    assert_eq!(stored.blocks, &hasher.hash(&[1, 2, 3]));
}
