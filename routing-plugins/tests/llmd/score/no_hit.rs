//! The scorer that spreads prompts which nobody holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use routing_core::{Declare, OnEmpty};
use routing_plugins::extra::{ColdPromptRecorder, LruOrder, NoHitSpreadScorer};
use serde_json::Value;

use super::expect::{expect_named, listed};
use super::setup::Setup;
use crate::case::{Case, close};
use crate::plugins::{Even, Only};
use crate::read::{counts, known, known_case, list, texts, whole};

pub(crate) fn score(case: &Case) -> Result<(), String> {
    known_case(case, &["lruSize"], &["matched_blocks", "endpoints", "lru_history"])?;
    let (names, matched) = endpoints(&case.input)?;
    let setup = Setup::new(matched.len()).prompt(64, 1);
    matched.iter().enumerate().for_each(|(pod, blocks)| setup.hold(pod, *blocks as usize));
    let cold = Arc::new(LruOrder::new());
    // Read as a history is: the earliest first.
    for used in case.input["lru_history"].as_array().into_iter().flatten() {
        let by_name = used.as_str().and_then(|used| names.iter().position(|name| name == used));
        let at = by_name.or(used.as_u64().map(|at| at as usize)).filter(|at| *at < names.len());
        cold.stamp(setup.pod(at.ok_or(format!("unknown endpoint {used}"))?));
    }
    expect_named(case, &setup.scores(move |d| NoHitSpreadScorer::declare(d, cold))?, &names)
}

/// Endpoints by what each holds; or a number of them, names, or each with what it holds. Nothing, unless told.
fn endpoints(input: &Value) -> Result<(Vec<String>, Vec<u32>), String> {
    let held = if input["matched_blocks"].is_null() { None } else { Some(counts(&input["matched_blocks"])?) };
    let mut endpoints = Vec::new();
    match &input["endpoints"] {
        Value::Null => {}
        Value::Array(list) => {
            for (at, endpoint) in list.iter().enumerate() {
                endpoints.push(self::endpoint(at, endpoint)?);
            }
        }
        count => {
            let count = count.as_u64().ok_or_else(|| format!("unknown endpoints {count}"))?;
            endpoints.extend((0..count).map(|at| (at.to_string(), 0)));
        }
    }
    match held {
        None if input["endpoints"].is_null() => Err("unknown: no endpoints".into()),
        None => Ok(endpoints.into_iter().unzip()),
        Some(held) if input["endpoints"].is_null() => Ok(((0..held.len()).map(|at| at.to_string()).collect(), held)),
        Some(held) if held.len() == endpoints.len() => {
            Ok((endpoints.into_iter().map(|(name, _)| name).collect(), held))
        }
        Some(_) => Err("unknown: lists of different lengths".into()),
    }
}

fn endpoint(at: usize, endpoint: &Value) -> Result<(String, u32), String> {
    if let Some(name) = endpoint.as_str() {
        return Ok((name.to_owned(), 0));
    }
    known(endpoint, &["name", "matched_blocks", "match"])?;
    let matched = if endpoint["match"].is_null() { None } else { counts(&endpoint["match"])?.first().copied() };
    let blocks = whole(endpoint, "matched_blocks")?.map(|blocks| blocks as u32).or(matched);
    let name = match &endpoint["name"] {
        Value::Null => at.to_string(),
        name => name.as_str().ok_or_else(|| format!("unknown name {name}"))?.to_owned(),
    };
    Ok((name, blocks.unwrap_or_default()))
}

