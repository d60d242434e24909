//! What all requests and tasks of a gateway share.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use kv_index::BlockSize;
use parking_lot::Mutex;
use routing_exec::adapter::{HyperTransport, TokioTimer};
use routing_exec::{Breakers, TransportExecutor};
use routing_plugins::PluginState;
use routing_plugins::tokenize::PromptTokenizer;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::book::Book;
use super::config::{Config, ModelSettings};
use super::roster::{Directory, Roster};
use super::serving::Serving;
use super::sources::SourceTasks;
use super::tasks::Tasks;
use pointsman_reporter::event_ingest::EventIngest;
use pointsman_reporter::wire::Hashing;

/// The client that pods are spoken to by.
pub(super) type PodClient = Client<HttpConnector, Full<Bytes>>;
/// How requests reach pods.
pub(super) type PodTransport = HyperTransport<HttpConnector, Full<Bytes>>;

pub(super) struct Shared {
    pub(super) model: ModelSettings,
    pub(super) plugin_state: PluginState,
    pub(super) tokenizer: Arc<dyn PromptTokenizer>,
    pub(super) client: PodClient,
    pub(super) executor: TransportExecutor<PodTransport, TokioTimer>,
    pub(super) breakers: Arc<Breakers>,
    pub(super) directory: Arc<Directory>,
    /// What requests are decided by now.
    pub(super) serving: ArcSwap<Serving>,
    /// Held by whoever makes the next version of `serving`.
    pub(super) roster: Mutex<Roster>,
    /// The configuration in force.
    pub(super) config: Mutex<Config>,
    pub(super) sources: Mutex<SourceTasks>,
    /// Where pushed reports go.
    pub(super) inbox: Arc<EventIngest>,
    pub(super) book: Book,
    pub(super) tasks: Tasks,
    /// Requests under way.
    pub(super) in_flight: watch::Sender<usize>,
    pub(super) draining: AtomicBool,
    /// Cancelled when a drain begins: connections end with the request they are at.
    pub(super) winding_down: CancellationToken,
    /// Cancelled when a drain has waited long enough: answers end where they are.
    pub(super) cut: CancellationToken,
    /// Cancelled when nobody is let in any more.
    pub(super) closed: CancellationToken,
    seeds: RandomState,
    requests: AtomicU64,
    /// When somebody last looked at the state, in milliseconds after the start; 0 for never.
    looked: AtomicU64,
    /// Reloads that were refused.
    pub(super) bad_reloads: AtomicU64,
}

/// What makes a [`Shared`].
pub(super) struct Parts {
    pub(super) config: Config,
    pub(super) plugin_state: PluginState,
    pub(super) tokenizer: Arc<dyn PromptTokenizer>,
    pub(super) client: PodClient,
    pub(super) directory: Arc<Directory>,
    pub(super) breakers: Arc<Breakers>,
    pub(super) serving: Serving,
    pub(super) roster: Roster,
    pub(super) tasks: Tasks,
}

impl Shared {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { config, plugin_state, tokenizer, client, directory, breakers, serving, roster, tasks } = parts;
        let transport = HyperTransport::new(client.clone(), Arc::clone(&directory) as _);
        let size = BlockSize::new(config.model.block_size.get()).expect("a block size is not zero");
        Self {
            inbox: Arc::new(EventIngest::new(
                Arc::clone(&plugin_state.index),
                Hashing::native(&config.model.name, size),
            )),
            model: config.model.clone(),
            executor: TransportExecutor::with_breakers(transport, TokioTimer::new(), Arc::clone(&breakers)),
            plugin_state,
            tokenizer,
            client,
            breakers,
            directory,
            serving: ArcSwap::from_pointee(serving),
            roster: Mutex::new(roster),
            config: Mutex::new(config),
            sources: Mutex::default(),
            book: Book::new(Instant::now()),
            tasks,
            in_flight: watch::Sender::new(0),
            draining: AtomicBool::new(false),
            winding_down: CancellationToken::new(),
            cut: CancellationToken::new(),
            closed: CancellationToken::new(),
            seeds: RandomState::new(),
            requests: AtomicU64::new(0),
            looked: AtomicU64::new(0),
            bad_reloads: AtomicU64::new(0),
        }
    }

    /// A number of a request's own.
    pub(super) fn seed(&self) -> u64 {
        // Relaxed, here and below: figures that publish nothing.
        self.seeds.hash_one(self.requests.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Lets a request in, if there is room for it.
    pub(super) fn admit(self: &Arc<Self>, limit: usize) -> Option<Admission> {
        let admitted = self.in_flight.send_if_modified(|count| {
            let room = *count < limit;
            *count += usize::from(room);
            room
        });
        admitted.then(|| Admission(Arc::clone(self)))
    }

    /// Notes that somebody looks at the state.
    pub(super) fn look(&self) {
        let millis = self.book.started().elapsed().as_millis() as u64;
        self.looked.store(millis.max(1), Ordering::Relaxed);
    }

    /// Whether somebody looked at the state a short while ago, so that reasons are worth their cost.
    pub(super) fn is_watched(&self) -> bool {
        let looked = self.looked.load(Ordering::Relaxed);
        looked != 0 && self.book.started().elapsed() < Duration::from_millis(looked) + WATCHED_FOR
    }
}

/// How long reasons are kept after the state was last looked at.
const WATCHED_FOR: Duration = Duration::from_secs(10);

/// A request under way; counted until it is dropped.
pub(super) struct Admission(Arc<Shared>);

impl Drop for Admission {
    fn drop(&mut self) {
        self.0.in_flight.send_modify(|count| *count -= 1);
    }
}
