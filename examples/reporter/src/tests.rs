//! The reporter task: threads that push events while inventories are taken, and the end of the task.

use std::time::Duration;

use kv_index::{BlockHash, BlockSize, Digest, Index, Parent, Tier};
use parking_lot::Mutex;

use super::*;
use crate::event_ingest::EventIngest;
use crate::shadow_cache::ShadowCache;
use crate::wire::{Ack, HashScheme, Message};
use pointsman_lab::SplitMix64;

/// Straight into an ingest. Every so many messages are lost.
struct Direct {
    ingest: Arc<EventIngest>,
    sent: u64,
    lose_one_in: u64,
}

impl MessageSink for Direct {
    async fn send(&mut self, message: &Message) -> Result<Ack, SinkError> {
        self.sent += 1;
        if self.sent.is_multiple_of(self.lose_one_in) {
            return Err(SinkError::Unacknowledged("on purpose".into()));
        }
        tokio::task::yield_now().await;
        Ok(self.ingest.message(message).unwrap())
    }
}

fn hashing() -> HashScheme {
    HashScheme::native("sim", BlockSize::new(16).unwrap())
}

fn ingest() -> Arc<EventIngest> {
    let index: Index = Index::new(kv_index::Config::default());
    index.join("a").unwrap();
    Arc::new(EventIngest::new(Arc::new(index), hashing()))
}

fn hurried() -> Config {
    let mut config = Config::new("a", hashing(), 1);
    config.flush_interval = Duration::from_millis(1);
    config.digest_interval = Duration::from_millis(20);
    config.retry_initial = Duration::from_millis(1);
    config.inventory_interval = Duration::ZERO;
    config.queue_blocks = 64;
    config
}

fn digest(ingest: &EventIngest) -> Digest {
    ingest.index().digest(ingest.index().pod("a").unwrap()).unwrap()
}

fn truth(shadow: &ShadowCache) -> Digest {
    let copies = shadow.copies();
    Digest::of(copies.into_iter().flat_map(|(hash, n)| std::iter::repeat_n((hash, Tier::Gpu), n as usize)))
}

/// Two threads change the cache as fast as they can, so that the queue overflows again and again, while batches and
/// inventories are taken. The gateway is right at the end without a single digest that differed on the way.
#[test]
fn inventories_and_events_never_overlap() {
    let (ingest, shadow) = (ingest(), ShadowCache::default());
    let mut config = hurried();
    config.batch_blocks = 16;
    let sink = Direct { ingest: Arc::clone(&ingest), sent: 0, lose_one_in: 17 };
    let (handle, task) = start(config, shadow.clone(), sink);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // What is held, so that only that is evicted: copies never fall below what was reported.
    let held: Mutex<Vec<BlockHash>> = Mutex::default();
    let stats = std::thread::scope(|scope| {
        for seed in 0..2 {
            let (handle, shadow, held) = (handle.clone(), shadow.clone(), &held);
            scope.spawn(move || {
                let mut rng = SplitMix64::new(seed);
                for n in 0..20_000 {
                    let mut held = held.lock();
                    if rng.one_in(2) || held.is_empty() {
                        let block = BlockHash::new(1 + rng.below(40) as u64);
                        held.push(block);
                        shadow.store(&handle, Parent::Unknown, &[block]);
                    } else {
                        let at = rng.below(held.len());
                        let block = held.swap_remove(at);
                        shadow.evict(&handle, &[block]);
                    }
                    drop(held);
                    if n % 64 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }
        drop(handle);
        runtime.block_on(task)
    });
    assert!(stats.inventories > 1 && stats.batches > 1, "{stats:?}");
    assert_eq!((stats.gaps, stats.mismatches), (0, 0), "{stats:?}");
    assert_eq!(digest(&ingest), truth(&shadow));
}

#[tokio::test]
async fn the_task_ends_with_the_last_handle_and_sends_the_rest() {
    let (ingest, shadow) = (ingest(), ShadowCache::default());
    let sink = Direct { ingest: Arc::clone(&ingest), sent: 0, lose_one_in: u64::MAX };
    let (handle, task) = start(Config::new("a", hashing(), 1), shadow.clone(), sink);
    let task = tokio::spawn(task);
    let other = handle.clone();
    shadow.store(&handle, Parent::Root, &[BlockHash::new(1), BlockHash::new(2)]);
    drop(handle);
    shadow.evict(&other, &[BlockHash::new(2)]);
    drop(other);
    tokio::time::timeout(Duration::from_secs(10), task).await.expect("it ends").unwrap();
    assert_eq!(digest(&ingest), truth(&shadow));
}

/// A gateway that is not there does not keep a worker from ending.
#[tokio::test]
async fn the_task_ends_also_if_nobody_answers() {
    let sink = Direct { ingest: ingest(), sent: 0, lose_one_in: 1 };
    let (handle, task) = start(Config::new("a", hashing(), 1), ShadowCache::default(), sink);
    handle.cleared();
    drop(handle);
    let stats = tokio::time::timeout(Duration::from_secs(10), task).await.expect("it ends");
    assert_eq!((stats.batches, stats.inventories), (0, 0));
}
