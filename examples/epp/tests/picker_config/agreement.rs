//! A literal model of llm-d's filters, formulas and sums picks the pod that a translated workflow picks.

use pointsman::index::{BlockSize, ChainHasher, ChainSeed, Event, EventSemantics, Parent, PodId, Stored, Tier};
use proptest::prelude::*;

use crate::decide::{Scene, ScenePod, request};

/// A pod as llm-d sees it.
#[derive(Clone, Debug)]
struct Endpoint {
    waiting: u32,
    running: u32,
    /// In hundredths.
    kv_used: u32,
    role: Option<&'static str>,
    adapters: usize,
    /// Leading blocks of the prompt.
    held: usize,
}

/// Scorers by their types, and how many hundredths each weighs.
type Weights = Vec<(&'static str, u32)>;

const SCORERS: [&str; 7] = [
    "queue-scorer",
    "running-requests-size-scorer",
    "kv-cache-utilization-scorer",
    "load-aware-scorer",
    "lora-affinity-scorer",
    "prefix-cache-scorer",
    "no-hit-lru-scorer",
];
const ADAPTERS: [&str; 2] = ["mine", "other"];
const BLOCKS: usize = 8;
const BLOCK: usize = 16;

fn endpoints() -> impl Strategy<Value = Vec<Endpoint>> {
    let role =
        prop_oneof![Just(None), Just(Some("decode")), Just(Some("both")), Just(Some("prefill")), Just(Some("x"))];
    let endpoint = (0..40_u32, 0..40_u32, 0..=100_u32, role, 0..=2_usize, 0..=BLOCKS);
    let endpoint = endpoint.prop_map(|(waiting, running, kv_used, role, adapters, held)| Endpoint {
        waiting,
        running,
        kv_used,
        role,
        adapters,
        held,
    });
    prop::collection::vec(endpoint, 1..9)
}

fn weights() -> impl Strategy<Value = Weights> {
    let all = prop::collection::vec(prop_oneof![Just(0), Just(100), 1..500_u32], SCORERS.len());
    all.prop_map(|weights| SCORERS.into_iter().zip(weights).filter(|(_, weight)| *weight > 0).collect())
}

/// What llm-d gives each endpoint, by its own formulas.
fn score(scorer: &str, all: &[&Endpoint]) -> Vec<f64> {
    let relative = |figure: fn(&Endpoint) -> u32| {
        let (least, most) = (all.iter().map(|one| figure(one)).min(), all.iter().map(|one| figure(one)).max());
        let (least, most) = (f64::from(least.unwrap_or(0)), f64::from(most.unwrap_or(0)));
        let one = |x: f64| if least == most { 1.0 } else { (most - x) / (most - least) };
        all.iter().map(|endpoint| one(f64::from(figure(endpoint)))).collect()
    };
    let each = |formula: fn(&Endpoint) -> f64| all.iter().map(|endpoint| formula(endpoint)).collect();
    match scorer {
        "queue-scorer" => relative(|endpoint| endpoint.waiting),
        "running-requests-size-scorer" => relative(|endpoint| endpoint.running),
        "kv-cache-utilization-scorer" => each(|endpoint| 1.0 - f64::from(endpoint.kv_used) / 100.0),
        "load-aware-scorer" => each(|endpoint| 0.5 * (1.0 - f64::from(endpoint.waiting.min(128)) / 128.0)),
        // Loaded; room for it, of two slots; none.
        "lora-affinity-scorer" => each(|endpoint| [0.8, 1.0, 1.0][endpoint.adapters]),
        "prefix-cache-scorer" => each(|endpoint| endpoint.held as f64 / BLOCKS as f64),
        "no-hit-lru-scorer" => {
            // Nobody had a cold prompt yet: the first is best.
            let (is_hit, last) = (all.iter().any(|endpoint| endpoint.held > 0), all.len().max(2) - 1);
            (0..all.len()).map(|at| if is_hit { 0.5 } else { 1.0 - at as f64 / last as f64 }).collect()
        }
        other => panic!("no model of {other}"),
    }
}

/// The endpoint that llm-d picks, unless the two best are about the same; none where nobody is left.
fn model(endpoints: &[Endpoint], weights: &Weights) -> Result<Option<usize>, ()> {
    let decodes = |endpoint: &Endpoint| matches!(endpoint.role, None | Some("decode" | "both"));
    let left: Vec<(usize, &Endpoint)> = endpoints.iter().enumerate().filter(|(_, one)| decodes(one)).collect();
    let all: Vec<&Endpoint> = left.iter().map(|(_, endpoint)| *endpoint).collect();
    let mut totals = vec![0.0; all.len()];
    for (scorer, weight) in weights {
        let scores = score(scorer, &all);
        totals.iter_mut().zip(scores).for_each(|(sum, score)| *sum += score * f64::from(*weight) / 100.0);
    }
    let mut ranked: Vec<usize> = (0..all.len()).collect();
    ranked.sort_by(|a, b| totals[*b].total_cmp(&totals[*a]));
    match ranked[..] {
        [] => Ok(None),
        [first, second, ..] if totals[first] - totals[second] < 1e-4 => Err(()),
        [first, ..] => Ok(Some(left[first].0)),
    }
}

fn config(weights: &Weights) -> String {
    let precise = "parameters: { prefixMatchInfoProducerName: precise-prefix-cache-producer }";
    let mut text = String::from(
        "apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
- type: token-producer
  parameters: { modelName: m }
- type: precise-prefix-cache-producer
- type: decode-filter
",
    );
    for (scorer, _) in weights {
        let is_prefix = ["prefix-cache-scorer", "no-hit-lru-scorer"].contains(scorer);
        text += &format!("- type: {scorer}\n{}", if is_prefix { format!("  {precise}\n") } else { String::new() });
    }
    text += "schedulingProfiles:\n- name: default\n  plugins:\n  - pluginRef: decode-filter\n";
    for (scorer, weight) in weights {
        text += &format!("  - pluginRef: {scorer}\n    weight: {}\n", f64::from(*weight) / 100.0);
    }
    text
}

fn scene(endpoints: &[Endpoint], weights: &Weights, prompt: &[u32]) -> Scene {
    let pods: Vec<ScenePod> = endpoints
        .iter()
        .map(|endpoint| {
            // With one adapter it is mine, with two the other is beside it.
            let adapters = &ADAPTERS[..endpoint.adapters];
            let pod = ScenePod::new(endpoint.waiting, endpoint.kv_used as f32 / 100.0, adapters);
            let pod = ScenePod { running: endpoint.running, ..pod };
            endpoint.role.map_or(pod.clone(), |role| pod.label("llm-d.ai/role", role))
        })
        .collect();
    let scene = Scene::new(&config(weights), &pods);
    let hashes = ChainHasher::new(ChainSeed::new("m"), BlockSize::new(BLOCK as u32).unwrap()).hash(prompt);
    for (at, endpoint) in endpoints.iter().enumerate().filter(|(_, endpoint)| endpoint.held > 0) {
        let pod = scene.fleet.pod(PodId::new(at as u16)).unwrap().pod;
        let stored = Stored::new(Parent::Root, &hashes[..endpoint.held]).in_tier(Tier::Gpu);
        scene.state.index.apply(pod, EventSemantics::Membership, &Event::Stored(stored)).unwrap();
    }
    scene
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn translated_workflows_pick_what_llmd_picks(endpoints in endpoints(), weights in weights()) {
        let prompt: Vec<u32> = (0..(BLOCKS * BLOCK) as u32).collect();
        let Ok(expected) = model(&endpoints, &weights) else { return Ok(()) };
        // The adapter is part of what is held there, and not in this model: by name alone.
        let has_lora = weights.iter().any(|(scorer, _)| *scorer == "lora-affinity-scorer");
        let has_prefix = weights.iter().any(|(scorer, _)| scorer.contains("prefix") || scorer.contains("no-hit"));
        if has_lora && has_prefix {
            return Ok(());
        }
        let scene = scene(&endpoints, &weights, &prompt);
        let mut request = request("{}").tokens(&prompt);
        request.adapter = has_lora.then_some(ADAPTERS[0]);
        let found = scene.decide(&request).ok().map(|steps| steps[0].1);
        prop_assert_eq!(found, expected, "{}", config(&weights));
    }
}
