//! How a pod comes to hold the start of a chain: turn by turn, and tail first when it has to make room.
//!
//! The rule: no event says more than an engine would say at once. A prompt is prefilled in one event, an answer
//! comes block by block, and what is evicted goes block by block from the end.

use pointsman_lab::SplitMix64;

use super::Step;

/// A pod's part in one chain.
#[derive(Clone, Copy, Debug)]
pub(super) struct PodHistory {
    pub(super) pod: usize,
    pub(super) chain: usize,
    /// Blocks the pod holds at the height of it.
    pub(super) reach: usize,
    /// Blocks it holds in the end.
    pub(super) keep: usize,
}

impl PodHistory {
    /// Its events in order.
    pub(super) fn steps(self, rng: &mut SplitMix64) -> Vec<Step> {
        let Self { pod, chain, reach, keep } = self;
        let mut steps = Vec::new();
        // The first request it gets may be any turn of the conversation.
        let mut at = (reach / 4 + rng.below(reach / 2 + 1)).clamp(1, reach);
        steps.push(Step::store(pod, chain, 0..at));
        while at < reach {
            let answer = (1 + rng.below(ANSWER)).min(reach - at);
            steps.extend((at..at + answer).map(|at| Step::store(pod, chain, at..at + 1)));
            at += answer;
            let turn = rng.below(reach / 4 + 1).min(reach - at);
            if turn > 0 {
                steps.push(Step::store(pod, chain, at..at + turn));
                at += turn;
            }
        }
        steps.extend(Step::evict_singly(pod, chain, keep..reach));
        steps
    }
}

/// Runs histories side by side in bunches, as requests of many conversations run.
pub(super) fn interleave(mut histories: Vec<PodHistory>, rng: &mut SplitMix64) -> Vec<Step> {
    rng.shuffle(&mut histories);
    let mut steps = Vec::new();
    for bunch in histories.chunks(SIDE_BY_SIDE) {
        let mut open: Vec<_> = bunch.iter().map(|history| history.steps(rng).into_iter()).collect();
        while !open.is_empty() {
            let pick = rng.below(open.len());
            match open[pick].next() {
                Some(step) => steps.push(step),
                None => drop(open.swap_remove(pick)),
            }
        }
    }
    steps
}

/// Blocks of an answer, at most.
const ANSWER: usize = 16;

/// Conversations that run at a time.
const SIDE_BY_SIDE: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Op;

    #[test]
    fn a_history_grows_in_turns_and_shrinks_block_by_block() {
        let history = PodHistory { pod: 3, chain: 7, reach: 200, keep: 150 };
        let steps = history.steps(&mut SplitMix64::new(1));
        let (stores, evictions): (Vec<&Step>, Vec<&Step>) = steps.iter().partition(|step| step.op == Op::Store);
        let mut end = 0;
        for step in &stores {
            assert_eq!(step.from, end, "a store follows on the one before");
            end = step.to;
        }
        assert_eq!(end, 200);
        assert!(stores[0].blocks() < 160, "not all in one event");
        assert!(stores.iter().filter(|step| step.blocks() == 1).count() > 4, "answers come block by block");
        let evicted: Vec<_> = evictions.iter().map(|step| (step.from, step.blocks())).collect();
        assert_eq!(evicted, (150..200).rev().map(|at| (at, 1)).collect::<Vec<_>>());
    }
}
