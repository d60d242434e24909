//! Stress test on real threads: pods that do not change are always exact, and in the end everything is.

use std::sync::atomic::{AtomicBool, Ordering};

use kv_index::{BlockHash, Config, Event, EventSemantics, Index, Matches, Parent, Pod, Removed, Stored};
use pointsman_test_support::SplitMix64;

fn chain(seed: u64, blocks: u64) -> Vec<BlockHash> {
    // The first half is common to all, so that runs are shared and fought over.
    (0..blocks)
        .map(|n| {
            let own = if n < blocks / 2 { 0 } else { seed + 1 };
            BlockHash::new((n + 1).wrapping_mul(0xD6E8_FEB8_6659_FD93) ^ own.wrapping_mul(0x9E37_79B9_7F4A_7C15))
        })
        .collect()
}

fn store(index: &Index, pod: Pod, chain: &[BlockHash], from: usize, to: usize) {
    let parent = if from == 0 { Parent::Root } else { Parent::Block(chain[from - 1]) };
    index.apply(pod, EventSemantics::Membership, &Event::Stored(Stored::new(parent, &chain[from..to]))).expect("live");
}

fn remove(index: &Index, pod: Pod, blocks: &[BlockHash]) {
    index.apply(pod, EventSemantics::Membership, &Event::Removed(Removed::new(blocks))).expect("live");
}

/// One writer's pod: grows and shrinks its chains, sometimes makes a hole and heals it; returns the depths
/// it ended with.
fn churn(index: &Index, pod: Pod, chains: &[Vec<BlockHash>], seed: u64, rounds: usize) -> Vec<usize> {
    let mut rng = SplitMix64::new(seed);
    let mut held = vec![chains[0].len() / 2; chains.len()];
    for _ in 0..rounds {
        let at = rng.below(chains.len());
        let (chain, have) = (&chains[at], held[at]);
        let half = chain.len() / 2;
        match rng.below(4) {
            // Only the private half shrinks and grows; the common half is there from the start.
            0 | 1 => {
                let to = half + 1 + rng.below(half);
                if to > have {
                    store(index, pod, chain, have, to);
                    held[at] = to;
                }
            }
            2 if have > half => {
                let to = half + rng.below(have - half);
                let tail: Vec<BlockHash> = chain[to..have].iter().rev().copied().collect();
                remove(index, pod, &tail);
                held[at] = to;
            }
            3 if have > half + 2 => {
                let hole = half + 1 + rng.below(have - half - 2);
                remove(index, pod, &chain[hole..=hole]);
                store(index, pod, chain, hole, hole + 1);
            }
            _ => {}
        }
    }
    held
}

