//! The configuration as it is written: plugins, profiles, gates and sections, checked for structure and references.
//!
//! What llm-d refuses when it loads is refused here, in the same places; all of it is listed and not only the first.

use std::collections::BTreeSet;

use routing_core::suggest;
use serde_yaml_ng::Value;

use super::error::{Findings, Place};
use super::fields::{Case, Fields};
use super::flow_schema::FlowSection;

/// What a configuration says.
#[derive(Clone, Debug, Default)]
pub(super) struct Schema {
    pub(super) plugins: Vec<PluginSpec>,
    pub(super) profiles: Vec<ProfileSpec>,
    pub(super) flow_gate: bool,
    pub(super) data_layer: DataLayerSection,
    pub(super) flow: Option<FlowSection>,
    pub(super) parsers: Vec<Reference>,
    /// What is deprecated of it.
    pub(super) deprecated: Vec<String>,
}

/// A plugin to be made.
#[derive(Clone, Debug)]
pub(super) struct PluginSpec {
    pub(super) name: String,
    pub(super) kind: String,
    pub(super) parameters: Value,
    pub(super) place: Place,
}

/// A scheduling profile.
#[derive(Clone, Debug)]
pub(super) struct ProfileSpec {
    pub(super) name: String,
    pub(super) plugins: Vec<PluginUse>,
    pub(super) place: Place,
}

/// A plugin in a profile.
#[derive(Clone, Debug)]
pub(super) struct PluginUse {
    pub(super) plugin: Reference,
    pub(super) weight: Option<f64>,
}

/// The name of a plugin, where it is referred to.
#[derive(Clone, Debug)]
pub(super) struct Reference {
    pub(super) name: String,
    pub(super) place: Place,
}

/// Where figures of pods come from, and the pods themselves.
#[derive(Clone, Debug, Default)]
pub(super) struct DataLayerSection {
    pub(super) sources: Vec<Reference>,
    pub(super) extractors: Vec<Reference>,
    pub(super) discovery: Option<Reference>,
    /// Fields that have no counterpart.
    pub(super) ignored: Vec<&'static str>,
    pub(super) without_defaults: bool,
}

impl Reference {
    pub(super) fn read(fields: &Fields<'_>, name: &'static str) -> Option<Self> {
        Some(Self { name: fields.text(name)?.to_owned(), place: fields.place.key(name) })
    }

    /// The same, where there must be one.
    fn required(fields: &Fields<'_>, name: &'static str, found: &Findings) -> Option<Self> {
        let reference = Self::read(fields, name);
        if reference.is_none() {
            found.problem(&fields.place, format!("there is no `{name}`: give the name of a plugin"));
        }
        reference
    }
}

impl Schema {
    /// Reads a document. Without one there is nothing to read.
    pub(super) fn read(document: &Value, found: &Findings) -> Self {
        let fields = Fields::new(document, Place::default(), Case::Exact, found);
        let mut schema = Self::default();
        schema.read_head(&fields, found);
        schema.flow_gate = read_gates(&fields, found);
        schema.plugins = fields.objects("plugins").iter().map(|plugin| read_plugin(plugin, found)).collect();
        schema.profiles =
            fields.objects("schedulingProfiles").iter().map(|profile| read_profile(profile, found)).collect();
        schema.data_layer = fields.fields("dataLayer").map(|data| read_data_layer(&data, found)).unwrap_or_default();
        schema.flow = fields.fields("flowControl").map(|flow| FlowSection::read(&flow));
        schema.read_parsers(&fields, found);
        schema.read_old_detector(&fields);
        schema.check(found);
        schema
    }

    /// A plugin by its name.
    pub(super) fn plugin(&self, name: &str) -> Option<&PluginSpec> {
        self.plugins.iter().find(|plugin| plugin.name == name)
    }

