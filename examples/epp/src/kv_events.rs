//! Events of engines' caches: each pod of the fleet is followed, from the moment it joins until it leaves.

use std::collections::HashMap;
use std::time::Duration;

use pointsman::Router;
use pointsman::index::Pod;
use pointsman::index::engine::FollowerConfig;
use pointsman::zmq::{Following, SubscriberConfig};
use tokio::task::JoinHandle;

use crate::endpoints::authority;
use crate::picker_config::KvEvents;

/// The task that follows all pods. Dropped, it ends.
#[derive(Debug)]
#[must_use = "the task ends when this is dropped"]
pub struct FollowingPods(JoinHandle<()>);

impl Drop for FollowingPods {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Follows the events of a router's pods.
pub fn follow_pods(router: &Router, events: KvEvents) -> FollowingPods {
    let router = router.clone();
    FollowingPods(tokio::spawn(async move {
        let mut followed: HashMap<Pod, Following> = HashMap::new();
        let mut ticks = tokio::time::interval(PERIOD);
        loop {
            ticks.tick().await;
            let pods = router.pods();
            followed.retain(|pod, _| pods.iter().any(|entry| entry.pod == *pod));
            for entry in pods.iter().filter(|entry| !followed.contains_key(&entry.pod)).collect::<Vec<_>>() {
                match follow(&router, entry.pod, &entry.spec.address, &events) {
                    Ok(Some(following)) => {
                        followed.insert(entry.pod, following);
                    }
                    Ok(None) => {}
                    Err(error) => tracing::warn!(pod = entry.spec.name, error, "its cache events are not followed"),
                }
            }
        }
    }))
}

fn follow(router: &Router, pod: Pod, address: &str, events: &KvEvents) -> Result<Option<Following>, String> {
    let Some(port) = events.socket_port else { return Ok(None) };
    let address = authority(address);
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let feed = router.feed_config(pod).map_err(|error| error.to_string())?;
    let endpoint = |port: u16| format!("tcp://{host}:{port}").parse().map_err(|error| format!("{error}"));
    let mut config = SubscriberConfig::new(endpoint(port)?, FollowerConfig::new(feed));
    config.replay = events.replay_port.map(endpoint).transpose()?;
    config.topic = events.topic_filter.as_str().into();
    router.follow_with(pod, config).map(Some).map_err(|error| error.to_string())
}

/// How soon a pod that joined is followed.
const PERIOD: Duration = Duration::from_millis(500);
