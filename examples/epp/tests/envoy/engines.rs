//! Simulated engines, and load on them through Envoy.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pointsman_engine_sim::{PodConfig, SimPod};
use tokio::task::JoinSet;

use crate::scene::{client, post};

/// Engines that are fast enough for tests.
pub(crate) async fn engines(pods: usize) -> Vec<SimPod> {
    let mut started = Vec::new();
    for at in 0..pods {
        let mut config = PodConfig::new(&format!("pod-{at}"), "sim");
        config.speed = 20.0;
        started.push(SimPod::start(config, Vec::new()).await.unwrap());
    }
    started
}

pub(crate) fn addresses(pods: &[SimPod]) -> Vec<SocketAddr> {
    pods.iter().map(SimPod::address).collect()
}

/// Clients that stream one answer after the other until they are told to stop.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    clients: JoinSet<()>,
    pub(crate) counts: Arc<Counts>,
}

/// How requests ended: streams that came whole, refusals and errors, streams that broke off.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) whole: AtomicUsize,
    pub(crate) refused: AtomicUsize,
    pub(crate) cut: AtomicUsize,
}

impl Counts {
    pub(crate) fn whole(&self) -> usize {
        self.whole.load(Ordering::Relaxed)
    }

    pub(crate) fn failed(&self) -> usize {
        self.refused.load(Ordering::Relaxed) + self.cut.load(Ordering::Relaxed)
    }
}

impl Load {
    pub(crate) fn start(clients: usize, gateway: SocketAddr) -> Self {
        let (stop, counts, mut set) = (Arc::new(AtomicBool::new(false)), Arc::<Counts>::default(), JoinSet::new());
        for at in 0..clients {
            let (stop, counts) = (Arc::clone(&stop), Arc::clone(&counts));
            set.spawn(async move {
                let client = client();
                for turn in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let body = format!(
                        r#"{{"model":"sim","prompt":"client {at} asks {turn}","max_tokens":20,"stream":true}}"#
                    );
                    let (status, answer) = post(&client, gateway, "/v1/completions", &[], &body).await;
                    let counter = match status {
                        200 if answer.ends_with("data: [DONE]\n\n") => &counts.whole,
                        200 | 0 => &counts.cut,
                        _ => &counts.refused,
                    };
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        Self { stop, clients: set, counts }
    }

    /// Waits until so many more answers came whole.
    pub(crate) async fn serves(&self, more: usize) {
        let goal = self.counts.whole() + more;
        let waits = async {
            while self.counts.whole() < goal {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(crate::scene::PATIENCE, waits)
            .await
            .unwrap_or_else(|_| panic!("stalled: {:?}", self.counts));
    }

    /// Clients begin nothing more.
    pub(crate) fn tell_to_stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    pub(crate) async fn stop(self) -> Arc<Counts> {
        self.tell_to_stop();
        self.clients.join_all().await;
        self.counts
    }
}
