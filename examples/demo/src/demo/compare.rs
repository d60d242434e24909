//! One workload under one profile after the other.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::fleet::{Fleet, FleetShape};
use crate::load::{Client, Drive, Shape, Tally, Workload, drive};
use pointsman_engine_sim::{MODEL, Oracle};
use pointsman_gateway::config::Profile;
use pointsman_gateway::{Gateway, StartError};

/// What is compared.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_structs, reason = "figures that a caller chooses by name")]
pub struct Options {
    /// Stock profiles, in order.
    pub profiles: Vec<String>,
    /// Pods.
    pub pods: usize,
    /// How many times faster than the measured machine they are.
    pub speed: f64,
    /// Where chance begins.
    pub seed: u64,
    /// Conversations and documents in all.
    pub scripts: usize,
    /// Those at once.
    pub at_once: usize,
    /// What they are like.
    pub shape: Shape,
    /// Blocks that each pod's memory holds.
    pub blocks: u32,
    /// How long a profile may take. No turn begins after this, so that a slow machine still ends in time.
    pub most: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            profiles: PROFILES.map(str::to_owned).to_vec(),
            pods: 8,
            speed: 1.0,
            seed: 1,
            scripts: 118,
            at_once: 96,
            shape: SHAPE,
            blocks: 16_384,
            most: MOST,
        }
    }
}

impl Options {
    /// Requests in a run if all goes well.
    #[must_use]
    pub fn requests(&self) -> usize {
        let workload = Workload::new(self.shape, self.seed);
        (0..self.scripts).map(|nth| workload.script(nth).turns.len()).sum()
    }
}

/// Pods of a fleet that prefill under a profile; 0 if all do both. Half of them: with fewer, first tokens wait for a prefill
/// pod; with more, decode steps get longer.
#[must_use]
pub fn prefill_pods(profile: &str, pods: usize) -> usize {
    if profile.starts_with("prefill_decode") { (pods / 2).max(1) } else { 0 }
}

/// What came of a profile.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// Which.
    pub profile: String,
    /// What clients saw.
    pub tally: Tally,
    /// Prompt tokens that each pod computed, of those pods that prefill.
    pub computed: Vec<u64>,
    /// Prompt tokens that the other pods computed.
    pub elsewhere: u64,
    /// From the first request to the last end.
    pub took: Duration,
}

impl Outcome {
    /// Prompt tokens that all pods computed.
    #[must_use]
    pub fn computed_tokens(&self) -> u64 {
        self.computed.iter().sum::<u64>() + self.elsewhere
    }

    /// Prompt tokens that no pod had to compute.
    #[must_use]
    pub fn saved_tokens(&self) -> u64 {
        (self.tally.prompt_tokens as u64).saturating_sub(self.computed_tokens())
    }

    /// What the busiest pod computed, over the mean; 1 if all computed the same.
    #[must_use]
    pub fn imbalance(&self) -> f64 {
        let most = self.computed.iter().max().copied().unwrap_or(0);
        let mean = self.computed.iter().sum::<u64>() as f64 / self.computed.len().max(1) as f64;
        if mean > 0.0 { most as f64 / mean } else { 1.0 }
    }
}

