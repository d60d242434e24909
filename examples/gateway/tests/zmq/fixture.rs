//! Test fixture: an engine, its publisher, and subscribers.

use std::sync::Arc;
use std::time::Duration;

use kv_index::engine::{EngineFeedConfig, FollowerConfig};
use kv_index::{Config, Digest, Index, Pod};
use pointsman::zmq::{Subscriber, SubscriberStatus};
use pointsman_engine_sim::Fault;
use pointsman_engine_sim::events::EventSink;
use pointsman_engine_sim::publish::{PublishConfig, PublisherHandle, ZmqPublisher};
use pointsman_gateway::config::ZmqEndpoints;
use pointsman_gateway::event_sources::zmq::{subscriber_config, view};
use pointsman_reporter::source_status::SourceView;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::engine::{Engine, model};

/// Longer than anything takes on a busy machine.
pub(crate) const LONG: Duration = Duration::from_secs(20);

/// Quicker than in earnest: nothing here takes seconds.
pub(crate) fn quick(follower: &mut FollowerConfig) {
    let ms = Duration::from_millis;
    follower.idle = ms(100);
    // On a busy machine an engine may be slow, and three asks without an answer cost what is known.
    follower.reply_timeout = ms(1_000);
    follower.replay_timeout = ms(2_000);
    follower.retry_initial = ms(10);
    follower.retry_max = ms(100);
}

/// An engine that publishes.
pub(crate) struct Source {
    pub(crate) engine: Engine,
    pub(crate) sink: ZmqPublisher,
    pub(crate) handle: PublisherHandle,
}

impl Source {
    pub(crate) async fn new(seed: u64, replay_batches: usize) -> Self {
        let (sink, handle) = ZmqPublisher::bind(PublishConfig::new("kv-events", replay_batches)).await.unwrap();
        Self { engine: Engine::new(seed), sink, handle }
    }

    /// Works and publishes, step by step.
    pub(crate) fn steps(&mut self, count: usize) {
        for _ in 0..count {
            self.sink.step(&self.engine.step());
        }
    }

    /// Empties the cache and says so.
    pub(crate) fn clear(&mut self) {
        self.sink.step(&self.engine.clear());
    }

    pub(crate) fn fault(&self, fault: Fault) {
        self.handle.fault(fault);
    }

    /// The engine starts anew behind the same sockets.
    pub(crate) fn restart(&mut self) {
        self.engine.restart();
        self.sink.restarted();
    }

    pub(crate) fn endpoints(&self) -> ZmqEndpoints {
        let endpoints = self.handle.endpoints().clone();
        let sockets = ZmqEndpoints::new(&endpoints.events).replay(&endpoints.replay);
        ZmqEndpoints { topic: endpoints.topic, ..sockets }
    }
}

/// An index that follows one pod.
pub(crate) struct Gateway {
    pub(crate) index: Arc<Index>,
    pub(crate) pod: Pod,
    pub(crate) status: SubscriberStatus,
    stop: CancellationToken,
    pub(crate) task: JoinHandle<()>,
}

impl Gateway {
    pub(crate) fn follow(endpoints: ZmqEndpoints) -> Self {
        let index = Index::new(Config::default());
        index.join("pod-0").unwrap();
        Self::follow_into(index, endpoints)
    }

    /// As a gateway that starts with the snapshot of another.
    pub(crate) fn follow_from(snapshot: &[u8], endpoints: ZmqEndpoints) -> Self {
        Self::follow_into(Index::restore(Config::default(), snapshot).unwrap(), endpoints)
    }

    fn follow_into(index: Index, endpoints: ZmqEndpoints) -> Self {
        let index = Arc::new(index);
        let pod = index.pod("pod-0").unwrap();
        let (model, size) = model();
        let mut config = subscriber_config(&endpoints, EngineFeedConfig::tokens(model, size)).unwrap();
        quick(&mut config.follower);
        let subscriber = Subscriber::new(index.clone(), pod, config).unwrap();
        let status = subscriber.status();
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        let task = tokio::spawn(async move {
            tokio::select! {
                () = stopped.cancelled() => {}
                _ = subscriber.run() => {}
            }
        });
        Self { index, pod, status, stop, task }
    }

    pub(crate) fn view(&self) -> SourceView {
        view(&self.status)
    }

    /// Waits until the index holds what the engine does.
    pub(crate) async fn agrees(&self, source: &Source, after: &str) {
        self.holds(source.engine.digest(), after).await;
    }

    /// Waits until the index holds that.
    pub(crate) async fn holds(&self, digest: Digest, after: &str) {
        self.until(after, |_| self.index.digest(self.pod) == Ok(digest)).await;
    }

    /// Waits until something is so.
    pub(crate) async fn until(&self, what: &str, so: impl Fn(&SourceView) -> bool) {
        let wait = async {
            while !so(&self.view()) {
                sleep(Duration::from_millis(2)).await;
            }
        };
        if timeout(LONG, wait).await.is_err() {
            let blocks = self.index.pod_stats(self.pod).map(|stats| stats.blocks);
            panic!("never: {what}; {blocks:?} blocks, {:?}", self.view());
        }
    }

    pub(crate) async fn stop(self) {
        self.stop.cancel();
        timeout(LONG, self.task).await.expect("it stops").unwrap();
    }
}

/// Waits until no task is left but the test itself, which is none.
pub(crate) async fn no_tasks() {
    let gone = async {
        while Handle::current().metrics().num_alive_tasks() > 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    let left = || Handle::current().metrics().num_alive_tasks();
    timeout(LONG, gone).await.unwrap_or_else(|_| panic!("{} tasks are left", left()));
}

/// Stops both, and sees that nothing is left.
pub(crate) async fn end(source: Source, gateway: Gateway) {
    gateway.stop().await;
    source.handle.stop().await;
    no_tasks().await;
}
