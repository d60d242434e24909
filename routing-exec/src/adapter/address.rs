//! Request targets: the pod's address, whatever the request's own authority.

use http::header::AUTHORIZATION;
use http::uri::PathAndQuery;
use http::{Request, Uri};
use routing_core::Pod;

use crate::executor::TransportError;
use crate::handoff::PodAddresses;

/// Points a request at a pod. All of its URI but path and query is taken from the pod's address.
pub(super) fn direct<B>(
    addresses: &dyn PodAddresses,
    pod: Pod,
    mut request: Request<B>,
) -> Result<Request<B>, TransportError> {
    let (scheme, authority) = addresses.origin(pod).ok_or_else(|| {
        let why = if addresses.address(pod).is_some() { NO_ADDRESS } else { "the pod has no address" };
        TransportError::Connect(why.into())
    })?;
    let mut parts = http::uri::Parts::default();
    parts.path_and_query =
        Some(request.uri().path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/")));
    (parts.scheme, parts.authority) = (Some(scheme), Some(authority));
    *request.uri_mut() = Uri::from_parts(parts).map_err(|_| TransportError::Connect(NO_ADDRESS.into()))?;
    // A client's idea of the host is not the pod's.
    request.headers_mut().remove(http::header::HOST);
    if let Some(authorization) = addresses.authorization(pod) {
        request.headers_mut().insert(AUTHORIZATION, authorization);
        // Anthropic's clients say theirs here.
        request.headers_mut().remove("x-api-key");
    }
    Ok(request)
}

const NO_ADDRESS: &str = "the pod's address is none";

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use http::HeaderValue;

    use super::*;

    #[derive(Debug)]
    struct At(Option<&'static str>);

    impl PodAddresses for At {
        fn address(&self, _: Pod) -> Option<Cow<'_, str>> {
            self.0.map(Cow::Borrowed)
        }
    }

    fn directed(address: Option<&'static str>, uri: &str) -> Result<String, TransportError> {
        let index: kv_index::Index = kv_index::Index::new(kv_index::Config::default());
        let request = Request::post(uri).header("host", "client.said").body(()).unwrap();
        let directed = direct(&At(address), index.join("pod").unwrap(), request)?;
        assert!(directed.headers().is_empty());
        Ok(directed.uri().to_string())
    }

    #[test]
    fn the_authority_is_the_addresss_and_never_the_requests() {
        for uri in ["/v1/chat?x=1", "http://169.254.169.254/v1/chat?x=1", "https://user@evil:1/v1/chat?x=1"] {
            assert_eq!(directed(Some("10.0.0.1:8000"), uri).unwrap(), "http://10.0.0.1:8000/v1/chat?x=1");
        }
        assert_eq!(directed(Some("https://pod.example/"), "/a").unwrap(), "https://pod.example/a");
        assert_eq!(directed(Some("[::1]:80"), "/").unwrap(), "http://[::1]:80/");
    }

    #[derive(Debug)]
    struct Keyed(Option<&'static str>);

    impl PodAddresses for Keyed {
        fn address(&self, _: Pod) -> Option<Cow<'_, str>> {
            Some("pod".into())
        }

        fn authorization(&self, _: Pod) -> Option<HeaderValue> {
            self.0.map(HeaderValue::from_static)
        }
    }

    #[test]
    fn a_pods_own_key_takes_the_place_of_the_clients() {
        let index: kv_index::Index = kv_index::Index::new(kv_index::Config::default());
        let pod = index.join("pod").unwrap();
        let headers = |key| {
            let request = Request::post("/").header("authorization", "Bearer client").header("x-api-key", "client");
            direct(&Keyed(key), pod, request.body(()).unwrap()).unwrap().headers().clone()
        };
        let own = headers(Some("Bearer pod"));
        assert_eq!((own.len(), &own["authorization"]), (1, &HeaderValue::from_static("Bearer pod")));
        let passed = headers(None);
        assert_eq!((passed.len(), &passed["authorization"]), (2, &HeaderValue::from_static("Bearer client")));
    }

    #[test]
    fn what_is_no_address_is_not_contacted() {
        let wrong =
            ["", "http://", "user@host", "host/path", "a b", "http://host/path", "://host", "ftp://host", "a:b:c"];
        for address in wrong.map(Some).into_iter().chain([None]) {
            assert!(matches!(directed(address, "/"), Err(TransportError::Connect(_))), "{address:?}");
        }
    }
}
