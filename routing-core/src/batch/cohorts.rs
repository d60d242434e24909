//! Prefix cohorts: stretches of a pod's order that share far more than they do with what is around them.
//!
//! What a cohort may leave behind is told by who is still to come: the nearest in trie order, on either side, share
//! the most with it.

use super::Cohort;
use super::layer::Job;
use super::sequence::Item;

/// Cuts a pod's items into cohorts.
pub(super) fn cohorts(job: &Job<'_>, items: &[Item]) -> Vec<Cohort> {
    let mut cohorts = Vec::new();
    let mut later = Later::new(items);
    let mut from = 0;
    while from < items.len() {
        let (to, shared) = extent(job, items, from);
        cohorts.push(Cohort {
            shared_blocks: shared,
            requests: items[from..to].iter().map(|item| job.queue.number(item.at as usize)).collect(),
            new_tokens: items[from..to].iter().map(|item| job.new_tokens(item.at, item.cached)).collect(),
            keep_blocks: later.leave(job, from, to),
            tier: items[from].tier,
        });
        from = to;
    }
    cohorts
}

/// Where the cohort ends that begins at `from`, and how many blocks all of it share.
fn extent(job: &Job<'_>, items: &[Item], from: usize) -> (usize, u32) {
    let blocks = |i: usize| job.queue.request(items[i].at as usize).chain.len() as u32;
    let (mut shared, mut most) = (blocks(from), 0);
    for i in from + 1..items.len() {
        let near = items[i].near;
        let next = items.get(i + 1).map_or(0, |item| item.near);
        let half = u64::from(near) * 2 >= u64::from(most.max(next));
        let worthwhile = near > 0 && u64::from(near) * 8 >= u64::from(blocks(i - 1).min(blocks(i)));
        if !(half && worthwhile) || items[i].tier != items[from].tier {
            return (i, shared);
        }
        shared = shared.min(near);
        most = most.max(near);
    }
    (items.len(), shared)
}

/// Who is still to come, in trie order: a list that each leaves as it is done.
struct Later {
    /// By rank in it.
    places: Vec<u32>,
    /// By item: its rank.
    ranks: Vec<u32>,
    /// By rank plus one, with an end on either side: who is before and behind.
    before: Vec<u32>,
    behind: Vec<u32>,
}

impl Later {
    fn new(items: &[Item]) -> Self {
        let len = items.len() as u32;
        let mut by_place: Vec<u32> = (0..len).collect();
        by_place.sort_unstable_by_key(|&i| items[i as usize].at);
        let mut ranks = vec![0; items.len()];
        for (rank, &i) in by_place.iter().enumerate() {
            ranks[i as usize] = rank as u32 + 1;
        }
        Self {
            places: by_place.iter().map(|&i| items[i as usize].at).collect(),
            ranks,
            before: (0..len + 2).map(|rank| rank.saturating_sub(1)).collect(),
            behind: (1..len + 3).collect(),
        }
    }

    /// Takes the items `from..to` out; blocks that any of them shares with one that is still to come.
    fn leave(&mut self, job: &Job<'_>, from: usize, to: usize) -> u32 {
        let mut leaving: Vec<u32> = self.ranks[from..to].to_vec();
        leaving.sort_unstable();
        let runs = leaving.chunk_by(|&a, &b| self.behind[a as usize] == b);
        let runs: Vec<(u32, u32)> = runs.map(|run| (run[0], run[run.len() - 1])).collect();
        let end = self.places.len() as u32 + 1;
        let mut keep = 0;
        for (first, last) in runs {
            let (before, behind) = (self.before[first as usize], self.behind[last as usize]);
            if before > 0 {
                keep = keep.max(job.queue.shared(self.place(before), self.place(first)));
            }
            if behind < end {
                keep = keep.max(job.queue.shared(self.place(last), self.place(behind)));
            }
            self.behind[before as usize] = behind;
            self.before[behind as usize] = before;
        }
        keep
    }

    fn place(&self, rank: u32) -> usize {
        self.places[rank as usize - 1] as usize
    }
}
