//! Profile comparison: one workload under one profile after the other.
//!
//! Every profile gets fresh pods with empty caches and the same conversations. Invariant: a difference between results is a
//! difference between profiles.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::fleet::FleetShape;
use crate::load_generator::{LoadGenerator, LoadStats, Workload, WorkloadShape};
use crate::startup::{StartupError, prefill_pods, start};
use pointsman_engine_sim::{CompletionOracle, MODEL};

/// A comparison.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// Stock profiles, in order.
    pub(crate) profiles: Vec<String>,
    /// Pods.
    pub(crate) pods: usize,
    /// How many times faster than the measured machine they are.
    pub(crate) speed: f64,
    /// Seed of the workload.
    pub(crate) seed: u64,
    /// Conversations and documents in all.
    pub(crate) conversations: usize,
    /// Those at once.
    pub(crate) concurrency: usize,
    /// What they are like.
    pub(crate) shape: WorkloadShape,
    /// Blocks that each pod's memory holds.
    pub(crate) blocks: u32,
    /// How long a profile may take. No turn begins after this, so that a slow machine still ends in time.
    pub(crate) limit: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            profiles: PROFILES.map(str::to_owned).to_vec(),
            pods: 8,
            speed: 1.0,
            seed: 1,
            conversations: 118,
            concurrency: 96,
            shape: SHAPE,
            blocks: 16_384,
            limit: LIMIT,
        }
    }
}

impl Options {
    /// Requests in a run if all goes well.
    pub(crate) fn requests(&self) -> usize {
        let workload = Workload::new(self.shape, self.seed);
        (0..self.conversations).map(|nth| workload.conversation(nth).turns.len()).sum()
    }
}

/// The result of one profile.
#[derive(Clone, Debug)]
pub(crate) struct ProfileResult {
    /// Which.
    pub(crate) profile: String,
    /// What clients saw.
    pub(crate) stats: LoadStats,
    /// Prompt tokens that each pod computed, of those pods that prefill.
    pub(crate) computed: Vec<u64>,
    /// Prompt tokens that the other pods computed.
    pub(crate) elsewhere: u64,
    /// From the first request to the last end.
    pub(crate) elapsed: Duration,
}

impl ProfileResult {
    /// Prompt tokens that all pods computed.
    pub(crate) fn computed_tokens(&self) -> u64 {
        self.computed.iter().sum::<u64>() + self.elsewhere
    }

    /// Prompt tokens that no pod had to compute.
    pub(crate) fn saved_tokens(&self) -> u64 {
        (self.stats.prompt_tokens as u64).saturating_sub(self.computed_tokens())
    }

    /// What the busiest pod computed, over the mean; 1 if all computed the same.
    pub(crate) fn imbalance(&self) -> f64 {
        let most = self.computed.iter().max().copied().unwrap_or(0);
        let mean = self.computed.iter().sum::<u64>() as f64 / self.computed.len().max(1) as f64;
        if mean > 0.0 { most as f64 / mean } else { 1.0 }
    }
}

/// Runs the workload under each profile. `on_progress` gets the profile and how many requests have ended.
pub(crate) async fn compare(
    options: &Options,
    mut on_progress: impl FnMut(&str, usize),
) -> Result<Vec<ProfileResult>, StartupError> {
    let mut results = Vec::with_capacity(options.profiles.len());
    for profile in &options.profiles {
        on_progress(profile, 0);
        results.push(one(options, profile, |ended| on_progress(profile, ended)).await?);
    }
    Ok(results)
}

