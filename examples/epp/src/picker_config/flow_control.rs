//! llm-d's flow control as a flow document: bands by priority, limits, orders, ceilings and what makes a pod full.

use std::fmt::Write;
use std::time::Duration;

use super::detectors;
use super::flow_schema::{Band, FlowSection};
use super::parts::World;
use super::plugin_types::{Part, PluginType};
use super::schema::{PluginSpec, Reference};
use super::settings::{Fairness, Saturation};

/// Checks a plugin's parameters; whether it is one of flow control.
pub(super) fn check(world: World<'_>, plugin: &PluginSpec) -> bool {
    let mut fields = world.parameters(plugin);
    match plugin.kind.as_str() {
        "static-usage-limit-policy" => drop(fields.number("threshold")),
        "priority-holdback-policy" => drop(Ceilings::read(world, plugin)),
        "program-aware-fairness" => fields.skip(&PROGRAM_AWARE),
        kind => {
            fields.skip_all();
            return PluginType::find(kind).is_some_and(|kind| kind.is(Part::Fairness) || kind.is(Part::Ordering));
        }
    }
    if plugin.kind == "priority-holdback-policy" {
        // Read above, and checked there.
        fields.skip_all();
    }
    true
}

/// What makes the pool full, by the detector that is named.
pub(super) fn saturation(world: World<'_>) -> Saturation {
    let Some(detector) = world.schema.flow.as_ref().and_then(|flow| flow.detector.as_ref()) else {
        return named_saturation(world, "utilization-detector").unwrap_or_default();
    };
    if detector.name == "utilization-detector" && world.schema.plugin(&detector.name).is_none() {
        return Saturation::default();
    }
    of_part(world, detector, Part::Detector, "a saturation detector");
    named_saturation(world, &detector.name).unwrap_or_default()
}

fn named_saturation(world: World<'_>, name: &str) -> Option<Saturation> {
    let plugin = world.schema.plugin(name)?;
    let is_detector = PluginType::find(&plugin.kind).is_some_and(|kind| kind.is(Part::Detector));
    is_detector.then(|| detectors::saturation(&plugin.kind, &world.parameters(plugin)))?
}

/// The document, and whose requests share a band; nothing, if the gate is off.
pub(super) fn translate(world: World<'_>, saturation: &Saturation) -> Option<(String, Fairness)> {
    let default = FlowSection::default();
    let flow = world.schema.flow.as_ref();
    if !world.schema.flow_gate {
        if flow.is_some_and(|flow| flow.says_more) {
            world.found.warn("flowControl is set, and its feature gate is off: only its saturation detector counts");
        }
        return None;
    }
    let flow = flow.unwrap_or(&default);
    if flow.evicts {
        world.found.warn("flowControl.enableEviction: requests in flight are not evicted");
    }
    if flow.splits_time_to_live {
        world.found.warn("flowControl.noEndpointRequestTTL: requests wait as long without pods as with them");
    }
    let bands = bands(world, flow);
    let ceilings = Ceilings::of(world, flow.usage_limit.as_ref());
    let priorities: Vec<i64> = bands.iter().map(|(_, band)| band.priority).collect();
    let lives = flow.time_to_live.unwrap_or(Duration::from_secs(60));
    // No limit is a day, the longest there is.
    let lives = if lives.is_zero() { LONGEST_LIFE } else { lives.min(LONGEST_LIFE) };
    let mut text = String::from("# Made of an EndpointPickerConfig's flowControl.\nbands:\n");
    for (at, (name, band)) in bands.iter().enumerate() {
        let (requests, bytes) = (band.limits.requests.unwrap_or(5000), band.limits.bytes.unwrap_or(1_000_000_000));
        let (priority, order) = (band.priority, order(world, band));
        let ceiling = ceilings.ceiling(at, &priorities);
        // Writing into a string does not fail.
        let _ = writeln!(
            text,
            "  - name: {name}\n    priority: {priority}\n    order: {order}\n    time_to_live: {}ms\n    ceiling: {ceiling}\n    limits: {{ requests: {requests}, bytes: {bytes}, tokens: {UNLIMITED} }}",
            lives.as_millis()
        );
    }
    let (requests, bytes) = (flow.limits.requests.unwrap_or(UNLIMITED), flow.limits.bytes.unwrap_or(UNLIMITED));
    let _ = writeln!(text, "limits: {{ requests: {requests}, bytes: {bytes}, tokens: {UNLIMITED} }}");
    let _ = writeln!(text, "saturation: {}", detector(saturation));
    Some((text, fairness(world, &bands)))
}

/// The bands that are configured, and those that llm-d would make for priorities of 0 and more and below 0.
fn bands(world: World<'_>, flow: &FlowSection) -> Vec<(String, Band)> {
    let mut bands = flow.bands.clone();
    let default = flow.default_band.clone().unwrap_or_default();
    let negative = flow.negative_band.clone().unwrap_or_else(|| default.clone());
    if !bands.iter().any(|band| band.priority == 0) {
        bands.push(Band { priority: 0, ..default });
    }
    bands.sort_by_key(|band| std::cmp::Reverse(band.priority));
    if let Some(pair) = bands.windows(2).find(|pair| pair[0].priority == pair[1].priority) {
        let place = super::error::Place::default().key("flowControl").key("priorityBands");
        world.found.problem(&place, format!("two bands have priority {}: remove one of them", pair[0].priority));
    }
    bands.push(Band { priority: i64::from(i32::MIN), ..negative });
    let name = |priority: i64| match priority {
        priority if priority == i64::from(i32::MIN) => "negative".to_owned(),
        priority => format!("\"{priority}\""),
    };
    bands.into_iter().map(|band| (name(band.priority), band)).collect()
}

