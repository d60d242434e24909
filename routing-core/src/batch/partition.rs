//! Balanced partition of a layer into shares that take the pods equally long.
//!
//! Given how long a share may take, pods take what they hold the beginnings of, and then, one after another, what comes next
//! in trie order, until they have that much. How long is searched for: until the last pod, which takes what is left, has
//! as much as the others. Within the imbalance that is allowed, a cut is made where the least is shared across it.
//!
//! Small caches choose first and leave out what they cannot hold, so every request finds a pod that can.

use super::layer::{Job, Layer};

/// A layer's places in it, by pod, ascending.
pub(super) type Shares = Vec<Vec<u32>>;

/// Cuts `layer` so that `handicap × work` is the same for all pods, give or take a share of `slack` in all.
pub(super) fn partition(job: &Job<'_>, layer: &Layer, handicap: &[f64], slack: f64) -> Shares {
    let mut by_room: Vec<usize> = (0..job.pods.len()).collect();
    by_room.sort_by_key(|&pod| (job.pods[pod].kv_tokens, pod));
    let partitioner = Partitioner { job, layer, handicap, slack: (slack / 2.0).min(0.5), by_room };
    let mean = partitioner.mean();
    let (mut low, mut high) = (0.0, 2.0 * mean);
    let mut best: Option<(f64, Shares)> = None;
    for round in 0..ROUNDS {
        // The first guess is a good one where the queue is long.
        let limit = if round == 0 { mean } else { low + (high - low) / 2.0 };
        let (loads, shares) = partitioner.fill(limit);
        let most = loads.iter().copied().fold(0.0, f64::max);
        let last = partitioner.by_room.last().map_or(0.0, |&pod| loads[pod]);
        if last > limit {
            low = limit;
            high = high.max(2.0 * limit);
        } else {
            high = limit;
        }
        if best.as_ref().is_none_or(|(known, _)| most < *known) {
            best = Some((most, shares));
        }
    }
    best.map_or_else(|| vec![Vec::new(); job.pods.len()], |(_, shares)| shares)
}

/// Halvings of how long a share may take: to a ten-thousandth.
const ROUNDS: usize = 16;

struct Partitioner<'a> {
    job: &'a Job<'a>,
    layer: &'a Layer,
    handicap: &'a [f64],
    slack: f64,
    /// Pods, smallest cache first.
    by_room: Vec<usize>,
}

impl Partitioner<'_> {
    /// How long it would take if all could be shared by everybody, without a request twice.
    fn mean(&self) -> f64 {
        let Some(&largest) = self.by_room.last() else { return 0.0 };
        let sum: f64 = (0..self.layer.len()).map(|i| self.layer.work(self.job, largest, i, false)).sum();
        let relative_speed = |pod: usize| self.job.pods[pod].speed / self.job.pods[largest].speed / self.handicap[pod];
        let able = self.by_room.iter().filter(|&&pod| self.job.pods[pod].kv_tokens > 0);
        sum / able.map(|&pod| relative_speed(pod)).sum::<f64>()
    }

    fn work(&self, pod: usize, i: u32, cold: bool) -> f64 {
        self.layer.work(self.job, pod, i as usize, cold) * self.handicap[pod]
    }

    /// Fills pod after pod up to `limit`; the last one with all that is left.
    fn fill(&self, limit: f64) -> (Vec<f64>, Shares) {
        let mut loads = vec![0.0; self.job.pods.len()];
        let mut shares: Shares = vec![Vec::new(); self.job.pods.len()];
        let mut rest = self.claim(limit, &mut loads, &mut shares);
        let mut from = 0;
        for (turn, &pod) in self.by_room.iter().enumerate() {
            let limit = if turn + 1 == self.by_room.len() { f64::INFINITY } else { limit };
            let taken = self.take(pod, limit, &mut loads[pod], &rest[from..]);
            let share = &mut shares[pod];
            let claimed = !share.is_empty();
            let seen = &rest[from..from + taken];
            share.extend(seen.iter().filter(|&&i| self.fits(pod, i)));
            let left: Vec<u32> = seen.iter().copied().filter(|&i| !self.fits(pod, i)).collect();
            from += taken;
            if !left.is_empty() {
                rest.splice(..from, left);
                from = 0;
            }
            if claimed {
                share.sort_unstable();
            }
        }
        (loads, shares)
    }

    fn fits(&self, pod: usize, i: u32) -> bool {
        self.job.fits(pod, self.layer.at[i as usize])
    }

    /// Gives pods what they hold the beginnings of, as far as their share goes; what is left for all.
    fn claim(&self, limit: f64, loads: &mut [f64], shares: &mut Shares) -> Vec<u32> {
        let all = 0..self.layer.len() as u32;
        if self.job.claims.is_none() {
            return all.collect();
        }
        let mut rest = Vec::new();
        for i in all {
            let claim = self.job.claim(self.layer.at[i as usize]);
            let own = claim.pod.map(|pod| pod as usize).filter(|&pod| self.fits(pod, i) && loads[pod] < limit);
            let Some(pod) = own else {
                rest.push(i);
                continue;
            };
            let cold = i == 0 || shares[pod].last() != Some(&(i - 1));
            loads[pod] += self.work(pod, i, cold);
            shares[pod].push(i);
        }
        rest
    }

    /// How many of `rest` a pod goes through until it has its share. What it cannot hold is passed over.
    fn take(&self, pod: usize, limit: f64, load: &mut f64, rest: &[u32]) -> usize {
        let slack = self.slack;
        let (least, most) = (limit * (1.0 - slack), limit * (1.0 + slack));
        // The best cut so far: blocks shared across it, how far the load is from the limit, where, and the load.
        let mut best: Option<(u32, f64, usize, f64)> = None;
        let mut last = None;
        for (taken, &i) in rest.iter().enumerate() {
            if *load >= least {
                let here = (self.layer.near[i as usize], (*load - limit).abs());
                if best.is_none_or(|(near, off, ..)| here < (near, off)) {
                    best = Some((here.0, here.1, taken, *load));
                }
            }
            if !self.fits(pod, i) {
                continue;
            }
            let next = *load + self.work(pod, i, last.is_none_or(|last: u32| last + 1 != i));
            if next > most {
                let Some((.., taken, at)) = best else {
                    // One request leaps over all that is allowed: to the nearer side.
                    let with = next - limit < limit - *load;
                    *load = if with { next } else { *load };
                    return taken + usize::from(with);
                };
                *load = at;
                return taken;
            }
            *load = next;
            last = Some(i);
        }
        rest.len()
    }
}
