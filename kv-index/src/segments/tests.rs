//! Segments alone: placement and reuse. The model covers the rest.

use super::*;
use crate::blocks::{BlockHash, Parent};
use crate::directory::spread::Spread;
use crate::writers::of_many as pin;

fn chain(from: u64, count: u64) -> Vec<BlockHash> {
    (from..from + count).map(BlockHash::new).collect()
}

struct World {
    segments: Segments<1>,
}

const ROOT: Anchor = Anchor::Nowhere(Parent::Root);

impl World {
    fn new() -> Self {
        Self { segments: Segments::new(Spread::default()) }
    }

    /// Stores a chain on a pod that holds none of it; where each block went.
    fn store(&self, pod: u16, anchor: Anchor, blocks: &[BlockHash]) -> Vec<BlockPosition> {
        let pin = pin();
        let (mut anchor, mut places) = (anchor, Vec::new());
        while places.len() < blocks.len() {
            let rest = &blocks[places.len()..];
            let take = self.segments.take(PodId::new(pod), anchor, rest, true, &pin);
            let Take::Taken(taken) = take else { panic!("{take:?}") };
            places.extend((0..taken.count).map(|n| taken.first.plus(n)));
            anchor = Anchor::Behind(blocks[places.len() - 1], places[places.len() - 1]);
        }
        places
    }

    /// How many blocks nobody holds any more.
    fn remove(&self, pod: u16, places: &[BlockPosition]) -> usize {
        let pin = pin();
        places.iter().map(|at| self.segments.remove(PodId::new(pod), &[self.span(*at)], &pin).0.dead).sum()
    }

    fn span(&self, at: BlockPosition) -> Span {
        let life = self.segments.view(at.segment, &pin()).life();
        Span { segment: at.segment, life, from: at.offset, to: at.offset + 1 }
    }

    fn parent(&self, pod: u16, at: BlockPosition) -> Option<Parent> {
        let mut parent = None;
        self.segments.for_held(PodId::new(pod), at.segment, &pin(), |_, follows, _| parent = Some(follows));
        parent
    }
}

#[test]
fn chains_that_part_have_segments_of_their_own_and_share_what_is_common() {
    let world = World::new();
    let (left, mut right) = (chain(1, 20), chain(1, 20));
    right[12..].copy_from_slice(&chain(100, 8));
    let a = world.store(1, ROOT, &left);
    let b = world.store(2, ROOT, &right);
    assert_eq!(a[..12], b[..12]);
    assert_eq!((b[12].offset, world.segments.len()), (0, 2));
    assert_ne!(a[0].segment, b[12].segment);
    assert_eq!(world.parent(2, b[12]), Some(Parent::Block(left[11])));
    assert_eq!(world.parent(1, a[0]), Some(Parent::Root));
}

/// Searches under way go on, and no other core has to fetch the segment again.
#[test]
fn a_store_that_says_nothing_new_publishes_nothing() {
    let (world, pin) = (World::new(), pin());
    let blocks = chain(1, 20);
    let at = world.store(1, ROOT, &blocks)[0];
    let version = || world.segments.view(at.segment, &pin).version();
    let before = version();
    let take = |pod, anchor, blocks| match world.segments.take(PodId::new(pod), anchor, blocks, true, &pin) {
        Take::Taken(taken) => (taken.count, taken.entered, taken.repeats.to_vec(), taken.contradicted),
        other => panic!("{other:?}"),
    };
    assert_eq!(take(1, ROOT, &blocks), (20, 0, vec![(0, 20)], false));
    assert_eq!(take(1, ROOT, &blocks[..7]), (7, 0, vec![(0, 7)], false));
    assert_eq!(version(), before);
    assert_eq!(take(2, ROOT, &blocks), (20, 0, vec![], false));
    assert!(version() > before, "another pod is news");
    let elsewhere = Anchor::Nowhere(Parent::Block(BlockHash::new(99)));
    assert!(take(1, elsewhere, &blocks).3, "so is another parent");
}

