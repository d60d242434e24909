//! What pods hold: counted by block and by tier, over the index.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kv_index::{PodId, Tier};
use routing_core::{PluginError, Read, RoutingContext, Scorer, Scores};
use routing_plugins::Fraction;
use routing_plugins::extra::TierWeights;
use routing_plugins::extra::{HeldTiers, TierCounts};
use routing_plugins::score::{CacheAffinityParameters, CacheAffinityScorer};
use serde_json::Value;

use super::super::case::Case;
use super::known;
use super::setup::{Holders, Setup};

/// Theirs sums the weights of a pod's leading blocks; ours divides that by the prompt's.
pub(crate) fn longest_prefix(case: &Case) -> Result<(), String> {
    known(case, &[], &["keys", "tier_weights", "index"])?;
    let scene = scene(case)?;
    let one = Fraction::ONE;
    let mut weights = TierWeights { gpu: one, host: one, disk: one, remote: one, speculated: Some(one) };
    for (name, weight) in case.input["tier_weights"].as_object().ok_or("no weights")? {
        let weight = weight.as_f64().and_then(|weight| Fraction::try_from(weight).ok()).ok_or("no weight in 0..=1")?;
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
    // Of a block that is speculated and there, theirs takes the higher weight, and ours the true one.
    let true_ones = [weights.gpu, weights.host, weights.disk, weights.remote];
    let twice = |((pod, name), positions): (&(String, String), &Vec<usize>)| {
        let others = holders(case).unwrap_or_default();
        name == SPECULATIVE
            && others.iter().any(|((other, name), there)| {
                other == pod && name != SPECULATIVE && there.iter().any(|at| positions.contains(at))
            })
    };
    if true_ones.iter().any(|weight| Some(*weight) < weights.speculated) && holders(case)?.iter().any(twice) {
        return Err("unknown: a speculated block counts for more than a true one".into());
    }
    let parameters = CacheAffinityParameters { tiers: Some(weights), ..CacheAffinityParameters::default() };
    let scores = scene.setup.scores(move |d| CacheAffinityScorer::declare(d, parameters))?;
    let expected = case.expected["scores"].as_object().ok_or("no scores")?;
    for (at, pod) in scene.pods.iter().enumerate() {
        let found = scores[at] * scene.blocks as f64;
        let wanted = match expected.get(pod) {
            None => 0.0,
            Some(value) if value == "absent or 0" || value == "absent" => 0.0,
            Some(value) => value.as_f64().ok_or(format!("unknown expectation {value}"))?,
        };
        if (found - wanted).abs() > case.tolerance.max(1e-5) {
            return Err(format!("{pod}: found {found}, expected {wanted}"));
        }
    }
    let unknown = expected.keys().find(|pod| !scene.pods.contains(*pod));
    unknown.map_or(Ok(()), |pod| Err(format!("pod {pod} is expected and holds nothing")))
}

pub(crate) fn count(case: &Case) -> Result<(), String> {
    let (counts, expected) = (counts(case)?, case.expected["count"].as_u64().ok_or("no count")?);
    let found = u64::from(counts.held());
    if found == expected { Ok(()) } else { Err(format!("found {found}, expected {expected}")) }
}

pub(crate) fn count_by_tier(case: &Case) -> Result<(), String> {
    let counts = counts(case)?;
    let mut expected: BTreeMap<Tier, u32> = BTreeMap::new();
    for (name, count) in case.expected["count"].as_object().ok_or("no counts")? {
        expected.insert(tier(name)?, count.as_u64().ok_or("no count")? as u32);
    }
    let found = |tier: &Tier| counts.leading(*tier);
    match Tier::ALL.iter().find(|tier| found(tier) != expected.get(tier).copied().unwrap_or_default()) {
        Some(tier) => Err(format!("{tier:?}: found {}, expected {expected:?}", found(tier))),
        None => Ok(()),
    }
}

/// Whether speculated blocks are among those that count by tier: theirs keep such an entry beside the true one, ours give
/// it up when the true one comes.
pub(crate) fn is_speculated(case: &Case) -> bool {
    holders(case).is_ok_and(|holders| holders.keys().any(|(_, tier)| tier == SPECULATIVE))
}

fn counts(case: &Case) -> Result<TierCounts, String> {
    known(case, &[], &["keys", "index", "pod"])?;
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
    match name {
        "gpu" => Ok(Tier::Gpu),
        "cpu" => Ok(Tier::Host),
        "disk" => Ok(Tier::Disk),
        "remote" => Ok(Tier::Remote),
        other => Err(format!("unknown tier `{other}`")),
    }
}

const SPECULATIVE: &str = "speculative";
