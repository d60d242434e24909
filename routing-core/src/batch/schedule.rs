//! A candidate schedule: shares by pod, their order, completion times, makespan.

use std::time::Duration;

use super::estimate::estimate;
use super::layer::{Job, Layer};
use super::partition::Shares;
use super::sequence::{Item, sequence};

/// A candidate schedule.
#[derive(Debug)]
pub(super) struct Schedule {
    /// By layer.
    pub(super) shares: Vec<Shares>,
    /// By pod.
    pub(super) items: Vec<Vec<Item>>,
    pub(super) takes: Vec<f64>,
    /// By place: seconds until it is done.
    pub(super) finishes: Vec<f64>,
    pub(super) late: usize,
    pub(super) prefill_tokens: u64,
}

impl Schedule {
    pub(super) fn new(job: &Job<'_>, layers: &[Layer], shares: Vec<Shares>) -> Self {
        let items: Vec<Vec<Item>> =
            (0..job.pods.len()).map(|pod| sequenced(job, layers, pod, |layer| &shares[layer][pod][..])).collect();
        let mut finishes = vec![0.0; job.queue.len()];
        let paced =
            |(pod, items): (usize, &Vec<Item>)| estimate(job, pod, items, |at, now| finishes[at as usize] = now);
        let takes = items.iter().enumerate().map(paced).collect();
        let late = finishes.iter().enumerate().filter(|&(at, &finish)| lateness(job, at, finish).is_some()).count();
        let new = |item: &Item| u64::from(job.new_tokens(item.at, item.cached));
        let prefill_tokens = items.iter().flatten().map(new).sum();
        Self { shares, items, takes, finishes, late, prefill_tokens }
    }

    pub(super) fn makespan(&self) -> f64 {
        self.takes.iter().copied().fold(0.0, f64::max)
    }

    /// Fewer late ones first, then an earlier end; among ends that are about the same, less to compute.
    pub(super) fn is_better(&self, other: &Self, slack: f64) -> bool {
        let (ends, others) = (self.makespan(), other.makespan());
        if self.late != other.late {
            return self.late < other.late;
        }
        if (ends - others).abs() > slack * ends.min(others) {
            return ends < others;
        }
        (self.prefill_tokens, ends) < (other.prefill_tokens, others)
    }
}

/// A pod's shares of all layers, in order.
pub(super) fn sequenced<'s>(
    job: &Job<'_>,
    layers: &[Layer],
    pod: usize,
    share: impl Fn(usize) -> &'s [u32],
) -> Vec<Item> {
    let mut items = Vec::new();
    for (at, layer) in layers.iter().enumerate() {
        let before = items.len();
        sequence(job, layer, pod, share(at), &mut items);
        items[before..].iter_mut().for_each(|item| item.tier = at as u32);
    }
    items
}

/// By how much a request is late.
pub(super) fn lateness(job: &Job<'_>, at: usize, finish: f64) -> Option<Duration> {
    let late = seconds(finish).checked_sub(job.deadline(at as u32)?)?;
    (late > Duration::ZERO).then_some(late)
}

pub(super) fn seconds(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
}
