//! Every ready profile is a document too, and the two decide alike.
#![cfg(feature = "serde")]

use std::time::Instant;

use routing_core::{Fleet, Load, PodInfo, Registry, Request, Role, RoutingInput, RoutingPlan, Trace, Workflow};
use routing_plugins::profiles::StockProfile;
use routing_plugins::{PluginState, profiles, register};

use super::world::{prompt, state};

const READY: &str = "a ready profile builds";

fn registry(state: &PluginState) -> Registry {
    let mut registry = Registry::new();
    register(&mut registry, state).expect("nothing else is registered");
    registry
}

fn read(text: &str, state: &PluginState) -> Workflow {
    let registry = registry(state);
    let document = registry.read(serde_yaml_ng::Deserializer::from_str(text)).expect("a document of known types");
    document.build(&registry).expect("it fits")
}

#[test]
fn documents_and_code_decide_alike_for_the_same_reasons() {
    #[expect(clippy::disallowed_methods, reason = "a request has some instant; which one does not matter")]
    let now = Instant::now();
    for StockProfile { name, build, document: text, .. } in StockProfile::ALL {
        // Each has a state of its own: what one remembers the other must not see.
        let (a, b) = (state(), state());
        let workflows = [(read(text, &a), a), (build(&b).expect(READY), b)];
        let mut has_two_steps = false;
        let mut traces = workflows.map(|(workflow, state)| {
            assert!(workflow.warnings().is_empty(), "{name}: {:?}", workflow.warnings());
            let pods = (0..6).map(|at| {
                let pod = format!("pod-{at}");
                let role = [Role::Prefill, Role::Decode, Role::Both][at % 3];
                let info = PodInfo::new(state.index.join(&pod).expect("room"), &pod);
                // So many decode that prompts are better computed elsewhere.
                let running = [0, 60, 40][at % 3];
                let load = Load { running, tokens: u64::from(running) * 4_000, ..Load::default() };
                info.role(role).label("zone", ["a", "b"][at % 2]).load(load)
            });
            let fleet = Fleet::new(1, pods.collect::<Vec<_>>());
            let mut workspace = workflow.workspace();
            let mut traces = Vec::new();
            for seed in 0..30 {
                let tokens = prompt(seed as u32 % 4, 150);
                let headers: &[(&str, &str)] = &[("x-session-id", ["s", "t", "u"][seed as usize % 3])];
                let request = Request::new("m", now).tokens(&tokens).headers(&headers).seed(seed);
                let (mut plan, mut trace) = (RoutingPlan::default(), Trace::default());
                workflow
                    .decide(&mut workspace, RoutingInput::new(&request, &fleet).traced(&mut trace), &mut plan)
                    .expect("somebody takes it");
                has_two_steps |= plan.steps().len() == 2;
                let pods: Vec<_> =
                    plan.steps().iter().map(|step| (step.role, step.on_failure, step.candidates.clone())).collect();
                traces.push((format!("{pods:?}"), trace));
            }
            traces.into_iter()
        });
        assert_eq!(has_two_steps, name.starts_with("prefill_decode"), "{name}");
        let [from_text, from_code] = &mut traces;
        for (at, (text, code)) in from_text.zip(from_code).enumerate() {
            assert_eq!(text, code, "{name}, decision {at}");
        }
    }
}

