//! llm-d's scorers as stock scorers: the same formula, with the same defaults.

use serde_json::{Value, json};
use serde_yaml_ng::Value as YamlValue;

use super::fields::Fields;
use super::parts::{Parts, Piece, World, some};
use super::schema::PluginSpec;
use super::sessions;

/// What a scorer becomes; none if the plugin is no scorer that is translated here.
pub(super) fn scorer(world: World<'_>, plugin: &PluginSpec) -> Option<Parts> {
    let fields = world.parameters(plugin);
    let piece = match plugin.kind.as_str() {
        "queue-scorer" => Piece::new("least_load_scorer", json!({ "by": "waiting" })).by_loads(),
        "running-requests-size-scorer" => Piece::new("least_load_scorer", json!({ "by": "running" })).by_loads(),
        "kv-cache-utilization-scorer" => Piece::new("kv_utilization_scorer", Value::Null).by_loads(),
        "lora-affinity-scorer" => Piece::new("adapter_scorer", Value::Null),
        "load-aware-scorer" => load_aware(&fields),
        "token-load-scorer" => token_load(&fields),
        "active-request-scorer" => active_requests(&fields),
        "prefix-cache-scorer" => prefix_cache(&fields),
        "precise-prefix-cache-scorer" => {
            // Its parameters are those of the producer that it brings.
            drop_all(fields);
            Piece::new("cache_affinity_scorer", Value::Null).by_prefix(Some(&plugin.name))
        }
        "no-hit-lru-scorer" => no_hit(&fields),
        "latency-scorer" => latency(&fields),
        "endpoint-attribute-scorer" => attribute(&fields)?,
        "header-label-affinity-scorer" => header_label(&fields)?,
        "topology-affinity-scorer" => topology(world, &fields),
        "session-affinity-scorer" => sessions::scorer(world, &fields)?,
        "context-length-aware" => return context_length(&fields),
        _ => {
            drop_all(fields);
            return None;
        }
    };
    Some(Parts::scorer(piece))
}

/// Parameters that somebody else checks.
fn drop_all(mut fields: Fields<'_>) {
    fields.skip_all();
}

/// What is not above 0 is the default, as there.
fn above_zero(given: Option<i64>, default: i64) -> i64 {
    given.filter(|given| *given > 0).unwrap_or(default)
}

fn load_aware(fields: &Fields<'_>) -> Piece {
    let limit = above_zero(fields.whole("threshold"), 128);
    let form = json!({ "limit": { "limit": limit, "best": 0.5 } });
    Piece::new("least_load_scorer", json!({ "by": "waiting", "form": form })).by_loads()
}

fn token_load(fields: &Fields<'_>) -> Piece {
    fields.skip(&["inFlightLoadProducerName"]);
    let limit = above_zero(fields.whole("queueThresholdTokens"), 4_194_304);
    let form = json!({ "limit": { "limit": limit } });
    let parameters = json!({ "by": "uncached_tokens", "form": form, "with_request": true });
    Piece::new("least_load_scorer", parameters).by_loads().by_prefix(None)
}

/// What is out of range is passed over there, and so here.
fn active_requests(fields: &Fields<'_>) -> Piece {
    fields.skip(&["requestTimeout", "inFlightLoadProducerName"]);
    let idle = fields.whole("idleThreshold").filter(|idle| *idle > 0);
    let busy = fields.number("maxBusyScore").filter(|busy| (0.0..1.0).contains(busy));
    let form = json!({ "idle": some(json!({ "idle": idle, "busy": busy })) });
    Piece::new("least_load_scorer", json!({ "by": "in_flight", "form": form })).by_loads()
}

fn prefix_cache(fields: &Fields<'_>) -> Piece {
    let weight = fields.number("matchLengthWeight").filter(|weight| *weight != 0.0);
    if weight.is_some_and(|weight| !(0.0..=1.0).contains(&weight)) {
        fields.problem("matchLengthWeight", "expected a number from 0 to 1");
    }
    let scale = fields.whole("matchLengthScaleTokens");
    if weight.is_some() && scale.is_some_and(|scale| scale <= 0) {
        fields.problem("matchLengthScaleTokens", "expected a whole number above 0");
    }
    let parameters = json!({ "length_weight": weight, "length_scale": scale.filter(|scale| *scale > 0) });
    let parameters = if weight.is_some() { some(parameters) } else { Value::Null };
    Piece::new("cache_affinity_scorer", parameters).by_prefix(fields.text("prefixMatchInfoProducerName"))
}

