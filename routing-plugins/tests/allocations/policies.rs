//! A warm decision by a published rule allocates nothing, where the host gives hashes.
#![cfg(feature = "serde")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use kv_index::{BlockHash, BlockSize, Config, Event, EventSemantics, Index, Stored};
use pointsman_test_support::alloc::allocations;
use routing_core::{Fleet, PodInfo, Registry, Request, RoutingInput, RoutingPlan};
use routing_plugins::load::Work;
use routing_plugins::{Hashing, PluginState, register};

#[test]
#[expect(clippy::disallowed_methods, reason = "some instant to count from; which one does not matter")]
fn a_warm_decision_allocates_nothing() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/simulator/policies");
    let mut tested = 0;
    for file in std::fs::read_dir(folder).expect("the folder of policies") {
        let path = file.expect("a file").path();
        let state: PluginState = PluginState::new(
            Arc::new(Index::new(Config::default())),
            Hashing::Given(BlockSize::new(512).expect("not zero")),
        );
        let mut registry = Registry::new();
        register(&mut registry, &state).expect("nothing else is registered");
        let text = std::fs::read_to_string(&path).expect("a text");
        let document = registry.read(serde_yaml_ng::Deserializer::from_str(&text)).expect("a document");
        let workflow = document.build(&registry).expect("it fits");
        let prompts: Vec<Vec<BlockHash>> =
            (0..4u64).map(|prompt| (1..=40).map(|at| BlockHash::new(prompt << 32 | at)).collect()).collect();
        let pods: Vec<_> = (0..16).map(|at| state.index.join(&format!("pod-{at}")).expect("room")).collect();
        for (pod, prompt) in pods.iter().zip(&prompts) {
            let stored = Event::Stored(Stored::prompt(&prompt[..30]));
            state.index.apply(*pod, EventSemantics::Membership, &stored).expect("it is alive");
        }
        let fleet = Fleet::new(1, pods.iter().map(|pod| PodInfo::new(*pod, "pod")));
        let (mut workspace, mut plan, start) = (workflow.workspace(), RoutingPlan::default(), Instant::now());
        let (tokens, headers) = (vec![0; 40 * 512], [("x-session-id", "s")]);
        let mut decide = |seed: u64| {
            let headers: &[(&str, &str)] = &headers;
            let request = Request::new("m", start + Duration::from_millis(seed)).tokens(&tokens).headers(&headers);
            let request = request.hashes(&prompts[seed as usize % 4]).seed(seed);
            workflow.decide(&mut workspace, RoutingInput::new(&request, &fleet), &mut plan).expect("a plan");
            drop(state.load.begin(plan.steps()[0].candidates[0].pod, Work::of(seed)));
        };
        (0..20).for_each(&mut decide);
        assert_eq!(allocations(|| (20..200).for_each(&mut decide)), 0, "{}", path.display());
        tested += 1;
    }
    assert!(tested >= 13, "{tested}");
}
