//! llm-d's profile handlers: which profiles become steps, in which order, and under which conditions.

use std::collections::BTreeMap;

use routing_core::suggest;
use serde_json::{Value, json};

use super::disagg;
use super::fields::Fields;
use super::parts::{Needs, World};
use super::plugin_types::{Part, PluginType};
use super::schema::{PluginSpec, ProfileSpec};
use super::settings::Profiles;

/// A profile that is decided.
#[derive(Clone, Debug)]
pub(super) struct StepPlan<'w> {
    pub(super) profile: &'w ProfileSpec,
    /// The condition under which it is, by its type and parameters.
    pub(super) when: Option<(&'static str, Value)>,
    /// What the condition needs.
    pub(super) needs: Needs,
    /// Whether a request goes on without it.
    pub(super) skips: bool,
    /// The earlier step whose pod it should be near to.
    pub(super) peer: Option<String>,
    /// Whether the prompt is cached by its pod afterwards.
    pub(super) caches: bool,
    /// Whether its pod gets the request.
    pub(super) is_primary: bool,
}

impl<'w> StepPlan<'w> {
    /// The step whose pod gets the request.
    pub(super) fn primary(profile: &'w ProfileSpec) -> Self {
        let (when, needs, peer) = (None, Needs::default(), None);
        Self { profile, when, needs, skips: false, peer, caches: true, is_primary: true }
    }

    /// A step before it, which a request can go without.
    pub(super) fn before(profile: &'w ProfileSpec, condition: Condition) -> Self {
        let Condition { when, needs } = condition;
        Self { profile, when, needs, skips: true, peer: None, caches: false, is_primary: false }
    }
}

/// When a step is taken, and what it takes to tell.
#[derive(Clone, Debug, Default)]
pub(super) struct Condition {
    pub(super) when: Option<(&'static str, Value)>,
    pub(super) needs: Needs,
}

/// What a handler decides by: one workflow, or one of several.
#[derive(Debug)]
pub(super) struct Handled<'w> {
    pub(super) workflows: Vec<Vec<StepPlan<'w>>>,
    /// The order in which steps are executed, if there are several.
    pub(super) executed_in: Vec<String>,
    pub(super) profiles: Profiles,
}

impl<'w> Handled<'w> {
    fn one(profile: &'w ProfileSpec, profiles: Profiles) -> Self {
        Self { workflows: vec![vec![StepPlan::primary(profile)]], executed_in: Vec::new(), profiles }
    }
}

/// The handler that is configured, or the one for a single profile.
pub(super) fn handle<'w>(world: World<'w>, profiles: &'w [ProfileSpec]) -> Option<Handled<'w>> {
    let is_handler = |plugin: &&PluginSpec| PluginType::find(&plugin.kind).is_some_and(|kind| kind.is(Part::Handler));
    let mut handlers = world.schema.plugins.iter().filter(is_handler);
    let (first, second) = (handlers.next(), handlers.next());
    if let (Some(first), Some(second)) = (first, second) {
        let message = format!("a second profile handler beside `{}`: remove one of them", first.name);
        world.found.problem(&second.place, message);
        return None;
    }
    let Some(handler) = first else {
        let [profile] = profiles else {
            let place = super::error::Place::default().key("schedulingProfiles");
            let message =
                "several profiles and no profile handler: define a disagg-profile-handler or a header-profile-handler";
            world.found.problem(&place, message);
            return None;
        };
        return Some(Handled::one(profile, Profiles::Single));
    };
    let mut fields = world.parameters(handler);
    match handler.kind.as_str() {
        "single-profile-handler" => {
            fields.skip_all();
            Some(Handled::one(only(world, handler, profiles)?, Profiles::Single))
        }
        "data-parallel-profile-handler" => {
            let primary_port = port(&fields, "primaryPort").unwrap_or(8000);
            Some(Handled::one(only(world, handler, profiles)?, Profiles::DataParallel { primary_port }))
        }
        "header-profile-handler" => by_header(world, &fields, profiles),
        "pd-profile-handler" => disagg::pd(world, &fields, profiles),
        _ => disagg::disagg(world, &fields, profiles),
    }
}

/// A port that is given and is not 0.
pub(super) fn port(fields: &Fields<'_>, name: &'static str) -> Option<u16> {
    let port = fields.whole(name).filter(|port| *port != 0)?;
    let number = u16::try_from(port).ok();
    if number.is_none() {
        fields.problem(name, format!("found {port}, expected a port from 1 to 65535"));
    }
    number
}

/// The profile of a name, which must be there.
pub(super) fn profile<'w>(
    world: World<'w>,
    handler: &Fields<'w>,
    profiles: &'w [ProfileSpec],
    name: &str,
) -> Option<&'w ProfileSpec> {
    let found = profiles.iter().find(|profile| profile.name == name);
    if found.is_none() {
        let near = suggest(name, profiles.iter().map(|profile| profile.name.as_str()));
        let help = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
        let message = format!("no profile is called `{name}`, so that every request would fail: add it{help}");
        world.found.problem(&handler.place, message);
    }
    found
}

fn only<'w>(world: World<'w>, handler: &PluginSpec, profiles: &'w [ProfileSpec]) -> Option<&'w ProfileSpec> {
    if let [profile] = profiles {
        return Some(profile);
    }
    let message = format!("`{}` is for one profile, and there are {}: remove the others", handler.kind, profiles.len());
    world.found.problem(&handler.place, message);
    None
}

fn by_header<'w>(world: World<'w>, fields: &Fields<'w>, profiles: &'w [ProfileSpec]) -> Option<Handled<'w>> {
    let given = |name, default: &str| {
        fields.text(name).map(str::trim).filter(|text| !text.is_empty()).unwrap_or(default).to_owned()
    };
    let header = given("headerName", "epp-profile").to_ascii_lowercase();
    let default = given("defaultProfile", "decode");
    // With one profile there is nothing to choose, whatever the header says.
    if let [profile] = profiles {
        return Some(Handled::one(profile, Profiles::Single));
    }
    let first = profile(world, fields, profiles, &default)?;
    let others = profiles.iter().filter(|profile| profile.name != default);
    let workflows = std::iter::once(first).chain(others).map(|profile| vec![StepPlan::primary(profile)]).collect();
    let profiles = Profiles::ByHeader { header, default, workflows: BTreeMap::new() };
    Some(Handled { workflows, executed_in: Vec::new(), profiles })
}

/// A condition on the tokens that a step's pod lacks.
pub(super) fn uncached(step: &str, tokens: i64, prompt_tokens: i64) -> Condition {
    let mut parameters = json!({ "step": step, "tokens": tokens });
    if prompt_tokens > 0 {
        parameters["prompt_tokens"] = json!(prompt_tokens);
    }
    let prefix = vec![super::parts::DEFAULT_PRODUCER.to_owned()];
    let needs = Needs { tokens: true, prefix, ..Needs::default() };
    Condition { when: Some(("uncached_condition", parameters)), needs }
}
