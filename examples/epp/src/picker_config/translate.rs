//! Translation: every plugin for itself, then the profiles that use them, then the picker around it.

use super::assemble::{Assembly, PartsByName};
use super::data_layer;
use super::disagg;
use super::error::{Findings, PickerConfigError};
use super::filters;
use super::flow_control;
use super::handlers::{Handled, handle};
use super::parts::{Parts, World, place};
use super::pickers;
use super::plugin_types::{Part, PluginType, Support, TYPES};
use super::prefix_cache;
use super::producers;
use super::schema::{PluginSpec, PluginUse, ProfileSpec, Reference, Schema};
use super::scorers;
use super::sessions;
use super::settings::{PickerSettings, Profiles};
use super::{Translation, error};
use routing_core::suggest;

/// What a schema becomes; what is wrong with it goes to the findings.
pub(super) fn translate(schema: &Schema, found: &Findings, text: &str) -> Result<Translation, PickerConfigError> {
    let world = World { schema, found };
    schema.deprecated.iter().for_each(|message| found.warn(message.clone()));
    let parts: PartsByName<'_> =
        schema.plugins.iter().map(|plugin| (plugin.name.as_str(), convert(world, plugin))).collect();
    let made;
    let profiles = if schema.profiles.is_empty() {
        made = [all_in_one(world)];
        &made[..]
    } else {
        &schema.profiles[..]
    };
    let settings = settings(world);
    let flow = flow_control::translate(world, &settings.saturation);
    let handled = handle(world, profiles);
    let drafted = handled.map(|handled| draft(world, &parts, handled, settings));
    found.check(text)?;
    let Some((workflow, mut settings)) = drafted else {
        return Err(PickerConfigError { problems: Vec::new() });
    };
    let (flow_control, fairness) = flow.map_or((None, settings.fairness), |(text, fairness)| (Some(text), fairness));
    settings.fairness = fairness;
    Ok(Translation { workflow, flow_control, warnings: found.warnings(), settings })
}

fn draft<'w>(
    world: World<'w>,
    parts: &'w PartsByName<'w>,
    handled: Handled<'w>,
    mut settings: PickerSettings,
) -> (String, PickerSettings) {
    let assembly = Assembly::new(world, parts, &handled, settings.tokenizer.clone());
    let Handled { workflows, executed_in, mut profiles } = handled;
    let mut texts = workflows.iter().map(|plans| {
        let (draft, ranked) = assembly.draft(plans, &executed_in);
        (plans[0].profile.name.clone(), draft.write(), ranked)
    });
    let (name, workflow, ranked) = texts.next().unwrap_or_default();
    if let Profiles::ByHeader { workflows, .. } = &mut profiles {
        workflows.insert(name, workflow.clone());
        workflows.extend(texts.map(|(name, text, _)| (name, text)));
    }
    settings.fallbacks = ranked;
    settings.profiles = profiles;
    settings.prefix_cache = assembly.producer.map(|producer| producer.cache).unwrap_or_default();
    (workflow, settings)
}

fn settings(world: World<'_>) -> PickerSettings {
    let (session_tokens, session_time_to_live) = sessions::settings(world);
    PickerSettings {
        parsers: data_layer::parsers(world),
        tokenizer: producers::tokenizer(world),
        discovery: data_layer::discovery(world),
        metrics: data_layer::metrics(world),
        saturation: flow_control::saturation(world),
        session_tokens,
        agent_headers: sessions::agent_headers(world).collect(),
        session_time_to_live,
        ..PickerSettings::default()
    }
}

/// A profile of all that can stand in one: what llm-d makes where there is none.
fn all_in_one(world: World<'_>) -> ProfileSpec {
    let kind = |plugin: &PluginSpec| PluginType::find(&plugin.kind);
    let plugins = world.schema.plugins.iter().filter(|plugin| kind(plugin).is_some_and(PluginType::is_of_profiles));
    let filters = plugins.clone().filter(|plugin| kind(plugin).is_some_and(|kind| kind.is(Part::Filter))).count();
    if filters > 1 {
        world.found.warn("there is no profile: filters run in the order of `plugins`; llm-d's order is by chance");
    }
    let used = plugins.map(|plugin| PluginUse {
        plugin: Reference { name: plugin.name.clone(), place: plugin.place.clone() },
        weight: None,
    });
    ProfileSpec { name: "default".to_owned(), plugins: used.collect(), place: error::Place::default() }
}

/// What a plugin is in profiles, with its parameters checked.
fn convert(world: World<'_>, plugin: &PluginSpec) -> Parts {
    let Some(kind) = PluginType::find(&plugin.kind) else {
        unknown(world, plugin);
        return Parts::default();
    };
    if let Some(instead) = kind.replaced_by {
        world.found.warn(format!("`{}`: type {} is deprecated: write {instead}", plugin.name, kind.name));
    }
    match kind.support {
        Support::Refused(why) => {
            let message = format!("type {} has no counterpart: {why}", kind.name);
            world.found.problem(&plugin.place.key("type"), message);
            return Parts::default();
        }
        Support::Ignored(why, parameters) => {
            world.parameters(plugin).skip(parameters);
            world.found.warn(format!("`{}`: {why}", plugin.name));
            return Parts::default();
        }
        Support::Translated | Support::TranslatedAlone => {}
    }
    check(world, plugin);
    let converted =
        [filters::filter, scorers::scorer, pickers::picker].into_iter().find_map(|part| part(world, plugin));
    let parts = converted.unwrap_or_default();
    for name in parts.filters.iter().chain(&parts.scorers).flat_map(|piece| &piece.needs.prefix) {
        if prefix_cache::producer(world, name).is_none() {
            let message = format!("`{name}` produces no prefix matches: name a plugin that does");
            world.found.problem(&place(plugin).key("prefixMatchInfoProducerName"), message);
        }
    }
    parts
}

/// Checks parameters of what is no filter, scorer or picker.
fn check(world: World<'_>, plugin: &PluginSpec) {
    match plugin.kind.as_str() {
        "prefix-based-pd-decider" => disagg::check_decider(&world.parameters(plugin)),
        "disagg-headers-handler" | "prefill-header-handler" => {
            world.parameters(plugin).skip(&["prefillProfile", "encodeProfile"]);
        }
        _ => {
            let checks = [prefix_cache::check, producers::check, data_layer::check, flow_control::check];
            checks.into_iter().any(|check| check(world, plugin));
        }
    }
}

fn unknown(world: World<'_>, plugin: &PluginSpec) {
    if plugin.kind.is_empty() {
        return;
    }
    let known = TYPES.iter().map(|known| known.name);
    let help = match suggest(&plugin.kind, known).or_else(|| alike(&plugin.kind)) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "docs/llmd_plugins.md lists the types that there are".to_owned(),
    };
    world.found.problem(&plugin.place.key("type"), format!("unknown plugin type `{}`: {help}", plugin.kind));
}

/// The type that shares most words with an unknown one, and at least two.
fn alike(kind: &str) -> Option<&'static str> {
    let shared = |name: &str| name.split('-').filter(|word| kind.split('-').any(|other| other == *word)).count();
    let known = TYPES.iter().map(|known| (shared(known.name), known.name)).filter(|(words, _)| *words >= 2);
    // Of those that share as many, the shortest says the least else.
    known.max_by_key(|(words, name)| (*words, std::cmp::Reverse(name.len()))).map(|(_, name)| name)
}
