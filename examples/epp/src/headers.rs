//! Headers: names that pickers, proxies and sidecars agree on, and header maps as Envoy has them.

use envoy_types::pb::envoy::config::core::v3::HeaderMap as EnvoyHeaders;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};

/// Where a request goes: `ip:port`, or several, best first. In dynamic metadata, too, under [`LB_NAMESPACE`].
pub const DESTINATION: &str = "x-gateway-destination-endpoint";
/// In metadata: the endpoints that may be picked, under [`SUBSET_NAMESPACE`].
pub const SUBSET: &str = "x-gateway-destination-endpoint-subset";
/// In metadata: the endpoint that served, under [`LB_NAMESPACE`].
pub const SERVED: &str = "x-gateway-destination-endpoint-served";
/// Metadata of load balancing.
pub const LB_NAMESPACE: &str = "envoy.lb";
/// Metadata of subset hints.
pub const SUBSET_NAMESPACE: &str = "envoy.lb.subset_hint";
/// The prefill pod, for the sidecar of the decode pod.
pub const PREFILLER: &str = "x-prefiller-host-port";
/// The encode pods, for the same.
pub const ENCODERS: &str = "x-encoder-hosts-ports";
/// The data-parallel rank, for the sidecar that listens for all of them.
pub const DATA_PARALLEL: &str = "x-data-parallel-host-port";
/// Headers that steer a request, or a pod: a client's own are never passed on.
pub const STEERING: [&str; 8] = [
    DESTINATION,
    SUBSET,
    PREFILLER,
    ENCODERS,
    DATA_PARALLEL,
    "x-data-parallel-rank",
    "x-kv-cache-source-host-port",
    "epp-profile",
];
/// Why a request was dropped, on the answer.
pub const DROPPED_REASON: &str = "x-llm-d-request-dropped-reason";
/// Who shares fairly; the second name is the older one.
pub const FAIRNESS_ID: [&str; 2] = ["x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id"];
/// The objective that says how urgent a request is.
pub const OBJECTIVE: [&str; 2] = ["x-llm-d-inference-objective", "x-gateway-inference-objective"];
/// Another model's name for the body.
pub const MODEL_REWRITE: [&str; 2] = ["x-llm-d-model-name-rewrite", "x-gateway-model-name-rewrite"];
/// Which endpoints a conformance test wants.
pub const TEST_SELECTION: &str = "test-epp-endpoint-selection";

/// The first of a header's names that a request has.
#[must_use]
pub fn first<'h>(headers: &'h HeaderMap, names: &[&str]) -> Option<&'h str> {
    names.iter().find_map(|name| headers.get(*name)?.to_str().ok()).filter(|value| !value.is_empty())
}

/// A request's method, path and headers as Envoy tells them. What is no header by its letters is left out.
#[must_use]
pub fn request_parts(headers: Option<&EnvoyHeaders>) -> Parts {
    let (mut parts, ()) = Request::new(()).into_parts();
    for (name, value) in pairs(headers) {
        match name {
            ":method" => parts.method = Method::from_bytes(value).unwrap_or(Method::GET),
            ":path" => parts.uri = value.try_into().unwrap_or_default(),
            _ => add(&mut parts.headers, name, value),
        }
    }
    parts
}

/// A response's status and headers.
#[must_use]
pub fn response_head(headers: Option<&EnvoyHeaders>) -> (Option<StatusCode>, HeaderMap) {
    let (mut status, mut map) = (None, HeaderMap::new());
    for (name, value) in pairs(headers) {
        match name {
            ":status" => status = StatusCode::from_bytes(value).ok(),
            _ => add(&mut map, name, value),
        }
    }
    (status, map)
}

/// Names and values; Envoy writes values raw, and older proxies as text.
fn pairs(headers: Option<&EnvoyHeaders>) -> impl Iterator<Item = (&str, &[u8])> {
    headers.into_iter().flat_map(|headers| &headers.headers).map(|header| {
        let value = if header.raw_value.is_empty() { header.value.as_bytes() } else { &header.raw_value };
        (&*header.key, value)
    })
}

fn add(map: &mut HeaderMap, name: &str, value: &[u8]) {
    if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::from_bytes(value)) {
        map.append(name, value);
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::core::v3::HeaderValue as EnvoyHeader;

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> EnvoyHeaders {
        let header = |(key, value): &(&str, &str)| EnvoyHeader {
            key: (*key).into(),
            raw_value: value.as_bytes().into(),
            ..EnvoyHeader::default()
        };
        EnvoyHeaders { headers: pairs.iter().map(header).collect() }
    }

    #[test]
    fn pseudo_headers_are_method_path_and_status() {
        let given =
            [(":method", "POST"), (":path", "/v1/completions?x=1"), (":authority", "a"), ("X-A", "1"), ("x-a", "2")];
        let parts = request_parts(Some(&headers(&given)));
        assert_eq!((parts.method, parts.uri.path()), (Method::POST, "/v1/completions"));
        assert_eq!(parts.headers.get_all("x-a").iter().collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(parts.headers.len(), 2, "no pseudo header is a header");
        let (status, map) = response_head(Some(&headers(&[(":status", "429"), ("retry-after", "3")])));
        assert_eq!((status, map.len()), (Some(StatusCode::TOO_MANY_REQUESTS), 1));
        assert_eq!(response_head(None), (None, HeaderMap::new()));
    }

    #[test]
    fn what_steers_is_what_a_gateway_strips() {
        let mut map: HeaderMap =
            STEERING.iter().map(|name| (HeaderName::from_static(name), HeaderValue::from_static("1"))).collect();
        map.insert("x-other", HeaderValue::from_static("1"));
        pointsman::exec::handoff::strip_routing_headers(&mut map);
        assert_eq!(map.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["x-other"]);
    }

    #[test]
    fn a_newer_name_goes_before_the_older_one() {
        let mut map = HeaderMap::new();
        assert_eq!(first(&map, &OBJECTIVE), None);
        map.insert(OBJECTIVE[1], HeaderValue::from_static("old"));
        assert_eq!(first(&map, &OBJECTIVE), Some("old"));
        map.insert(OBJECTIVE[0], HeaderValue::from_static("new"));
        assert_eq!(first(&map, &OBJECTIVE), Some("new"));
    }
}
