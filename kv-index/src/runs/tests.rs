//! Segments (runs) alone: placement and reuse. The model covers the rest.

use super::*;
use crate::block::BlockHash;
use crate::reclaim::pin;
use crate::spread::Spread;

fn chain(from: u64, count: u64) -> Vec<BlockHash> {
    (from..from + count).map(BlockHash::new).collect()
}

struct World {
    heads: Heads,
    runs: Runs<1>,
}

impl World {
    fn new() -> Self {
        Self { heads: Heads::new(Spread::default()), runs: Runs::new() }
    }

    /// Stores a chain on a pod that holds none of it; where each block went.
    fn store(&self, pod: u16, anchor: Anchor, blocks: &[BlockHash]) -> Vec<Place> {
        let pin = pin();
        let (mut anchor, mut places) = (anchor, Vec::new());
        while places.len() < blocks.len() {
            let rest = &blocks[places.len()..];
            let take = self.runs.take(&self.heads, PodId::new(pod), anchor, rest, true, &pin);
            let Take::Taken(taken) = take else { panic!("{take:?}") };
            places.extend((0..taken.count as u32).map(|n| Place { offset: taken.first.offset + n, ..taken.first }));
            anchor = Anchor::Behind(blocks[places.len() - 1], places[places.len() - 1]);
        }
        places
    }

    fn remove(&self, pod: u16, places: &[Place]) -> usize {
        let span = |at: &Place| Span { run: at.run, from: at.offset, to: at.offset + 1 };
        let gone = |at: &Place| self.runs.remove(&self.heads, PodId::new(pod), &[span(at)], &pin());
        places.iter().map(gone).sum()
    }
}

#[test]
fn chains_that_part_have_runs_of_their_own_and_share_what_is_common() {
    let world = World::new();
    let (left, mut right) = (chain(1, 20), chain(1, 20));
    right[12..].copy_from_slice(&chain(100, 8));
    let a = world.store(1, Anchor::Root, &left);
    let b = world.store(2, Anchor::Root, &right);
    assert_eq!(a[..12], b[..12]);
    assert_eq!((b[12].offset, world.runs.len()), (0, 2));
    assert_ne!(a[0].run, b[12].run);
    let pin = pin();
    assert_eq!(world.runs.parent(b[12], &pin), Parent::Block(left[11]));
    assert_eq!(world.runs.parent(b[13], &pin), Parent::Block(right[12]));
    assert_eq!(world.runs.parent(a[0], &pin), Parent::Root);
}

#[test]
fn a_shared_prompt_is_not_made_longer_by_one_of_many() {
    let world = World::new();
    let prompt = chain(1, 10);
    let places: Vec<Place> = (0..4).map(|pod| world.store(pod, Anchor::Root, &prompt)[9]).collect();
    for (pod, &end) in places.iter().enumerate() {
        let own = chain(1_000 * (pod as u64 + 1), 5);
        let at = world.store(pod as u16, Anchor::Behind(prompt[9], end), &own);
        assert_eq!(at[0].offset, 0, "a run of its own");
    }
    assert_eq!(world.runs.len(), 5);
    // Where one pod is the last to hold it all, it is a conversation that grows.
    let alone = chain(50_000, 10);
    let end = world.store(7, Anchor::Root, &alone)[9];
    let more = world.store(7, Anchor::Behind(alone[9], end), &chain(60_000, 3));
    assert_eq!(more[0], Place { run: end.run, offset: 10 });
}

#[test]
fn an_orphan_is_found_again_by_whoever_comes_to_it() {
    let world = World::new();
    let all = chain(1, 12);
    let others: Vec<Place> = (1..4).map(|pod| world.store(pod, Anchor::Root, &all[..8])[7]).collect();
    let tail = world.store(1, Anchor::Behind(all[7], others[0]), &all[8..]);
    assert_eq!(tail[0].offset, 0);
    // All that was before it goes; the tail stays, and the next store of the whole chain comes to it.
    for pod in 1..4 {
        let first = Place { offset: 0, ..others[0] };
        let all: Vec<Place> = (0..8).map(|offset| Place { offset, ..first }).collect();
        world.remove(pod, &all);
    }
    assert_eq!(world.runs.len(), 1);
    let again = world.store(9, Anchor::Root, &all);
    assert_eq!(again[8..], tail);
    assert_eq!(world.runs.len(), 2);
}

#[test]
fn the_end_of_a_run_goes_with_its_last_holder_and_its_id_is_used_again() {
    let world = World::new();
    let places = world.store(1, Anchor::Root, &chain(1, 6));
    world.store(2, Anchor::Root, &chain(1, 4));
    assert_eq!(world.remove(1, &places[2..3]), 0, "the other one holds it");
    assert_eq!(world.remove(1, &places[5..]), 1);
    assert_eq!(world.runs.islands(), 1);
    assert_eq!(world.runs.content(places[0].run, &pin()).0.len(), 5);
    assert_eq!(world.runs.drop_pod(&world.heads, PodId::new(1), places[0].run, &pin()), 1);
    assert_eq!((world.runs.content(places[0].run, &pin()).0.len(), world.runs.islands()), (4, 0));
    assert_eq!(world.remove(2, &places[..4]), 4);
    assert_eq!((world.runs.len(), world.heads.len()), (0, 0));
    assert_eq!(world.store(3, Anchor::Root, &chain(70, 1))[0], places[0], "the id is used again");
}

#[test]
fn a_contradicted_head_is_refused_and_so_is_what_has_no_room() {
    let world = World::new();
    let pin = pin();
    let at = world.store(1, Anchor::Root, &chain(1, 3));
    world.store(1, Anchor::Root, &chain(10, 3));
    let behind = |n: usize| Anchor::Behind(BlockHash::new(n as u64 + 1), at[n]);
    let take = |anchor, block: u64, room| {
        world.runs.take(&world.heads, PodId::new(1), anchor, &[BlockHash::new(block)], room, &pin)
    };
    assert_eq!(take(behind(1), 10, true), Take::Contradicted, "it starts a prompt");
    assert_eq!(take(behind(2), 4, false), Take::Full);
    assert_eq!(take(Anchor::Root, 40, false), Take::Full);
    let second = |room| world.runs.take(&world.heads, PodId::new(2), Anchor::Root, &chain(1, 1), room, &pin);
    assert!(matches!(second(false), Take::Taken(Taken { entered: 0, .. })), "held already");
}

#[test]
fn more_cuts_than_fit_the_run_are_kept_beside_it() {
    let world = World::new();
    let all = chain(1, 60);
    for pod in (0..60).rev() {
        world.store(pod, Anchor::Root, &all[..usize::from(pod) + 1]);
    }
    let pin = pin();
    let run = world.heads.probe(all[0], &pin).expect("there");
    let view = world.runs.view(run, &pin);
    let cuts: Vec<u32> = view.cuts().map(|cut| cut.offset()).collect();
    assert_eq!(view.base().len() - cuts.len(), 1);
    assert!(cuts.len() > holders::INLINE && cuts.is_sorted());
}