/// The size of its list is not asked: the order here forgets no pod that is there.
fn no_hit(fields: &Fields<'_>) -> Piece {
    fields.whole("lruSize");
    fields.skip(&["prefixPluginType", "prefixPluginName"]);
    let producer = fields.text("prefixMatchInfoProducerName");
    let mut piece = Piece::new("no_hit_spread_scorer", Value::Null).by_prefix(producer);
    piece.needs.cold_prompts = true;
    piece
}

fn latency(fields: &Fields<'_>) -> Piece {
    fields.skip(&["latencyPredictionInfoProducerName"]);
    let weight = |name| {
        let weight = fields.number(name);
        if weight.is_some_and(|weight| weight < 0.0) {
            fields.problem(name, "expected a number from 0 on");
        }
        weight
    };
    let prefer = match fields.text("headroomSelectionStrategy") {
        None | Some("least") => None,
        Some("most") => Some("most"),
        Some(other) => {
            fields.problem("headroomSelectionStrategy", format!("found `{other}`, expected least or most"));
            None
        }
    };
    let parameters = some(json!({
        "ttft_weight": weight("ttftWeight"), "tpot_weight": weight("tpotWeight"), "prefer": prefer,
        "kv_weight": weight("compositeKVWeight"), "queue_weight": weight("compositeQueueWeight"),
        "held_weight": weight("compositePrefixWeight"),
    }));
    let producer = fields.text("prefixMatchInfoProducerName");
    let mut piece = Piece::new("headroom_scorer", parameters).by_loads().by_prefix(producer);
    piece.needs.predictions = true;
    piece
}

fn attribute(fields: &Fields<'_>) -> Option<Piece> {
    fields.text("producer");
    let attribute = required(fields, "attributeKey");
    let algorithm = fields.fields("algorithm");
    let kind = algorithm.as_ref().and_then(|algorithm| algorithm.text("type"));
    let prefer = match kind {
        Some("linear_lower_is_better") => "lower",
        Some("linear_higher_is_better") => "higher",
        _ => {
            fields.problem("algorithm", "expected a `type` of linear_lower_is_better or linear_higher_is_better");
            return None;
        }
    };
    let ranges = algorithm.as_ref().and_then(|algorithm| algorithm.fields("normalization"));
    let (fixed, adaptive) = (
        ranges.as_ref().and_then(|ranges| ranges.fields("fixedRange")),
        ranges.as_ref().and_then(|ranges| ranges.fields("adaptiveRange")),
    );
    if let (Some(ranges), Some(_), Some(_)) = (&ranges, &fixed, &adaptive) {
        ranges.problem("adaptiveRange", "there is a `fixedRange` too: remove one of them");
    }
    let range = fixed.map(|fixed| {
        let [least, most] = ["min", "max"].map(|name| fixed.number(name).unwrap_or_default());
        if least >= most {
            fixed.problem("max", format!("found {most}, expected more than `min`, which is {least}"));
        }
        json!({ "least": least, "most": most })
    });
    let parameters = some(json!({ "metric": attribute?, "prefer": prefer, "range": range }));
    Some(Piece::new("metric_scorer", parameters))
}

fn header_label(fields: &Fields<'_>) -> Option<Piece> {
    let (header, label) = (required(fields, "headerName"), required(fields, "labelKey"));
    Some(Piece::new("header_label_scorer", json!({ "header": header?.to_ascii_lowercase(), "label": label? })))
}

fn topology(world: World<'_>, fields: &Fields<'_>) -> Piece {
    fields.skip(&["topologyProducerName"]);
    let scores = [1.0, 0.2, 0.05, 0.02];
    let levels = world.topology().into_iter().zip(scores);
    let levels: Vec<Value> = levels.map(|((_, label), score)| json!({ "label": label, "score": score })).collect();
    Piece::new("locality_scorer", json!({ "levels": levels })).near_peer()
}

/// A scorer always, and a filter if that is asked.
fn context_length(fields: &Fields<'_>) -> Option<Parts> {
    let label = fields.get("label").map_or(Some("llm-d.ai/context-length-range"), YamlValue::as_str);
    let Some(label) = label.filter(|label| !label.is_empty()) else {
        fields.problem("label", "expected the name of a label");
        return None;
    };
    let parameters = json!({ "label": label });
    let mut parts = Parts::scorer(Piece::new("context_range_scorer", parameters.clone()).by_tokens());
    if fields.flag("enableFiltering") == Some(true) {
        let mut piece = Piece::new("context_range_filter", parameters).by_tokens();
        piece.suffix = "-filter";
        parts.filters.push(piece);
    }
    Some(parts)
}

/// A text that must be there.
pub(super) fn required<'a>(fields: &Fields<'a>, name: &'static str) -> Option<&'a str> {
    let text = fields.text(name);
    if text.is_none() {
        fields.problem(name, "it is missing: give it");
    }
    text
}
