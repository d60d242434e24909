//! A worker, a JetStream server and two gateways that read its stream; one of them is killed and comes back.
//!
//! Starts a `nats-server` of its own. Without one it is skipped, unless `POINTSMAN_REAL_PARTS=1`.
#![cfg(feature = "nats")]
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

#[path = "support/nats_server.rs"]
mod server;

use std::sync::Arc;
use std::time::{Duration, Instant};

use kv_index::{BlockHash, BlockSize, Config as IndexConfig, Digest, Index, Matches, Parent, Tier};
use pointsman_gateway::event_sources::nats::{StreamPosition, consume};
use pointsman_lab::SplitMix64;
use pointsman_reporter::event_ingest::EventIngest;
use pointsman_reporter::nats::{NatsConfig, NatsSink};
use pointsman_reporter::shadow_cache::ShadowCache;
use pointsman_reporter::wire::HashScheme;
use pointsman_reporter::{Config, ReporterHandle, ReporterStats, start};
use server::Server;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

fn hashing() -> HashScheme {
    HashScheme::native("sim", BlockSize::new(16).unwrap())
}

const PODS: [&str; 2] = ["pod-0", "pod.1"];

/// A pod with its reporter.
struct Worker {
    shadow: ShadowCache,
    handle: ReporterHandle,
    task: JoinHandle<ReporterStats>,
}

impl Worker {
    async fn start(pod: &str, nats: &NatsConfig) -> Self {
        let mut config = Config::new(pod, hashing(), 1);
        config.flush_interval = Duration::from_millis(5);
        config.digest_interval = Duration::from_millis(100);
        config.retry_initial = Duration::from_millis(10);
        config.retry_max = Duration::from_millis(100);
        config.inventory_interval = Duration::from_millis(100);
        let shadow = ShadowCache::default();
        let sink = NatsSink::connect(nats.clone(), pod).await.unwrap();
        let (handle, task) = start(config, shadow.clone(), sink);
        Self { shadow, handle, task: tokio::spawn(task) }
    }

    /// Caches the starts of some prompts, and evicts some of what there is.
    fn work(&self, rng: &mut SplitMix64) {
        for _ in 0..40 {
            let prompt = prompt(rng.below(8), rng.between(1, 30));
            self.shadow.store(&self.handle, Parent::Root, &prompt);
            let tail = prompt.len() - rng.below(prompt.len());
            self.shadow.evict(&self.handle, &prompt[tail..]);
        }
    }

    async fn stop(self) {
        drop(self.handle);
        ends("a reporter", self.task).await;
    }
}

/// Prompts that start alike and part later.
fn prompt(which: usize, blocks: usize) -> Vec<BlockHash> {
    (0..blocks).map(|n| BlockHash::new(1 + n as u64 + if n < 4 { 0 } else { 1_000 * (1 + which as u64) })).collect()
}

