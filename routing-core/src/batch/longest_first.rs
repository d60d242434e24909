//! Longest-processing-time-first list scheduling of a short layer, part by part.
//!
//! Where requests are few, one long answer or one deep conversation is a good share of a pod's time, and ranges
//! cannot be even. Parts that share the least with each other can go anywhere; one that is more than a pod's share by
//! itself is parted again, where the least is shared within it. A part goes where most of it is there, among the pods that
//! it does not make late; or else to the one that would be done first.

use super::layer::{Job, Layer};
use super::partition::Shares;

/// Deals a layer out.
pub(super) fn longest_first(job: &Job<'_>, layer: &Layer, handicap: &[f64]) -> Shares {
    let dealer = Dealer { job, layer, handicap };
    let mut shares: Shares = vec![Vec::new(); job.pods.len()];
    let all: Vec<u32> = (0..layer.len() as u32).collect();
    let due = dealer.due(&all);
    let mut loads = vec![Load::default(); job.pods.len()];
    for part in dealer.parts(&all, due) {
        let with: Vec<(usize, Load)> = (0..job.pods.len())
            .filter(|&pod| dealer.fits(pod, part))
            .map(|pod| (pod, dealer.with(pod, &shares[pod], loads[pod], part)))
            .collect();
        let timely = |load: &Load| load.ends() <= due * (1.0 + job.config.most_imbalance / 2.0);
        let best = with.into_iter().min_by(|(_, a), (_, b)| match (timely(a), timely(b)) {
            (true, true) => a.new.total_cmp(&b.new).then(a.ends().total_cmp(&b.ends())),
            (false, false) => a.ends().total_cmp(&b.ends()),
            (a, b) => b.cmp(&a),
        });
        // One that fits nowhere as a whole was parted down to requests, each of which fits somewhere.
        let Some((pod, load)) = best else { continue };
        loads[pod] = load;
        shares[pod].extend(part);
        shares[pod].sort_unstable();
    }
    shares
}

/// What a pod has to do.
#[derive(Clone, Copy, Debug, Default)]
struct Load {
    /// Seconds of prompts, and of answers but for steps.
    work: f64,
    /// Seconds of steps, if the batch is always full; and for the longest answer, since steps cannot be fewer.
    steps: f64,
    longest: f64,
    /// Seconds of prompts to compute in the last part that it got.
    new: f64,
}

impl Load {
    fn ends(&self) -> f64 {
        self.work + self.steps.max(self.longest)
    }
}

struct Dealer<'a> {
    job: &'a Job<'a>,
    layer: &'a Layer,
    handicap: &'a [f64],
}

impl Dealer<'_> {
    /// When pods end if all goes well: as early as the work allows, and its longest request.
    fn due(&self, all: &[u32]) -> f64 {
        let Some(pod) = self.largest() else { return 0.0 };
        let longest = all.iter().map(|&i| self.layer.alone(self.job, pod, i as usize)).fold(0.0, f64::max);
        let able = self.job.pods.iter().filter(|pod| pod.kv_tokens > 0);
        let speeds: f64 = able.map(|pod| pod.speed).sum();
        let load = self.with(pod, &[], Load::default(), all);
        ((load.work + load.steps) / self.handicap[pod] * self.job.pods[pod].speed / speeds).max(longest)
    }

    fn largest(&self) -> Option<usize> {
        (0..self.job.pods.len()).max_by_key(|&pod| self.job.pods[pod].kv_tokens)
    }

    fn fits(&self, pod: usize, part: &[u32]) -> bool {
        part.iter().all(|&i| self.job.fits(pod, self.layer.at[i as usize]))
    }

    /// Parts that are no more than a share and fit every pod that can hold any of them, longest first.
    fn parts<'s>(&self, all: &'s [u32], due: f64) -> Vec<&'s [u32]> {
        let Some(largest) = self.largest() else { return Vec::new() };
        let most = due * (1.0 + self.job.config.most_imbalance);
        let (mut parts, mut whole) = (Vec::new(), vec![all]);
        while let Some(part) = whole.pop() {
            let work = self.with(largest, &[], Load::default(), part).ends() / self.handicap[largest];
            let all_fit = (0..self.job.pods.len()).all(|pod| self.fits(pod, part));
            if part.len() > 1 && (part.len() == all.len() || work > most || !all_fit) {
                whole.extend(self.layer.parts(self.job, part));
            } else if !part.is_empty() {
                parts.push((work, part));
            }
        }
        parts.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        parts.into_iter().map(|(_, part)| part).collect()
    }

    /// What a pod with `share` has to do once it gets `part` too.
    fn with(&self, pod: usize, share: &[u32], load: Load, part: &[u32]) -> Load {
        let (job, layer, handicap) = (self.job, self.layer, self.handicap[pod]);
        let Some((&first, rest)) = part.split_first() else { return load };
        // Its neighbours in trie order share most with it.
        let at = share.partition_point(|&i| i < first);
        let beside = share[at.saturating_sub(1)..share.len().min(at + 1)].iter();
        let shared = |&i: &u32| job.queue.shared(layer.at[i as usize] as usize, layer.at[first as usize] as usize);
        let near = beside.map(shared).max().unwrap_or(0);
        let new = layer.prefill_behind(job, pod, first as usize, near)
            + rest.iter().map(|&i| layer.prefill(job, pod, i as usize, false)).sum::<f64>();
        let sum = |of: &dyn Fn(usize) -> f64| part.iter().map(|&i| of(i as usize)).sum::<f64>() * handicap;
        let steps = part.iter().map(|&i| layer.steps(job, pod, i as usize) * handicap);
        Load {
            work: load.work + new * handicap + sum(&|i| layer.reads(job, pod, i)),
            steps: load.steps + sum(&|i| layer.shared_steps(job, pod, i)),
            longest: steps.fold(load.longest, f64::max),
            new: new * job.pods[pod].speed,
        }
    }
}