#[test]
fn searches_among_writers_are_exact_for_pods_that_do_not_change() {
    let index: Index = Index::new(Config::default());
    let chains: Vec<Vec<BlockHash>> = (0..8).map(|seed| chain(seed, 96)).collect();
    // Quiet pods hold every chain to a depth of their own; one of them has a hole.
    let quiet: Vec<(Pod, usize)> = (0..6).map(|n| (index.join(&format!("quiet-{n}")).unwrap(), 10 + n * 15)).collect();
    for &(pod, depth) in &quiet {
        for chain in &chains {
            store(&index, pod, chain, 0, depth);
        }
    }
    let holed = index.join("holed").unwrap();
    for chain in &chains {
        store(&index, holed, chain, 0, 96);
        remove(&index, holed, &chain[60..61]);
    }
    let writers: Vec<Pod> = (0..3).map(|n| index.join(&format!("writer-{n}")).unwrap()).collect();
    for &pod in &writers {
        store(&index, pod, &chains[0], 0, 48);
    }
    let done = AtomicBool::new(false);
    let rounds = 20_000;
    let depths: Vec<Vec<usize>> = std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let (mut matches, mut searches) = (Matches::default(), 0u64);
                while !done.load(Ordering::Relaxed) || searches < 100 {
                    for chain in &chains {
                        index.search(chain, &mut matches);
                        searches += 1;
                        for &(pod, depth) in &quiet {
                            assert_eq!(matches.depth(pod.id()), depth);
                        }
                        assert_eq!(matches.depth(holed.id()), 60);
                        for pod in &writers {
                            let depth = matches.depth(pod.id());
                            assert!((48..=96).contains(&depth), "the common half never leaves: {depth}");
                        }
                    }
                }
            });
        }
        // Pods come and go all the while.
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let pod = index.join("passing").unwrap();
                store(&index, pod, &chains[0], 0, 96);
                index.retire(pod);
                while index.sweep(16).pending > 0 {}
            }
        });
        let handles: Vec<_> = writers
            .iter()
            .enumerate()
            .map(|(n, &pod)| {
                let (index, chains) = (&index, &chains);
                scope.spawn(move || churn(index, pod, chains, n as u64 + 1, rounds))
            })
            .collect();
        let depths = handles.into_iter().map(|handle| handle.join().unwrap()).collect();
        done.store(true, Ordering::Relaxed);
        depths
    });
    while index.sweep(1_000).pending > 0 {}
    let (mut matches, mut scanned) = (Matches::default(), Matches::default());
    for (n, chain) in chains.iter().enumerate() {
        index.search(chain, &mut matches);
        index.scan(chain, &mut scanned);
        assert_eq!(matches.groups(), scanned.groups());
        for (pod, depths) in writers.iter().zip(&depths) {
            assert_eq!(matches.depth(pod.id()), depths[n]);
        }
    }
    assert_eq!(index.stats().detached_spans, 8, "one on each of the holed pod's chains, none left by the writers");
}

/// Many one-block runs, some of which come and go: whatever moments a search sees, it finds what the pod keeps, and nothing
/// that the pod never had.
#[test]
fn a_pod_that_changes_is_found_between_what_it_keeps_and_what_it_ever_had() {
    let index: Index = Index::new(Config::default());
    let pods: Vec<Pod> = (0..4).map(|n| index.join(&format!("pod-{n}")).expect("room")).collect();
    let blocks = chain(7, 100);
    for at in 0..blocks.len() {
        // In step, so that no run grows.
        pods.iter().skip(usize::from(at >= 60)).for_each(|&pod| store(&index, pod, &blocks, at, at + 1));
    }
    let (changing, done) = (pods[0], AtomicBool::new(false));
    std::thread::scope(|scope| {
        let searches: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let (mut matches, mut seen) = (Matches::default(), 0usize);
                    while !done.load(Ordering::Relaxed) {
                        index.search(&blocks, &mut matches);
                        let depth = matches.depth(changing.id());
                        assert!((40..=60).contains(&depth), "{depth} blocks");
                        assert_eq!(matches.depth(pods[1].id()), 100);
                        seen += usize::from(depth < 60);
                    }
                    seen
                })
            })
            .collect();
        let mut rng = SplitMix64::new(3);
        for _ in 0..20_000 {
            let at = 40 + rng.below(20);
            remove(&index, changing, &blocks[at..=at]);
            store(&index, changing, &blocks, at, at + 1);
        }
        done.store(true, Ordering::Relaxed);
        let seen: usize = searches.into_iter().map(|search| search.join().expect("no panic")).sum();
        assert!(seen > 0, "some search saw it change");
    });
}

/// Two threads feed one pod; whatever they interleave to, the pod's own view and the runs agree.
#[test]
fn two_writers_on_one_pod_leave_one_truth() {
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").unwrap();
    let chains: Vec<Vec<BlockHash>> = (0..4).map(|seed| chain(seed, 64)).collect();
    std::thread::scope(|scope| {
        for thread in 0..2u64 {
            let (index, chains) = (&index, &chains);
            scope.spawn(move || {
                let mut rng = SplitMix64::new(thread);
                for _ in 0..20_000 {
                    let chain = &chains[rng.below(4)];
                    let (a, b) = (rng.below(64), rng.below(64));
                    if rng.below(2) == 0 {
                        store(index, pod, chain, a.min(b), a.max(b) + 1);
                    } else {
                        remove(index, pod, &chain[a.min(b)..=a.max(b)]);
                    }
                }
            });
        }
    });
    let (mut matches, mut scanned) = (Matches::default(), Matches::default());
    let mut runs = Vec::new();
    for chain in &chains {
        index.search(chain, &mut matches);
        index.scan(chain, &mut scanned);
        assert_eq!(matches.groups(), scanned.groups());
        assert_eq!(index.locate(pod, chain, &mut runs), Ok(matches.depth(pod.id())));
    }
    assert_eq!(index.stats().block_replicas, index.stats().blocks);
}

