//! Pieces of a workflow that an llm-d plugin becomes, and what they need of the rest.

use std::collections::BTreeMap;

use routing_core::OnEmpty;
use serde_json::{Map, Value, json};

use super::error::{Findings, Place};
use super::fields::{Case, Fields};
use super::schema::{PluginSpec, Schema};

/// What a plugin is in profiles.
#[derive(Clone, Debug, Default)]
pub(super) struct Parts {
    pub(super) filters: Vec<Piece>,
    pub(super) scorers: Vec<Piece>,
    pub(super) picker: Option<PickerPiece>,
}

/// A plugin of ours.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    /// Its type in the registry.
    pub(super) kind: &'static str,
    pub(super) parameters: Map<String, Value>,
    /// What is added to the instance's name, where one plugin becomes several.
    pub(super) suffix: &'static str,
    /// What happens when a filter leaves nobody.
    pub(super) on_empty: OnEmpty,
    /// The role that a filter keeps pods of.
    pub(super) role: Option<&'static str>,
    /// Whether it goes by the pod of an earlier step, whose name becomes its parameter `step`.
    pub(super) near_peer: bool,
    pub(super) needs: Needs,
}

/// A picker, and how many it ranks.
#[derive(Clone, Debug)]
pub(super) struct PickerPiece {
    pub(super) piece: Piece,
    pub(super) most: usize,
    /// Whether it looks at scores.
    pub(super) by_score: bool,
}

/// What must be prepared or recorded for a piece.
#[derive(Clone, Debug, Default)]
pub(super) struct Needs {
    pub(super) loads: bool,
    pub(super) tokens: bool,
    /// The producers that say who holds the prompt, by name.
    pub(super) prefix: Vec<String>,
    pub(super) cold_prompts: bool,
    pub(super) predictions: bool,
    /// Where a session's name is found.
    pub(super) session: Option<Vec<Value>>,
    /// How old reports may be, in milliseconds.
    pub(super) stale_after: Option<u64>,
}

impl Needs {
    pub(super) fn add(&mut self, other: &Self) {
        self.loads |= other.loads;
        self.tokens |= other.tokens;
        self.cold_prompts |= other.cold_prompts;
        self.predictions |= other.predictions;
        self.session = self.session.take().or_else(|| other.session.clone());
        self.stale_after = self.stale_after.max(other.stale_after);
        let new: Vec<_> = other.prefix.iter().filter(|name| !self.prefix.contains(name)).cloned().collect();
        self.prefix.extend(new);
    }
}

impl Piece {
    /// A plugin of a type, with an object of parameters.
    pub(super) fn new(kind: &'static str, parameters: Value) -> Self {
        let parameters = if let Value::Object(parameters) = parameters { parameters } else { Map::new() };
        let (suffix, on_empty, role, near_peer, needs) = ("", OnEmpty::Fail, None, false, Needs::default());
        Self { kind, parameters, suffix, on_empty, role, near_peer, needs }
    }

    /// The same by loads.
    pub(super) fn by_loads(mut self) -> Self {
        self.needs.loads = true;
        self
    }

    /// The same by the prompt's tokens.
    pub(super) fn by_tokens(mut self) -> Self {
        self.needs.tokens = true;
        self
    }

    /// The same by who holds the prompt, as a producer says.
    pub(super) fn by_prefix(mut self, producer: Option<&str>) -> Self {
        self.needs.prefix = vec![producer.unwrap_or(DEFAULT_PRODUCER).to_owned()];
        self
    }

    /// The same, but where it leaves nobody everybody stays.
    pub(super) fn or_all(self) -> Self {
        Self { on_empty: OnEmpty::KeepPrevious, ..self }
    }

    /// Whether it leaves those who can do a step at all, and nobody rather than others.
    pub(super) fn says_who_can(&self) -> bool {
        self.on_empty == OnEmpty::Fail && matches!(self.kind, "role_filter" | "label_filter" | "label_or_none_filter")
    }

    /// The same near an earlier step's pod.
    pub(super) fn near_peer(self) -> Self {
        Self { near_peer: true, ..self }
    }
}

impl Parts {
    pub(super) fn filter(piece: Piece) -> Self {
        Self { filters: vec![piece], ..Self::default() }
    }

    pub(super) fn scorer(piece: Piece) -> Self {
        Self { scorers: vec![piece], ..Self::default() }
    }
}

/// What pieces are made by: the configuration, and where to say what is wrong.
#[derive(Clone, Copy, Debug)]
pub(super) struct World<'w> {
    pub(super) schema: &'w Schema,
    pub(super) found: &'w Findings,
}

impl<'w> World<'w> {
    /// A plugin's parameters.
    pub(super) fn parameters(&self, plugin: &'w PluginSpec) -> Fields<'w> {
        Fields::new(&plugin.parameters, place(plugin), Case::Any, self.found)
    }

    /// The plugins of a type.
    pub(super) fn of_type(&self, kind: &'w str) -> impl Iterator<Item = &'w PluginSpec> + use<'w> {
        self.schema.plugins.iter().filter(move |plugin| plugin.kind == kind)
    }

    /// The labels that say where a pod is, nearest first.
    pub(super) fn topology(&self) -> [(&'static str, String); 4] {
        let labels = self.of_type("topology-extractor").next().map(|plugin| self.parameters(plugin));
        LEVELS.map(|(level, field, default)| {
            let given = labels.as_ref().and_then(|labels| labels.text(field));
            (level, given.unwrap_or(default).to_owned())
        })
    }
}

/// Where a plugin's parameters are.
pub(super) fn place(plugin: &PluginSpec) -> Place {
    plugin.place.key("parameters")
}

/// A JSON object without what is null.
pub(super) fn some(parameters: Value) -> Value {
    match parameters {
        Value::Object(map) => {
            map.into_iter().filter(|(_, value)| !value.is_null()).collect::<BTreeMap<_, _>>().into_iter().collect()
        }
        other => other,
    }
}

/// An object of one field.
pub(super) fn one(name: &str, value: impl Into<Value>) -> Value {
    json!({ name: value.into() })
}

/// The producer that plugins read which name none; llm-d makes it where it is missing.
pub(super) const DEFAULT_PRODUCER: &str = "approx-prefix-cache-producer";

/// Levels, the fields of `topology-extractor` that name their labels, and its defaults.
const LEVELS: [(&str, &str, &str); 4] = [
    ("host", "hostname", "kubernetes.io/hostname"),
    ("rack", "rack", "topology.kubernetes.io/rack"),
    ("zone", "zone", "topology.kubernetes.io/zone"),
    ("region", "region", "topology.kubernetes.io/region"),
];