/// Who reads hashes up to there, and finds only afterwards that the view is past, reads none beyond the end.
#[test]
fn a_view_that_is_past_reaches_no_further_than_its_end() {
    let (world, pin) = (World::new(), pin());
    let blocks = chain(1, 20);
    let at = world.store(1, ROOT, &blocks[..3]);
    world.store(2, ROOT, &blocks[..2]);
    let view = world.segments.view(at[0].segment, &pin);
    assert_eq!((view.len(), view.reach(PodId::new(2))), (3, 2));
    world.store(1, Anchor::Behind(blocks[2], at[2]), &blocks[3..]);
    world.store(2, ROOT, &blocks[..10]);
    assert_eq!(world.segments.view(at[0].segment, &pin).reach(PodId::new(2)), 10);
    assert!(!view.is_current() && view.reach(PodId::new(2)) <= 3);
}

#[test]
fn a_shared_prompt_is_not_made_longer_by_one_of_many() {
    let world = World::new();
    let prompt = chain(1, 10);
    let places: Vec<BlockPosition> = (0..4).map(|pod| world.store(pod, ROOT, &prompt)[9]).collect();
    for (pod, &end) in places.iter().enumerate() {
        let own = chain(1_000 * (pod as u64 + 1), 5);
        let at = world.store(pod as u16, Anchor::Behind(prompt[9], end), &own);
        assert_eq!(at[0].offset, 0, "a segment of its own");
    }
    assert_eq!(world.segments.len(), 5);
    // Where one pod is the last to hold it all, it is a conversation that grows.
    let alone = chain(50_000, 10);
    let end = world.store(7, ROOT, &alone)[9];
    let more = world.store(7, Anchor::Behind(alone[9], end), &chain(60_000, 3));
    assert_eq!(more[0], BlockPosition { segment: end.segment, offset: 10 });
}

#[test]
fn an_orphan_is_found_again_by_whoever_comes_to_it() {
    let world = World::new();
    let all = chain(1, 12);
    let others: Vec<BlockPosition> = (1..4).map(|pod| world.store(pod, ROOT, &all[..8])[7]).collect();
    let tail = world.store(1, Anchor::Behind(all[7], others[0]), &all[8..]);
    assert_eq!(tail[0].offset, 0);
    // All that was before it goes; the tail stays, and the next store of the whole chain comes to it.
    for pod in 1..4 {
        let first = BlockPosition { offset: 0, ..others[0] };
        let all: Vec<BlockPosition> = (0..8).map(|offset| BlockPosition { offset, ..first }).collect();
        world.remove(pod, &all);
    }
    assert_eq!(world.segments.len(), 1);
    let again = world.store(9, ROOT, &all);
    assert_eq!(again[8..], tail);
    assert_eq!(world.segments.len(), 2);
}

#[test]
fn the_end_of_a_segment_goes_with_its_last_holder_and_its_id_is_used_again() {
    let world = World::new();
    let places = world.store(1, ROOT, &chain(1, 6));
    world.store(2, ROOT, &chain(1, 4));
    assert_eq!(world.remove(1, &places[2..3]), 0, "the other one holds it");
    assert_eq!(world.remove(1, &places[5..]), 1);
    assert_eq!(world.segments.detached(), 1);
    assert_eq!(world.segments.content(places[0].segment, &pin()).0.len(), 5);
    assert_eq!(world.segments.drop_pod(PodId::new(1), places[0].segment, &pin()), Gone { held: 4, dead: 1 });
    assert_eq!((world.segments.content(places[0].segment, &pin()).0.len(), world.segments.detached()), (4, 0));
    assert_eq!(world.remove(2, &places[..4]), 4);
    assert_eq!((world.segments.len(), world.segments.heads.len()), (0, 0));
    assert_eq!(world.store(3, ROOT, &chain(70, 1))[0], places[0], "the id is used again");
}

#[test]
fn whoever_contradicts_gets_a_place_of_its_own_and_what_has_no_room_is_refused() {
    let world = World::new();
    let pin = pin();
    let at = world.store(1, ROOT, &chain(1, 3));
    world.store(1, ROOT, &chain(10, 3));
    let behind = |n: usize| Anchor::Behind(BlockHash::new(n as u64 + 1), at[n]);
    let take = |pod, anchor, block: u64, room| {
        world.segments.take(PodId::new(pod), anchor, &[BlockHash::new(block)], room, &pin)
    };
    let taken = |take| if let Take::Taken(taken) = take { taken } else { panic!("{take:?}") };
    assert!(taken(take(2, behind(1), 10, true)).contradicted, "it starts a prompt");
    assert_eq!(take(1, behind(2), 2, true), Take::Held(at[1]), "the same pod has it behind the first block");
    let twin = taken(take(2, ROOT, 2, true));
    assert!(
        twin.contradicted
            && twin.first.segment != at[1].segment
            && world.segments.view(at[1].segment, &pin).is_doubled()
    );
    assert_eq!(take(1, behind(2), 4, false), Take::Full);
    assert_eq!(take(1, ROOT, 40, false), Take::Full);
    assert_eq!(taken(take(2, ROOT, 1, false)).entered, 0, "held already");
}