    /// Says that a plugin is not defined, unless it is.
    pub(super) fn resolve<'s>(&'s self, reference: &Reference, found: &Findings) -> Option<&'s PluginSpec> {
        let plugin = self.plugin(&reference.name);
        if plugin.is_none() {
            let names = self.plugins.iter().map(|plugin| plugin.name.as_str());
            let help =
                suggest(&reference.name, names).map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
            let name = &reference.name;
            found.problem(&reference.place, format!("no plugin is called `{name}`: define it under `plugins`{help}"));
        }
        plugin
    }

    fn read_head(&mut self, fields: &Fields<'_>, found: &Findings) {
        match fields.text("apiVersion") {
            Some(GROUP) => {}
            Some(OLD_GROUP) => self.deprecated.push(format!("apiVersion {OLD_GROUP} is deprecated: write {GROUP}")),
            other => found.problem(
                &Place::default().key("apiVersion"),
                format!("found {}, expected {GROUP} (or the older {OLD_GROUP})", said(other)),
            ),
        }
        let kind = fields.text("kind");
        if kind != Some(KIND) {
            found.problem(&Place::default().key("kind"), format!("found {}, expected {KIND}", said(kind)));
        }
    }

    fn read_parsers(&mut self, fields: &Fields<'_>, found: &Findings) {
        if let Some(handler) = fields.fields("requestHandler") {
            let parsers = handler.objects("parsers");
            self.parsers = parsers.iter().filter_map(|one| Reference::required(one, "pluginRef", found)).collect();
        }
        if let Some(parser) = fields.fields("parser") {
            self.deprecated.push("top-level `parser` is deprecated: write `requestHandler.parsers`".to_owned());
            let old = Reference::required(&parser, "pluginRef", found);
            if self.parsers.is_empty() {
                self.parsers.extend(old);
            }
        }
    }

    fn read_old_detector(&mut self, fields: &Fields<'_>) {
        if let Some(detector) = fields.fields("saturationDetector") {
            self.deprecated.push(
                "top-level `saturationDetector` is deprecated: write `flowControl.saturationDetector`".to_owned(),
            );
            let old = Reference::read(&detector, "pluginRef");
            let flow = self.flow.get_or_insert_default();
            flow.detector = flow.detector.take().or(old);
        }
    }

    fn check(&self, found: &Findings) {
        let mut names = BTreeSet::new();
        for plugin in &self.plugins {
            if !names.insert(&plugin.name) {
                let message = format!("a second plugin is called `{}`: give it another `name`", plugin.name);
                found.problem(&plugin.place, message);
            }
        }
        let mut names = BTreeSet::new();
        for profile in &self.profiles {
            if !names.insert(&profile.name) {
                found.problem(&profile.place, format!("a second profile is called `{}`: rename it", profile.name));
            }
            for used in &profile.plugins {
                self.resolve(&used.plugin, found);
            }
        }
        let DataLayerSection { sources, extractors, discovery, .. } = &self.data_layer;
        for reference in sources.iter().chain(extractors).chain(discovery) {
            self.resolve(reference, found);
        }
    }
}

fn read_plugin(fields: &Fields<'_>, found: &Findings) -> PluginSpec {
    let kind = fields.text("type").unwrap_or_else(|| {
        found.problem(&fields.place, "a plugin without a `type`: give it one");
        ""
    });
    PluginSpec {
        name: fields.text("name").unwrap_or(kind).to_owned(),
        kind: kind.to_owned(),
        parameters: fields.get("parameters").cloned().unwrap_or_default(),
        place: fields.place.clone(),
    }
}

fn read_profile(fields: &Fields<'_>, found: &Findings) -> ProfileSpec {
    let name = fields.text("name").unwrap_or_else(|| {
        found.problem(&fields.place, "a profile without a `name`: give it one");
        ""
    });
    let mut plugins = Vec::new();
    for used in fields.objects("plugins") {
        let weight = used.number("weight");
        plugins.extend(Reference::required(&used, "pluginRef", found).map(|plugin| PluginUse { plugin, weight }));
    }
    ProfileSpec { name: name.to_owned(), plugins, place: fields.place.clone() }
}

fn read_data_layer(fields: &Fields<'_>, found: &Findings) -> DataLayerSection {
    let mut section =
        DataLayerSection { without_defaults: fields.flag("injectDefaults") == Some(false), ..Default::default() };
    for source in fields.objects("sources") {
        section.sources.extend(Reference::required(&source, "pluginRef", found));
        for extractor in source.objects("extractors") {
            section.extractors.extend(Reference::required(&extractor, "pluginRef", found));
        }
    }
    section.discovery = fields.fields("discovery").and_then(|one| Reference::required(&one, "pluginRef", found));
    for name in ["peerDiscovery", "crossReplicaSyncerPluginRef", "crossReplicaSyncInterval"] {
        section.ignored.extend(fields.get(name).map(|_| name));
    }
    section
}

/// Whether flow control is on.
fn read_gates(fields: &Fields<'_>, found: &Findings) -> bool {
    let mut flow = false;
    for (place, gate) in fields.items("featureGates") {
        let gate = gate.as_str().unwrap_or_default();
        let (name, value) = gate.split_once('=').unwrap_or((gate, "true"));
        let value = match value.trim().to_ascii_lowercase().as_str() {
            "true" | "t" | "1" => true,
            "false" | "f" | "0" => false,
            other => {
                found.problem(&place, format!("found `{other}`, expected {name}=true or {name}=false"));
                continue;
            }
        };
        if !GATES.contains(&name) {
            let near = suggest(name, GATES).map_or_else(|| GATES.join(", "), str::to_owned);
            found.problem(&place, format!("unknown feature gate `{name}`: there is {near}"));
        } else if name == GATES[0] {
            flow = value;
        }
    }
    flow
}

fn said(text: Option<&str>) -> String {
    text.map_or_else(|| "nothing".to_owned(), |text| format!("`{text}`"))
}

const KIND: &str = "EndpointPickerConfig";
const GROUP: &str = "llm-d.ai/v1alpha1";
const OLD_GROUP: &str = "inference.networking.x-k8s.io/v1alpha1";

/// Flow control is the first; who leads among replicas is not asked here.
const GATES: [&str; 2] = ["flowControl", "haPopulateNonLeaderDatastore"];
