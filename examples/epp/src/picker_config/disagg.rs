//! Disaggregation: llm-d's `disagg-profile-handler` and the older `pd-profile-handler`, with their deciders.

use super::fields::Fields;
use super::handlers::{Condition, Handled, StepPlan, port, profile, uncached};
use super::parts::World;
use super::schema::{ProfileSpec, Reference};
use super::settings::Profiles;
use serde_json::json;

/// Names of profiles and deciders, however they were written.
struct Stages<'w> {
    decode: &'w str,
    prefill: &'w str,
    encode: &'w str,
    prefill_decider: Option<Reference>,
    encode_decider: Option<Reference>,
    prefill_first: bool,
}

/// Decode first, then by their deciders encode and prefill; or prefill first.
pub(super) fn disagg<'w>(world: World<'w>, fields: &Fields<'w>, profiles: &'w [ProfileSpec]) -> Option<Handled<'w>> {
    let stages = Stages::read(world, fields)?;
    let decode = profile(world, fields, profiles, stages.decode)?;
    let find = |name: &str| profiles.iter().find(|profile| profile.name == name);
    let encode = match (&stages.encode_decider, find(stages.encode)) {
        (Some(decider), Some(profile)) => decide(world, decider, stages.decode)?.map(|condition| (profile, condition)),
        (decider, profile) => unused(world, "encode", decider.is_some(), profile),
    };
    let prefill = match (&stages.prefill_decider, find(stages.prefill)) {
        (None, Some(profile)) if stages.prefill_first => Some((profile, Condition::default())),
        (Some(decider), Some(profile)) => decide(world, decider, stages.decode)?.map(|condition| (profile, condition)),
        (decider, profile) => unused(world, "prefill", decider.is_some(), profile),
    };
    Some(plan(decode, prefill, encode, stages.prefill_first, None))
}

/// Decode first, then prefill by its decider.
pub(super) fn pd<'w>(world: World<'w>, fields: &Fields<'w>, profiles: &'w [ProfileSpec]) -> Option<Handled<'w>> {
    fields.skip(&["prefixPluginType", "prefixPluginName", "prefixMatchInfoProducerName"]);
    let decode = fields.text("decodeProfile").unwrap_or("decode");
    let prefill = fields.text("prefillProfile").unwrap_or("prefill");
    let name = fields.text("deciderPluginName").unwrap_or("prefix-based-pd-decider").to_owned();
    let decider = Reference { name, place: fields.place.key("deciderPluginName") };
    let port = port(fields, "primaryPort");
    let condition = decide(world, &decider, decode)?;
    let found = profiles.iter().find(|profile| profile.name == prefill);
    let prefill = condition.and_then(|condition| found.map(|profile| (profile, condition)));
    Some(plan(profile(world, fields, profiles, decode)?, prefill, None, false, port))
}

type Stage<'w> = Option<(&'w ProfileSpec, Condition)>;

fn plan<'w>(
    decode: &'w ProfileSpec,
    prefill: Stage<'w>,
    encode: Stage<'w>,
    prefill_first: bool,
    primary_port: Option<u16>,
) -> Handled<'w> {
    let name = |stage: &Stage<'_>| stage.as_ref().map(|(profile, _)| profile.name.clone());
    let names = (name(&encode), name(&prefill));
    let mut decoding = StepPlan::primary(decode);
    let encode = encode.map(|(profile, condition)| StepPlan::before(profile, condition));
    let prefill = prefill.map(|(profile, condition)| StepPlan { caches: true, ..StepPlan::before(profile, condition) });
    let steps: Vec<StepPlan<'_>> = if prefill_first {
        decoding.peer.clone_from(&names.1);
        prefill.into_iter().chain(encode).chain([decoding]).collect()
    } else {
        let peer = Some(decode.name.clone());
        let prefill = prefill.map(|prefill| StepPlan { peer, ..prefill });
        [decoding].into_iter().chain(encode).chain(prefill).collect()
    };
    let executed_in = names.0.iter().chain(&names.1).chain([&decode.name]).cloned().collect();
    let (encode, prefill) = names;
    let profiles = Profiles::Disaggregated { decode: decode.name.clone(), prefill, encode, primary_port };
    Handled { workflows: vec![steps], executed_in, profiles }
}

