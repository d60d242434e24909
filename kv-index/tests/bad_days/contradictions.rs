//! Pods that say false things, or nothing, about what each block follows, one block at a time: they come first or last, and in the
//! end they leave. What others hold is found at the cost that it had without them.

use super::*;

const BLOCKS: usize = 1_024;

/// As many look-ups as segments that double in length along a prompt of so many blocks.
const FEW: usize = 2 + BLOCKS.ilog2() as usize;

/// What a liar says that the blocks of a prompt follow.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// Each is a prompt's first.
    Root,
    /// Each follows a block that nobody has.
    Nowhere,
    /// Each follows a block that the liar has: it holds each at a place of its own, and while it is there its depth takes a look-up for each.
    Elsewhere,
}

fn tell(index: &Index, liar: Pod, lie: Lie, prompt: &[BlockHash]) {
    let others = chain(77, prompt.len());
    for (other, block) in others.iter().zip(prompt) {
        match lie {
            Lie::Root => store(index, liar, Parent::Root, &[*block]),
            Lie::Nowhere => store(index, liar, Parent::Block(*other), &[*block]),
            Lie::Elsewhere => store(index, liar, Parent::Root, &[*other, *block]),
        }
    }
}

fn join(index: &Index, pods: usize) -> Vec<Pod> {
    (0..pods).map(|n| index.join(&format!("pod-{n}")).expect("room")).collect()
}

/// A search of a prompt that these pods hold finds all of it; how many look-ups that takes.
#[track_caller]
fn exact(index: &Index, pods: &[Pod], prompt: &[BlockHash]) -> usize {
    let mut matches = Matches::default();
    index.search(prompt, &mut matches);
    assert!(pods.iter().all(|pod| matches.depth(pod.id()) == prompt.len()), "{:?}", matches.groups());
    matches.lookups()
}

/// Searches of a prompt that these pods hold are exact, and cost what they cost in an index of theirs alone.
#[track_caller]
fn unharmed(index: &Index, pods: &[Pod], prompt: &[BlockHash]) {
    let lookups = exact(index, pods, prompt);
    assert!(lookups <= FEW, "{lookups} look-ups");
    assert!(pods.iter().all(|&pod| !index.pod_stats(pod).expect("live").slow_path));
    let (alone, _) = holding(prompt);
    within(3.0, || searches(index, prompt), || searches(&alone, prompt));
}

#[test]
fn a_liar_block_by_block() {
    let prompt = chain(1, BLOCKS);
    for lie in [Lie::Root, Lie::Nowhere, Lie::Elsewhere] {
        for (honest, comes_first) in [(1, true), (4, true), (2, false), (4, false)] {
            println!("{lie:?}, {honest} honest, the liar first: {comes_first}");
            let index: Index = Index::new(Config::default());
            let (pods, liar) = (join(&index, honest), index.join("liar").expect("room"));
            if comes_first {
                tell(&index, liar, lie, &prompt);
            }
            pods.iter().for_each(|&pod| store(&index, pod, Parent::Root, &prompt));
            if !comes_first {
                tell(&index, liar, lie, &prompt);
            }
            if matches!(lie, Lie::Elsewhere) {
                exact(&index, &pods, &prompt);
            } else {
                unharmed(&index, &pods, &prompt);
            }
            index.retire(liar);
            while index.sweep(1_000).pending > 0 {}
            unharmed(&index, &pods, &prompt);
        }
    }
}

/// It says so again when an honest pod came, so that what it says is the newest of as many claims.
#[test]
fn a_liar_of_every_other_block_that_repeats_itself() {
    let prompt = chain(1, BLOCKS);
    let index: Index = Index::new(Config::default());
    let (pods, liar) = (join(&index, 1), index.join("liar").expect("room"));
    let lie = || prompt.iter().skip(1).step_by(2).for_each(|block| store(&index, liar, Parent::Root, &[*block]));
    lie();
    store(&index, pods[0], Parent::Root, &prompt);
    lie();
    exact(&index, &pods, &prompt);
    index.retire(liar);
    while index.sweep(1_000).pending > 0 {}
    unharmed(&index, &pods, &prompt);
}

/// A prompt's first block is said to follow its second.
#[test]
fn a_liar_that_closes_a_circle() {
    let prompt = chain(1, 2);
    let index: Index = Index::new(Config::default());
    let (pods, liar) = (join(&index, 1), index.join("liar").expect("room"));
    let lie = || store(&index, liar, Parent::Block(prompt[1]), &prompt);
    store(&index, pods[0], Parent::Block(prompt[0]), &prompt[1..]);
    lie();
    store(&index, pods[0], Parent::Root, &prompt[..1]);
    lie();
    exact(&index, &pods, &prompt);
}

/// What the liar held is stored by honest pods chunk by chunk.
#[test]
fn a_liar_beside_pods_that_prefill_in_step() {
    let prompt = chain(1, BLOCKS);
    for lie in [Lie::Root, Lie::Nowhere, Lie::Elsewhere] {
        let index: Index = Index::new(Config::default());
        let (pods, liar) = (join(&index, 4), index.join("liar").expect("room"));
        tell(&index, liar, lie, &prompt);
        for from in (0..BLOCKS).step_by(16) {
            let parent = if from == 0 { Parent::Root } else { Parent::Block(prompt[from - 1]) };
            pods.iter().for_each(|&pod| store(&index, pod, parent, &prompt[from..from + 16]));
        }
        if !matches!(lie, Lie::Elsewhere) {
            unharmed(&index, &pods, &prompt);
        }
        index.retire(liar);
        while index.sweep(1_000).pending > 0 {}
        unharmed(&index, &pods, &prompt);
    }
}

/// A pod that sends no parents stores a shared prompt first, in chunks; then the others come.
#[test]
fn a_silent_pod_that_comes_first() {
    let (shared, own, cold) = (chain(1, BLOCKS), chain(2, BLOCKS), chain(3, BLOCKS));
    for chunk in [1, 16] {
        let index: Index = Index::new(Config::default());
        let (pods, silent) = (join(&index, 3), index.join("silent").expect("room"));
        for blocks in shared.chunks(chunk).chain(own.chunks(16)) {
            store(&index, silent, Parent::Unknown, blocks);
        }
        pods.iter().for_each(|&pod| store(&index, pod, Parent::Root, &shared));
        unharmed(&index, &pods, &shared);
        let mut matches = Matches::default();
        for prompt in [&shared, &own] {
            index.search(prompt, &mut matches);
            assert_eq!(matches.depth(silent.id()), BLOCKS);
        }
        let (alone, _) = holding(&shared);
        within(3.0, || searches(&index, &cold), || searches(&alone, &cold));
    }
}

/// An engine that moves its blocks between tiers names them again without saying what they follow.
#[test]
fn a_pod_that_says_nothing_of_what_it_holds_already() {
    let prompt = chain(1, BLOCKS);
    let index: Index = Index::new(Config::default());
    let pods = join(&index, 4);
    for from in (0..BLOCKS).step_by(16) {
        let parent = if from == 0 { Parent::Root } else { Parent::Block(prompt[from - 1]) };
        for &pod in &pods {
            store(&index, pod, parent, &prompt[from..from + 16]);
            store(&index, pod, Parent::Unknown, &prompt[from..=from]);
        }
    }
    unharmed(&index, &pods, &prompt);
}
