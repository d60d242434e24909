//! Headers that a proxy does not forward: hop-by-hop ones, and those of a pod that tell where it is.

use http::HeaderMap;
use http::header::{ALT_SVC, CONNECTION, CONTENT_LOCATION, HeaderName, LINK, LOCATION, PROXY_AUTHENTICATE};
use http::header::{PROXY_AUTHORIZATION, REFRESH, SERVER, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VIA};

use crate::handoff::headers::{ROUTING, is_own, remove_where};

/// Removes hop-by-hop headers, the known ones and those that `Connection` names, and those that are meant beside them: in one walk.
pub(super) fn strip_hop_by_hop_and(headers: &mut HeaderMap, is_meant: impl Fn(&HeaderName) -> bool) {
    let named = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named = named.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok());
    let named: Vec<HeaderName> = named.collect();
    remove_where(headers, |name| HOP_BY_HOP.contains(name) || named.contains(name) || is_meant(name));
}

/// Removes what a client does not get of a pod's headers or trailers: hop-by-hop ones, those in the gateway's name, and those that
/// name addresses behind the gateway, or what listens there: no client can go there, and none is to know.
pub(super) fn strip_for_client(headers: &mut HeaderMap) {
    strip_hop_by_hop_and(headers, |name| is_own(name) || INTERNAL.contains(name) || ROUTING.contains(name));
}

const INTERNAL: [HeaderName; 7] = [ALT_SVC, CONTENT_LOCATION, LINK, LOCATION, REFRESH, SERVER, VIA];

const HOP_BY_HOP: [HeaderName; 9] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    HeaderName::from_static("proxy-connection"),
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn what_a_connection_names_goes_with_it() {
        let mut headers = HeaderMap::new();
        for name in ["x-hop", "x-stays", "te", "proxy-authorization"] {
            headers.insert(name, HeaderValue::from_static("1"));
        }
        headers.append("connection", HeaderValue::from_static("close, X-Hop"));
        headers.append("connection", HeaderValue::from_static("bad name,"));
        strip_hop_by_hop_and(&mut headers, |_| false);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["x-stays"]);
    }

    #[test]
    fn what_tells_where_a_pod_is_stays_behind() {
        let mut headers = HeaderMap::new();
        let internal = [
            "location",
            "content-location",
            "refresh",
            "link",
            "alt-svc",
            "via",
            "server",
            "x-prefiller-host-port",
            "x-gateway-destination-endpoint",
        ];
        for name in internal.into_iter().chain(["retry-after", "x-engine"]) {
            headers.append(name, HeaderValue::from_static("http://10.0.0.5:8000/"));
            headers.append(name, HeaderValue::from_static("twice"));
        }
        strip_for_client(&mut headers);
        let mut left: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        left.sort_unstable();
        assert_eq!(left, ["retry-after", "x-engine"]);
    }
}