/// A stage that is never taken, as in llm-d, which says so in its log.
fn unused<'w>(world: World<'_>, stage: &str, has_decider: bool, profile: Option<&ProfileSpec>) -> Stage<'w> {
    match profile {
        Some(profile) => {
            let name = &profile.name;
            world
                .found
                .warn(format!("profile `{name}` is never run: there is no decider for {stage} (`deciders.{stage}`)"));
        }
        None if has_decider => {
            world.found.warn(format!("nothing is disaggregated: there is a decider for {stage} and no such profile"));
        }
        None => {}
    }
    None
}

/// When a decider says yes; none if it never does. Nothing, if there is no such decider.
fn decide(world: World<'_>, decider: &Reference, decode: &str) -> Option<Option<Condition>> {
    let plugin = world.schema.resolve(decider, world.found)?;
    let mut fields = world.parameters(plugin);
    match plugin.kind.as_str() {
        "prefix-based-pd-decider" => {
            let [tokens, prompt] =
                ["nonCachedTokens", "promptTokens"].map(|name| fields.whole(name).unwrap_or_default());
            if tokens == 0 {
                world.found.warn(format!("`{}` never disaggregates: its `nonCachedTokens` is 0", plugin.name));
            }
            Some((tokens > 0).then(|| uncached(decode, tokens, prompt)))
        }
        "always-disagg-pd-decider" => {
            fields.skip_all();
            Some(Some(Condition::default()))
        }
        "always-disagg-multimodal-decider" => {
            fields.skip_all();
            Some(Some(Condition { when: Some(("multimodal_condition", json!({}))), ..Condition::default() }))
        }
        kind => {
            fields.skip_all();
            let deciders = "prefix-based-pd-decider, always-disagg-pd-decider or always-disagg-multimodal-decider";
            let message = format!("`{}` is a {kind} and decides nothing: name a {deciders}", plugin.name);
            world.found.problem(&decider.place, message);
            None
        }
    }
}

/// Checks a decider's parameters, whether or not somebody asks it.
pub(super) fn check_decider(fields: &Fields<'_>) {
    for name in ["nonCachedTokens", "promptTokens"] {
        if fields.whole(name).is_some_and(|tokens| tokens < 0) {
            fields.problem(name, "expected a whole number from 0 on");
        }
    }
}

impl<'w> Stages<'w> {
    /// Nested, or in the older form as one flat list; not both.
    fn read(world: World<'w>, fields: &Fields<'w>) -> Option<Self> {
        let (profiles, deciders) = (fields.fields("profiles"), fields.fields("deciders"));
        let old = ["decodeProfile", "prefillProfile", "encodeProfile"].map(|name| fields.text(name));
        let names = ["prefillDeciderPluginName", "encodeDeciderPluginName", "deciderPluginName"];
        let old_deciders = names.map(|name| Reference::read(fields, name));
        let is_old = old.iter().any(Option::is_some) || old_deciders.iter().any(Option::is_some);
        if is_old && (profiles.is_some() || deciders.is_some()) {
            let message = "`profiles` and `deciders` stand beside the older flat fields: write one or the other";
            world.found.problem(&fields.place, message);
            return None;
        }
        if is_old {
            world
                .found
                .warn("disagg-profile-handler: its flat parameters are deprecated: write `profiles` and `deciders`");
        }
        let nested = |name| profiles.as_ref().and_then(|profiles| profiles.text(name));
        let decider = |name| deciders.as_ref().and_then(|deciders| Reference::read(deciders, name));
        let [old_prefill, old_encode, older_prefill] = old_deciders;
        let stages = Self {
            decode: nested("decode").or(old[0]).unwrap_or("decode"),
            prefill: nested("prefill").or(old[1]).unwrap_or("prefill"),
            encode: nested("encode").or(old[2]).unwrap_or("encode"),
            prefill_decider: decider("prefill").or(old_prefill).or(older_prefill),
            encode_decider: decider("encode").or(old_encode),
            prefill_first: is_prefill_first(fields),
        };
        if let Some(decider) = stages.prefill_decider.as_ref().filter(|_| stages.prefill_first) {
            world
                .found
                .problem(&decider.place, "with `stageOrder: prefill-first` there is no decider for prefill: remove it");
        }
        Some(stages)
    }
}

fn is_prefill_first(fields: &Fields<'_>) -> bool {
    let order = fields.text("stageOrder").unwrap_or_default();
    match order.to_ascii_lowercase().replace(['-', '_'], "").as_str() {
        "" | "decodefirst" | "decode" => false,
        "prefillfirst" | "prefill" => true,
        _ => {
            fields.problem("stageOrder", format!("found `{order}`, expected decode-first or prefill-first"));
            false
        }
    }
}
