//! What pods hold: counted by block and by tier, over the index.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kv_index::{PodId, Tier};
use routing_core::{Declare, OnEmpty, PluginError, Read, RoutingContext, Scorer, Scores};
use routing_plugins::Fraction;
use routing_plugins::extra::TierWeights;
use routing_plugins::extra::{HeldTiers, TierCounts};
use routing_plugins::score::{CacheAffinityParameters, CacheAffinityScorer};
use serde_json::Value;

use super::setup::{Holders, Setup};
use crate::case::Case;
use crate::plugins::Only;
use crate::read::{equal, known, known_case, texts};

/// Theirs sums the weights of a pod's leading blocks; ours divides that by the prompt's.
pub(crate) fn longest_prefix(case: &Case) -> Result<(), String> {
    known_case(case, &[], &["keys", "tier_weights", "index", "pod_filter"])?;
    known(&case.expected, &["scores"])?;
    let scene = scene(case)?;
    let parameters = CacheAffinityParameters::default().tiers(Some(weights(case)?));
    let mut profile = scene.setup.profile();
    if !case.input["pod_filter"].is_null() {
        // Where it is empty, theirs looks at all. The one that holds nothing is always offered.
        let only = texts(&case.input["pod_filter"])?;
        let is_offered = |at: &usize| scene.pods.get(*at).is_none_or(|pod| only.is_empty() || only.contains(pod));
        let offered: Vec<usize> = (0..=scene.pods.len()).filter(is_offered).collect();
        profile = profile.filter("only", OnEmpty::Fail, move |_: &mut Declare<'_>| Only(offered));
    }
    let profile =
        profile.scorer("weighted", 1.0, move |d: &mut Declare<'_>| CacheAffinityScorer::declare(d, parameters));
    let scores = scene.setup.scores_of(&scene.setup.request(), profile)?;
    // Without tokens theirs has no scores at all.
    let none = serde_json::Map::new();
    let expected = match case.expected.get("scores").ok_or("unknown expectation")? {
        Value::Null if scene.blocks == 0 => &none,
        scores => scores.as_object().ok_or("unknown scores")?,
    };
    for (at, pod) in scene.pods.iter().enumerate() {
        let found = scores[at] * scene.blocks as f64;
        let wanted = match expected.get(pod) {
            None => 0.0,
            Some(value) if value == "absent or 0" || value == "absent" => 0.0,
            Some(value) => value.as_f64().ok_or(format!("unknown expectation {value}"))?,
        };
        if (found - wanted).abs() > case.tolerance.max(1e-5) {
            return Err(format!("found {pod}: {found}, expected {wanted}"));
        }
    }
    let unknown = expected.keys().find(|pod| !scene.pods.contains(*pod));
    unknown.map_or(Ok(()), |pod| Err(format!("unknown pod {pod} is expected")))
}

/// Their weights: what is not named counts in full; with none given, they have defaults.
fn weights(case: &Case) -> Result<TierWeights, String> {
    let one = Fraction::ONE;
    let mut weights = TierWeights::default().gpu(one).host(one).disk(one).remote(one).speculated(Some(one));
    let defaults = serde_json::json!({ "gpu": 1.0, "cpu": 0.8 });
    let given = if case.input["tier_weights"].is_null() { &defaults } else { &case.input["tier_weights"] };
    for (name, weight) in given.as_object().ok_or("unknown weights")? {
        let weight = weight.as_f64().and_then(|weight| Fraction::try_from(weight).ok());
        let weight = weight.ok_or("unknown: no weight in 0..=1")?;
        if name == SPECULATIVE {
            weights.speculated = Some(weight);
            continue;
        }
        match tier(name)? {
            Tier::Gpu => weights.gpu = weight,
            Tier::Host => weights.host = weight,
            Tier::Disk => weights.disk = weight,
            Tier::Remote => weights.remote = weight,
        }
    }
    Ok(weights)
}

pub(crate) fn count(case: &Case) -> Result<(), String> {
    known(&case.expected, &["count"])?;
    let (counts, expected) = (counts(case)?, case.expected["count"].as_u64().ok_or("unknown: no count")?);
    let found = u64::from(counts.held());
    if found == expected { Ok(()) } else { Err(format!("found {found}, expected {expected}")) }
}

pub(crate) fn count_by_tier(case: &Case) -> Result<(), String> {
    known(&case.expected, &["count"])?;
    let counts = counts(case)?;
    let expected = case.expected["count"].as_object().ok_or("unknown: no counts")?;
    if let Some(odd) = expected.keys().find(|name| *name != SPECULATIVE && tier(name).is_err()) {
        return Err(format!("unknown tier {odd}"));
    }
    let mut found = serde_json::Map::new();
    let leading = TIERS.map(|(name, tier)| (name, counts.leading(tier)));
    // What is speculated comes after what is there: it leads where nothing is.
    let speculated = if counts.speculated == counts.held() { counts.speculated } else { 0 };
    for (name, count) in leading.into_iter().chain([(SPECULATIVE, speculated)]) {
        if count > 0 {
            found.insert(name.to_owned(), count.into());
        }
    }
    equal(&Value::Object(found), &case.expected["count"])
}

/// Whether a pod has a block both speculated and true.
pub(crate) fn is_speculated_and_true(case: &Case) -> bool {
    let Ok(holders) = holders(case) else { return false };
    holders.iter().filter(|((_, tier), _)| tier == SPECULATIVE).any(|((pod, _), positions)| {
        let is_there = |((other, tier), there): (&(String, String), &Vec<usize>)| {
            other == pod && tier != SPECULATIVE && there.iter().any(|at| positions.contains(at))
        };
        holders.iter().any(is_there)
    })
}

/// The same, where some true block counts for less than a speculated one.
pub(crate) fn is_worth_more_speculated(case: &Case) -> bool {
    let Ok(weights) = weights(case) else { return false };
    let true_ones = [weights.gpu, weights.host, weights.disk, weights.remote];
    true_ones.iter().any(|weight| Some(*weight) < weights.speculated) && is_speculated_and_true(case)
}

fn counts(case: &Case) -> Result<TierCounts, String> {
    known_case(case, &[], &["keys", "index", "pod"])?;
    let scene = scene(case)?;
    let pod = case.input["pod"].as_str().ok_or("no pod")?;
    let Some(at) = scene.pods.iter().position(|name| name == pod) else { return Ok(TierCounts::default()) };
    let kept = Arc::new(Mutex::new(TierCounts::default()));
    let keep = Arc::clone(&kept);
    scene.setup.scores(move |d| Keep(d.reads(), PodId::new(at as u16), keep))?;
    let counts = *kept.lock().expect("not poisoned");
    Ok(counts)
}

/// Keeps what it reads of a pod.
struct Keep(Read<HeldTiers>, PodId, Arc<Mutex<TierCounts>>);

impl Scorer for Keep {
    fn score(&self, context: &RoutingContext<'_>, _: &mut Scores<'_>) -> Result<(), PluginError> {
        *self.2.lock().expect("not poisoned") = context.read(self.0)?.of(self.1);
        Ok(())
    }
}

/// A case's index, made by events.
struct Scene {
    setup: Setup,
    pods: Vec<String>,
    blocks: usize,
}

fn scene(case: &Case) -> Result<Scene, String> {
    let holders = holders(case)?;
    let blocks = case.input["keys"].as_array().ok_or("no keys")?.len();
    let pods: BTreeSet<String> = holders.keys().map(|(pod, _)| pod.clone()).collect();
    let pods: Vec<String> = pods.into_iter().collect();
    // One that holds nothing, since an empty fleet decides nothing.
    let setup = Setup::new(pods.len() + 1).prompt(blocks, 1);
    for ((pod, name), positions) in &holders {
        let at = pods.iter().position(|known| known == pod).ok_or("a pod")?;
        if name == SPECULATIVE {
            let end = positions.iter().max().map_or(0, |last| last + 1);
            let is_held =
                |at: usize| holders.iter().any(|((other, _), positions)| other == pod && positions.contains(&at));
            if !(0..end).all(is_held) {
                return Err("unknown: speculated blocks after some that are not held".into());
            }
            let deadline = setup.request().now + Duration::from_secs(60);
            let chain = &setup.hashes()[..end];
            setup.index.speculate(setup.pod(at), chain, deadline).map_err(|error| error.to_string())?;
        } else {
            setup.store(at, tier(name)?, positions);
        }
    }
    Ok(Scene { setup, pods, blocks })
}

fn holders(case: &Case) -> Result<Holders, String> {
    let keys = case.input["keys"].as_array().ok_or("no keys")?;
    let index = case.input["index"].as_object().ok_or("no index")?;
    if let Some((key, odd)) = index.iter().find(|(_, held)| !held.is_array()) {
        return Err(format!("unknown holders of {key}: {odd}"));
    }
    let mut holders = Holders::new();
    for (position, key) in keys.iter().enumerate() {
        let held = index.get(&key.to_string()).and_then(Value::as_array);
        for holder in held.into_iter().flatten() {
            let (pod, tier) = holder.as_str().and_then(|text| text.split_once('/')).ok_or("unknown holder")?;
            holders.entry((pod.into(), tier.to_lowercase())).or_default().push(position);
        }
    }
    Ok(holders)
}

fn tier(name: &str) -> Result<Tier, String> {
    let known = TIERS.into_iter().find(|(known, _)| *known == name);
    known.map(|(_, tier)| tier).ok_or_else(|| format!("unknown tier `{name}`"))
}

const TIERS: [(&str, Tier); 4] =
    [("gpu", Tier::Gpu), ("cpu", Tier::Host), ("disk", Tier::Disk), ("remote", Tier::Remote)];

const SPECULATIVE: &str = "speculative";
