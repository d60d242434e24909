//! Events that engines bring to one address of the picker's: each pod's are known by their topic, `kv@POD@MODEL`.
//!
//! The rule: a pod has one source. One whose own socket was reached once is followed there, and what comes here of it is passed over.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use pointsman::index::engine::{Disconnect, Follower, FollowerConfig, FollowerStatus};
use pointsman::index::{Index, Pod};
use pointsman::zmq::{PeerId, ZmqError};
use pointsman::{RegisteredPod, Router};

use crate::endpoints::authority;

/// The pods whose events come by the shared address.
pub(super) struct Shared {
    router: Router,
    followers: HashMap<Pod, SharedFollower>,
    /// Pods by their topics, as far as those came.
    topics: HashMap<Vec<u8>, Pod>,
    /// Topics of nobody, of which that was said.
    strange: HashSet<Vec<u8>>,
}

struct SharedFollower {
    follower: Follower<Arc<Index>>,
    /// The connection that it is followed by.
    peer: Option<PeerId>,
}

impl Shared {
    pub(super) fn new(router: Router) -> Self {
        Self { router, followers: HashMap::new(), topics: HashMap::new(), strange: HashSet::new() }
    }

    /// The pod that a message is of; none if that is not in the fleet, or a message has no topic.
    pub(super) fn pod_of(&mut self, frames: &[Vec<u8>]) -> Option<Pod> {
        let topic = frames.first()?;
        if let Some(pod) = self.topics.get(topic) {
            return Some(*pod);
        }
        let named = std::str::from_utf8(topic).ok().and_then(pod_part);
        let pod = named.and_then(|named| pod_named(&self.router.pods(), named));
        match pod {
            Some(pod) if self.topics.len() < MOST_TOPICS => drop(self.topics.insert(topic.clone(), pod)),
            None if self.strange.len() < MOST_TOPICS && self.strange.insert(topic.clone()) => {
                tracing::warn!(topic = %String::from_utf8_lossy(topic), "cache events of a pod that is not known: expected kv@POD@MODEL");
            }
            _ => {}
        }
        pod
    }

    /// Takes a message of a pod.
    pub(super) fn message(&mut self, pod: Pod, peer: PeerId, frames: &[Vec<u8>]) -> Result<(), String> {
        let now = Instant::now();
        let shared = match self.followers.remove(&pod) {
            Some(shared) => shared,
            None => SharedFollower { follower: self.follower(pod, now)?, peer: None },
        };
        // Back it goes unless the pod left.
        let shared = shared.message(peer, frames, now);
        self.followers.extend(shared.map(|shared| (pod, shared)));
        Ok(())
    }

    /// A connection ended: of its pods nothing is expected until another brings their events.
    pub(super) fn ended(&mut self, peer: PeerId, error: &ZmqError) {
        let why = if error.is_violation() { Disconnect::Violation } else { Disconnect::Closed };
        for shared in self.followers.values_mut().filter(|shared| shared.peer == Some(peer)) {
            shared.peer = None;
            shared.follower.disconnected(why, Instant::now());
        }
    }

    /// Looks at the fleet again: pods may have left, and their addresses may be others' now.
    pub(super) fn refresh(&mut self) {
        let fleet = self.router.fleet();
        self.topics.retain(|_, pod| fleet.handle(pod.id()) == Some(*pod));
        let now = Instant::now();
        self.followers.retain(|_, shared| shared.follower.tick(now).is_ok());
    }

    /// How the pods that are followed here stand.
    pub(super) fn statuses(&self) -> impl Iterator<Item = (Pod, FollowerStatus)> + '_ {
        self.followers.iter().map(|(pod, shared)| (*pod, shared.follower.status()))
    }

    fn follower(&self, pod: Pod, now: Instant) -> Result<Follower<Arc<Index>>, String> {
        let mut config = FollowerConfig::new(super::feed_config(&self.router, pod)?);
        config.feed.replay = false;
        Follower::new(Arc::clone(self.router.index()), pod, config, now).map_err(|error| error.to_string())
    }
}

impl SharedFollower {
    fn message(mut self, peer: PeerId, frames: &[Vec<u8>], now: Instant) -> Option<Self> {
        if self.peer != Some(peer) {
            if self.peer.is_some() {
                self.follower.disconnected(Disconnect::Closed, now);
            }
            self.peer = Some(peer);
            self.follower.connected(now);
        }
        self.follower.message(frames, now).ok()?;
        // Engines come here by themselves, and there is nobody to ask for what was missed.
        while self.follower.next_action().is_some() {}
        Some(self)
    }
}

/// The part of a topic that names a pod.
fn pod_part(topic: &str) -> Option<&str> {
    topic.split('@').nth(1).filter(|pod| !pod.is_empty())
}

/// The pod that a topic means: by its address, its name, its name without a namespace, or its host where that is one pod's alone.
fn pod_named(pods: &[RegisteredPod], named: &str) -> Option<Pod> {
    let one = |is_it: &dyn Fn(&str, &str) -> bool| {
        let mut found = pods.iter().filter(|entry| is_it(authority(&entry.spec.address), &entry.spec.name));
        found.next().filter(|_| found.next().is_none()).map(|entry| entry.pod)
    };
    one(&|address, _| address == named)
        .or_else(|| one(&|_, name| name == named))
        .or_else(|| one(&|_, name| name.rsplit_once('/').is_some_and(|(_, name)| name == named)))
        .or_else(|| one(&|address, _| address.rsplit_once(':').is_some_and(|(host, _)| host == named)))
}

/// Topics that are remembered: several of each pod.
const MOST_TOPICS: usize = 1 << 14;

#[cfg(test)]
mod tests {
    use pointsman::PodSpec;

    use super::*;

    #[test]
    fn a_topic_names_a_pod_by_its_address_its_name_or_its_host() {
        let pods = [
            PodSpec::new("default/a", "10.0.0.1:8000"),
            PodSpec::new("default/b-rank-0", "10.0.0.2:8000"),
            PodSpec::new("default/b-rank-1", "10.0.0.2:8001"),
        ];
        let router = Router::builder("m").tokens_given().pods(pods).build().unwrap();
        let mut shared = Shared::new(router.clone());
        for (topic, name) in [
            ("kv@10.0.0.1:8000@m", Some("default/a")),
            ("kv@10.0.0.2:8001@org/m", Some("default/b-rank-1")),
            ("kv@a@m", Some("default/a")),
            ("kv@default/a@m", Some("default/a")),
            ("kv@10.0.0.1@m", Some("default/a")),
            ("kv@10.0.0.2@m", None),
            ("kv@10.0.0.3:8000@m", None),
            ("kv-events", None),
            ("kv@@m", None),
        ] {
            let frames = [topic.into(), Vec::new(), Vec::new()];
            assert_eq!(shared.pod_of(&frames), name.and_then(|name| router.pod(name)), "{topic}");
        }
        assert_eq!(shared.pod_of(&[]), None);
    }
}
