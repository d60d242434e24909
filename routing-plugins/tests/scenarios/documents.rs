//! Every ready profile is a document too, and the two decide alike.
#![cfg(feature = "serde")]

use std::time::Instant;

use routing_core::{Fleet, PodInfo, Registry, Request, Role, RoutingPlan, Trace, Workflow};
use routing_plugins::{Stock, profiles, register};

use super::world::{prompt, stock};

type InCode = fn(&Stock) -> Workflow;

macro_rules! profile {
    ($name:ident) => {
        (
            stringify!($name),
            include_str!(concat!("../../profiles/", stringify!($name), ".yaml")),
            (|stock: &Stock| profiles::$name(stock).build().expect("a ready profile builds")) as InCode,
        )
    };
}

const ALL: [(&str, &str, InCode); 8] = [
    profile!(round_robin),
    profile!(least_load),
    profile!(consistent_hash),
    profile!(cache_aware),
    profile!(cache_aware_sticky),
    profile!(sticky_least_loaded),
    profile!(prefill_decode),
    profile!(prefill_decode_conditional),
];

fn read(text: &str, stock: &Stock) -> Workflow {
    let mut registry = Registry::new();
    register(&mut registry, stock).expect("nothing else is registered");
    let document = registry.read(serde_yaml_ng::Deserializer::from_str(text)).expect("a document of known types");
    document.build(&registry).expect("it fits")
}

#[test]
fn documents_and_code_decide_alike_for_the_same_reasons() {
    #[expect(clippy::disallowed_methods, reason = "a request has some instant; which one does not matter")]
    let now = Instant::now();
    for (name, text, in_code) in ALL {
        // Each has a stock of its own: what one remembers the other must not see.
        let (a, b) = (stock(), stock());
        let workflows = [(read(text, &a), a), (in_code(&b), b)];
        let mut traces = workflows.map(|(workflow, stock)| {
            assert!(workflow.warnings().is_empty(), "{name}: {:?}", workflow.warnings());
            let pods = (0..6).map(|at| {
                let pod = format!("pod-{at}");
                let role = [Role::Prefill, Role::Decode, Role::Both][at % 3];
                let info = PodInfo::new(stock.index.join(&pod).expect("room"), &pod);
                info.role(role).label("zone", ["a", "b"][at % 2])
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
                    .decide_traced(&mut workspace, &request, &fleet, &mut plan, &mut trace)
                    .expect("somebody takes it");
                let pods: Vec<_> =
                    plan.steps().iter().map(|step| (step.role, step.on_failure, step.candidates.clone())).collect();
                traces.push((format!("{pods:?}"), trace));
            }
            traces.into_iter()
        });
        let [from_text, from_code] = &mut traces;
        for (at, (text, code)) in from_text.zip(from_code).enumerate() {
            assert_eq!(text, code, "{name}, decision {at}");
        }
    }
}

#[test]
fn every_document_is_tested() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles");
    let mut files: Vec<String> = std::fs::read_dir(folder)
        .expect("the folder of profiles")
        .map(|entry| entry.expect("a file").file_name().into_string().expect("a plain name"))
        .collect();
    files.sort();
    let mut tested: Vec<String> = ALL.iter().map(|(name, ..)| format!("{name}.yaml")).collect();
    tested.sort();
    assert_eq!(files, tested);
}

#[test]
fn a_document_with_an_unknown_parameter_is_refused_with_the_one_that_is_meant() {
    let mut registry = Registry::new();
    register(&mut registry, &stock()).expect("nothing else is registered");
    let text = "plugins: [{ type: concurrency_filter, parameters: { limt: { requests: 4 } } }]\nprofiles: []";
    let error = registry.read(serde_yaml_ng::Deserializer::from_str(text)).unwrap_err().to_string();
    assert!(error.contains("limit"), "{error}");
    let text = "plugins: [{ type: affinity_filter, parameters: { share: 1.5 } }]\nprofiles: []";
    let error = registry.read(serde_yaml_ng::Deserializer::from_str(text)).unwrap_err().to_string();
    assert!(error.contains("1.5 is not 0..=1"), "{error}");
}
