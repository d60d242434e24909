//! Decision workloads: a profile over a fleet under load, and the search that is in it alone.
//!
//! What a decision adds to its search is the difference of the two: same index, same prompts.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use kv_index::{ChainHasher, Pod};
use pointsman_test_support::SplitMix64;
use routing_core::{Fleet, Load, PodInfo, Request, RoutingInput, RoutingPlan, Selector, Workspace};
use routing_plugins::load::{LoadGuard, LoadTracker, Work};
use routing_plugins::{Hashing, PluginState, profiles};

use crate::operations::{FEW, Filled, MODEL, PromptSource, Tokens, Workload, block_size, hasher};

/// A stock profile.
#[derive(Clone, Copy)]
pub(crate) enum Profile {
    CacheAware,
    FirstToken,
    TotalLatency,
}

/// A profile on prompts of 128 blocks as tokens; an eighth of the pods hold a part of each.
pub(crate) struct Decide {
    selector: Selector,
    workspace: Workspace,
    fleet: Fleet,
    plan: RoutingPlan,
    prompts: Vec<Vec<u32>>,
    now: Instant,
    /// Requests under way, which count as long as they are held.
    _in_flight: Vec<LoadGuard>,
}

impl Decide {
    pub(crate) fn new(profile: Profile, pods: usize) -> Self {
        let (prompts, filled) = held(&hasher(), pods);
        let fleet = Fleet::new(1, filled.pods.iter().enumerate().map(info).collect::<Vec<_>>());
        let state = PluginState::new(filled.index, Hashing::Native(block_size()));
        let in_flight = send(&state.load, &filled.pods);
        let selector = match profile {
            Profile::CacheAware => profiles::cache_aware(&state).build(),
            Profile::FirstToken => profiles::first_token(&state).build(),
            Profile::TotalLatency => profiles::total_latency(&state).build(),
        };
        let selector = selector.expect("a ready profile builds");
        let (workspace, plan) = (selector.workspace(), RoutingPlan::default());
        Self { selector, workspace, fleet, plan, prompts, now: Instant::now(), _in_flight: in_flight }
    }
}

impl Workload for Decide {
    fn run(&mut self, times: usize) -> u64 {
        let mut sum = 0;
        for (seed, prompt) in (0..).zip(self.prompts.iter().cycle().take(times)) {
            let request = Request::new(MODEL, self.now).tokens(black_box(prompt)).seed(seed);
            self.selector
                .decide(&mut self.workspace, RoutingInput::new(&request, &self.fleet), &mut self.plan)
                .expect("all are well");
            sum += self.plan.steps()[0].candidates[0].pod.id().index() as u64;
        }
        sum
    }
}

/// The search of such a decision: its prompts, hashed as far as it asks.
pub(crate) fn search(pods: usize) -> Tokens {
    let hasher = hasher();
    let (prompts, filled) = held(&hasher, pods);
    Tokens::new(filled, prompts, hasher)
}

fn held(hasher: &ChainHasher, pods: usize) -> (Vec<Vec<u32>>, Filled) {
    let prompts = PromptSource(SplitMix64::new(4)).prompts(FEW, 128);
    let filled = Filled::new(pods, prompts.iter().map(|prompt| hasher.hash(prompt)).collect());
    (prompts, filled)
}

fn info((at, pod): (usize, &Pod)) -> PodInfo {
    let (running, tokens) = ((at * 7 % 13) as u32, (at * 7 % 13 * 700) as u64);
    let load = Load { running, tokens, kv_used: (at * 5 % 17) as f32 / 17.0, ..Load::default() };
    PodInfo::new(*pod, &format!("pod-{at}")).load(load)
}

/// Up to three requests to each pod, of which every fourth pod computes one's prompt.
fn send(tracker: &Arc<LoadTracker>, pods: &[Pod]) -> Vec<LoadGuard> {
    let mut guards = Vec::new();
    for (at, &pod) in pods.iter().enumerate() {
        for nth in 0..at % 4 {
            let mut guard = tracker.begin(pod, Work::of(1_000 + 40 * at as u64).held(700).output(200));
            if at % 4 != 3 || nth > 0 {
                guard.first_token();
            }
            guards.push(guard);
        }
    }
    guards
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fourth_pod_computes_a_prompt_and_most_have_something_to_do() {
        let index: kv_index::Index = kv_index::Index::new(kv_index::Config::default());
        let pods: Vec<Pod> = (0..64).map(|at| index.join(&format!("pod-{at}")).expect("room")).collect();
        let tracker = Arc::new(LoadTracker::default());
        let _guards = send(&tracker, &pods);
        let count = |has: fn(&routing_plugins::load::InFlight) -> bool| {
            pods.iter().filter(|pod| has(&tracker.in_flight(pod.id()))).count()
        };
        assert_eq!((count(|own| own.prefilling > 0), count(|own| own.requests > 0)), (16, 48));
    }
}
