//! Pods that leave: what they kept apart becomes one, and a step of their sweep takes as long as it says.

use super::*;

const CHUNK: usize = 16;
const CHUNKS: usize = 127;

/// 256 pods prefill one prompt in step, two stop at each chunk, and all but three leave.
#[test]
fn most_pods_leave_after_a_prefill_in_step() {
    let prompt = chain(1, CHUNK * CHUNKS);
    for way in 0..3 {
        let index: Index = Index::new(Config::default());
        let pods: Vec<Pod> = (0..256).map(|n| index.join(&format!("pod-{n}")).expect("room")).collect();
        for (chunk, blocks) in prompt.chunks(CHUNK).enumerate() {
            let parent = if chunk == 0 { Parent::Root } else { Parent::Block(prompt[chunk * CHUNK - 1]) };
            pods[(2 * chunk).min(253)..].iter().for_each(|&pod| store(&index, pod, parent, blocks));
        }
        let mut matches = Matches::default();
        index.search(&prompt, &mut matches);
        assert_eq!(matches.groups().len(), CHUNKS);
        for &pod in &pods[..253] {
            match way {
                0 => assert!(index.retire(pod)),
                1 => drop(index.apply(pod, EventSemantics::Membership, &Event::Cleared).expect("live")),
                _ => prompt.chunks(100).rev().for_each(|blocks| remove(&index, pod, blocks)),
            }
        }
        while index.sweep(1_000).pending > 0 {}
        index.search(&prompt, &mut matches);
        assert!(pods[253..].iter().all(|pod| matches.depth(pod.id()) == prompt.len()));
        assert!(matches.lookups() <= 2 + prompt.len().ilog2() as usize, "way {way}: {} look-ups", matches.lookups());
    }
}

/// A pod that holds every other block of a long segment is swept in the shortest steps.
#[test]
fn short_steps_of_a_sweep_over_many_spans() {
    let blocks = chain(1, 60_000);
    let prepare = |has_holes: bool| {
        let (index, pod) = holding(&blocks);
        let other = index.join("b").expect("room");
        store(&index, other, Parent::Root, &blocks);
        let every_other: Vec<BlockHash> = blocks.iter().step_by(2).copied().collect();
        remove(&index, pod, if has_holes { &every_other } else { &blocks[30_000..] });
        index.retire(pod);
        index
    };
    let sweep = |index: &mut Index| while index.sweep(1).pending > 0 {};
    within(4.0, || once(|| prepare(true), sweep), || once(|| prepare(false), sweep));
}

/// What is speculated again and again and confirmed at once leaves no deadlines behind.
#[test]
fn speculation_that_is_confirmed_leaves_nothing() {
    let (index, pod) = index();
    #[expect(clippy::disallowed_methods, reason = "some moment")]
    let now = Instant::now();
    let blocks = chain(1, 20_000);
    index.speculate(pod, &blocks, now + Duration::from_secs(3_600)).expect("live");
    store(&index, pod, Parent::Root, &blocks);
    let bytes = index.pod_stats(pod).expect("live").bytes;
    assert!(bytes < 100_000, "{bytes} bytes for no speculated block");
}

/// Expiry looks at what is speculated, not at what was refused. So many blocks are that it takes longer than caches that are cold.
#[test]
fn expiry_after_speculation_that_was_refused() {
    const ROOM: usize = 2_000;
    #[expect(clippy::disallowed_methods, reason = "some moment")]
    let now = Instant::now();
    let prepare = |calls: u64| {
        let index: Index = Index::new(Config::default().max_blocks(ROOM));
        let pod = index.join("a").expect("room");
        for seed in 0..calls {
            index.speculate(pod, &chain(seed, ROOM), now + Duration::from_secs(seed)).expect("live");
        }
        index
    };
    let expire = |index: &mut Index| {
        assert_eq!(index.expire(now + Duration::from_secs(100_000), ROOM).dropped, ROOM);
        assert!(!index.expire(now + Duration::from_secs(100_000), ROOM).pending);
    };
    within(4.0, || once(|| prepare(200), expire), || once(|| prepare(1), expire));
}
