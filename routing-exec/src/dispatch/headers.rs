//! Hop-by-hop headers, which a proxy does not forward.

use http::HeaderMap;
use http::header::{CONNECTION, HeaderName};

/// Removes hop-by-hop headers: the known ones, and those that `Connection` names.
pub(super) fn strip_hop_by_hop(headers: &mut HeaderMap) {
    let named = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok());
    let named = named.flat_map(|value| value.split(',')).filter_map(|name| name.trim().parse().ok());
    let named: Vec<HeaderName> = named.collect();
    named.into_iter().for_each(|name| drop(headers.remove(name)));
    HOP_BY_HOP.into_iter().for_each(|name| drop(headers.remove(name)));
}

const HOP_BY_HOP: [&str; 9] = [
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
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
        strip_hop_by_hop(&mut headers);
        assert_eq!(headers.keys().collect::<Vec<_>>(), ["x-stays"]);
    }
}
