//! Decision latency and allocations, by pods and plugins, traced and not.
//!
//! `by hand` and `five plugins` are the same decision ([`pointsman_benches::decide`]), without a search. The stock profiles get a
//! prompt as tokens: those that ask for the cache hash it and search, and an eighth of the pods hold a part of it.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use routing_core::{Fleet, Request, RoutingInput, RoutingPlan, Trace, Workflow};
use routing_plugins::{Hashing, PluginState, profiles};

use crate::options::Options;
use crate::results::{ResultTable, Value};
use pointsman_benches::decide;
use pointsman_benches::measure::interleaved;
use pointsman_benches::ours::{MODEL, Ours, block_size};
use pointsman_benches::random_prompt::RandomPrompt;
use pointsman_benches::system::{BLOCK_TOKENS, Client, System};
use pointsman_lab::SplitMix64;
use pointsman_test_support::alloc::Process;

pub(super) fn run(options: &Options, tell: &mut dyn FnMut(&str)) -> Vec<ResultTable> {
    let columns = ["decision", "pods", "ns", "ns, traced", "traced ÷ plain", "allocations", "allocations, traced"];
    let title = format!("A decision, prompts of {PROMPT_BLOCKS} blocks");
    let mut table = ResultTable::new("decision", &title, columns);
    for pods in [8, 64, 256] {
        tell(&format!("decision: {pods} pods"));
        table.rows.push(by_hand(pods, options.rounds));
        table.rows.push(Case::plugins(pods).measure("five plugins", pods, options.rounds));
        for (name, build) in STOCK {
            table.rows.push(Case::stock(pods, options.seed, build).measure(name, pods, options.rounds));
        }
    }
    if !counting() {
        table.findings.push("allocations were not counted: the counting allocator is not installed".to_owned());
    }
    vec![table]
}

/// One of the ready profiles.
type Build = fn(&PluginState) -> Workflow;

const STOCK: [(&str, Build); 6] = [
    ("round_robin", |state| profiles::round_robin(state).build().expect(READY).into()),
    ("least_load", |state| profiles::least_load(state).build().expect(READY).into()),
    ("consistent_hash", |state| profiles::consistent_hash(state).build().expect(READY).into()),
    ("cache_aware", |state| profiles::cache_aware(state).build().expect(READY).into()),
    ("cache_aware_sticky", |state| profiles::cache_aware_sticky(state).build().expect(READY).into()),
    ("prefill_decode", |state| profiles::prefill_decode(state).build().expect(READY)),
];
const READY: &str = "a ready profile builds";

/// A workflow with what it decides on.
struct Case {
    workflow: Workflow,
    fleet: Fleet,
    prompts: Vec<Vec<u32>>,
    sessions: Vec<String>,
}

impl Case {
    fn plugins(pods: usize) -> Self {
        let prompts = vec![Vec::new()];
        Self { workflow: decide::workflow(), fleet: decide::fleet(pods), prompts, sessions: vec![String::new()] }
    }

    fn stock(pods: usize, seed: u64, build: Build) -> Self {
        let mut rng = SplitMix64::new(seed);
        let prompts: Vec<Vec<u32>> = (0..PROMPTS).map(|_| rng.tokens(PROMPT_BLOCKS * BLOCK_TOKENS)).collect();
        let chains = prompts.iter().map(|prompt| Ours::chain_of_tokens(prompt)).collect();
        let ours = Client::held_to_four_depths(pods, chains);
        let workflow = build(&PluginState::new(Arc::clone(&ours.system.index), Hashing::Native(block_size())));
        let sessions = (0..PROMPTS).map(|at| format!("session-{at}")).collect();
        Self { workflow, fleet: ours.system.fleet(decide::uneven_load), prompts, sessions }
    }

    fn measure(&self, name: &str, pods: usize, rounds: usize) -> Vec<Value> {
        let mut workspace = self.workflow.workspace();
        let (mut plan, mut trace, now) = (RoutingPlan::default(), Trace::default(), Instant::now());
        let mut decide = |at: usize, traced: bool| {
            let labels = [("region", "eu")];
            let prompt = &self.prompts[at % self.prompts.len()];
            let headers: &[(&str, &str)] = &[("x-session-id", &self.sessions[at % self.sessions.len()])];
            let request = Request::new(MODEL, now).tokens(prompt).labels(&labels).headers(&headers).seed(at as u64);
            let input = RoutingInput::new(black_box(&request), &self.fleet);
            let input = if traced { input.traced(&mut trace) } else { input };
            self.workflow.decide(&mut workspace, input, &mut plan).expect("every profile finds a pod");
            black_box(plan.steps());
        };
        // Buffers have grown to what they need.
        for at in 0..2 * PROMPTS {
            decide(at, at % 2 == 0);
        }
        let calls = [false, true].map(|traced| allocations(|at| decide(at, traced)));
        let times = interleaved(rounds, 2, |lane| lap(|at| decide(at, lane == 1)));
        let mut row = vec![name.into(), pods.into(), times[0].into(), times[1].into()];
        row.push((times[1].median / times[0].median).into());
        row.extend(calls.map(Value::from));
        row
    }
}

fn by_hand(pods: usize, rounds: usize) -> Vec<Value> {
    let (fleet, mut best) = (decide::fleet(pods), Vec::new());
    let now = Instant::now();
    let mut decide = |at: usize| {
        let request = Request::new(MODEL, now).labels(&[("region", "eu")]).seed(at as u64);
        decide::by_hand(black_box(&request), black_box(&fleet), &mut best);
        black_box(&best);
    };
    decide(0);
    let calls = allocations(&mut decide);
    let ns = interleaved(rounds, 1, |_| lap(&mut decide))[0];
    vec!["by hand".into(), pods.into(), ns.into(), Value::Missing, Value::Missing, calls.into(), Value::Missing]
}

/// ns a decision.
fn lap(decide: impl FnMut(usize)) -> f64 {
    let start = Instant::now();
    (0..DECISIONS).for_each(decide);
    start.elapsed().as_nanos() as f64 / DECISIONS as f64
}

/// Allocations a decision, if they are counted.
fn allocations(mut decide: impl FnMut(usize)) -> Option<f64> {
    if !counting() {
        return None;
    }
    Process::start();
    (0..COUNTED).for_each(&mut decide);
    Process::stop();
    Some(Process::allocations() as f64 / COUNTED as f64)
}

/// Whether the counting allocator is this program's.
fn counting() -> bool {
    Process::start();
    black_box(Box::new(0u64));
    Process::stop();
    Process::allocations() > 0
}

const PROMPT_BLOCKS: usize = 128;
const PROMPTS: usize = 64;
/// Decisions a lap.
const DECISIONS: usize = 2_000;
const COUNTED: usize = 1_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_decision_by_hand_is_the_same_and_every_profile_decides() {
        for pods in [8, 64, 256] {
            let (workflow, fleet, mut best) = (decide::workflow(), decide::fleet(pods), Vec::new());
            let request = Request::new(MODEL, Instant::now()).labels(&[("region", "eu")]).seed(7);
            let mut plan = RoutingPlan::default();
            workflow.decide(&mut workflow.workspace(), RoutingInput::new(&request, &fleet), &mut plan).expect("a plan");
            decide::by_hand(&request, &fleet, &mut best);
            assert!(decide::check(&plan, &best), "{pods} pods");
            for (name, build) in STOCK {
                assert_eq!(Case::stock(pods, 1, build).measure(name, pods, 1).len(), 7);
            }
        }
    }
}
