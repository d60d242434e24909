//! llm-d's filters as stock filters: the same rule, and the same when nobody is left.

use serde_json::{Value, json};

use super::detectors;
use super::fields::Fields;
use super::label_filters;
use super::parts::{Parts, Piece, World, some};
use super::schema::PluginSpec;
use super::scorers::required;
use super::sessions;

/// What a filter becomes; none if the plugin is no filter that is translated here.
pub(super) fn filter(world: World<'_>, plugin: &PluginSpec) -> Option<Parts> {
    let mut fields = world.parameters(plugin);
    let piece = match plugin.kind.as_str() {
        "decode-filter" => role("decode", "both", &mut fields),
        "prefill-filter" => role("prefill", "none", &mut fields),
        "encode-filter" => role("encode", "none", &mut fields),
        "label-selector-filter" | "by-label-selector" => return label_filters::by_selector(&fields),
        "by-label" => label_filters::by_values(&fields)?,
        "endpoint-attribute-filter" => attribute(&fields)?,
        "utilization-filter" => utilization(world, &fields)?,
        "prefix-cache-affinity-filter" => return affinity(world, &fields),
        "topology-affinity-filter" => topology(world, &fields)?,
        "session-affinity-filter" => sessions::filter(world, &fields)?.or_all(),
        "utilization-detector" => detectors::utilization_filter(&fields)?,
        "concurrency-detector" => return detectors::concurrency_filters(&fields),
        _ => {
            fields.skip_all();
            return None;
        }
    };
    Some(Parts::filter(piece))
}

/// Their factories do not look at parameters at all.
fn role(role: &'static str, unlabelled: &str, fields: &mut Fields<'_>) -> Piece {
    fields.skip_all();
    let parameters = json!({ "role": role, "label": ROLE_LABEL, "unlabelled": unlabelled });
    Piece { role: Some(role), ..Piece::new("role_filter", parameters) }
}

fn attribute(fields: &Fields<'_>) -> Option<Piece> {
    fields.text("producer");
    let attribute = required(fields, "attribute");
    let unreported = match fields.text("onMissing") {
        None | Some("Pass") => "keep",
        Some("Fail") => "remove",
        Some(other) => {
            fields.problem("onMissing", format!("found `{other}`, expected Pass or Fail"));
            return None;
        }
    };
    let algorithm = fields.fields("algorithm");
    if algorithm.as_ref().and_then(|algorithm| algorithm.text("type")) != Some("threshold") {
        fields.problem("algorithm", "expected a `type` of threshold");
    }
    let Some(threshold) = algorithm.and_then(|algorithm| algorithm.fields("threshold")) else {
        fields.problem("algorithm", "expected a `threshold` with `operator` and `value`");
        return None;
    };
    let is = match threshold.text("operator") {
        Some("LessThan") => "below",
        Some("LessThanOrEqual") => "at_most",
        Some("GreaterThan") => "above",
        Some("GreaterThanOrEqual") => "at_least",
        Some("Equal") => "equal",
        Some("NotEqual") => "not_equal",
        _ => {
            let operators = "LessThan, LessThanOrEqual, GreaterThan, GreaterThanOrEqual, Equal or NotEqual";
            threshold.problem("operator", format!("expected {operators}"));
            return None;
        }
    };
    let value = threshold.number("value").unwrap_or_default();
    let condition = json!({ "metric": { "host": attribute? }, "is": is, "value": value });
    let piece = Piece::new("metric_filter", json!({ "conditions": [condition], "unreported": unreported })).by_loads();
    Some(if fields.flag("fallbackOnEmpty") == Some(true) { piece.or_all() } else { piece })
}

