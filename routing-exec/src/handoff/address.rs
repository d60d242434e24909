//! Pod addresses, and what pods ask for before they answer.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::BuildHasher;

use http::HeaderValue;
use routing_core::Pod;

/// Addresses of pods, for dialects that name them to engines.
pub trait PodAddresses: Send + Sync + fmt::Debug {
    /// Host and port of a pod, such as `10.0.0.5:8000`, with a scheme or without; `None` if unknown.
    fn address(&self, pod: Pod) -> Option<Cow<'_, str>>;

    /// The `authorization` of requests to a pod, which the stock transports send instead of the client's; `None` if the pod has no
    /// key of its own. Make it [sensitive](HeaderValue::set_sensitive), so that it is not printed.
    fn authorization(&self, pod: Pod) -> Option<HeaderValue> {
        let _ = pod;
        None
    }
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
