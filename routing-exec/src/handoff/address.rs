//! Pod addresses.

use std::borrow::Cow;
use std::fmt;

use routing_core::Pod;

/// Addresses of pods, for dialects that name them to engines.
pub trait PodAddresses: Send + Sync + fmt::Debug {
    /// Host and port of a pod, such as `10.0.0.5:8000`, with a scheme or without; `None` if unknown.
    fn address(&self, pod: Pod) -> Option<Cow<'_, str>>;
}

/// No address is known.
impl PodAddresses for () {
    fn address(&self, _: Pod) -> Option<Cow<'_, str>> {
        None
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