#[test]
fn every_document_can_be_written_in_json_and_toml() {
    let now = world_now();
    for StockProfile { name, build, document: text, .. } in StockProfile::ALL {
        let json = serde_yaml_ng::from_str::<serde_json::Value>(text).expect("a document").to_string();
        let toml = serde_yaml_ng::from_str::<toml::Table>(text).expect("a document without null").to_string();
        let (a, b, c) = (state(), state(), state());
        let from_json = registry(&a).read(&mut serde_json::Deserializer::from_str(&json)).expect("known types");
        let from_toml = toml::Deserializer::parse(&toml).expect("TOML");
        let from_toml = registry(&b).read(from_toml).expect("known types");
        let workflows = [
            (from_json.build(&registry(&a)).expect("it fits"), a),
            (from_toml.build(&registry(&b)).expect("it fits"), b),
            (build(&c).expect(READY), c),
        ];
        let [json, toml, code] = workflows.map(|(workflow, state)| {
            let pods = (0..6).map(|at| {
                let role = [Role::Prefill, Role::Decode, Role::Both][at % 3];
                PodInfo::new(state.index.join(&at.to_string()).expect("room"), &at.to_string()).role(role)
            });
            let fleet = Fleet::new(1, pods.collect::<Vec<_>>());
            let tokens = prompt(1, 150);
            let (mut plan, mut trace) = (RoutingPlan::default(), Trace::default());
            let request = Request::new("m", now).tokens(&tokens).seed(3);
            workflow
                .decide(&mut workflow.workspace(), RoutingInput::new(&request, &fleet).traced(&mut trace), &mut plan)
                .expect("a plan");
            format!("{:?} {trace:?}", plan.steps()[0].candidates)
        });
        assert_eq!((&json, &toml), (&code, &code), "{name}");
    }
}

/// What switches a parameter off can be written in TOML, which has no null.
#[test]
fn parameters_are_switched_off_by_words() {
    let text = r#"
        profiles = []
        [[plugins]]
        type = "consistent_hash_picker"
        parameters = { bounded = false }
        [[plugins]]
        type = "weighted_random_picker"
        parameters = { softened = false }
        [[plugins]]
        type = "tokenize_preparer"
        parameters = { on_error = "fail" }
    "#;
    registry(&state()).read(toml::Deserializer::parse(text).expect("TOML")).expect("known parameters");
}

#[test]
fn nonsense_is_refused() {
    let registry = registry(&state());
    for (parameters, why) in [
        ("session_key_preparer, parameters: { from: [] }", "no place to look"),
        ("session_key_preparer, parameters: { from: [{ body: '' }] }", "no name"),
        ("session_key_preparer, parameters: { from: [{ cookie: a }, { header: '' }] }", "no name"),
        ("hash_key_preparer, parameters: { from: [] }", "no place to look"),
        ("hash_key_preparer, parameters: { from: [{ label: '' }] }", "no name"),
        ("hash_key_preparer, parameters: { from: [{ body: a..b }] }", "no name"),
        ("hash_key_preparer, parameters: { from: [{ tokens: 0 }] }", "zero"),
        ("block_hash_preparer, parameters: { most_tokens: 0 }", "zero"),
        ("text_block_preparer, parameters: { block_bytes: 1, bytes_per_token: 400 }", "fewer bytes than a token"),
        ("session_picker, parameters: { table: '' }", "a table has a name"),
        ("session_scorer, parameters: { table: '' }", "a table has a name"),
        ("session_recorder, parameters: { table: '' }", "a table has a name"),
        ("round_robin_picker, parameters: { table: '' }", "a table has a name"),
        ("round_robin_scorer, parameters: { table: '' }", "a table has a name"),
        ("consistent_hash_picker, parameters: { by: rendezvous, points: 9 }", "points"),
        ("consistent_hash_picker, parameters: { bounded: false, epsilon: 0.5 }", "bounded"),
        ("weighted_random_picker, parameters: { softened: false, temperature: 0.5 }", "softened"),
        ("tokenize_preparer, parameters: { on_error: ignore }", "ignore"),
        ("predict_recorder, parameters: { blocks_per_pod: 4 }", "blocks_per_pod"),
    ] {
        let text = format!("plugins: [{{ type: {parameters} }}]\nprofiles: []");
        match registry.read(serde_yaml_ng::Deserializer::from_str(&text)) {
            Ok(_) => panic!("{parameters} was taken"),
            Err(error) => assert!(error.to_string().contains(why), "{parameters}: {error}"),
        }
    }
}

