//! A workflow document while it is made, and as text: every plugin says what it was to llm-d.

use std::fmt::Write;

use routing_core::OnEmpty;
use serde_json::{Map, Value};

/// A document.
#[derive(Debug, Default)]
pub(super) struct Draft {
    plugins: Vec<DraftPlugin>,
    pub(super) profiles: Vec<DraftProfile>,
    pub(super) steps: Vec<DraftStep>,
    pub(super) executed_in: Vec<String>,
}

#[derive(Debug)]
struct DraftPlugin {
    name: String,
    kind: String,
    parameters: Map<String, Value>,
    comment: String,
}

/// A profile's plugins by name.
#[derive(Debug, Default)]
pub(super) struct DraftProfile {
    pub(super) name: String,
    pub(super) prepare: Vec<String>,
    pub(super) filter: Vec<(String, OnEmpty)>,
    pub(super) score: Vec<(String, f64)>,
    pub(super) pick: String,
    pub(super) record: Vec<String>,
}

/// A step.
#[derive(Debug, Default)]
pub(super) struct DraftStep {
    pub(super) name: String,
    pub(super) role: Option<&'static str>,
    pub(super) when: Option<(&'static str, Value)>,
    pub(super) skips: bool,
    pub(super) ranked: usize,
}

impl Draft {
    /// A plugin of this name; of another one, if there is a different plugin of the name. The name is returned.
    pub(super) fn define(&mut self, name: &str, kind: &str, parameters: Map<String, Value>, comment: &str) -> String {
        let (mut free, mut count) = (name.to_owned(), 1);
        while let Some(there) = self.plugins.iter().find(|plugin| plugin.name == free) {
            if there.kind == kind && there.parameters == parameters {
                return free;
            }
            count += 1;
            free = format!("{name}-{count}");
        }
        let plugin = DraftPlugin { name: free.clone(), kind: kind.to_owned(), parameters, comment: comment.to_owned() };
        self.plugins.push(plugin);
        free
    }

    /// The document as YAML.
    pub(super) fn write(&self) -> String {
        let mut text =
            String::from("# Made of an EndpointPickerConfig. Behind each plugin stands what it was there.\nplugins:\n");
        for DraftPlugin { name, kind, parameters, comment } in &self.plugins {
            push(&mut text, format_args!("  - {{ name: {}, type: {kind}", scalar(name)));
            if !parameters.is_empty() {
                push(&mut text, format_args!(", parameters: {}", flow(&Value::Object(parameters.clone()))));
            }
            push(&mut text, format_args!(" }} # {comment}\n"));
        }
        text.push_str("profiles:\n");
        self.profiles.iter().for_each(|profile| profile.write(&mut text));
        text.push_str("workflow:\n  steps:\n");
        self.steps.iter().for_each(|step| step.write(&mut text));
        if self.executed_in.len() > 1 {
            push(&mut text, format_args!("  executed_in: [{}]\n", names(&self.executed_in)));
        }
        text
    }
}

impl DraftProfile {
    fn write(&self, text: &mut String) {
        push(text, format_args!("  - name: {}\n", scalar(&self.name)));
        if !self.prepare.is_empty() {
            push(text, format_args!("    prepare: [{}]\n", names(&self.prepare)));
        }
        text.push_str("    filter:\n");
        for (name, on_empty) in &self.filter {
            let keeps = if *on_empty == OnEmpty::KeepPrevious { ", on_empty: keep_previous" } else { "" };
            push(text, format_args!("      - {{ plugin: {}{keeps} }}\n", scalar(name)));
        }
        if !self.score.is_empty() {
            text.push_str("    score:\n");
        }
        for (name, weight) in &self.score {
            push(text, format_args!("      - {{ plugin: {}, weight: {weight} }}\n", scalar(name)));
        }
        push(text, format_args!("    pick: {}\n", scalar(&self.pick)));
        if !self.record.is_empty() {
            push(text, format_args!("    record: [{}]\n", names(&self.record)));
        }
    }
}

impl DraftStep {
    fn write(&self, text: &mut String) {
        let name = scalar(&self.name);
        push(text, format_args!("    - name: {name}\n      profile: {name}\n"));
        if let Some(role) = self.role {
            push(text, format_args!("      role: {role}\n"));
        }
        if let Some((kind, parameters)) = &self.when {
            push(text, format_args!("      when: {{ type: {kind}"));
            if parameters.as_object().is_some_and(|parameters| !parameters.is_empty()) {
                push(text, format_args!(", parameters: {}", flow(parameters)));
            }
            text.push_str(" }\n");
        }
        if self.skips {
            text.push_str("      on_failure: skip\n");
        }
        push(text, format_args!("      ranked: {}\n", self.ranked));
    }
}

fn names(names: &[String]) -> String {
    names.iter().map(|name| scalar(name)).collect::<Vec<_>>().join(", ")
}

/// A value on one line.
fn flow(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let fields: Vec<String> =
                map.iter().map(|(key, value)| format!("{}: {}", scalar(key), flow(value))).collect();
            if fields.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", fields.join(", ")) }
        }
        Value::Array(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::String(text) => scalar(text),
        other => other.to_string(),
    }
}

/// A text, in quotes unless it is a plain word.
fn scalar(text: &str) -> String {
    let is_plain = text.starts_with(|letter: char| letter.is_ascii_alphabetic())
        && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "_-./".contains(letter))
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"].contains(&text.to_ascii_lowercase().as_str());
    if is_plain { text.to_owned() } else { Value::String(text.to_owned()).to_string() }
}

fn push(text: &mut String, arguments: std::fmt::Arguments<'_>) {
    // Writing into a string does not fail.
    let _ = text.write_fmt(arguments);
}
