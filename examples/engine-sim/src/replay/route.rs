//! Which pod is asked: the one that holds most of the prompt, unless it has far more to do than the others.

use kv_index::{Matches, PodId, PodSet};

/// Where a request goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The pod.
    pub pod: PodId,
    /// Leading blocks of the prompt that it holds, by the index.
    pub depth: usize,
    /// Whether a pod that holds more was passed over.
    pub reason: Reason,
}

/// Why a pod was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// No pod holds more.
    Deepest,
    /// The pods that hold more have too much to do.
    Load,
}

/// Chooses among `alive` pods; `None` if there are none.
///
/// Groups are tried deepest first, in each the pod with the least load. A pod is passed over if its load is more
/// than half above the mean, and then some. If all are, the pod with the least load of all is asked.
#[must_use]
pub fn choose(matches: &Matches, alive: PodSet, load: impl Fn(PodId) -> usize) -> Option<Choice> {
    let total: usize = alive.iter().map(&load).sum();
    let limit = 3 * total / (2 * alive.len().max(1)) + SLACK;
    let least = |pods: PodSet| pods.iter().min_by_key(|&pod| load(pod));
    for (rank, group) in matches.groups().iter().enumerate() {
        let fits = least(group.pods & alive).filter(|&pod| load(pod) <= limit);
        if let Some(pod) = fits {
            let reason = if rank == 0 { Reason::Deepest } else { Reason::Load };
            return Some(Choice { pod, depth: group.depth, reason });
        }
    }
    let pod = least(alive)?;
    let reason = if matches.groups().is_empty() { Reason::Deepest } else { Reason::Load };
    Some(Choice { pod, depth: matches.depth(pod), reason })
}

/// Requests a pod may have on top of that: an idle fleet should not scatter.
const SLACK: usize = 2;

#[cfg(test)]
mod tests {
    use kv_index::{BlockHash, Config, Event, EventSemantics, Index, Stored};

    use super::*;

    /// Three pods that hold 3, 2 and 0 blocks of a prompt.
    fn matches() -> (Matches, PodSet) {
        let index: Index = Index::new(Config::default());
        let prompt: Vec<BlockHash> = (1..=4).map(BlockHash::new).collect();
        for (name, blocks) in [("a", 3), ("b", 2), ("c", 0)] {
            let pod = index.join(name).unwrap();
            index.apply(pod, EventSemantics::Membership, &Event::Stored(Stored::prompt(&prompt[..blocks]))).unwrap();
        }
        let mut matches = Matches::default();
        index.search(&prompt, &mut matches);
        (matches, index.alive())
    }

    fn chosen(loads: [usize; 3]) -> (usize, usize, Reason) {
        let (matches, alive) = matches();
        let choice = choose(&matches, alive, |pod| loads[pod.index()]).unwrap();
        (choice.pod.index(), choice.depth, choice.reason)
    }

    #[test]
    fn the_deepest_pod_is_asked_until_its_load_is_far_above_the_mean() {
        assert_eq!(chosen([0, 0, 0]), (0, 3, Reason::Deepest));
        assert_eq!(chosen([8, 4, 3]), (0, 3, Reason::Deepest));
        assert_eq!(chosen([11, 4, 3]), (0, 3, Reason::Deepest), "the limit itself is allowed");
        assert_eq!(chosen([12, 4, 3]), (1, 2, Reason::Load));
        assert_eq!(chosen([20, 20, 0]), (0, 3, Reason::Deepest), "where most are busy, the mean is high");
        assert_eq!(chosen([99, 40, 0]), (1, 2, Reason::Load));
    }

    #[test]
    fn a_prompt_nobody_holds_goes_to_the_least_load() {
        let (_, alive) = matches();
        let loads = [2, 1, 5];
        let choice = choose(&Matches::default(), alive, |pod| loads[pod.index()]).unwrap();
        assert_eq!((choice.pod.index(), choice.depth, choice.reason), (1, 0, Reason::Deepest));
        assert_eq!(choose(&Matches::default(), PodSet::EMPTY, |_| 0), None);
    }
}