/// A pod was about to lose a block that it does not hold, and the last who did lost it meanwhile.
#[test]
fn a_segment_is_given_back_once() {
    let world = World::new();
    let at = world.store(2, ROOT, &chain(1, 1))[0];
    let span = world.span(at);
    world.segments.drop_pod(PodId::new(2), at.segment, &pin());
    assert_eq!(world.segments.remove(PodId::new(1), &[span], &pin()), (Gone::default(), true));
    assert_eq!(world.segments.len(), 0);
    let (a, b) = (world.store(1, ROOT, &chain(10, 1))[0], world.store(1, ROOT, &chain(20, 1))[0]);
    assert_ne!(a.segment, b.segment);
}

/// The same, and another block came to that place by a merge: the pod holds that one, and keeps it.
#[test]
fn a_place_that_a_merge_filled_is_not_the_one_that_was_noted() {
    let world = World::new();
    let (stem, other) = (chain(1, 5), chain(90, 1));
    let end = world.store(1, ROOT, &stem)[4];
    world.store(2, ROOT, &stem);
    let last = world.store(2, Anchor::Behind(stem[4], end), &chain(6, 1))[0];
    assert_eq!(last, end.plus(1));
    let apart = world.store(1, Anchor::Behind(stem[4], end), &other)[0];
    let noted = world.span(last);
    world.remove(2, &[last]);
    world.segments.merge(end.segment, apart.segment, &pin());
    assert_eq!(world.segments.find(PodId::new(1), other[0], &pin()), Some(last), "the merge took place");
    assert_eq!(world.segments.remove(PodId::new(1), &[noted], &pin()), (Gone::default(), false));
    assert!(world.segments.find(PodId::new(1), other[0], &pin()).is_some());
}

#[test]
fn more_drop_offs_than_fit_the_segment_are_kept_beside_it() {
    let world = World::new();
    let all = chain(1, 60);
    for pod in (0..60).rev() {
        world.store(pod, ROOT, &all[..usize::from(pod) + 1]);
    }
    let pin = pin();
    let segment = world.segments.heads.probe(all[0], &pin).expect("there");
    let view = world.segments.view(segment, &pin);
    let drop_offs: Vec<u32> = view.drop_offs().map(|drop_off| drop_off.offset()).collect();
    assert_eq!(view.base().len() - drop_offs.len(), 1);
    assert!(drop_offs.len() > holders::INLINE && drop_offs.is_sorted());
}

/// A place was noted, and its segment became shorter before it was locked.
#[test]
fn a_place_behind_the_end_is_nobody_s() {
    let world = World::new();
    let blocks = chain(1, 10);
    let places = world.store(1, ROOT, &blocks);
    world.store(2, ROOT, &blocks[..3]);
    world.store(3, ROOT, &blocks[..5]);
    // A detached span: the pod lacks what is before it.
    world.remove(3, &places[..2]);
    let late = world.span(places[8]);
    world.remove(1, &places[5..]);
    let (gone, is_all) = world.segments.remove(PodId::new(2), &[late], &pin());
    assert_eq!((gone, is_all), (Gone::default(), true));
}

/// A store may go elsewhere after its first block.
#[test]
fn room_is_not_kept_for_blocks_that_go_elsewhere() {
    let world = World::new();
    let shared = chain(1_000, 5_000);
    world.store(1, ROOT, &shared);
    let before = world.segments.bytes();
    for first in 1..=50 {
        let mut blocks = chain(first, 1);
        blocks.extend(&shared);
        let pin = pin();
        let take = world.segments.take(PodId::new(2), ROOT, &blocks, true, &pin);
        assert!(matches!(take, Take::Taken(taken) if taken.count == 1));
    }
    let each = (world.segments.bytes() - before) / 50;
    assert!(each < 10_000, "{each} bytes for a block");
}
