//! Histories by chance of pods that say what blocks follow: whatever they are, a search looks up O(K · log N) segments, for K depths that pods stop at
//! of N blocks.

use proptest::prelude::*;

use super::*;

const PODS: usize = 12;
const PROMPTS: usize = 6;
const LONGEST: usize = 1_500;

/// What a pod does with a prompt.
#[derive(Clone, Debug)]
enum Step {
    /// Stores so much of it that it has so many blocks, so many an event.
    Store { pod: usize, prompt: usize, to: usize, chunk: usize },
    /// As many pods as this do, chunk by chunk.
    Together { pods: usize, prompt: usize, to: usize, chunk: usize },
    /// Loses what is behind a depth, so many blocks an event, last first.
    EvictTail { pod: usize, prompt: usize, from: usize, chunk: usize },
    /// Loses blocks in the middle.
    EvictMiddle { pod: usize, prompt: usize, from: usize, count: usize },
    /// Leaves, and another comes under its name.
    Restart { pod: usize },
}

fn step() -> impl Strategy<Value = Step> {
    let (pod, prompt, at) = (0..PODS, 0..PROMPTS, 1..=LONGEST);
    let chunk = prop_oneof![Just(1_usize), Just(7), Just(16), Just(128), Just(LONGEST)];
    prop_oneof![
        8 => (pod.clone(), prompt.clone(), at.clone(), chunk.clone()).prop_map(|(pod, prompt, to, chunk)| Step::Store { pod, prompt, to, chunk }),
        4 => (2..=PODS, prompt.clone(), at.clone(), chunk.clone()).prop_map(|(pods, prompt, to, chunk)| Step::Together { pods, prompt, to, chunk }),
        5 => (pod.clone(), prompt.clone(), at.clone(), chunk).prop_map(|(pod, prompt, from, chunk)| Step::EvictTail { pod, prompt, from, chunk }),
        2 => (pod.clone(), prompt, at, 1..40_usize).prop_map(|(pod, prompt, from, count)| Step::EvictMiddle { pod, prompt, from, count }),
        1 => pod.prop_map(|pod| Step::Restart { pod }),
    ]
}

/// Prompts that leave each other at blocks of a system prompt, of a document, and of earlier turns.
fn prompts() -> Vec<Vec<BlockHash>> {
    let stems = [40, 700, 1_100, 0, 1_400];
    let mut prompts = vec![chain(1, LONGEST)];
    for (seed, stem) in (2..).zip(stems) {
        prompts.push([&prompts[0][..stem], &chain(seed, LONGEST - stem)].concat());
    }
    prompts
}

struct Fleet {
    index: Index,
    pods: Vec<Pod>,
    prompts: Vec<Vec<BlockHash>>,
}

impl Fleet {
    fn new() -> Self {
        let index: Index = Index::new(Config::default());
        let pods = (0..PODS).map(|n| index.join(&format!("pod-{n}")).expect("room")).collect();
        Self { index, pods, prompts: prompts() }
    }

    fn store(&self, pods: &[Pod], prompt: usize, to: usize, chunk: usize) {
        for from in (0..to).step_by(chunk) {
            let prompt = &self.prompts[prompt];
            let parent = if from == 0 { Parent::Root } else { Parent::Block(prompt[from - 1]) };
            pods.iter().for_each(|&pod| store(&self.index, pod, parent, &prompt[from..(from + chunk).min(to)]));
        }
    }

    fn run(&mut self, step: &Step) {
        match *step {
            Step::Store { pod, prompt, to, chunk } => self.store(&[self.pods[pod]], prompt, to, chunk),
            Step::Together { pods, prompt, to, chunk } => self.store(&self.pods[..pods], prompt, to, chunk),
            Step::EvictTail { pod, prompt, from, chunk } => {
                for blocks in self.prompts[prompt][from - 1..].rchunks(chunk) {
                    let reversed: Vec<BlockHash> = blocks.iter().rev().copied().collect();
                    remove(&self.index, self.pods[pod], &reversed);
                }
            }
            Step::EvictMiddle { pod, prompt, from, count } => {
                let blocks = &self.prompts[prompt];
                remove(&self.index, self.pods[pod], &blocks[from - 1..(from + count).min(LONGEST)]);
            }
            Step::Restart { pod } => {
                assert!(self.index.retire(self.pods[pod]));
                while self.index.sweep(1_000).pending > 0 {}
                self.pods[pod] = self.index.join(&format!("pod-{pod}")).expect("room");
            }
        }
    }

    /// The most look-ups of a search, as a share of what they may be.
    fn worst(&self) -> f64 {
        let mut matches = Matches::default();
        let share = |prompt: &Vec<BlockHash>| {
            self.index.search(prompt, &mut matches);
            let most = (matches.groups().len() + 1) * (2 + prompt.len().ilog2() as usize);
            matches.lookups() as f64 / most as f64
        };
        self.prompts.iter().map(share).fold(0.0, f64::max)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases / 4, ..ProptestConfig::default() })]

    #[test]
    fn whatever_honest_pods_do_a_search_looks_up_few_segments(steps in prop::collection::vec(step(), 1..60)) {
        let mut fleet = Fleet::new();
        for step in &steps {
            fleet.run(step);
            let worst = fleet.worst();
            prop_assert!(worst <= 1.0, "{worst} of the bound after {step:?}");
        }
    }
}