/// Pods store one long prompt in step and forget it, again and again, so that segments merge; one of them does not say what its chunks
/// follow, and one lies. Who keeps the prompt is found whole all the while, by searches, by its digest and by its inventory.
#[test]
fn merges_and_lies_harm_nobody_else() {
    let index: Index = Index::new(Config::default());
    let prompt = chain(7, 256);
    let quiet = index.join("quiet").unwrap();
    store(&index, quiet, &prompt, 0, 256);
    let digest = index.digest(quiet).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4u64)
            .map(|writer| {
                let (index, prompt) = (&index, &prompt);
                scope.spawn(move || {
                    let pod = index.join(&format!("writer-{writer}")).unwrap();
                    let mut random = SplitMix64::new(writer);
                    for _ in 0..400 {
                        let (mut at, chunk) = (0, 1 + random.below(40));
                        while at < prompt.len() {
                            let to = (at + chunk).min(prompt.len());
                            let parent = match writer {
                                2 => Parent::Unknown,
                                3 if at > 0 => Parent::Block(prompt[random.below(prompt.len())]),
                                _ if at == 0 => Parent::Root,
                                _ => Parent::Block(prompt[at - 1]),
                            };
                            let stored = Event::Stored(Stored::new(parent, &prompt[at..to]));
                            index.apply(pod, EventSemantics::Membership, &stored).unwrap();
                            at = to;
                        }
                        if random.below(2) == 0 {
                            index.apply(pod, EventSemantics::Membership, &Event::Cleared).unwrap();
                        } else {
                            remove(index, pod, prompt);
                        }
                        assert_eq!(index.pod_stats(pod).unwrap().blocks, 0, "all that came has left");
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut matches = Matches::default();
            while !done.load(Ordering::Relaxed) {
                index.search(&prompt, &mut matches);
                assert_eq!(matches.depth(quiet.id()), 256);
            }
        });
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert_eq!(index.digest(quiet), Ok(digest));
            }
        });
        let ended: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
        done.store(true, Ordering::Relaxed);
        ended.into_iter().for_each(|ended| ended.unwrap());
    });
    assert_eq!((index.stats().blocks, index.stats().block_replicas), (256, 256));
}

/// Pods name one chain from its end and from its start at once.
#[test]
fn a_chain_comes_from_both_ends() {
    for seed in 0..40 {
        let index: Index = Index::new(Config::default());
        let prompt = chain(seed, 200);
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let (index, prompt) = (&index, &prompt);
                scope.spawn(move || {
                    let pod = index.join(&format!("writer-{writer}")).unwrap();
                    for at in 0..prompt.len() {
                        let at = if writer % 2 == 0 { at } else { prompt.len() - 1 - at };
                        store(index, pod, prompt, at, at + 1);
                    }
                });
            }
        });
        let (mut found, mut scanned) = (Matches::default(), Matches::default());
        index.search(&prompt, &mut found);
        index.scan(&prompt, &mut scanned);
        assert_eq!(found.groups(), scanned.groups());
        assert_eq!((found.groups()[0].depth, found.groups()[0].pods.len()), (200, 4));
        // Who places a block at the same moment as another, and cannot know what it follows there, may give it a second place.
        let stats = index.stats();
        assert!((200..=204).contains(&stats.blocks) && stats.block_replicas == 800, "{stats:?}");
    }
}
