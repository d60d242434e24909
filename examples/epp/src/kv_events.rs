//! Events of engines' caches: each pod of the fleet is followed, from the moment it joins until it leaves, at its own socket or by what
//! its engine brings to a shared one.

mod shared;

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pointsman::index::Pod;
use pointsman::index::engine::{EngineFeedConfig, FollowerConfig, FollowerStatus};
use pointsman::zmq::{ConnectionConfig, Following, Listener, PeerEvent, PeerId, SubscriberConfig};
use pointsman::{PodSpec, Router};
use tokio::task::JoinHandle;

use self::shared::Shared;
use crate::endpoints::authority;
use crate::picker_config::KvEvents;

/// How the following of each pod stands, by its name.
pub type EventStatuses = Arc<Mutex<BTreeMap<String, FollowerStatus>>>;

/// The task that follows all pods. Dropped, it ends.
#[derive(Debug)]
#[must_use = "the task ends when this is dropped"]
pub struct FollowingPods {
    task: JoinHandle<()>,
    listens_at: Option<SocketAddr>,
}

impl FollowingPods {
    /// Where engines bring their events, if there is such a place.
    #[must_use]
    pub fn listens_at(&self) -> Option<SocketAddr> {
        self.listens_at
    }
}

impl Drop for FollowingPods {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Follows the events of a router's pods, and says how that stands.
///
/// # Errors
///
/// When the address that engines shall publish to is none, or taken.
pub async fn follow_pods(router: &Router, events: KvEvents, statuses: EventStatuses) -> io::Result<FollowingPods> {
    let mut listener = match &events.endpoint {
        Some(endpoint) => Some(listen(endpoint, &events.topic_filter).await?),
        None => None,
    };
    let listens_at = listener.as_ref().map(Listener::local_addr).transpose()?;
    let mut followers = Followers {
        router: router.clone(),
        events,
        statuses,
        own: HashMap::new(),
        shared: Shared::new(router.clone()),
    };
    let task = tokio::spawn(async move {
        let mut ticks = tokio::time::interval(PERIOD);
        loop {
            tokio::select! {
                _ = ticks.tick() => followers.refresh(),
                (peer, event) = next(&mut listener) => followers.brought(peer, event),
            }
        }
    });
    Ok(FollowingPods { task, listens_at })
}

/// Listens where ZeroMQ would: `tcp://host:port`, with `*` for every address.
async fn listen(endpoint: &str, topic: &str) -> io::Result<Listener> {
    let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "it is not tcp://host:port");
    let address = endpoint.strip_prefix("tcp://").ok_or_else(wrong)?;
    let address = address.strip_prefix("*:").map_or_else(|| address.to_owned(), |port| format!("0.0.0.0:{port}"));
    Listener::bind(&address, topic, ConnectionConfig::default()).await
}

async fn next(listener: &mut Option<Listener>) -> (PeerId, PeerEvent) {
    match listener {
        Some(listener) => listener.next().await,
        None => std::future::pending().await,
    }
}

struct Followers {
    router: Router,
    events: KvEvents,
    statuses: EventStatuses,
    own: HashMap<Pod, Following>,
    shared: Shared,
}

impl Followers {
    /// Follows pods that joined, and no longer those that left.
    fn refresh(&mut self) {
        let pods = self.router.pods();
        self.own.retain(|pod, _| pods.iter().any(|entry| entry.pod == *pod));
        self.shared.refresh();
        let shared: HashMap<Pod, FollowerStatus> = self.shared.statuses().collect();
        for entry in &pods {
            if shared.contains_key(&entry.pod) || self.own.contains_key(&entry.pod) {
                continue;
            }
            match self.follow(entry.pod, &entry.spec) {
                Ok(following) => self.own.extend(following.map(|following| (entry.pod, following))),
                Err(error) => tracing::warn!(pod = entry.spec.name, error, "its cache events are not followed"),
            }
        }
        let status = |pod: &Pod| self.own.get(pod).map(|own| own.status().get()).or_else(|| shared.get(pod).copied());
        let statuses = pods.iter().filter_map(|entry| Some((entry.spec.name.clone(), status(&entry.pod)?)));
        *self.statuses.lock() = statuses.collect();
    }

    /// Something came by the shared address.
    fn brought(&mut self, peer: PeerId, event: PeerEvent) {
        let frames = match event {
            PeerEvent::Message(frames) => frames,
            PeerEvent::Ended(error) => {
                tracing::debug!(%error, "a connection that brought cache events ended");
                return self.shared.ended(peer, &error);
            }
        };
        let Some(pod) = self.shared.pod_of(&frames) else { return };
        if self.own.get(&pod).is_some_and(|own| own.status().get().connections > 0) {
            return;
        }
        self.own.remove(&pod);
        if let Err(error) = self.shared.message(pod, peer, &frames) {
            tracing::warn!(error, "a pod's cache events are not followed");
        }
    }

    /// Follows a pod at its own socket, if it shall have one.
    fn follow(&self, pod: Pod, spec: &PodSpec) -> Result<Option<Following>, String> {
        let Some(port) = self.events.socket_port else { return Ok(None) };
        let (address, rank) = (authority(&spec.address), rank(&spec.name));
        let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
        let endpoint = |port: u16| {
            format!("tcp://{host}:{}", port.saturating_add(rank)).parse().map_err(|error| format!("{error}"))
        };
        let follower = FollowerConfig::new(feed_config(&self.router, pod)?);
        let mut config = SubscriberConfig::new(endpoint(port)?, follower);
        config.replay = self.events.replay_port.map(endpoint).transpose()?;
        config.topic = self.events.topic_filter.as_str().into();
        self.router.follow_with(pod, config).map(Some).map_err(|error| error.to_string())
    }
}

/// How a pod's events are read.
fn feed_config(router: &Router, pod: Pod) -> Result<EngineFeedConfig, String> {
    let mut feed = router.feed_config(pod).map_err(|error| error.to_string())?;
    // Blocks of the configuration may be several of the engine's.
    feed.accumulate = true;
    Ok(feed)
}

/// The rank of a pod by its name, as llm-d calls them: `…-rank-N` publishes N ports above the first one.
fn rank(name: &str) -> u16 {
    name.rsplit_once("-rank-").and_then(|(_, rank)| rank.parse().ok()).unwrap_or(0)
}

/// How soon a pod that joined is followed.
const PERIOD: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use super::rank;

    #[test]
    fn a_rank_is_the_end_of_a_pods_name() {
        assert_eq!(["vllm-0-rank-3", "ns/pod-rank-0", "pod", "pod-rank-x", "pod-rank-"].map(rank), [3, 0, 0, 0, 0]);
    }
}
