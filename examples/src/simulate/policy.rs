//! The rules that are compared, each a workflow document made of stock plugins.

use std::fs;
use std::path::Path;

use routing_core::{Registry, Workflow};
use routing_plugins::{Stock, register};
use serde_yaml_ng::Value;

use crate::simulate::SimulateError;

/// A rule by its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// What tables call it.
    pub name: String,
    document: Value,
}

/// A document that comes along: its name, and its text.
macro_rules! documents {
    ($folder:literal: $($name:ident),* $(,)?) => {
        [$((stringify!($name), include_str!(concat!($folder, stringify!($name), ".yaml")))),*]
    };
}

/// The profiles that [`routing_plugins::profiles`] has.
const STOCK: [(&str, &str); 9] = documents!("../../../routing-plugins/profiles/":
    first_token, round_robin, least_load, consistent_hash, cache_aware, cache_aware_sticky, sticky_least_loaded,
    prefill_decode, prefill_decode_conditional);

/// The profile that gateways should begin with.
pub const DEFAULT: &str = "first_token";

/// Rules that others published, as documents of stock plugins.
const PUBLISHED: [(&str, &str); 11] = documents!("../../policies/":
    random, longest_prefix, session_sticky, smg_cache_aware, smg_expected_wait, dynamo_linear, vllm_rfc, lmetric,
    preble_e2, mooncake_ttft, llm_d);

impl Policy {
    /// The names of those for pods that prefill and decode.
    pub fn for_mixed_pods() -> impl Iterator<Item = &'static str> {
        Self::names().filter(|name| !name.starts_with("prefill_decode"))
    }

    /// The names of all that come along, in the order tables list them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        STOCK.iter().chain(&PUBLISHED).map(|(name, _)| *name)
    }

    /// One that comes along, or of a file.
    ///
    /// # Errors
    ///
    /// If there is neither, or the file is not YAML.
    pub fn find(name: &str) -> Result<Self, SimulateError> {
        let known =
            STOCK.iter().chain(&PUBLISHED).find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned());
        let (name, text) = match known {
            Some(text) => (name.to_owned(), text),
            None if Path::new(name).extension().is_some() => {
                let text = fs::read_to_string(name).map_err(|error| SimulateError::File(name.into(), error))?;
                let stem = Path::new(name).file_stem().map_or(name.into(), |stem| stem.to_string_lossy().into_owned());
                (stem, text)
            }
            None => return Err(SimulateError::UnknownPolicy(name.into())),
        };
        let document =
            serde_yaml_ng::from_str(&text).map_err(|error| SimulateError::Policy(name.clone(), error.to_string()))?;
        Ok(Self { name, document })
    }

    /// The same with another weight of a scorer, in every profile that uses it; none if none does.
    #[must_use]
    pub fn with_weight(&self, scorer: &str, weight: f64) -> Option<Self> {
        let mut document = self.document.clone();
        let mut found = false;
        for profile in document.get_mut("profiles")?.as_sequence_mut()? {
            let Some(uses) = profile.get_mut("score").and_then(Value::as_sequence_mut) else { continue };
            for used in uses.iter_mut().filter(|used| used.get("plugin").and_then(Value::as_str) == Some(scorer)) {
                *used.get_mut("weight")? = weight.into();
                found = true;
            }
        }
        found.then(|| Self { name: format!("{} {scorer}={weight}", self.name), document })
    }

    /// The same with another parameter of a plugin; none if there is no such plugin.
    #[must_use]
    pub fn with_parameter(&self, plugin: &str, parameter: &str, value: f64) -> Option<Self> {
        let mut document = self.document.clone();
        let plugins = document.get_mut("plugins")?.as_sequence_mut()?;
        let found =
            plugins.iter_mut().find(|one| one.get("name").and_then(Value::as_str) == Some(plugin))?.as_mapping_mut()?;
        let parameters = found.entry("parameters".into()).or_insert_with(|| Value::Mapping(Default::default()));
        parameters.as_mapping_mut()?.insert(parameter.into(), value.into());
        Some(Self { name: format!("{} {plugin}.{parameter}={value}", self.name), document })
    }

    /// Builds it over a stock.
    ///
    /// # Errors
    ///
    /// Every problem of its document.
    pub fn build(&self, stock: &Stock) -> Result<Workflow, SimulateError> {
        let wrong = |error: &dyn std::fmt::Display| SimulateError::Policy(self.name.clone(), error.to_string());
        let mut registry = Registry::new();
        register(&mut registry, stock).map_err(|error| wrong(&error))?;
        let document = registry.read(self.document.clone()).map_err(|error| wrong(&error))?;
        document.build(&registry).map_err(|error| wrong(&error))
    }
}