/// A gateway that reads the stream.
struct Replica {
    ingest: Arc<EventIngest>,
    status: Arc<StreamPosition>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Replica {
    fn start(nats: &NatsConfig, index: Index, from: Option<u64>) -> Self {
        for pod in PODS {
            if index.pod(pod).is_none() {
                index.join(pod).unwrap();
            }
        }
        let ingest = Arc::new(EventIngest::new(Arc::new(index), hashing()));
        let (status, stop) = (Arc::new(StreamPosition::default()), CancellationToken::new());
        let following = consume(Arc::clone(&ingest), nats.clone(), from, Arc::clone(&status), stop.clone());
        Self { ingest, status, stop, task: tokio::spawn(following) }
    }

    fn fresh(nats: &NatsConfig) -> Self {
        Self::start(nats, Index::new(IndexConfig::default()), None)
    }

    fn digest(&self, pod: &str) -> Digest {
        self.ingest.index().digest(self.ingest.index().pod(pod).unwrap()).unwrap()
    }

    /// Leading blocks by pod.
    fn depths(&self, prompt: &[BlockHash]) -> Vec<usize> {
        let index = self.ingest.index();
        let mut matches = Matches::default();
        index.search(prompt, &mut matches);
        PODS.iter().map(|pod| matches.depth(index.pod(pod).unwrap().id())).collect()
    }

    async fn stop(self) {
        self.stop.cancel();
        ends("a replica", self.task).await;
    }
}

fn truth(worker: &Worker) -> Digest {
    let copies = worker.shadow.copies();
    Digest::of(copies.into_iter().flat_map(|(hash, n)| std::iter::repeat_n((hash, Tier::Gpu), n as usize)))
}

async fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is() {
        assert!(since.elapsed() < Duration::from_secs(60), "not within 60 s: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn ends<T>(what: &str, task: JoinHandle<T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), task).await.unwrap_or_else(|_| panic!("{what} does not end")).unwrap()
}

async fn agree(what: &str, replicas: &[&Replica], workers: &[Worker]) {
    eventually(what, || {
        replicas
            .iter()
            .all(|replica| PODS.iter().zip(workers).all(|(pod, worker)| replica.digest(pod) == truth(worker)))
    })
    .await;
    let mut rng = SplitMix64::new(9);
    for _ in 0..200 {
        let prompt = prompt(rng.below(8), rng.between(1, 30));
        let expected: Vec<usize> = (workers.iter())
            .map(|worker| {
                let held = worker.shadow.copies();
                prompt.iter().take_while(|hash| held.contains_key(hash)).count()
            })
            .collect();
        for replica in replicas {
            assert_eq!(replica.depths(&prompt), expected, "{what}");
        }
    }
}

async fn workers(nats: &NatsConfig) -> Vec<Worker> {
    let mut workers = Vec::new();
    for pod in PODS {
        workers.push(Worker::start(pod, nats).await);
    }
    workers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_was_killed_comes_back_by_snapshot_and_replay() {
    let Some(server) = Server::start() else { return };
    let nats = server.config();
    let workers = workers(&nats).await;
    let (one, two) = (Replica::fresh(&nats), Replica::fresh(&nats));
    let mut rng = SplitMix64::new(1);
    workers.iter().for_each(|worker| worker.work(&mut rng));
    agree("both read everything", &[&one, &two], &workers).await;

    // The position first, then the snapshot; and the gateway goes on before it is killed.
    let position = two.status.position();
    let snapshot = two.ingest.index().snapshot();
    workers.iter().for_each(|worker| worker.work(&mut rng));
    agree("both go on", &[&one, &two], &workers).await;
    two.task.abort();
    drop(two);
    workers.iter().for_each(|worker| worker.work(&mut rng));
    agree("one goes on alone", &[&one], &workers).await;

    let resyncs = one.status.resyncs();
    let index = Index::restore(IndexConfig::default(), &snapshot).unwrap();
    let two = Replica::start(&nats, index, Some(position));
    agree("both answer alike", &[&one, &two], &workers).await;
    assert_eq!((one.status.resyncs(), two.status.resyncs()), (resyncs, 0), "replay was enough");
    assert!(two.status.position() > position);

    for worker in workers {
        worker.stop().await;
    }
    one.stop().await;
    two.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_stream_no_longer_has_is_asked_for_and_a_server_may_be_killed() {
    let Some(mut server) = Server::start() else { return };
    let nats = server.config();
    let workers = workers(&nats).await;
    let one = Replica::fresh(&nats);
    let mut rng = SplitMix64::new(2);
    workers.iter().for_each(|worker| worker.work(&mut rng));
    agree("everything is read", &[&one], &workers).await;

    // What a stream drops by age is gone for whoever comes late.
    let client = async_nats::connect(&nats.url).await.unwrap();
    async_nats::jetstream::new(client).get_stream("KV").await.unwrap().purge().await.unwrap();
    let two = Replica::fresh(&nats);
    agree("the late one asks for inventories", &[&one, &two], &workers).await;
    assert!(two.status.resyncs() >= 1);

    server.kill();
    workers.iter().for_each(|worker| worker.work(&mut rng));
    assert!(server.run());
    let since = Instant::now();
    agree("all find back to the server", &[&one, &two], &workers).await;
    assert!(
        since.elapsed() < Duration::from_secs(10),
        "before a consumer's heartbeats would tell: {:?}",
        since.elapsed()
    );

    for worker in workers {
        worker.stop().await;
    }
    one.stop().await;
    two.stop().await;
}
