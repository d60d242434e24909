//! Routing policies: workflow documents of stock plugins, by name or file.

use std::fs;
use std::path::Path;

use kv_index::{BlockSize, Config, Index};
use routing_core::{Registry, Workflow, suggest};
use routing_plugins::profiles::StockProfile;
use routing_plugins::{Hashing, PluginState, register};
use serde_yaml_ng::{Mapping, Value};

use crate::SimulateError;

/// A policy and its document.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Policy {
    /// Its name in tables.
    pub(crate) name: String,
    document: Value,
}

/// A document that comes along: its name, and its text.
macro_rules! documents {
    ($folder:literal: $($name:ident),* $(,)?) => {
        [$((stringify!($name), include_str!(concat!($folder, stringify!($name), ".yaml")))),*]
    };
}

/// The profile that gateways should begin with.
pub(crate) const DEFAULT: &str = "total_latency";

/// Policies published by others, as documents of stock plugins.
const PUBLISHED: [(&str, &str); 16] = documents!("../policies/":
    random, longest_prefix, session_sticky, smg_cache_aware, expected_wait, dynamo_linear, dynamo_tuned, vllm_rfc, lmetric,
    preble_e2, mooncake_ttft, mooncake_decode, llm_d, llm_d_affinity, llm_d_latency, aibrix_prefix);

/// How often a rule's own router asks engines for their figures, in µs, where that is part of the rule.
const OWN_REPORTS: [(&str, u64); 1] = [("llm_d", 50_000)];

/// The rule that no router can have: it knows the state of every pod, what everything costs, and how long answers will be.
pub(crate) const CLAIRVOYANT: &str = "clairvoyant";

/// Stock profiles and published rules: names, and texts.
fn documents() -> impl Iterator<Item = (&'static str, &'static str)> {
    // Prompts are tokens here: what goes by their text has nothing to go by.
    let stock = <StockProfile>::ALL.into_iter().filter(|profile| profile.name != "approximate_prefix");
    let stock = stock.map(|profile| (profile.name, profile.document));
    stock.chain(PUBLISHED)
}

impl Policy {
    /// The names of those for pods that prefill and decode.
    pub(crate) fn for_mixed_pods() -> impl Iterator<Item = &'static str> {
        Self::names().filter(|name| !Self::is_disaggregated(name))
    }

    /// Whether a policy is for pods of which some prefill and others decode.
    pub(crate) fn is_disaggregated(name: &str) -> bool {
        name.starts_with("prefill_decode")
    }

    /// The names of all that come along, in the order tables list them.
    pub(crate) fn names() -> impl Iterator<Item = &'static str> {
        documents().map(|(name, _)| name)
    }

    /// All that come along, each with what it says of itself in one sentence.
    pub(crate) fn described() -> impl Iterator<Item = (&'static str, String)> {
        let clairvoyant = "A yardstick that no router can be, run only where it is named: where all answers together end soonest, by true state, costs and lengths";
        documents().map(|(name, text)| (name, first_sentence(text))).chain([(CLAIRVOYANT, clairvoyant.to_owned())])
    }

    /// µs between two reports of a pod's figures: its own, where that is part of the rule and shorter.
    pub(crate) fn report_every_us(&self, usual: u64) -> u64 {
        let own = OWN_REPORTS.iter().find(|(prefix, _)| self.name.starts_with(prefix));
        own.map_or(usual, |(_, every)| usual.min(*every))
    }

    /// Whether it decides by what no router knows.
    pub(crate) fn is_clairvoyant(&self) -> bool {
        self.name == CLAIRVOYANT
    }

    /// One that comes along, or of a file.
    pub(crate) fn find(name: &str) -> Result<Self, SimulateError> {
        if name == CLAIRVOYANT {
            // Its router is asked nothing.
            return Ok(Self { name: name.to_owned(), ..Self::find("round_robin")? });
        }
        let known = documents().find(|(known, _)| *known == name).map(|(_, text)| text.to_owned());
        let (name, text) = match known {
            Some(text) => (name.to_owned(), text),
            None if Path::new(name).extension().is_some() => {
                let text = fs::read_to_string(name).map_err(|error| SimulateError::File(name.into(), error))?;
                let stem = Path::new(name).file_stem().map_or(name.into(), |stem| stem.to_string_lossy().into_owned());
                (stem, text)
            }
            None => {
                return Err(SimulateError::UnknownPolicy(
                    name.into(),
                    suggest(name, Policy::names()).unwrap_or(DEFAULT),
                ));
            }
        };
        let document =
            serde_yaml_ng::from_str(&text).map_err(|error| SimulateError::Policy(name.clone(), error.to_string()))?;
        Ok(Self { name, document })
    }

    /// The same with another weight of a scorer, in every profile that uses it; none if none does.
    pub(crate) fn with_weight(&self, scorer: &str, weight: f64) -> Option<Self> {
        let mut document = self.document.clone();
        let mut found = false;
        for profile in document.get_mut("profiles")?.as_sequence_mut()? {
            let Some(uses) = profile.get_mut("score").and_then(Value::as_sequence_mut) else { continue };
            for used in uses.iter_mut().filter(|used| used.get("plugin").and_then(Value::as_str) == Some(scorer)) {
                used.as_mapping_mut()?.insert("weight".into(), number(weight));
                found = true;
            }
        }
        found.then(|| Self { name: format!("{} {scorer}={weight}", self.name), document })
    }

    /// The same with another parameter of a plugin, one within others by names with dots between; none if there is no such
    /// plugin, or something else is where the name leads.
    pub(crate) fn with_parameter(&self, plugin: &str, parameter: &str, value: f64) -> Option<Self> {
        let mut document = self.document.clone();
        let plugins = document.get_mut("plugins")?.as_sequence_mut()?;
        let mut place = plugins.iter_mut().find(|one| one.get("name").and_then(Value::as_str) == Some(plugin))?;
        for name in ["parameters"].into_iter().chain(parameter.split('.')) {
            if place.is_null() {
                *place = Value::Mapping(Mapping::new());
            }
            place = place.as_mapping_mut()?.entry(name.into()).or_insert(Value::Null);
        }
        if place.is_mapping() || place.is_sequence() {
            return None;
        }
        *place = number(value);
        Some(Self { name: format!("{} {plugin}.{parameter}={value}", self.name), document })
    }

    /// The same, where programs are recognized by their prompts alone: no session has a name.
    pub(crate) fn by_prompts(&self) -> Self {
        let mut document = self.document.clone();
        for plugin in document.get_mut("plugins").and_then(Value::as_sequence_mut).into_iter().flatten() {
            if plugin.get("type").and_then(Value::as_str) == Some("program_preparer") {
                let nowhere = Mapping::from_iter([("from".into(), Value::Sequence(Vec::new()))]);
                plugin["parameters"] = Value::Mapping(nowhere);
            }
        }
        Self { name: format!("{} by prompts", self.name), document }
    }

    /// Whether it builds.
    pub(crate) fn check(&self) -> Result<(), SimulateError> {
        let block = BlockSize::new(16).ok_or(SimulateError::NoPods)?;
        self.build(&PluginState::new(Index::new(Config::default()).into(), Hashing::Given(block))).map(|_| ())
    }

    /// Builds it over plugin state.
    pub(crate) fn build(&self, state: &PluginState) -> Result<Workflow, SimulateError> {
        let wrong = |error: &dyn std::fmt::Display| SimulateError::Policy(self.name.clone(), error.to_string());
        let mut registry = Registry::new();
        register(&mut registry, state).map_err(|error| wrong(&error))?;
        let document = registry.read(self.document.clone()).map_err(|error| wrong(&error))?;
        document.build(&registry).map_err(|error| wrong(&error))
    }
}

