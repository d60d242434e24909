//! The parts of a document and their fields.
//!
//! A part that cannot be read at all still takes its place with nothing in it, so that the others keep their numbers.

use super::fields::Fields;
use super::fields::Need::{Optional, Required};
use super::notes::Notes;
use crate::document::{
    Document, FilterUse, PluginDefinition, Problem, ProfileDefinition, ScorerUse, StepDefinition, WorkflowDefinition,
};
use crate::value::Value;

/// A document of this version; nothing if it is of another, which has other fields.
pub(super) fn document(notes: &Notes, value: Value) -> Option<Document> {
    if let Value::Map(fields) = &value {
        let version = fields.get("version").filter(|version| **version != Value::Integer(Document::VERSION.into()));
        if let Some(version) = version {
            let found = version.to_string().into();
            let problem = Problem::UnknownVersion { found, supported: Document::VERSION };
            notes.wrong_field("version", notes.path().field("version"), problem);
            return None;
        }
    }
    let known = [
        ("version", Optional),
        ("values", Optional),
        ("plugins", Optional),
        ("profiles", Required),
        ("workflow", Optional),
    ];
    let mut fields = Fields::of(notes, "document", value, &known)?;
    let plugins = fields.list("plugins", |notes, value| Some(plugin(notes, value).unwrap_or_default()));
    let profiles = fields.list("profiles", |notes, value| Some(profile(notes, value).unwrap_or_default()));
    Some(Document {
        version: Document::VERSION,
        values: fields.values("values").unwrap_or_default(),
        plugins: plugins.unwrap_or_default(),
        profiles: profiles.unwrap_or_default(),
        workflow: fields.read("workflow", workflow),
    })
}

pub(super) fn plugin(notes: &Notes, value: Value) -> Option<PluginDefinition> {
    let known = [("name", Optional), ("type", Required), ("parameters", Optional)];
    let mut fields = Fields::of(notes, "plugin", value, &known)?;
    let name = fields.read("name", |notes, value| match value {
        Value::Text(name) if name.is_empty() => {
            notes.wrong(Problem::EmptyPluginName);
            None
        }
        Value::Text(name) => Some(name),
        other => {
            notes.wrong(Problem::wrong_type("a text", &other));
            None
        }
    });
    let kind = fields.text("type").unwrap_or_default();
    let parameters = fields.values("parameters").unwrap_or_default();
    Some(PluginDefinition { name: name.unwrap_or_else(|| kind.clone()), kind, parameters })
}

fn profile(notes: &Notes, value: Value) -> Option<ProfileDefinition> {
    let known = [
        ("name", Required),
        ("prepare", Optional),
        ("filter", Optional),
        ("score", Optional),
        ("pick", Required),
        ("record", Optional),
    ];
    let mut fields = Fields::of(notes, "profile", value, &known)?;
    let filters = fields.list("filter", |notes, value| Some(filter(notes, value).unwrap_or_default()));
    let scorers = fields.list("score", |notes, value| Some(scorer(notes, value).unwrap_or_default()));
    Some(ProfileDefinition {
        name: fields.text("name").unwrap_or_default(),
        prepare: fields.texts("prepare").unwrap_or_default(),
        filter: filters.unwrap_or_default(),
        score: scorers.unwrap_or_default(),
        pick: fields.text("pick").unwrap_or_default(),
        record: fields.texts("record").unwrap_or_default(),
    })
}

fn filter(notes: &Notes, value: Value) -> Option<FilterUse> {
    let mut fields = Fields::of(notes, "filter of a profile", value, &[("plugin", Required), ("on_empty", Optional)])?;
    let plugin = fields.text("plugin").unwrap_or_default();
    Some(FilterUse { plugin, on_empty: fields.word("on_empty").unwrap_or_default() })
}

fn scorer(notes: &Notes, value: Value) -> Option<ScorerUse> {
    let mut fields = Fields::of(notes, "scorer of a profile", value, &[("plugin", Required), ("weight", Required)])?;
    let plugin = fields.text("plugin").unwrap_or_default();
    Some(ScorerUse { plugin, weight: fields.number("weight").unwrap_or_default() })
}

fn workflow(notes: &Notes, value: Value) -> Option<WorkflowDefinition> {
    let mut fields = Fields::of(notes, "workflow", value, &[("steps", Required), ("executed_in", Optional)])?;
    let steps = fields.list("steps", |notes, value| Some(step(notes, value).unwrap_or_default()));
    Some(WorkflowDefinition { steps: steps.unwrap_or_default(), executed_in: fields.texts("executed_in") })
}

fn step(notes: &Notes, value: Value) -> Option<StepDefinition> {
    let known = [
        ("name", Required),
        ("profile", Required),
        ("role", Optional),
        ("when", Optional),
        ("on_failure", Optional),
        ("ranked", Optional),
        ("independent", Optional),
    ];
    let mut fields = Fields::of(notes, "step", value, &known)?;
    Some(StepDefinition {
        name: fields.text("name").unwrap_or_default(),
        profile: fields.text("profile").unwrap_or_default(),
        role: fields.word("role").unwrap_or_default(),
        when: fields.plugin("when"),
        on_failure: fields.word("on_failure").unwrap_or_default(),
        ranked: fields.count("ranked"),
        independent: fields.bool("independent").unwrap_or_default(),
    })
}
