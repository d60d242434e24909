//! Hashes that a host gives decide, speculate, predict and locate as those that are made here do.
#![cfg(feature = "serde")]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use kv_index::{BlockHash, BlockSize, ChainHasher, ChainSeed, Config, Event, EventSemantics, Index, Stored, Tier};
use proptest::prelude::*;
use routing_core::{Fleet, PodInfo, Registry, Request, RoutingInput, RoutingPlan, Trace, Workflow};
use routing_plugins::load::{LoadGuard, Work};
use routing_plugins::{Hashing, PluginState, register};

const BLOCK: u32 = 4;
const PODS: usize = 3;

/// By tier and cost, ties by the prompt's hashes; entered at once.
const SPECULATES: &str = "
plugins:
- { name: tokens, type: tokenize_preparer }
- { name: hash, type: block_hash_preparer, parameters: { most_tokens: 26 } }
- { name: held, type: prefix_match_preparer }
- { name: tiers, type: tier_match_preparer }
- { name: loads, type: load_preparer }
- { name: cache, type: cache_affinity_scorer, parameters: { tiers: { host: 0.5 } } }
- { name: cost, type: prefill_cost_scorer }
- { name: best, type: max_score_picker, parameters: { ties: by_prompt } }
- { name: enter, type: speculate_recorder }
profiles:
- name: p
  prepare: [tokens, hash, held, tiers, loads]
  score: [{ plugin: cache, weight: 1 }, { plugin: cost, weight: 1 }]
  pick: best
  record: [enter]";

/// By the longest match, guessed from what was routed.
const PREDICTS: &str = "
plugins:
- { name: tokens, type: tokenize_preparer }
- { name: hash, type: block_hash_preparer }
- { name: held, type: prefix_match_preparer }
- { name: loads, type: load_preparer }
- { name: longest, type: longest_match_filter, parameters: { share: 0.2 } }
- { name: first, type: first_token_scorer }
- { name: best, type: max_score_picker }
- { name: guess, type: predict_recorder }
- { name: sent, type: recent_work_recorder }
profiles:
- name: p
  prepare: [tokens, hash, held, loads]
  filter: [{ plugin: longest, on_empty: keep_previous }]
  score: [{ plugin: first, weight: 1 }]
  pick: best
  record: [guess, sent]";

/// How a request tells its prompt.
#[derive(Clone, Copy, Debug)]
enum Told {
    /// As tokens, which are hashed here.
    Tokens,
    /// As hashes, with as many zeros as there are tokens.
    HashesAndLength,
    /// As hashes alone.
    Hashes,
}

/// One thing that happens.
#[derive(Clone, Debug)]
enum Happens {
    /// A prompt of this beginning, middle and length is routed, with so much of it counting.
    Routed { beginning: u32, middle: u32, blocks: u32, rest: u32, most: Option<u32> },
    /// A pod reports a prompt's first blocks.
    Stored { pod: usize, beginning: u32, middle: u32, blocks: u32, tier: Tier },
    /// Milliseconds go by.
    Passed(u64),
}

fn happens() -> impl Strategy<Value = Happens> {
    let (beginning, middle, blocks) = (0..2u32, 0..3u32, 0..9u32);
    let tier = prop::sample::select(vec![Tier::Gpu, Tier::Host]);
    prop_oneof![
        5 => (beginning.clone(), middle.clone(), blocks.clone(), 0..BLOCK, prop::option::of(0..40u32)).prop_map(
            |(beginning, middle, blocks, rest, most)| Happens::Routed { beginning, middle, blocks, rest, most }
        ),
        2 => (0..PODS, beginning, middle, blocks, tier).prop_map(
            |(pod, beginning, middle, blocks, tier)| Happens::Stored { pod, beginning, middle, blocks, tier }
        ),
        1 => (0..3_000u64).prop_map(Happens::Passed),
    ]
}

/// Two blocks of a beginning, and then a middle.
fn prompt(beginning: u32, middle: u32, tokens: u32) -> Vec<u32> {
    (0..tokens).map(|at| if at < 2 * BLOCK { 1_000 * beginning + at } else { 100_000 + 1_000 * middle + at }).collect()
}

fn chain(tokens: &[u32]) -> Vec<BlockHash> {
    ChainHasher::new(ChainSeed::new("m"), size()).hash(tokens)
}

fn size() -> BlockSize {
    BlockSize::new(BLOCK).expect("not zero")
}

struct Gateway {
    told: Told,
    state: PluginState,
    workflow: Workflow,
    fleet: Fleet,
    guards: Vec<LoadGuard>,
    now: Instant,
    seed: u64,
}

impl Gateway {
    fn new(text: &str, told: Told, now: Instant) -> Self {
        let hashing = match told {
            Told::Tokens => Hashing::Native(size()),
            Told::HashesAndLength | Told::Hashes => Hashing::Given(size()),
        };
        let state = PluginState::new(Arc::new(Index::new(Config::default())), hashing);
        let state = state.predicting(12.try_into().expect("not zero"));
        let mut registry = Registry::new();
        register(&mut registry, &state).expect("nothing else is registered");
        let document = registry.read(serde_yaml_ng::Deserializer::from_str(text)).expect("a document");
        let workflow = document.build(&registry).expect("it fits");
        let pods = (0..PODS).map(|at| format!("pod-{at}"));
        let fleet = Fleet::new(1, pods.map(|name| PodInfo::new(state.index.join(&name).expect("room"), &name)));
        Self { told, state, workflow, fleet, guards: Vec::new(), now, seed: 0 }
    }

