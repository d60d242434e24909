//! Pod registry: the pods of the fleet with health and load, and their addresses.
//!
//! A pod of the same name, address and event source keeps its handle over reloads; with another address or source it is
//! another pod to the index, whose cache is unknown.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use kv_index::{Index, Pod, PodSet};
use routing_core::{Fleet, Load, PodInfo};
use routing_exec::handoff::PodAddresses;
use tokio_util::sync::CancellationToken;

use super::config::PodSettings;
use super::error::StartError;

/// The pods, in the order of the configuration.
#[derive(Debug, Default)]
pub(super) struct PodRegistry {
    pub(super) pods: Vec<RegisteredPod>,
    version: u64,
}

/// A registered pod.
#[derive(Clone, Debug)]
pub(super) struct RegisteredPod {
    pub(super) settings: PodSettings,
    pub(super) pod: Pod,
    pub(super) healthy: bool,
    pub(super) load: Load,
    /// Stops its tasks.
    pub(super) stop: CancellationToken,
}

impl PodRegistry {
    /// The next registry of a configuration: known pods as they are, new ones joined. This one is unchanged.
    ///
    /// # Errors
    ///
    /// When a pod finds no room; those that were joined before it are retired again.
    pub(super) fn next(
        &self,
        index: &Index,
        pods: &[PodSettings],
        stop: impl Fn() -> CancellationToken,
    ) -> Result<Self, StartError> {
        self.check_room(index, pods)?;
        let mut entries: Vec<RegisteredPod> = Vec::with_capacity(pods.len());
        let mut joined = Vec::new();
        for settings in pods {
            if let Some(known) = self.pods.iter().find(|known| known.settings.is_same_cache(settings)) {
                entries.push(RegisteredPod { settings: settings.clone(), ..known.clone() });
                continue;
            }
            // A snapshot may have brought the pod along.
            let restored = index.pod(&settings.name).filter(|pod| self.pods.iter().all(|known| known.pod != *pod));
            // The old pod of the name goes first: the name is free for the new one only then.
            let old = self.pods.iter().find(|old| old.settings.name == settings.name);
            if let Some(old) = old {
                index.retire(old.pod);
            }
            let pod = match restored.map_or_else(|| index.join(&settings.name), Ok) {
                Ok(pod) => pod,
                Err(error) => {
                    for pod in joined {
                        index.retire(pod);
                    }
                    return Err(StartError::Pod {
                        name: settings.name.as_str().into(),
                        reason: error.to_string().into(),
                    });
                }
            };
            joined.push(pod);
            // A pod gets no requests before its first health check.
            let probed = old.filter(|old| old.settings.is_same_server(settings));
            entries.push(RegisteredPod {
                settings: settings.clone(),
                pod,
                healthy: probed.is_some_and(|old| old.healthy),
                load: probed.map_or_else(Load::default, |old| old.load),
                stop: stop(),
            });
        }
        Ok(Self { pods: entries, version: self.version })
    }

    /// Whether all new pods find room, so that no pod that moves is retired in vain.
    fn check_room(&self, index: &Index, pods: &[PodSettings]) -> Result<(), StartError> {
        let is_new = |settings: &&PodSettings| !self.pods.iter().any(|known| known.settings.is_same_cache(settings));
        let stats = index.stats();
        let room = <PodSet>::CAPACITY.saturating_sub(stats.pods + stats.pending_sweeps);
        // A pod that a snapshot brought along needs no room of its own; then it is not registered.
        let known = |settings: &&PodSettings| {
            index.pod(&settings.name).is_some() && self.pods.iter().all(|old| old.settings.name != settings.name)
        };
        match pods.iter().filter(is_new).filter(|settings| !known(settings)).nth(room) {
            None => Ok(()),
            Some(settings) => Err(StartError::Pod {
                name: settings.name.as_str().into(),
                reason: format!("{} pods are live and {} are being removed", stats.pods, stats.pending_sweeps).into(),
            }),
        }
    }

    /// The pods that another registry does not have.
    pub(super) fn without<'r>(&'r self, other: &'r Self) -> impl Iterator<Item = &'r RegisteredPod> {
        self.pods.iter().filter(|entry| other.pods.iter().all(|kept| kept.pod != entry.pod))
    }

    /// The next version of the fleet.
    pub(super) fn fleet(&mut self) -> Fleet {
        self.version += 1;
        let infos = self.pods.iter().map(|entry| {
            let settings = &entry.settings;
            let info = PodInfo::new(entry.pod, &settings.name).role(settings.role.role()).load(entry.load);
            let info = settings.labels.iter().fold(info, |info, (key, value)| info.label(key, value));
            if entry.healthy { info } else { info.unhealthy() }
        });
        Fleet::new(self.version, infos)
    }

