//! Load rebalancing: shares moved until pods end together.
//!
//! What a share takes is known once it has been gone through on paper. Cuts are then moved by how far off they were; and
//! where requests are few, parts go from the pod that ends last to one that ends early, as long as that helps.

use super::estimate::estimate;
use super::layer::{Job, Layer};
use super::longest_first::longest_first;
use super::partition::{Shares, partition};
use super::schedule::{Schedule, sequenced};

/// The schedule that computes least, of those that end hardly later than the one that ends first.
pub(super) fn rebalance(job: &Job<'_>, layers: &[Layer]) -> Schedule {
    let with =
        |slack: f64| move |job: &Job<'_>, layer: &Layer, handicap: &[f64]| partition(job, layer, handicap, slack);
    let first = refine(job, layers, with(job.config.most_imbalance));
    let mut others = Vec::new();
    if job.queue.len() <= SOME {
        others.push(moved(job, layers, &first));
    }
    if job.queue.len() <= FEW {
        // Cuts that are uneven at first, but where less is shared across them.
        for slack in [0.2, 0.6] {
            others.push(moved(job, layers, &refine(job, layers, with(slack))));
        }
        let dealt = refine(job, layers, longest_first);
        others.push(moved(job, layers, &dealt));
        others.push(dealt);
    }
    let all = || others.iter().chain([&first]);
    let late = all().map(|schedule| schedule.late).min().unwrap_or(0);
    let timely = |schedule: &&Schedule| schedule.late == late;
    let ends = all().filter(timely).map(Schedule::makespan).fold(f64::INFINITY, f64::min);
    let most = ends * (1.0 + job.config.most_imbalance);
    let good = |schedule: &Schedule| schedule.late == late && schedule.makespan() <= most;
    let rate = |schedule: &Schedule| (!good(schedule), schedule.prefill_tokens);
    others.into_iter().fold(first, |best, schedule| {
        let better = rate(&schedule).cmp(&rate(&best)).then(schedule.makespan().total_cmp(&best.makespan()));
        if better.is_lt() { schedule } else { best }
    })
}

/// Requests up to which parts are moved one by one. Beyond, cuts are even enough.
const SOME: usize = 20_000;

/// Requests up to which they are also dealt out part by part.
const FEW: usize = 4_000;

/// Requests that are gone through again and again, all in all: what evening out may cost.
const PATIENCE: usize = 2_000_000;

/// Rounds of moving cuts, for queues of any size.
const MOST_ROUNDS: usize = 12;

/// Pods that end within this share of each other end together.
const BALANCED: f64 = 0.002;

/// Cuts again with what the pods took.
fn refine(job: &Job<'_>, layers: &[Layer], partition: impl Fn(&Job<'_>, &Layer, &[f64]) -> Shares) -> Schedule {
    let schedule = |handicap: &[f64]| {
        let shares = layers.iter().map(|layer| partition(job, layer, handicap)).collect();
        Schedule::new(job, layers, shares)
    };
    let mut handicap = vec![1.0; job.pods.len()];
    let mut best = schedule(&handicap);
    let mut last = best.takes.clone();
    for _ in 0..(PATIENCE / job.queue.len().max(1)).clamp(1, MOST_ROUNDS) {
        let mean = last.iter().sum::<f64>() / last.len().max(1) as f64;
        if last.iter().all(|takes| (takes - mean).abs() <= BALANCED * mean) {
            break;
        }
        for (handicap, takes) in handicap.iter_mut().zip(&last) {
            if *takes > 0.0 {
                *handicap *= (takes / mean).clamp(0.5, 2.0).powf(0.7);
            }
        }
        let schedule = schedule(&handicap);
        last.clone_from(&schedule.takes);
        if schedule.is_better(&best, BALANCED) {
            best = schedule;
        }
    }
    best
}

/// Parts that are tried in one move, and pods that they are tried on.
const TRIES: (usize, usize) = (16, 3);

/// Moves parts away from the pod that ends last.
fn moved(job: &Job<'_>, layers: &[Layer], schedule: &Schedule) -> Schedule {
    let (mut shares, mut takes) = (schedule.shares.clone(), schedule.takes.clone());
    let mut patience = PATIENCE / 2;
    while let Some(found) = best_move(job, layers, &shares, &takes, &mut patience) {
        for (pod, share, took) in found.after {
            shares[found.layer][pod] = share;
            takes[pod] = took;
        }
    }
    Schedule::new(job, layers, shares)
}

/// A part that goes from one pod to another.
struct Move {
    layer: usize,
    /// For both pods: its share of the layer afterwards, and what it takes.
    after: [(usize, Vec<u32>, f64); 2],
    /// When the later of both ends.
    ends: f64,
}

/// The move that helps the pod which ends last most.
fn best_move(job: &Job<'_>, layers: &[Layer], shares: &[Shares], takes: &[f64], patience: &mut usize) -> Option<Move> {
    let last = (0..takes.len()).max_by(|&a, &b| takes[a].total_cmp(&takes[b]))?;
    let mut early: Vec<usize> = (0..takes.len()).filter(|&pod| pod != last && job.pods[pod].kv_tokens > 0).collect();
    early.sort_by(|&a, &b| takes[a].total_cmp(&takes[b]));
    early.truncate(TRIES.1);
    let gap = takes[last] - takes[*early.first()?];
    let mut best: Option<Move> = None;
    for (at, layer) in layers.iter().enumerate() {
        let share = &shares[at][last];
        let work = |part: &[u32]| part.iter().map(|&i| layer.work(job, last, i as usize, false)).sum::<f64>();
        let mut parts: Vec<(f64, &[u32])> =
            layer.parts(job, share).into_iter().map(|part| ((work(part) - gap / 2.0).abs(), part)).collect();
        parts.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (_, part) in parts.into_iter().take(TRIES.0) {
            for &to in &early {
                if part.iter().any(|&i| !job.fits(to, layer.at[i as usize])) {
                    continue;
                }
                let mut trial = |pod: usize, share: Vec<u32>| {
                    let shares = |layer: usize| if layer == at { &share[..] } else { &shares[layer][pod][..] };
                    let items = sequenced(job, layers, pod, shares);
                    *patience = patience.saturating_sub(items.len());
                    let takes = estimate(job, pod, &items, |_, _| {});
                    (pod, share, takes)
                };
                let left = share.iter().copied().filter(|i| part.binary_search(i).is_err()).collect();
                let mut more: Vec<u32> = shares[at][to].iter().chain(part).copied().collect();
                more.sort_unstable();
                let after = [trial(last, left), trial(to, more)];
                let ends = after[0].2.max(after[1].2);
                let known = best.as_ref().map_or(takes[last] * (1.0 - BALANCED / 4.0), |best| best.ends);
                if ends < known {
                    best = Some(Move { layer: at, after, ends });
                }
                if *patience == 0 {
                    return None;
                }
            }
        }
    }
    best
}