fn order(world: World<'_>, band: &Band) -> &'static str {
    let Some(reference) = &band.ordering else { return "arrival" };
    match of_part(world, reference, Part::Ordering, "an ordering policy") {
        Some("edf-ordering-policy" | "slo-deadline-ordering-policy") => "deadline",
        _ => "arrival",
    }
}

fn fairness(world: World<'_>, bands: &[(String, Band)]) -> Fairness {
    let of = |band: &Band| {
        let kind = band.fairness.as_ref().and_then(|one| of_part(world, one, Part::Fairness, "a fairness policy"));
        match kind {
            Some("round-robin-fairness-policy") => Fairness::ByFlow,
            Some("program-aware-fairness") => Fairness::ByProgram,
            _ => Fairness::GlobalStrict,
        }
    };
    let all: Vec<Fairness> = bands.iter().map(|(_, band)| of(band)).collect();
    let strongest = [Fairness::ByProgram, Fairness::ByFlow].into_iter().find(|fairness| all.contains(fairness));
    strongest.unwrap_or_default()
}

/// The type that a reference names, which must be of a part; types that llm-d makes itself need no definition.
fn of_part<'w>(world: World<'w>, reference: &'w Reference, part: Part, what: &str) -> Option<&'w str> {
    if MADE.contains(&reference.name.as_str()) && world.schema.plugin(&reference.name).is_none() {
        return Some(&reference.name);
    }
    let plugin = world.schema.resolve(reference, world.found)?;
    let kind = PluginType::find(&plugin.kind)?;
    if !kind.is(part) {
        world.found.problem(&reference.place, format!("`{}` is a {}: name {what}", reference.name, kind.name));
    }
    Some(kind.name)
}

fn detector(saturation: &Saturation) -> String {
    match *saturation {
        Saturation::Utilization { waiting, kv_used, .. } => {
            format!("{{ utilization: {{ waiting: {waiting}, kv_used: {kv_used} }} }}")
        }
        Saturation::Concurrency { requests, tokens } => {
            let requests = requests.unwrap_or(u64::from(u32::MAX)).min(u64::from(u32::MAX));
            let tokens = tokens.map(|tokens| format!(", tokens: {tokens}")).unwrap_or_default();
            format!("{{ concurrency: {{ requests: {requests}{tokens} }} }}")
        }
    }
}

/// How full bands may make pods.
#[derive(Clone, Copy, Debug)]
enum Ceilings {
    Same(f64),
    /// From the highest priority's to the lowest's, in equal steps.
    ByRank(f64, f64),
    /// In proportion to the priority itself.
    ByValue(f64, f64),
}

impl Ceilings {
    fn of(world: World<'_>, policy: Option<&Reference>) -> Self {
        let Some(policy) = policy else { return Self::Same(1.0) };
        of_part(world, policy, Part::UsageLimit, "a usage limit policy");
        let Some(plugin) = world.schema.plugin(&policy.name) else { return Self::Same(1.0) };
        match plugin.kind.as_str() {
            "static-usage-limit-policy" => Self::Same(world.parameters(plugin).number("threshold").unwrap_or(1.0)),
            "priority-holdback-policy" => Self::read(world, plugin),
            _ => Self::Same(1.0),
        }
    }

    fn read(world: World<'_>, plugin: &PluginSpec) -> Self {
        let fields = world.parameters(plugin);
        let least = fields.number("minCeiling");
        let most = fields.number("maxCeiling").unwrap_or(1.0);
        if least.is_none() {
            fields.problem("minCeiling", "it is missing: give it");
        }
        let least = least.unwrap_or_default();
        if !(least >= 0.0 && least < most && most <= 1.0) {
            fields.problem("minCeiling", "expected a number from 0 on and below `maxCeiling`, which is at most 1");
        }
        if let Some(shape) = fields.text("shape").filter(|shape| *shape != "linear") {
            fields.problem("shape", format!("found `{shape}`, expected linear"));
        }
        match fields.text("domain") {
            None | Some("rank") => Self::ByRank(least, most),
            Some("value") => Self::ByValue(least, most),
            Some(other) => {
                fields.problem("domain", format!("found `{other}`, expected rank or value"));
                Self::Same(most)
            }
        }
    }

    /// The ceiling of one of the bands, which are by priority, the highest first. The last is for all below 0.
    fn ceiling(self, at: usize, priorities: &[i64]) -> f64 {
        let last = priorities.len().saturating_sub(1);
        let ceiling = match self {
            Self::Same(ceiling) => ceiling,
            Self::ByRank(least, most) => most - at as f64 * (most - least) / (last.max(1)) as f64,
            Self::ByValue(least, most) => {
                let known = &priorities[..last];
                let (highest, lowest) =
                    (known.first().copied().unwrap_or(0), known.last().copied().unwrap_or(0).min(-1));
                let share = (priorities[at].max(lowest) - lowest) as f64 / (highest - lowest).max(1) as f64;
                least + share * (most - least)
            }
        };
        // A band that may never fill a pod at all would never be served.
        ceiling.clamp(LEAST_CEILING, 1.0)
    }
}

const LONGEST_LIFE: Duration = Duration::from_secs(86_400);

const LEAST_CEILING: f64 = 0.01;

/// More than there can be: llm-d has no such limit.
const UNLIMITED: u64 = 1_000_000_000_000;

/// What llm-d makes where it is not defined.
const MADE: [&str; 3] = ["global-strict-fairness-policy", "fcfs-ordering-policy", "static-usage-limit-policy"];

const PROGRAM_AWARE: [&str; 6] = [
    "strategy",
    "evictionTtlSeconds",
    "evictionSweepSeconds",
    "lasWeightService",
    "lasWeightHeadWait",
    "lasHalfLifeSeconds",
];
