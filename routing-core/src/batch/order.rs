//! Trie order: a multikey sort of the queue into the order of a depth-first walk over the trie of its prompts, without the trie.
//!
//! Chains sorted as sequences of hashes stand in such an order, and the number of blocks that each shares with the one
//! before says all that a trie would. Sorting goes block by block over groups that agree so far, so that a prefix which
//! many share is read a few times for each of them and not once for every comparison.
//!
//! Equal chains keep the order of the batch: same input, same order (`tests::sorts_as_slices_do`).

use kv_index::BlockHash;

use super::BatchRequest;

/// Requests in trie order. A *place* is one's position in it.
#[derive(Debug)]
pub(super) struct Queue<'a> {
    /// By place: which of the batch.
    order: Vec<u32>,
    /// By place, so that whoever goes along the queue goes along memory.
    requests: Vec<BatchRequest<'a>>,
    /// By place: blocks shared with the place before; 0 for the first.
    near: Vec<u32>,
}

impl<'a> Queue<'a> {
    /// Sorts those of `requests` that `of` names.
    pub(super) fn new(requests: &[BatchRequest<'a>], of: Vec<u32>) -> Self {
        let mut order = of;
        sort(requests, &mut order);
        let requests: Vec<_> = order.iter().map(|&number| requests[number as usize]).collect();
        let mut near = vec![0; order.len()];
        for (near, pair) in near.iter_mut().skip(1).zip(requests.windows(2)) {
            *near = common(pair[0].chain, pair[1].chain);
        }
        Self { order, requests, near }
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// The request at a place.
    pub(super) fn request(&self, at: usize) -> &BatchRequest<'a> {
        &self.requests[at]
    }

    /// Its place in the batch.
    pub(super) fn number(&self, at: usize) -> u32 {
        self.order[at]
    }

    /// Blocks shared with the place before.
    pub(super) fn near(&self, at: usize) -> u32 {
        self.near[at]
    }

    /// Blocks that two places share.
    pub(super) fn shared(&self, one: usize, other: usize) -> u32 {
        let (low, high) = (one.min(other), one.max(other));
        if high - low <= CLOSE && low < high {
            return self.near[low + 1..=high].iter().copied().min().unwrap_or(0);
        }
        common(self.request(one).chain, self.request(other).chain)
    }
}

/// Places up to which it is cheaper to look at what neighbours share than at two chains.
const CLOSE: usize = 16;

/// Leading blocks that two chains share.
fn common(one: &[BlockHash], other: &[BlockHash]) -> u32 {
    one.iter().zip(other).take_while(|(a, b)| a == b).count() as u32
}

/// Groups below this size are sorted by comparison.
const FEW: usize = 24;

/// Blocks that a group is first looked ahead for, in the hope that all agree: a line of memory.
const AHEAD: usize = 8;

/// Sorts `order` by chain, and equal chains by number.
fn sort(requests: &[BatchRequest<'_>], order: &mut [u32]) {
    let mut keyed: Vec<(u64, u32)> = order.iter().map(|&number| (0, number)).collect();
    // A stack of our own: chains may be longer than the thread's.
    let mut groups = vec![(0, keyed.len(), 0)];
    while let Some((from, to, depth)) = groups.pop() {
        let group = &mut keyed[from..to];
        if group.len() <= FEW {
            group.sort_unstable_by(|(_, a), (_, b)| {
                let (x, y) = (requests[*a as usize].chain, requests[*b as usize].chain);
                x[depth..].cmp(&y[depth..]).then(a.cmp(b))
            });
            continue;
        }
        let depth = agreed(requests, group, depth);
        for (key, number) in &mut *group {
            // No hash is zero: chains that end here come first.
            *key = requests[*number as usize].chain.get(depth).map_or(0, |hash| hash.get());
        }
        group.sort_unstable();
        let mut at = from;
        for same in keyed[from..to].chunk_by(|a, b| a.0 == b.0) {
            if same.len() > 1 && same[0].0 != 0 {
                groups.push((at, at + same.len(), depth + 1));
            }
            at += same.len();
        }
    }
    for (place, (_, number)) in order.iter_mut().zip(keyed) {
        *place = number;
    }
}

/// The depth up to which all of a group agree that agree up to `depth`.
///
/// Looks a little further ahead each time it succeeds, so that what is read in vain is no more than what is gained.
fn agreed(requests: &[BatchRequest<'_>], group: &[(u64, u32)], depth: usize) -> usize {
    let Some(&(_, first)) = group.first() else { return depth };
    let first = requests[first as usize].chain;
    let (mut depth, mut ahead) = (depth, AHEAD);
    loop {
        let hoped = &first[depth..first.len().min(depth + ahead)];
        let mut met = hoped.len();
        for &(_, number) in group {
            let chain = requests[number as usize].chain;
            met = common(&hoped[..met], &chain[depth..]) as usize;
            if met == 0 {
                break;
            }
        }
        depth += met;
        if met < ahead {
            return depth;
        }
        ahead *= 2;
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The literal model: the standard library's order of slices, and a count of what neighbours share.
        #[test]
        fn sorts_as_slices_do(chains in vec(vec(1_u64..4, 0..40), 0..200), long in 0_usize..30) {
            let chains: Vec<Vec<BlockHash>> = chains
                .iter()
                .map(|chain| std::iter::repeat_n(&9, long).chain(chain).map(|&raw| BlockHash::new(raw)).collect())
                .collect();
            let requests: Vec<_> = chains
                .iter()
                .map(|chain| BatchRequest { chain, prompt_tokens: 1, output_tokens: 1, deadline: None })
                .collect();
            let mut expected: Vec<u32> = (0..chains.len() as u32).collect();
            expected.sort_by_key(|&number| (&chains[number as usize], number));
            let queue = Queue::new(&requests, (0..chains.len() as u32).collect());
            prop_assert_eq!(&queue.order, &expected);
            for at in 1..queue.len() {
                prop_assert_eq!(queue.near(at), common(queue.request(at - 1).chain, queue.request(at).chain));
                let far = at / 2;
                if far < at {
                    prop_assert_eq!(queue.shared(far, at), common(queue.request(far).chain, queue.request(at).chain));
                }
            }
        }
    }
}