/// A number as a document would have it: whole ones are whole, since parameters that count take no others.
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 1e15 { (value as i64).into() } else { value.into() }
}

/// The first sentence of the comment that a document begins with.
fn first_sentence(document: &str) -> String {
    let lines = document.lines().map_while(|line| line.strip_prefix("# "));
    let comment = lines.collect::<Vec<_>>().join(" ");
    comment.split_once(". ").map_or(comment.as_str(), |(first, _)| first).trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_builds_and_says_what_it_is() {
        for (name, about) in Policy::described() {
            Policy::find(name).unwrap().check().unwrap();
            assert!((20..=240).contains(&about.len()) && !about.contains('#'), "{name}: {about}");
        }
    }

    #[test]
    fn a_rule_of_somebody_names_where_it_is_from() {
        let of_nobody = ["random", "session_sticky"];
        for (name, text) in PUBLISHED {
            assert_eq!(text.contains("\n# Source: https://"), !of_nobody.contains(&name), "{name}");
        }
    }

    #[test]
    fn an_unknown_name_is_told_with_the_nearest() {
        for (wrong, nearest) in [("lmetrik", "lmetric"), ("leastload", "least_load"), ("cache-aware", "cache_aware")] {
            let error = Policy::find(wrong).unwrap_err();
            assert!(matches!(error, SimulateError::UnknownPolicy(_, name) if name == nearest), "{error}");
        }
        assert!(matches!(Policy::find("no/such/file.yaml"), Err(SimulateError::File(..))));
    }

    #[test]
    fn weights_and_parameters_are_changed_where_they_are() {
        let policy = Policy::find("cache_aware").unwrap();
        let heavier = policy.with_weight("cache", 5.5).unwrap();
        assert_eq!(heavier.document["profiles"][0]["score"][0]["weight"], Value::from(5.5));
        assert_eq!(heavier.name, "cache_aware cache=5.5");
        let limited = policy.with_parameter("load", "form.limit.limit", 8.0).unwrap();
        let load = limited.document["plugins"].as_sequence().unwrap().iter().find(|one| one["name"] == "load").unwrap();
        assert_eq!(load["parameters"]["form"]["limit"]["limit"], Value::from(8));
        for changed in [heavier, limited] {
            changed.check().unwrap();
        }
        assert_eq!(policy.with_weight("nobody", 1.0), None);
        assert_eq!(policy.with_parameter("nobody", "limit", 1.0), None);
        assert_eq!(policy.with_parameter("load", "form", 1.0), None, "there is more than a number");
        // Unknown parameters are the plugin's to reject.
        let unknown = policy.with_parameter("kv", "colour", 1.0).unwrap().check().unwrap_err();
        assert!(unknown.to_string().contains("colour"), "{unknown}");
    }
}
