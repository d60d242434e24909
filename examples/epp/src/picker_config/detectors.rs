//! llm-d's saturation detectors: as filters in a profile, and as what makes the pool full.

use std::time::Duration;

use serde_json::{Value, json};

use super::fields::Fields;
use super::parts::{Parts, Piece, some};
use super::settings::Saturation;

/// Limits of a `utilization-detector`.
struct Utilization {
    waiting: i64,
    kv_used: f64,
    stale_after: Duration,
    headroom: Option<f64>,
}

fn utilization(fields: &Fields<'_>) -> Option<Utilization> {
    let waiting = fields.whole("queueDepthThreshold").unwrap_or(5);
    let kv_used = fields.number("kvCacheUtilThreshold").unwrap_or(0.8);
    let stale_after = fields.duration("metricsStalenessThreshold").unwrap_or(Duration::from_millis(200));
    if waiting <= 0 {
        fields.problem("queueDepthThreshold", format!("found {waiting}, expected a whole number above 0"));
    }
    let is_share = kv_used > 0.0 && kv_used <= 1.0;
    if !is_share {
        fields.problem("kvCacheUtilThreshold", format!("found {kv_used}, expected a number above 0 and up to 1"));
    }
    if stale_after.is_zero() {
        fields.problem("metricsStalenessThreshold", "expected a duration above 0");
    }
    let headroom = headroom(fields);
    (waiting > 0 && is_share).then_some(Utilization { waiting, kv_used, stale_after, headroom })
}

fn headroom(fields: &Fields<'_>) -> Option<f64> {
    let headroom = fields.number("headroom");
    if headroom.is_some_and(|headroom| headroom < 0.0) {
        fields.problem("headroom", "expected a number from 0 on");
    }
    headroom.filter(|headroom| *headroom > 0.0)
}

/// Pods below both limits that reported lately; all, where there is none.
pub(super) fn utilization_filter(fields: &Fields<'_>) -> Option<Piece> {
    let Utilization { waiting, kv_used, stale_after, headroom } = utilization(fields)?;
    let parameters =
        some(json!({ "waiting": waiting, "kv_used": kv_used, "headroom": headroom, "unreported": "remove" }));
    let mut piece = Piece::new("utilization_filter", parameters).by_loads().or_all();
    piece.needs.stale_after = u64::try_from(stale_after.as_millis()).ok();
    Some(piece)
}

/// Limits of a `concurrency-detector`: requests and tokens, as far as they count.
fn concurrency(fields: &Fields<'_>) -> Option<(Option<i64>, Option<i64>)> {
    fields.skip(&["inFlightLoadProducerName"]);
    let limit = |name, default| {
        let limit = fields.whole(name).unwrap_or(default);
        if limit <= 0 {
            fields.problem(name, format!("found {limit}, expected a whole number above 0"));
        }
        limit
    };
    let (requests, tokens) = (limit("maxConcurrency", 100), limit("maxTokenConcurrency", 1_000_000));
    match fields.text("concurrencyMode") {
        None | Some("requests") => Some((Some(requests), None)),
        Some("tokens") => Some((None, Some(tokens))),
        Some("hybrid") => Some((Some(requests), Some(tokens))),
        Some(other) => {
            fields.problem("concurrencyMode", format!("found `{other}`, expected requests, tokens or hybrid"));
            None
        }
    }
}

/// Pods with less in flight than the limits; two limits are two filters, and nobody is left where all are full.
pub(super) fn concurrency_filters(fields: &Fields<'_>) -> Option<Parts> {
    let headroom = headroom(fields);
    let (requests, tokens) = concurrency(fields)?;
    let piece = |suffix: &'static str, limit: Value| {
        let parameters = some(json!({ "limit": limit, "headroom": headroom, "figures": "counted" }));
        Piece { suffix, ..Piece::new("concurrency_filter", parameters).by_loads() }
    };
    let requests = requests.map(|most| piece("", json!({ "requests": most })));
    let suffix = if requests.is_some() { "-tokens" } else { "" };
    let tokens = tokens.map(|most| piece(suffix, json!({ "tokens": most })));
    Some(Parts { filters: requests.into_iter().chain(tokens).collect(), ..Parts::default() })
}

/// What makes the pool full by a detector of a type.
pub(super) fn saturation(kind: &str, fields: &Fields<'_>) -> Option<Saturation> {
    headroom(fields);
    if kind == "concurrency-detector" {
        let (requests, tokens) = concurrency(fields)?;
        let count = |limit: Option<i64>| limit.and_then(|limit| u64::try_from(limit).ok());
        return Some(Saturation::Concurrency { requests: count(requests), tokens: count(tokens) });
    }
    let Utilization { waiting, kv_used, stale_after, .. } = utilization(fields)?;
    let waiting = u32::try_from(waiting).unwrap_or(u32::MAX);
    Some(Saturation::Utilization { waiting, kv_used, stale_after })
}
