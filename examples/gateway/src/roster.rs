//! The pods a gateway knows, with what is known of each; and where they are.
//!
//! A pod of a name, an address and a source of events keeps its handle over reloads; at another address, or with another
//! source, it is another pod to the index, whose cache is not known.

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
pub(super) struct Roster {
    pub(super) members: Vec<Member>,
    version: u64,
}

/// A pod.
#[derive(Clone, Debug)]
pub(super) struct Member {
    pub(super) settings: PodSettings,
    pub(super) pod: Pod,
    pub(super) healthy: bool,
    pub(super) load: Load,
    /// Ends whatever runs for it.
    pub(super) stop: CancellationToken,
}

impl Roster {
    /// The roster that a configuration asks for: known pods as they are, new ones joined. Nothing of this one changes.
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
        let mut members: Vec<Member> = Vec::with_capacity(pods.len());
        let mut joined = Vec::new();
        for settings in pods {
            if let Some(known) = self.members.iter().find(|known| known.settings.is_same_cache(settings)) {
                members.push(Member { settings: settings.clone(), ..known.clone() });
                continue;
            }
            // A snapshot may have brought the pod along.
            let restored = index.pod(&settings.name).filter(|pod| self.members.iter().all(|known| known.pod != *pod));
            // The old pod of the name goes first: the name is free for the new one only then.
            let old = self.members.iter().find(|old| old.settings.name == settings.name);
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
            // Nobody is sent anything before it was asked how it is.
            let asked = old.filter(|old| old.settings.is_same_server(settings));
            members.push(Member {
                settings: settings.clone(),
                pod,
                healthy: asked.is_some_and(|old| old.healthy),
                load: asked.map_or_else(Load::default, |old| old.load),
                stop: stop(),
            });
        }
        Ok(Self { members, version: self.version })
    }

    /// Whether all new pods find room, so that no pod that moves is retired in vain.
    fn check_room(&self, index: &Index, pods: &[PodSettings]) -> Result<(), StartError> {
        let is_new = |settings: &&PodSettings| !self.members.iter().any(|known| known.settings.is_same_cache(settings));
        let stats = index.stats();
        let room = <PodSet>::CAPACITY.saturating_sub(stats.pods + stats.pending_sweeps);
        // A pod that a snapshot brought along needs no room of its own; then it is not among the members.
        let known = |settings: &&PodSettings| {
            index.pod(&settings.name).is_some() && self.members.iter().all(|old| old.settings.name != settings.name)
        };
        match pods.iter().filter(is_new).filter(|settings| !known(settings)).nth(room) {
            None => Ok(()),
            Some(settings) => Err(StartError::Pod {
                name: settings.name.as_str().into(),
                reason: format!("{} pods are live and {} are being removed", stats.pods, stats.pending_sweeps).into(),
            }),
        }
    }

    /// The pods of this roster that another one does not have.
    pub(super) fn without<'r>(&'r self, other: &'r Self) -> impl Iterator<Item = &'r Member> {
        self.members.iter().filter(|member| other.members.iter().all(|kept| kept.pod != member.pod))
    }

    /// The next version of the fleet.
    pub(super) fn fleet(&mut self) -> Fleet {
        self.version += 1;
        let infos = self.members.iter().map(|member| {
            let settings = &member.settings;
            let info = PodInfo::new(member.pod, &settings.name).role(settings.role.role()).load(member.load);
            let info = settings.labels.iter().fold(info, |info, (key, value)| info.label(key, value));
            if member.healthy { info } else { info.unhealthy() }
        });
        Fleet::new(self.version, infos)
    }

    pub(super) fn member_mut(&mut self, pod: Pod) -> Option<&mut Member> {
        self.members.iter_mut().find(|member| member.pod == pod)
    }
}

/// Where pods are. Those that the last reload removed are still in it, for requests that were decided before.
#[derive(Debug, Default)]
pub(super) struct Directory(ArcSwap<HashMap<Pod, Arc<str>>>);