async fn one(
    options: &Options,
    profile: &str,
    mut on_progress: impl FnMut(usize),
) -> Result<ProfileResult, StartupError> {
    let (pods, speed, blocks) = (options.pods, options.speed, options.blocks);
    let shape = FleetShape { pods, speed, blocks, ..FleetShape::default() };
    let (fleet, gateway, client) = start(profile, shape, |_| {}).await?;
    let oracle = CompletionOracle::default();
    let workload = Workload::new(options.shape, options.seed);
    let mut load = LoadGenerator::new(client, workload, MODEL, options.conversations);
    (load.concurrency, load.stagger) = (options.concurrency, STAGGER.div_f64(speed));
    load.expected = Some(Arc::new(move |body| oracle.completion(body)));
    let (begun, mut ended, stop) = (Instant::now(), 0, load.stop.clone());
    let mut running = std::pin::pin!(load.run(|| {
        ended += 1;
        on_progress(ended);
    }));
    let in_time = tokio::time::timeout(options.limit, &mut running).await;
    stop.cancel();
    let stats = match in_time {
        Ok(stats) => stats,
        Err(_) => running.await,
    };
    let elapsed = begun.elapsed();
    let prefilling = match prefill_pods(profile, pods) {
        0 => pods,
        prefill => prefill,
    };
    // A pod that only decodes computes what is left of a prompt when its blocks have come: part of the whole as well.
    let computed = |pod: &pointsman_engine_sim::SimPod| {
        let metrics = pod.metrics();
        metrics.prompt_tokens.saturating_sub(metrics.cached_tokens + metrics.received_tokens)
    };
    let mut by_pod: Vec<u64> = fleet.pods().map(computed).collect();
    let elsewhere: u64 = by_pod.drain(prefilling..).sum();
    gateway.drain(DRAIN).await;
    fleet.stop().await;
    Ok(ProfileResult { profile: profile.to_owned(), stats, computed: by_pod, elsewhere, elapsed })
}

/// Without a cache in mind, with one, and with prefill on pods of its own.
const PROFILES: [&str; 3] = ["round_robin", "cache_aware", "prefill_decode"];

/// Assistants with long instructions and tools, some far more popular than others; users who paste something now and then;
/// documents that are read once and help nobody else.
const SHAPE: WorkloadShape = WorkloadShape {
    system_prompts: 12,
    system_tokens: (1_500, 4_000),
    turns: (4, 5),
    user_tokens: (600, 2_200),
    answer_tokens: (20, 50),
    think_ms: (300, 1_000),
    document_every: 15,
    document_tokens: (3_000, 8_000),
    unstreamed_every: 0,
};

/// A third of what the first command may take, less what is under way then.
const LIMIT: Duration = Duration::from_secs(25);
const STAGGER: Duration = Duration::from_millis(40);
const DRAIN: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn result(computed: &[u64], elsewhere: u64, prompt: usize) -> ProfileResult {
        let stats = LoadStats { prompt_tokens: prompt, ..LoadStats::default() };
        let elapsed = Duration::from_secs(1);
        ProfileResult { profile: "x".to_owned(), stats, computed: computed.to_vec(), elsewhere, elapsed }
    }

    #[test]
    fn what_was_not_computed_was_saved() {
        let result = result(&[100, 300], 50, 1_000);
        assert_eq!((result.computed_tokens(), result.saved_tokens()), (450, 550));
    }

    #[test]
    fn imbalance_is_the_busiest_pod_over_the_mean() {
        assert!((result(&[100, 300], 0, 0).imbalance() - 1.5).abs() < 1e-9);
        assert!((result(&[7, 7, 7], 0, 0).imbalance() - 1.0).abs() < 1e-9);
        assert!((result(&[0, 0], 0, 0).imbalance() - 1.0).abs() < 1e-9);
        assert!((result(&[], 0, 0).imbalance() - 1.0).abs() < 1e-9);
    }

    #[tokio::test]
    async fn a_small_comparison_sends_the_same_to_every_profile_and_the_cache_saves_work() {
        let mut options = Options { pods: 3, speed: 50.0, conversations: 16, concurrency: 6, ..Options::default() };
        (options.shape.think_ms, options.limit) = ((0, 5), Duration::from_secs(100));
        let results = compare(&options, |_, _| {}).await.unwrap();
        for result in &results {
            let stats = &result.stats;
            assert_eq!((stats.answered, stats.failures()), (options.requests(), 0), "{}", result.profile);
            assert_eq!(stats.prompt_tokens, results[0].stats.prompt_tokens, "{}", result.profile);
        }
        let saved = |profile: &str| results.iter().find(|result| result.profile == profile).unwrap().saved_tokens();
        assert!(saved("cache_aware") > saved("round_robin"), "{results:?}");
    }
}