/// Steps like `cold->a`, or `cold->a,b` where two profiles chose; what comes after a blank is a remark. To nobody,
/// `cold->`, nothing is sent.
pub(crate) fn sequence(case: &Case) -> Result<(), String> {
    known_case(case, &["lruSize"], &["endpoints", "steps"])?;
    known(&case.expected, &["best_after", "scores_after"])?;
    let site = Site::new(&case.input["endpoints"])?;
    let mut played = Vec::new();
    for step in list(&case.input, "steps")? {
        let step = step.as_str().and_then(|step| step.split(' ').next()).ok_or("unknown step")?;
        site.play(step)?;
        if let Some(best) = case.expected["best_after"].get(step) {
            site.expect_best(best).map_err(|why| format!("after {step}: {why}"))?;
        }
        if let Some(scores) = case.expected["scores_after"].get(step) {
            let found = site.scores(&site.all())?;
            close(&found, &listed(scores, &site.names)?, case.tolerance)?;
        }
        played.push(step);
    }
    let expected = ["best_after", "scores_after"].map(|kind| case.expected[kind].as_object());
    let expected: Vec<&String> = expected.into_iter().flatten().flat_map(|steps| steps.keys()).collect();
    match expected.iter().find(|step| !played.contains(&step.as_str())) {
        _ if expected.is_empty() => Err("unknown: nothing is expected".into()),
        Some(step) => Err(format!("unknown step {step} is expected")),
        None => Ok(()),
    }
}

/// Endpoints, in one group or in the groups of several profiles, and who had a cold prompt last.
struct Site {
    names: Vec<String>,
    groups: BTreeMap<String, Vec<usize>>,
    cold: Arc<LruOrder>,
}

impl Site {
    fn new(endpoints: &Value) -> Result<Self, String> {
        let (mut names, mut groups) = (Vec::new(), BTreeMap::new());
        match endpoints {
            Value::Object(by_profile) => {
                for (profile, members) in by_profile {
                    let members = texts(members)?;
                    groups.insert(profile.clone(), (names.len()..names.len() + members.len()).collect());
                    names.extend(members);
                }
            }
            members => names = texts(members)?,
        }
        Ok(Self { names, groups, cold: Arc::new(LruOrder::new()) })
    }

    fn all(&self) -> Vec<usize> {
        (0..self.names.len()).collect()
    }

    /// Sends a prompt that nobody holds, or one that its target holds.
    fn play(&self, step: &str) -> Result<(), String> {
        let (kind, targets) = step.split_once("->").ok_or(format!("unknown step {step}"))?;
        for target in targets.split(',').filter(|target| !target.is_empty()) {
            let at = self.names.iter().position(|name| name == target).ok_or(format!("unknown endpoint {target}"))?;
            let setup = Setup::new(self.names.len()).prompt(4, 1);
            match kind {
                "cold" => {}
                "warm" => setup.hold(at, 2),
                _ => return Err(format!("unknown step {step}")),
            }
            let cold = Arc::clone(&self.cold);
            let sent = setup.profile().filter("to", OnEmpty::Fail, move |_: &mut Declare<'_>| Only(vec![at]));
            let sent = sent.recorder("cold", move |d: &mut Declare<'_>| ColdPromptRecorder::declare(d, cold));
            setup.scores_of(&setup.request(), sent.scorer("even", 1.0, |_: &mut Declare<'_>| Even(1.0)))?;
        }
        Ok(())
    }

    /// The scores of a cold prompt, where these are offered.
    fn scores(&self, offered: &[usize]) -> Result<Vec<f64>, String> {
        let (cold, offered) = (Arc::clone(&self.cold), offered.to_vec());
        let setup = Setup::new(self.names.len()).prompt(4, 1);
        let profile = setup.profile().filter("group", OnEmpty::Fail, move |_: &mut Declare<'_>| Only(offered));
        let profile = profile.scorer("no hit", 1.0, move |d: &mut Declare<'_>| NoHitSpreadScorer::declare(d, cold));
        setup.scores_of(&setup.request(), profile)
    }

    /// The best of all, or the best of each group by its name.
    fn expect_best(&self, expected: &Value) -> Result<(), String> {
        let Value::Object(by_group) = expected else { return self.expect_best_of(&self.all(), expected) };
        by_group.iter().try_for_each(|(group, best)| {
            self.expect_best_of(self.groups.get(group).ok_or(format!("unknown group {group}"))?, best)
        })
    }

    fn expect_best_of(&self, offered: &[usize], expected: &Value) -> Result<(), String> {
        let scores = self.scores(offered)?;
        let best = offered.iter().max_by(|a, b| scores[**a].total_cmp(&scores[**b])).ok_or("unknown: no endpoints")?;
        let best = &self.names[*best];
        if *expected == **best { Ok(()) } else { Err(format!("found {best}, expected {expected}")) }
    }
}