/// Why a comparison could not be made. The machine lacks something, or a profile's name is wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DemoError {
    /// No pods.
    #[error("the pods cannot start")]
    Fleet(#[source] io::Error),
    /// No gateway.
    #[error("the gateway cannot start")]
    Gateway(#[source] StartError),
}

/// Runs the workload under each profile. `see` is told which profile it is, and how many requests have ended.
///
/// # Errors
///
/// When pods or gateway cannot start.
pub async fn compare(options: &Options, mut see: impl FnMut(&str, usize)) -> Result<Vec<Outcome>, DemoError> {
    let mut outcomes = Vec::with_capacity(options.profiles.len());
    for profile in &options.profiles {
        see(profile, 0);
        outcomes.push(one(options, profile, |ended| see(profile, ended)).await?);
    }
    Ok(outcomes)
}

async fn one(options: &Options, profile: &str, mut see: impl FnMut(usize)) -> Result<Outcome, DemoError> {
    let prefill = prefill_pods(profile, options.pods);
    let (pods, speed, blocks) = (options.pods, options.speed, options.blocks);
    let shape = FleetShape { pods, prefill, speed, blocks, ..FleetShape::default() };
    let fleet = Fleet::start(&shape).await.map_err(DemoError::Fleet)?;
    let mut config = fleet.gateway_config();
    config.profile = Profile::stock(profile);
    let gateway = Gateway::start(config).await.map_err(DemoError::Gateway)?;
    let client = Client::new(&format!("http://{}", gateway.address()), PATIENCE);
    let oracle = Oracle::new();
    let mut load = Drive::new(client, Workload::new(options.shape, options.seed), MODEL, options.scripts);
    (load.at_once, load.stagger) = (options.at_once, STAGGER.div_f64(speed));
    load.expect = Some(Arc::new(move |body| oracle.answer(body)));
    let (begun, mut ended, stop) = (Instant::now(), 0, load.stop.clone());
    let mut running = std::pin::pin!(drive(load, |_| {
        ended += 1;
        see(ended);
    }));
    let in_time = tokio::time::timeout(options.most, &mut running).await;
    stop.cancel();
    let tally = match in_time {
        Ok(tally) => tally,
        Err(_) => running.await,
    };
    let took = begun.elapsed();
    let prefilling = if prefill > 0 { prefill } else { pods };
    // A pod that only decodes computes what is left of a prompt when its blocks have come: part of the whole as well.
    let computed = |pod: &pointsman_engine_sim::SimPod| {
        let figures = pod.figures();
        figures.prompt_tokens.saturating_sub(figures.cached_tokens + figures.received_tokens)
    };
    let mut by_pod: Vec<u64> = fleet.pods().map(computed).collect();
    let elsewhere: u64 = by_pod.drain(prefilling..).sum();
    gateway.drain(PATIENCE).await;
    fleet.stop().await;
    Ok(Outcome { profile: profile.to_owned(), tally, computed: by_pod, elsewhere, took })
}

/// Without a cache in mind, with one, and with prefill on pods of its own.
const PROFILES: [&str; 3] = ["round_robin", "cache_aware", "prefill_decode"];

/// Assistants with long instructions and tools, some far more popular than others; users who paste something now and then;
/// documents that are read once and help nobody else.
const SHAPE: Shape = Shape {
    systems: 12,
    system: (1_500, 4_000),
    turns: (4, 5),
    user: (600, 2_200),
    answer: (20, 50),
    think_ms: (300, 1_000),
    one_document_in: 15,
    document: (3_000, 8_000),
    one_whole_in: 0,
};

/// A third of what the first command may take, less what is under way then.
const MOST: Duration = Duration::from_secs(25);
const STAGGER: Duration = Duration::from_millis(40);
const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(computed: &[u64], elsewhere: u64, prompt: usize) -> Outcome {
        let tally = Tally { prompt_tokens: prompt, ..Tally::default() };
        let took = Duration::from_secs(1);
        Outcome { profile: "x".to_owned(), tally, computed: computed.to_vec(), elsewhere, took }
    }

    #[test]
    fn what_was_not_computed_was_saved() {
        let outcome = outcome(&[100, 300], 50, 1_000);
        assert_eq!((outcome.computed_tokens(), outcome.saved_tokens()), (450, 550));
    }

    #[test]
    fn imbalance_is_the_busiest_pod_over_the_mean() {
        assert!((outcome(&[100, 300], 0, 0).imbalance() - 1.5).abs() < 1e-9);
        assert!((outcome(&[7, 7, 7], 0, 0).imbalance() - 1.0).abs() < 1e-9);
        assert!((outcome(&[0, 0], 0, 0).imbalance() - 1.0).abs() < 1e-9);
        assert!((outcome(&[], 0, 0).imbalance() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn some_pods_prefill_where_the_profile_tells_them_apart() {
        let split = |profile: &str| [2, 8, 16].map(|pods| prefill_pods(profile, pods));
        assert_eq!(split("cache_aware"), [0, 0, 0]);
        assert_eq!(split("prefill_decode"), [1, 4, 8]);
        assert_eq!(split("prefill_decode_conditional"), [1, 4, 8]);
    }
}