/// Workflows that are built anew from one document share what the host keeps.
#[test]
fn a_reload_keeps_what_was_guessed_and_whose_turn_it_is() {
    let text = "
plugins:
- { name: tokens, type: tokenize_preparer }
- { name: hash, type: block_hash_preparer }
- { name: held, type: prefix_match_preparer }
- { name: in_turn, type: round_robin_picker }
- { name: guess, type: predict_recorder }
- { name: cache, type: cache_affinity_scorer }
profiles:
- { name: p, prepare: [tokens, hash, held], score: [{ plugin: cache, weight: 1 }], pick: in_turn, record: [guess] }";
    let state = state().predicting(4.try_into().expect("not zero"));
    let pods = ["a", "b"].map(|name| PodInfo::new(state.index.join(name).expect("room"), name));
    let fleet = Fleet::new(1, pods.clone());
    let now = world_now();
    let turns: Vec<usize> = (0..10)
        .map(|turn| {
            let (workflow, mut plan, tokens) = (read(text, &state), RoutingPlan::default(), prompt(turn, 4));
            let request = Request::new("m", now).tokens(&tokens);
            workflow.decide(&mut workflow.workspace(), RoutingInput::new(&request, &fleet), &mut plan).expect("a plan");
            plan.steps()[0].candidates[0].pod.id().index()
        })
        .collect();
    assert_eq!(turns, [0, 1, 0, 1, 0, 1, 0, 1, 0, 1]);
    for info in pods {
        assert_eq!(state.index.pod_stats(info.pod).map(|stats| stats.blocks), Some(4));
        assert_eq!(state.predicted_blocks.blocks(info.pod), 4);
    }
}

#[test]
fn a_prompt_without_tokens_ends_the_decision_where_that_is_said() {
    let text = "
plugins:
- { name: tokens, type: tokenize_preparer, parameters: { on_error: fail } }
- { name: hash, type: block_hash_preparer }
- { name: held, type: prefix_match_preparer }
- { name: cache, type: cache_affinity_scorer }
- { name: best, type: max_score_picker }
profiles:
- { name: p, prepare: [tokens, hash, held], score: [{ plugin: cache, weight: 1 }], pick: best }";
    for (text, fails) in [(text.to_owned(), true), (text.replace("on_error: fail", "on_error: empty"), false)] {
        let state = state();
        let fleet = Fleet::new(1, [PodInfo::new(state.index.join("a").expect("room"), "a")]);
        let workflow = read(&text, &state);
        let request = Request::new("m", world_now());
        let decided = workflow.decide(
            &mut workflow.workspace(),
            RoutingInput::new(&request, &fleet),
            &mut RoutingPlan::default(),
        );
        assert_eq!(decided.is_err(), fails, "{decided:?}");
        assert_eq!(state.tokenize_failures.load(std::sync::atomic::Ordering::Relaxed), u64::from(!fails));
    }
}

#[expect(clippy::disallowed_methods, reason = "a request has some instant; which one does not matter")]
fn world_now() -> Instant {
    Instant::now()
}

#[test]
fn every_document_is_tested() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .expect("the folder of profiles")
        .map(|entry| entry.expect("a file").file_name().into_string().expect("a plain name"))
        .collect();
    files.sort();
    let mut tested: Vec<String> = profiles::NAMES.iter().map(|name| format!("{name}.yaml")).collect();
    tested.sort();
    assert_eq!(files, tested);
}

#[test]
fn a_document_with_an_unknown_parameter_is_refused_with_the_one_that_is_meant() {
    let mut registry = Registry::new();
    register(&mut registry, &state()).expect("nothing else is registered");
    let text = "plugins: [{ type: concurrency_filter, parameters: { limt: { requests: 4 } } }]\nprofiles: []";
    let error = registry.read(serde_yaml_ng::Deserializer::from_str(text)).unwrap_err().to_string();
    assert!(error.contains("limit"), "{error}");
    let text = "plugins: [{ type: affinity_filter, parameters: { share: 1.5 } }]\nprofiles: []";
    let error = registry.read(serde_yaml_ng::Deserializer::from_str(text)).unwrap_err().to_string();
    assert!(error.contains("1.5 is not 0..=1"), "{error}");
}
