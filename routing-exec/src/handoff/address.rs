//! Pod addresses, and what pods ask for before they answer.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::BuildHasher;

use http::HeaderValue;
use http::uri::{Authority, Scheme};
use routing_core::Pod;

/// Addresses of pods, for dialects that name them to engines.
pub trait PodAddresses: Send + Sync + fmt::Debug {
    /// Host and port of a pod, such as `10.0.0.5:8000`, with a scheme or without; `None` if unknown.
    fn address(&self, pod: Pod) -> Option<Cow<'_, str>>;

    /// Where requests to a pod go: its [address](Self::address), parsed. A table that parses its addresses once answers by what it has;
    /// `None` if there is no address, or it is none.
    fn origin(&self, pod: Pod) -> Option<(Scheme, Authority)> {
        parse_origin(&self.address(pod)?)
    }

    /// The `authorization` of requests to a pod, which the stock transports send instead of the client's; `None` if the pod has no
    /// key of its own. Make it [sensitive](HeaderValue::set_sensitive), so that it is not printed.
    fn authorization(&self, pod: Pod) -> Option<HeaderValue> {
        let _ = pod;
        None
    }
}

/// The scheme and the authority of an address: a host and perhaps a port, with `http://`, `https://` or neither. `None` for anything else.
///
/// # Examples
///
/// ```
/// use routing_exec::handoff::parse_origin;
///
/// let (scheme, authority) = parse_origin("https://pod.example:8443/").unwrap();
/// assert_eq!((scheme.as_str(), authority.as_str()), ("https", "pod.example:8443"));
/// assert_eq!(parse_origin("user@pod.example"), None);
/// ```
#[must_use]
pub fn parse_origin(address: &str) -> Option<(Scheme, Authority)> {
    let (scheme, authority) = match address.split_once("://") {
        Some(("http", authority)) => (Scheme::HTTP, authority),
        Some(("https", authority)) => (Scheme::HTTPS, authority),
        Some(_) => return None,
        None => (Scheme::HTTP, address),
    };
    let authority = authority.strip_suffix('/').unwrap_or(authority);
    // Nothing but a host and a port: a user's name in it would be sent along.
    let authority: Authority = authority.parse().ok()?;
    (!authority.host().is_empty() && !authority.as_str().contains('@')).then_some((scheme, authority))
}

/// No address is known.
impl PodAddresses for () {
    fn address(&self, _: Pod) -> Option<Cow<'_, str>> {
        None
    }
}

/// A table of addresses.
impl<A: AsRef<str> + Send + Sync + fmt::Debug, S: BuildHasher + Send + Sync> PodAddresses for HashMap<Pod, A, S> {
    fn address(&self, pod: Pod) -> Option<Cow<'_, str>> {
        self.get(&pod).map(|address| Cow::Borrowed(address.as_ref()))
    }
}

/// A table of addresses.
impl<A: AsRef<str> + Send + Sync + fmt::Debug> PodAddresses for BTreeMap<Pod, A> {
    fn address(&self, pod: Pod) -> Option<Cow<'_, str>> {
        self.get(&pod).map(|address| Cow::Borrowed(address.as_ref()))
    }
}

/// The host of an address without its scheme and its port. An IPv6 address is left in brackets: engines append a port to it.
pub(super) fn host(address: &str) -> Cow<'_, str> {
    let address = address.split_once("://").map_or(address, |(_, address)| address);
    let address = address.strip_suffix('/').unwrap_or(address);
    if let Some((inner, _)) = address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return Cow::Owned(format!("[{inner}]"));
    }
    match address.split_once(':') {
        Some((_, port)) if port.contains(':') => Cow::Owned(format!("[{address}]")),
        Some((host, _)) => Cow::Borrowed(host),
        None => Cow::Borrowed(address),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_addresses_work_as_they_are() {
        let index: kv_index::Index = kv_index::Index::new(kv_index::Config::default());
        let (known, unknown) = (index.join("a").unwrap(), index.join("b").unwrap());
        let by_hash = HashMap::from([(known, "10.0.0.5:8000".to_owned())]);
        let by_order: BTreeMap<Pod, &str> = [(known, "10.0.0.5:8000")].into();
        for addresses in [&by_hash as &dyn PodAddresses, &by_order] {
            assert_eq!(addresses.address(known).as_deref(), Some("10.0.0.5:8000"));
            assert_eq!(addresses.address(unknown), None);
        }
    }

    #[test]
    fn a_host_is_an_address_without_its_port() {
        let cases = [
            ("10.0.0.5:8000", "10.0.0.5"),
            ("10.0.0.5", "10.0.0.5"),
            ("pod.svc:80", "pod.svc"),
            ("[fd00::5]:8000", "[fd00::5]"),
            ("fd00::5", "[fd00::5]"),
            ("http://10.0.0.5:8000", "10.0.0.5"),
            ("https://pod.svc/", "pod.svc"),
            ("http://[fd00::5]:8000/", "[fd00::5]"),
            ("", ""),
        ];
        for (address, expected) in cases {
            assert_eq!(host(address), expected, "{address}");
        }
    }
}