    pub(super) fn get_mut(&mut self, pod: Pod) -> Option<&mut RegisteredPod> {
        self.pods.iter_mut().find(|entry| entry.pod == pod)
    }
}

/// Addresses of pods, including those that the last reload removed, for requests routed before.
#[derive(Debug, Default)]
pub(super) struct AddressTable(ArcSwap<HashMap<Pod, Arc<str>>>);

impl AddressTable {
    pub(super) fn publish(&self, now: &PodRegistry, before: &PodRegistry) {
        let pods = before.pods.iter().chain(&now.pods);
        self.0.store(Arc::new(pods.map(|entry| (entry.pod, entry.settings.url.as_str().into())).collect()));
    }
}

impl PodAddresses for AddressTable {
    fn address(&self, pod: Pod) -> Option<Cow<'_, str>> {
        self.0.load().get(&pod).map(|address| Cow::Owned(address.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use kv_index::Config;

    use super::*;
    use crate::config::Events;

    fn names(registry: &PodRegistry) -> Vec<(&str, Pod)> {
        registry.pods.iter().map(|entry| (&*entry.settings.name, entry.pod)).collect()
    }

    #[test]
    fn a_pod_keeps_its_handle_unless_it_moves() {
        let index: Index = Index::new(Config::default());
        let pods = [PodSettings::new("a", "http://a"), PodSettings::new("b", "http://b")];
        let first = PodRegistry::default().next(&index, &pods, CancellationToken::new).unwrap();
        let moved = [PodSettings::new("b", "http://b"), PodSettings::new("a", "http://elsewhere")];
        let second = first.next(&index, &moved, CancellationToken::new).unwrap();
        assert_eq!(names(&second)[0], names(&first)[1]);
        assert_ne!(names(&second)[1].1, names(&first)[0].1);
        assert_eq!(first.without(&second).map(|entry| &*entry.settings.url).collect::<Vec<_>>(), ["http://a"]);
    }

    #[test]
    fn a_pod_whose_events_come_from_elsewhere_is_another_one_and_as_well_as_before() {
        let index: Index = Index::new(Config::default());
        let pod = PodSettings::new("a", "http://a").events(Events::Pushed);
        let mut first =
            PodRegistry::default().next(&index, std::slice::from_ref(&pod), CancellationToken::new).unwrap();
        first.pods[0].healthy = true;
        let second = first.next(&index, &[pod.events(Events::None)], CancellationToken::new).unwrap();
        assert_ne!(names(&second)[0].1, names(&first)[0].1);
        assert!(second.pods[0].healthy);
        let moved = [PodSettings::new("a", "http://elsewhere")];
        let third = second.next(&index, &moved, CancellationToken::new).unwrap();
        assert!(!third.pods[0].healthy, "another server has not been probed yet");
    }

    #[test]
    fn pods_that_move_stay_where_they_are_if_there_is_no_room_for_all() {
        let index: Index = Index::new(Config::default());
        let pods = ["a", "b"].map(|name| PodSettings::new(name, &format!("http://{name}")));
        let registry = PodRegistry::default().next(&index, &pods, CancellationToken::new).unwrap();
        for at in 0..253 {
            index.join(&format!("other-{at}")).unwrap();
        }
        // There is room for one more.
        let moved = ["a", "b"].map(|name| PodSettings::new(name, &format!("http://elsewhere-{name}")));
        registry.next(&index, &moved, CancellationToken::new).unwrap_err();
        assert!(registry.pods.iter().all(|entry| index.pod(&entry.settings.name) == Some(entry.pod)));
        registry.next(&index, &[pods[0].clone(), moved[1].clone()], CancellationToken::new).unwrap();
    }

    #[test]
    fn a_fleet_that_finds_no_room_leaves_nobody_joined() {
        let index: Index = Index::new(Config::default().max_pods(2));
        let pods = ["a", "b", "c"].map(|name| PodSettings::new(name, &format!("http://{name}")));
        let error = PodRegistry::default().next(&index, &pods, CancellationToken::new).unwrap_err();
        assert!(matches!(error, StartError::Pod { name, .. } if &*name == "c"));
        assert!(index.alive().is_empty());
    }

    #[test]
    fn requests_that_were_decided_before_find_removed_pods() {
        let index: Index = Index::new(Config::default());
        let pods = [PodSettings::new("a", "http://a")];
        let first = PodRegistry::default().next(&index, &pods, CancellationToken::new).unwrap();
        let (second, addresses) = (PodRegistry::default(), AddressTable::default());
        addresses.publish(&second, &first);
        assert_eq!(addresses.address(first.pods[0].pod).as_deref(), Some("http://a"));
        addresses.publish(&second, &second);
        assert_eq!(addresses.address(first.pods[0].pod), None);
    }
}
