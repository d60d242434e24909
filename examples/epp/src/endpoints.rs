//! Endpoints: pods by the `ip:port` that proxies know them by.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use pointsman::Router;
use pointsman::index::Pod;

/// A table of a router's pods by address, made anew when the fleet changes.
#[derive(Debug, Default)]
pub struct Endpoints(ArcSwap<Table>);

#[derive(Debug, Default)]
struct Table {
    /// The version of the fleet that it is of.
    version: u64,
    pods: HashMap<Box<str>, Pod>,
}

impl Endpoints {
    /// The pod at an address, with or without a port: by an `ip` alone all of its pods are meant.
    #[must_use]
    pub fn find(&self, router: &Router, address: &str) -> Vec<Pod> {
        let table = self.table(router);
        if let Some(pod) = table.pods.get(address) {
            return vec![*pod];
        }
        let is_of = |known: &str| known.rsplit_once(':').is_some_and(|(host, _)| host == address);
        table.pods.iter().filter(|(known, _)| is_of(known)).map(|(_, pod)| *pod).collect()
    }

    /// Whether a pod is the one at an address.
    #[must_use]
    pub fn is_at(&self, router: &Router, pod: Pod, address: &str) -> bool {
        self.table(router).pods.get(address) == Some(&pod)
    }

    fn table(&self, router: &Router) -> Arc<Table> {
        let (table, version) = (self.0.load_full(), router.fleet().version());
        if table.version == version {
            return table;
        }
        let pods = router.pods().into_iter().map(|entry| (authority(&entry.spec.address).into(), entry.pod));
        let table = Arc::new(Table { version, pods: pods.collect() });
        self.0.store(Arc::clone(&table));
        table
    }
}

/// An address as proxies take it: without a scheme.
#[must_use]
pub(crate) fn authority(address: &str) -> &str {
    let address = address.split_once("://").map_or(address, |(_, authority)| authority);
    address.trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use pointsman::{PodSpec, RouterUpdate};

    use super::*;

    #[test]
    fn pods_are_found_by_address_or_by_host_and_follow_the_fleet() {
        let pod = |name: &str, address: &str| PodSpec::new(name, address);
        let pods = [pod("a", "http://10.0.0.5:8000/"), pod("b", "10.0.0.5:8001"), pod("c", "[::1]:80")];
        let router = Router::builder("m").pods(pods).build().unwrap();
        let endpoints = Endpoints::default();
        let names = |address: &str| {
            let found = endpoints.find(&router, address);
            let mut names: Vec<_> =
                router.pods().into_iter().filter(|pod| found.contains(&pod.pod)).map(|pod| pod.spec.name).collect();
            names.sort();
            names.join("")
        };
        assert_eq!(
            (names("10.0.0.5:8000"), names("10.0.0.5"), names("[::1]:80")),
            ("a".into(), "ab".into(), "c".into())
        );
        assert_eq!(names("10.0.0.6:8000"), "");
        router.apply(RouterUpdate::new().pods([pod("d", "10.0.0.6:8000")])).unwrap();
        assert_eq!((names("10.0.0.6:8000"), names("10.0.0.5")), ("d".into(), String::new()));
        assert!(endpoints.is_at(&router, router.pod("d").unwrap(), "10.0.0.6:8000"));
    }
}
