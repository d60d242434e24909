//! Routing headers, the gateway's own headers, and the request id.
//!
//! A pod or its sidecar follows such headers to whatever host they name. So those that come from a client are always
//! stripped, and only a plan's own pods are written into new ones.

use http::header::{HeaderMap, HeaderName, HeaderValue, InvalidHeaderValue};

use super::ids::uuid;

/// The id that the legs of a request share.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The data-parallel rank of a worker that a request is for.
pub const DATA_PARALLEL_RANK: HeaderName = HeaderName::from_static("x-data-parallel-rank");

/// The prefill pod, for a sidecar that fetches from there.
pub const PREFILLER: HeaderName = HeaderName::from_static("x-prefiller-host-port");

/// The encoder pods, for a sidecar that fetches from there.
pub const ENCODERS: HeaderName = HeaderName::from_static("x-encoder-hosts-ports");

/// Headers that steer a request. A client's own are never passed on.
pub const ROUTING: [HeaderName; 8] = [
    PREFILLER,
    ENCODERS,
    DATA_PARALLEL_RANK,
    HeaderName::from_static("x-data-parallel-host-port"),
    HeaderName::from_static("x-kv-cache-source-host-port"),
    HeaderName::from_static("x-gateway-destination-endpoint"),
    HeaderName::from_static("x-gateway-destination-endpoint-subset"),
    HeaderName::from_static("epp-profile"),
];

/// Removes every header that would steer a request. To be called with a client's headers before any are added.
pub fn strip_routing_headers(headers: &mut HeaderMap) {
    remove_where(headers, |name| ROUTING.contains(name));
}

/// The beginning of headers that are between a gateway and its clients.
pub const OWN: &str = "x-pointsman-";

/// Removes headers that begin with [`OWN`]: a client's are for the gateway alone, and a pod says nothing in its name. A dispatch
/// does so with the client's request and with a pod's response.
pub fn strip_own_headers(headers: &mut HeaderMap) {
    remove_where(headers, is_own);
}

/// Whether a header is between a gateway and its clients.
pub(crate) fn is_own(name: &HeaderName) -> bool {
    name.as_str().starts_with(OWN)
}

/// Removes the headers that are meant. A message has few headers: looking at each is less than looking up all that it might have.
pub(crate) fn remove_where(headers: &mut HeaderMap, is_meant: impl Fn(&HeaderName) -> bool) {
    let meant: Vec<HeaderName> = headers.keys().filter(|name| is_meant(name)).cloned().collect();
    meant.iter().for_each(|name| drop(headers.remove(name)));
}

/// Gives a request an id that follows from a random number, unless the client gave it one. To be called once for a request,
/// so that all legs have the same.
pub fn ensure_request_id(headers: &mut HeaderMap, number: u64) {
    if !headers.contains_key(REQUEST_ID) {
        // A UUID is made of what headers may consist of.
        if let Ok(id) = HeaderValue::try_from(uuid(number)) {
            headers.insert(REQUEST_ID, id);
        }
    }
}

/// Names the pods that prefill and encode to the sidecar of a decode pod, by their addresses; what a client named is removed.
///
/// # Errors
///
/// If an address is no text that a header may have.
pub fn name_pods_to_sidecar(
    headers: &mut HeaderMap,
    prefiller: Option<&str>,
    encoders: &[&str],
) -> Result<(), InvalidHeaderValue> {
    strip_routing_headers(headers);
    if let Some(prefiller) = prefiller {
        headers.insert(PREFILLER, HeaderValue::try_from(prefiller)?);
    }
    if !encoders.is_empty() {
        headers.insert(ENCODERS, HeaderValue::try_from(encoders.join(","))?);
    }
    Ok(())
}
