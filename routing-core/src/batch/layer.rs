//! Additive cost estimates of the requests of a queue, or of a layer of it, for partition into shares.
//!
//! A share's work is the sum of its requests': an estimate that can be added up, where [`super::estimate`] goes through a pod's
//! run step by step. A request that takes up a tenth of a pod's cache pays for a tenth of each step that it takes part in.

use std::time::Duration;

use super::cached_prefixes::Claim;
use super::order::Queue;
use super::{BatchConfig, BatchPod};

/// What is to be planned, for whom.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) queue: Queue<'a>,
    pub(super) pods: &'a [BatchPod],
    pub(super) config: &'a BatchConfig,
    /// By place; nothing where pods hold nothing.
    pub(super) claims: Option<Vec<Claim>>,
}

impl Job<'_> {
    /// Who holds most of the prompt at a place.
    pub(super) fn claim(&self, at: u32) -> Claim {
        self.claims.as_ref().map_or_else(Claim::default, |claims| claims[at as usize])
    }

    /// Whether a pod's cache can hold the request at a place.
    pub(super) fn fits(&self, pod: usize, at: u32) -> bool {
        self.queue.request(at as usize).room() <= self.pods[pod].kv_tokens
    }

    /// Tokens at a place that are to be computed where `cached` blocks are there.
    pub(super) fn new_tokens(&self, at: u32, cached: u32) -> u32 {
        self.queue.request(at as usize).new_tokens(cached, self.config.block_tokens.get())
    }

    /// Seconds that computing them takes a pod of speed 1.
    pub(super) fn prefill(&self, at: u32, cached: u32) -> f64 {
        let new = self.new_tokens(at, cached);
        self.config.costs.prefill(self.queue.request(at as usize).prompt_tokens.saturating_sub(new), new)
    }

    pub(super) fn deadline(&self, at: u32) -> Option<Duration> {
        self.queue.request(at as usize).deadline
    }
}

/// A part of the queue that is cut on its own, in trie order.
#[derive(Debug)]
pub(super) struct Layer {
    /// Places.
    pub(super) at: Vec<u32>,
    /// Blocks shared with the one before in this layer.
    pub(super) near: Vec<u32>,
    /// Seconds to compute what is new behind the one before.
    prefill: Vec<f64>,
    /// Seconds to generate the answer, but for what steps cost by themselves.
    decode: Vec<f64>,
    /// Steps that it takes part in.
    steps: Vec<f64>,
    /// Tokens that it adds to a cache.
    pub(super) adds: Vec<f64>,
}

impl Layer {
    /// Of the places `at`, which ascend.
    pub(super) fn new(job: &Job<'_>, at: Vec<u32>) -> Self {
        let len = at.len();
        let mut layer = Self {
            near: Vec::with_capacity(len),
            prefill: Vec::with_capacity(len),
            decode: Vec::with_capacity(len),
            steps: Vec::with_capacity(len),
            adds: Vec::with_capacity(len),
            at,
        };
        let costs = &job.config.costs;
        for (i, &at) in layer.at.iter().enumerate() {
            let request = job.queue.request(at as usize);
            let near = if i == 0 { 0 } else { job.queue.shared(layer.at[i - 1] as usize, at as usize) };
            let output = f64::from(request.output_tokens);
            let context = f64::from(request.prompt_tokens) + output / 2.0;
            layer.near.push(near);
            layer.prefill.push(job.prefill(at, near));
            layer.decode.push(output * (costs.output_token + costs.context_token * context));
            layer.steps.push(output);
            layer.adds.push(f64::from(job.new_tokens(at, near)) + output);
        }
        layer
    }

    pub(super) fn len(&self) -> usize {
        self.at.len()
    }

    /// Seconds that a pod takes to generate the `i`th one's answer, in a batch that fills its cache.
    pub(super) fn decode(&self, job: &Job<'_>, pod: usize, i: usize) -> f64 {
        self.reads(job, pod, i) + self.shared_steps(job, pod, i)
    }

    /// Seconds of that which nobody shares.
    pub(super) fn reads(&self, job: &Job<'_>, pod: usize, i: usize) -> f64 {
        self.decode[i] / job.pods[pod].speed
    }

    /// Seconds of the steps that it takes part in, if it were alone.
    pub(super) fn steps(&self, job: &Job<'_>, pod: usize, i: usize) -> f64 {
        self.steps[i] * job.config.costs.step_alone(1.0) / job.pods[pod].speed
    }

    /// Its share of them in a batch that fills the cache.
    pub(super) fn shared_steps(&self, job: &Job<'_>, pod: usize, i: usize) -> f64 {
        let full = job.config.full_batch(self.adds[i], job.pods[pod].kv_tokens);
        self.steps[i] * job.config.costs.step_alone(full) / full / job.pods[pod].speed
    }

    /// Seconds from its first token to its last in such a batch, with as much context for each.
    pub(super) fn residence(&self, job: &Job<'_>, pod: usize, i: usize) -> f64 {
        let full = job.config.full_batch(self.adds[i], job.pods[pod].kv_tokens);
        (self.reads(job, pod, i) + self.shared_steps(job, pod, i)) * full
    }

    /// Seconds that a pod takes to compute the `i`th one's prompt behind the one before it; or `cold`, without it.
    pub(super) fn prefill(&self, job: &Job<'_>, pod: usize, i: usize, cold: bool) -> f64 {
        let held = job.claim(self.at[i]).on(pod);
        if cold || held > self.near[i] {
            return self.prefill_behind(job, pod, i, if cold { 0 } else { self.near[i] });
        }
        self.prefill[i] / job.pods[pod].speed
    }

    /// The same behind `near` blocks of it.
    pub(super) fn prefill_behind(&self, job: &Job<'_>, pod: usize, i: usize, near: u32) -> f64 {
        let held = job.claim(self.at[i]).on(pod);
        job.prefill(self.at[i], near.max(held)) / job.pods[pod].speed
    }

    /// Seconds that the `i`th takes a pod that does nothing else.
    pub(super) fn alone(&self, job: &Job<'_>, pod: usize, i: usize) -> f64 {
        self.prefill(job, pod, i, true) + self.reads(job, pod, i) + self.steps(job, pod, i)
    }

    /// Blocks that the `j`th of a share of this layer has in common with the one before it.
    pub(super) fn near_in(&self, job: &Job<'_>, share: &[u32], j: usize) -> u32 {
        let Some(before) = j.checked_sub(1) else { return 0 };
        let (before, this) = (share[before] as usize, share[j] as usize);
        if before + 1 == this {
            return self.near[this];
        }
        job.queue.shared(self.at[before] as usize, self.at[this] as usize)
    }

    /// A share of this layer, parted where the least is shared across.
    pub(super) fn parts<'s>(&self, job: &Job<'_>, share: &'s [u32]) -> Vec<&'s [u32]> {
        let near: Vec<u32> = (1..share.len()).map(|j| self.near_in(job, share, j)).collect();
        let least = near.iter().copied().min().unwrap_or(0);
        let mut parts = Vec::new();
        let mut from = 0;
        for (j, _) in near.iter().enumerate().filter(|&(_, &near)| near == least) {
            parts.push(&share[from..=j]);
            from = j + 1;
        }
        parts.push(&share[from..]);
        parts
    }

    /// Both.
    pub(super) fn work(&self, job: &Job<'_>, pod: usize, i: usize, cold: bool) -> f64 {
        self.prefill(job, pod, i, cold) + self.decode(job, pod, i)
    }
}