fn utilization(world: World<'_>, fields: &Fields<'_>) -> Option<Piece> {
    fields.skip(&["inFlightLoadProducerName"]);
    let mut conditions = Vec::new();
    for condition in fields.objects("conditions") {
        let metric = match condition.text("metric") {
            Some("active-requests") => "in_flight_requests",
            Some("running-requests") => "running",
            Some("waiting-queue") => "waiting",
            Some("kv-cache-utilization") => "kv_used",
            _ => {
                let metrics = "active-requests, running-requests, waiting-queue or kv-cache-utilization";
                condition.problem("metric", format!("expected {metrics}"));
                continue;
            }
        };
        match condition.number("maxValue") {
            Some(most) if most >= 0.0 && (metric != "kv_used" || most <= 1.0) => {
                conditions.push(json!({ "metric": metric, "is": "at_most", "value": most }));
            }
            _ => condition.problem("maxValue", "expected a number from 0 on; a share of the KV cache is at most 1"),
        }
    }
    if conditions.is_empty() {
        world.found.problem(&fields.place, "expected `conditions`, each with `metric` and `maxValue`");
        return None;
    }
    let piece = Piece::new("metric_filter", json!({ "conditions": conditions })).by_loads();
    Some(if fields.flag("fallbackOnEmpty") == Some(true) { piece.or_all() } else { piece })
}

/// Where the threshold is not above 0, or everybody always stays, there is no filter.
fn affinity(world: World<'_>, fields: &Fields<'_>) -> Option<Parts> {
    fields.skip(&["latencyPredictionInfoProducerName", "inFlightLoadProducerName"]);
    let number = |name, default: f64, is_in: fn(f64) -> bool, expected: &str| {
        let number = fields.number(name).unwrap_or(default);
        if !is_in(number) {
            fields.problem(name, format!("found {number}, expected a number {expected}"));
        }
        number
    };
    let share = number("affinityThreshold", 0.8, |share| share <= 1.0, "of at most 1");
    let explore = number("explorationProbability", 0.0, |chance| (0.0..=1.0).contains(&chance), "from 0 to 1");
    let penalty = number("maxTTFTPenaltyMs", 18_000.0, |penalty| penalty >= 0.0, "from 0 on");
    let rate = number("peakPrefillThroughput", 15_928.0, |rate| rate >= 0.0, "from 0 on");
    // An empty source is one that there is not.
    match fields.get("ttftSource").map(|source| source.as_str().unwrap_or_default()) {
        None | Some("prefillThroughput") if rate == 0.0 && penalty > 0.0 => {
            fields.problem("peakPrefillThroughput", "expected a number above 0, since `ttftSource` is prefillThroughput");
        }
        None | Some("prefillThroughput") => {}
        Some("latencyPredictor") => world.found.warn(
            "prefix-cache-affinity-filter: times to first tokens are estimated by prefill throughput, not by the latency predictor",
        ),
        Some(other) => {
            fields.problem("ttftSource", format!("found `{other}`, expected latencyPredictor or prefillThroughput"));
        }
    }
    let producer = fields.text("prefixMatchInfoProducerName");
    if share <= 0.0 || explore >= 1.0 {
        return Some(Parts::default());
    }
    let wait = if penalty > 0.0 { json!(penalty / 1000.0) } else { Value::Null };
    let mut parameters = some(json!({
        "share": share,
        "prefill_rate": Some(rate).filter(|rate| *rate > 0.0),
        "explore": Some(explore).filter(|explore| *explore > 0.0),
    }));
    // Null says something here: any wait.
    parameters["most_wait"] = wait;
    Some(Parts::filter(Piece::new("affinity_filter", parameters).by_loads().by_prefix(producer).or_all()))
}

fn topology(world: World<'_>, fields: &Fields<'_>) -> Option<Piece> {
    fields.skip(&["topologyProducerName"]);
    let least = fields.text("minAffinity").unwrap_or("host");
    let levels = world.topology();
    let Some(last) = levels.iter().position(|(level, _)| *level == least) else {
        fields.problem("minAffinity", format!("found `{least}`, expected host, rack, zone or region"));
        return None;
    };
    let labels: Vec<&str> = levels[..=last].iter().map(|(_, label)| label.as_str()).collect();
    Some(Piece::new("locality_filter", json!({ "labels": labels })).near_peer().or_all())
}

/// The label that says which work a pod does.
const ROLE_LABEL: &str = "llm-d.ai/role";