    /// What a decision says of itself; nothing of what else happens.
    fn see(&mut self, happens: &Happens) -> Option<String> {
        match *happens {
            Happens::Passed(millis) => self.now += Duration::from_millis(millis),
            Happens::Stored { pod, beginning, middle, blocks, tier } => {
                let pod = self.fleet.pods().iter().nth(pod).and_then(|id| self.fleet.handle(id)).expect("a pod");
                let hashes = chain(&prompt(beginning, middle, blocks * BLOCK));
                if !hashes.is_empty() {
                    let stored = Event::Stored(Stored::prompt(&hashes).in_tier(tier));
                    self.state.index.apply(pod, EventSemantics::Membership, &stored).expect("it is alive");
                }
            }
            Happens::Routed { beginning, middle, blocks, rest, most } => {
                // Without tokens, a prompt ends with its last whole block, and all of it counts.
                let (rest, most) = if matches!(self.told, Told::Hashes) { (0, None) } else { (rest, most) };
                return Some(self.route(&prompt(beginning, middle, blocks * BLOCK + rest), most));
            }
        }
        None
    }

    fn route(&mut self, tokens: &[u32], most: Option<u32>) -> String {
        self.seed += 1;
        let (hashes, zeros) = (chain(tokens), vec![0; tokens.len()]);
        let request = Request::new("m", self.now).seed(self.seed);
        let request = most.map_or(request, |most| request.most_prefix(most));
        let request = match self.told {
            Told::Tokens => request.tokens(tokens),
            Told::HashesAndLength => request.tokens(&zeros).hashes(&hashes),
            Told::Hashes => request.hashes(&hashes),
        };
        let (mut plan, mut trace) = (RoutingPlan::default(), Trace::default());
        let mut workspace = self.workflow.workspace();
        self.workflow
            .decide(&mut workspace, RoutingInput::new(&request, &self.fleet).traced(&mut trace), &mut plan)
            .expect("a plan");
        let step = &plan.steps()[0];
        let pods: Vec<_> = step.candidates.iter().map(|candidate| candidate.pod.id().index()).collect();
        let held = step.cache.map_or(0, |cache| cache.held);
        let chosen = step.candidates[0].pod;
        self.guards.push(self.state.load.begin(chosen, Work::of(tokens.len() as u64).held_blocks(held, size())));
        if self.guards.len() > 4 {
            drop(self.guards.remove(0));
        }
        let blocks = self.fleet.pods().iter().filter_map(|id| self.state.index.pod_stats(self.fleet.handle(id)?));
        let blocks: Vec<_> = blocks.map(|stats| stats.blocks).collect();
        let scores = trace.steps.iter().flat_map(|step| &step.scorers).map(|scorer| &scorer.scores);
        let scores: Vec<_> = scores.collect();
        let recent = self.state.recent_work.of(chosen, self.now);
        format!("{pods:?} of {held} held, scores {scores:?}, then {blocks:?} blocks and {recent} seconds")
    }
}

#[expect(clippy::disallowed_methods, reason = "some instant to count from; which one does not matter")]
fn agree(text: &str, all: &[Happens], told: [Told; 2]) -> Result<(), TestCaseError> {
    let now = Instant::now();
    let mut gateways = told.map(|told| Gateway::new(text, told, now));
    for happens in all {
        let [a, b] = gateways.each_mut().map(|gateway| gateway.see(happens));
        prop_assert_eq!(a, b, "{:?}", happens);
    }
    for gateway in &gateways {
        prop_assert_eq!(gateway.state.tokenize_failures.load(Ordering::Relaxed), 0, "nothing is missing");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn given_hashes_decide_as_made_ones(all in prop::collection::vec(happens(), 1..40)) {
        for text in [SPECULATES, PREDICTS] {
            agree(text, &all, [Told::Tokens, Told::HashesAndLength])?;
        }
    }

    /// Of prompts that end with a block, the length is told by the hashes.
    #[test]
    fn hashes_alone_are_enough(all in prop::collection::vec(happens(), 1..40)) {
        let whole = |happens: &Happens| match happens.clone() {
            Happens::Routed { beginning, middle, blocks, .. } => {
                // What the first document's cap cuts off is known of by tokens only.
                Happens::Routed { beginning, middle, blocks: blocks.min(6), rest: 0, most: None }
            }
            other => other,
        };
        let all: Vec<_> = all.iter().map(whole).collect();
        for text in [SPECULATES, PREDICTS] {
            agree(text, &all, [Told::HashesAndLength, Told::Hashes])?;
        }
    }
}

#[test]
fn a_request_without_hashes_is_held_by_nobody_and_one_without_both_is_counted() {
    #[expect(clippy::disallowed_methods, reason = "a request has some instant; which one does not matter")]
    let now = Instant::now();
    let mut gateway = Gateway::new(PREDICTS, Told::Hashes, now);
    gateway.see(&Happens::Routed { beginning: 0, middle: 0, blocks: 4, rest: 0, most: None });
    let (tokens, mut plan) = (prompt(0, 0, 16), RoutingPlan::default());
    for (request, counted) in [(Request::new("m", now).tokens(&tokens), 0), (Request::new("m", now), 1)] {
        let mut workspace = gateway.workflow.workspace();
        gateway
            .workflow
            .decide(&mut workspace, RoutingInput::new(&request, &gateway.fleet), &mut plan)
            .expect("a plan");
        assert_eq!(plan.steps()[0].cache.map_or(0, |cache| cache.held), 0);
        assert_eq!(gateway.state.tokenize_failures.load(Ordering::Relaxed), counted);
    }
}