impl Directory {
    pub(super) fn publish(&self, now: &Roster, before: &Roster) {
        let members = before.members.iter().chain(&now.members);
        self.0.store(Arc::new(members.map(|member| (member.pod, member.settings.url.as_str().into())).collect()));
    }
}

impl PodAddresses for Directory {
    fn address(&self, pod: Pod) -> Option<Cow<'_, str>> {
        self.0.load().get(&pod).map(|address| Cow::Owned(address.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use kv_index::Config;

    use super::*;
    use crate::config::Events;

    fn names(roster: &Roster) -> Vec<(&str, Pod)> {
        roster.members.iter().map(|member| (&*member.settings.name, member.pod)).collect()
    }

    #[test]
    fn a_pod_keeps_its_handle_unless_it_moves() {
        let index: Index = Index::new(Config::default());
        let pods = [PodSettings::new("a", "http://a"), PodSettings::new("b", "http://b")];
        let first = Roster::default().next(&index, &pods, CancellationToken::new).unwrap();
        let moved = [PodSettings::new("b", "http://b"), PodSettings::new("a", "http://elsewhere")];
        let second = first.next(&index, &moved, CancellationToken::new).unwrap();
        assert_eq!(names(&second)[0], names(&first)[1]);
        assert_ne!(names(&second)[1].1, names(&first)[0].1);
        assert_eq!(first.without(&second).map(|member| &*member.settings.url).collect::<Vec<_>>(), ["http://a"]);
    }

    #[test]
    fn a_pod_whose_events_come_from_elsewhere_is_another_one_and_as_well_as_before() {
        let index: Index = Index::new(Config::default());
        let pod = PodSettings::new("a", "http://a").events(Events::Pushed);
        let mut first = Roster::default().next(&index, std::slice::from_ref(&pod), CancellationToken::new).unwrap();
        first.members[0].healthy = true;
        let second = first.next(&index, &[pod.events(Events::None)], CancellationToken::new).unwrap();
        assert_ne!(names(&second)[0].1, names(&first)[0].1);
        assert!(second.members[0].healthy);
        let moved = [PodSettings::new("a", "http://elsewhere")];
        let third = second.next(&index, &moved, CancellationToken::new).unwrap();
        assert!(!third.members[0].healthy, "another server has not been asked yet");
    }

    #[test]
    fn pods_that_move_stay_where_they_are_if_there_is_no_room_for_all() {
        let index: Index = Index::new(Config::default());
        let pods = ["a", "b"].map(|name| PodSettings::new(name, &format!("http://{name}")));
        let roster = Roster::default().next(&index, &pods, CancellationToken::new).unwrap();
        for at in 0..253 {
            index.join(&format!("other-{at}")).unwrap();
        }
        // There is room for one more.
        let moved = ["a", "b"].map(|name| PodSettings::new(name, &format!("http://elsewhere-{name}")));
        roster.next(&index, &moved, CancellationToken::new).unwrap_err();
        assert!(roster.members.iter().all(|member| index.pod(&member.settings.name) == Some(member.pod)));
        roster.next(&index, &[pods[0].clone(), moved[1].clone()], CancellationToken::new).unwrap();
    }

    #[test]
    fn a_fleet_that_finds_no_room_leaves_nobody_joined() {
        let index: Index = Index::new(Config::default().max_pods(2));
        let pods = ["a", "b", "c"].map(|name| PodSettings::new(name, &format!("http://{name}")));
        let error = Roster::default().next(&index, &pods, CancellationToken::new).unwrap_err();
        assert!(matches!(error, StartError::Pod { name, .. } if &*name == "c"));
        assert!(index.alive().is_empty());
    }

    #[test]
    fn requests_that_were_decided_before_find_removed_pods() {
        let index: Index = Index::new(Config::default());
        let pods = [PodSettings::new("a", "http://a")];
        let first = Roster::default().next(&index, &pods, CancellationToken::new).unwrap();
        let (second, directory) = (Roster::default(), Directory::default());
        directory.publish(&second, &first);
        assert_eq!(directory.address(first.members[0].pod).as_deref(), Some("http://a"));
        directory.publish(&second, &second);
        assert_eq!(directory.address(first.members[0].pod), None);
    }
}
