//! Findings about addresses: ports that were forgotten, and pods that are one server.

use std::collections::BTreeMap;

use super::{FindingKind, Tell};
use crate::pod_registry::{RegisteredPod, authority};

/// Pods whose address is hardly meant. Both may be: a proxy at port 80, ranks of one server. So they are told, and not refused.
pub(super) fn addresses(pods: &[RegisteredPod], tell: Tell<'_>) {
    let mut seen: BTreeMap<String, &RegisteredPod> = BTreeMap::new();
    for pod in pods {
        let Some(found) = authority(&pod.spec.address) else { continue };
        let default = if pod.spec.address.starts_with("https://") { 443 } else { 80 };
        if found.port_u16().is_none() {
            let message = format!(
                "its address `{}` has no port, so requests go to port {default}: engines listen elsewhere, such as at port 8000",
                pod.spec.address
            );
            tell(FindingKind::NoPort, Some(pod), message);
        }
        let server = format!("{}:{}", found.host().to_ascii_lowercase(), found.port_u16().unwrap_or(default));
        if let Some(first) = seen.get(&server) {
            let message = format!(
                "it has the address of pod `{}`, `{}`: what one of them caches would be taken for the other's, and the server gets twice \
                 the load; leave one out",
                first.spec.name, pod.spec.address
            );
            tell(FindingKind::SharedAddress, Some(pod), message);
        } else {
            seen.insert(server, pod);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{PodSpec, Router};

    #[test]
    fn forgotten_ports_and_pods_that_are_one_server_are_told_at_once() {
        let pods = [
            ("a", "http://Engine:8000"),
            ("b", "engine:8000"),
            ("c", "engine"),
            ("d", "http://engine:80/"),
            ("e", "https://engine"),
            ("f", "[::1]:8000"),
        ];
        let router =
            Router::builder("m").pods(pods.map(|(name, address)| PodSpec::new(name, address))).build().unwrap();
        let found: Vec<_> = router
            .diagnosis()
            .into_iter()
            .map(|finding| (finding.kind.name(), finding.pod.unwrap_or_default()))
            .collect();
        let expected = [("shared_address", "b"), ("no_port", "c"), ("shared_address", "d"), ("no_port", "e")];
        assert_eq!(found, expected.map(|(kind, pod)| (kind, pod.to_owned())));
        assert!(router.leave("a") && router.leave("c") && router.leave("e"));
        assert_eq!(router.diagnosis(), []);
    }
}
