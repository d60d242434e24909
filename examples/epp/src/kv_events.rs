//! Events of engines' caches: each pod of the fleet is followed, from the moment it joins until it leaves.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use pointsman::index::Pod;
use pointsman::index::engine::FollowerConfig;
use pointsman::zmq::{Following, SubscriberConfig, SubscriberStatus};
use pointsman::{PodSpec, Router};
use tokio::task::JoinHandle;

use crate::endpoints::authority;
use crate::picker_config::KvEvents;

/// How the following of each pod stands, by its name.
pub type EventStatuses = Arc<Mutex<BTreeMap<String, SubscriberStatus>>>;

/// The task that follows all pods. Dropped, it ends.
#[derive(Debug)]
#[must_use = "the task ends when this is dropped"]
pub struct FollowingPods(JoinHandle<()>);

impl Drop for FollowingPods {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Follows the events of a router's pods, and says how that stands.
pub fn follow_pods(router: &Router, events: KvEvents, statuses: EventStatuses) -> FollowingPods {
    let router = router.clone();
    FollowingPods(tokio::spawn(async move {
        let mut followed: HashMap<Pod, Following> = HashMap::new();
        let mut ticks = tokio::time::interval(PERIOD);
        loop {
            ticks.tick().await;
            let pods = router.pods();
            followed.retain(|pod, _| pods.iter().any(|entry| entry.pod == *pod));
            statuses.lock().retain(|name, _| pods.iter().any(|entry| entry.spec.name == *name));
            for entry in pods.iter().filter(|entry| !followed.contains_key(&entry.pod)).collect::<Vec<_>>() {
                match follow(&router, entry.pod, &entry.spec, &events) {
                    Ok(Some(following)) => {
                        statuses.lock().insert(entry.spec.name.clone(), following.status().clone());
                        followed.insert(entry.pod, following);
                    }
                    Ok(None) => {}
                    Err(error) => tracing::warn!(pod = entry.spec.name, error, "its cache events are not followed"),
                }
            }
        }
    }))
}

fn follow(router: &Router, pod: Pod, spec: &PodSpec, events: &KvEvents) -> Result<Option<Following>, String> {
    let Some(port) = events.socket_port else { return Ok(None) };
    let (address, rank) = (authority(&spec.address), rank(&spec.name));
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let mut feed = router.feed_config(pod).map_err(|error| error.to_string())?;
    // Blocks of the configuration may be several of the engine's.
    feed.accumulate = true;
    let endpoint =
        |port: u16| format!("tcp://{host}:{}", port.saturating_add(rank)).parse().map_err(|error| format!("{error}"));
    let mut config = SubscriberConfig::new(endpoint(port)?, FollowerConfig::new(feed));
    config.replay = events.replay_port.map(endpoint).transpose()?;
    config.topic = events.topic_filter.as_str().into();
    router.follow_with(pod, config).map(Some).map_err(|error| error.to_string())
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
