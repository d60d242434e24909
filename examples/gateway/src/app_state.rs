//! Application state: what all requests and tasks of a gateway share.

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

use super::cache_audit::CacheAudit;
use super::config::{Config, ModelSettings};
use super::decision_log::DecisionLog;
use super::event_sources::EventSources;
use super::live_config::LiveConfig;
use super::pod_registry::{AddressTable, PodRegistry};
use super::request_log::RequestLog;
use super::tasks::Tasks;
use pointsman_reporter::event_ingest::EventIngest;
use pointsman_reporter::wire::HashScheme;

/// The HTTP client for pods.
pub(super) type PodClient = Client<HttpConnector, Full<Bytes>>;
/// The transport of the executor.
pub(super) type PodTransport = HyperTransport<HttpConnector, Full<Bytes>>;

pub(super) struct AppState {
    pub(super) model: ModelSettings,
    pub(super) plugin_state: PluginState,
    pub(super) tokenizer: Arc<dyn PromptTokenizer>,
    pub(super) client: PodClient,
    pub(super) executor: TransportExecutor<PodTransport, TokioTimer>,
    pub(super) breakers: Arc<Breakers>,
    pub(super) addresses: Arc<AddressTable>,
    /// Loaded once by each request.
    pub(super) live_config: ArcSwap<LiveConfig>,
    /// Locked while the next version of `live_config` is made.
    pub(super) registry: Mutex<PodRegistry>,
    /// The configuration in force.
    pub(super) config: Mutex<Config>,
    pub(super) sources: Mutex<EventSources>,
    /// Where pushed events are applied.
    pub(super) ingest: Arc<EventIngest>,
    pub(super) request_log: RequestLog,
    pub(super) cache_audit: CacheAudit,
    pub(super) decision_log: Option<DecisionLog>,
    pub(super) tasks: Tasks,
    /// Requests in flight.
    pub(super) in_flight: watch::Sender<usize>,
    pub(super) draining: AtomicBool,
    /// Cancelled when a drain begins: connections close after their current request.
    pub(super) winding_down: CancellationToken,
    /// Cancelled at the drain timeout: responses are truncated.
    pub(super) force_closed: CancellationToken,
    /// Cancelled when listeners close.
    pub(super) closed: CancellationToken,
    seeds: RandomState,
    requests: AtomicU64,
    /// When `/state` was last read, in milliseconds after the start; 0 for never.
    last_viewed: AtomicU64,
    /// Reloads that failed.
    pub(super) reload_failures: AtomicU64,
}

/// The parts of an [`AppState`].
pub(super) struct Parts {
    pub(super) config: Config,
    pub(super) plugin_state: PluginState,
    pub(super) tokenizer: Arc<dyn PromptTokenizer>,
    pub(super) client: PodClient,
    pub(super) addresses: Arc<AddressTable>,
    pub(super) breakers: Arc<Breakers>,
    pub(super) live_config: LiveConfig,
    pub(super) registry: PodRegistry,
    pub(super) tasks: Tasks,
    pub(super) decision_log: Option<DecisionLog>,
}

impl AppState {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { config, plugin_state, tokenizer, client, addresses, breakers, .. } = parts;
        let Parts { live_config, registry, tasks, decision_log, .. } = parts;
        let transport = HyperTransport::new(client.clone(), Arc::clone(&addresses) as _);
        let size = BlockSize::new(config.model.block_size.get()).expect("a block size is not zero");
        Self {
            ingest: Arc::new(EventIngest::new(
                Arc::clone(&plugin_state.index),
                HashScheme::native(&config.model.name, size),
            )),
            model: config.model.clone(),
            executor: TransportExecutor::with_breakers(transport, TokioTimer::new(), Arc::clone(&breakers)),
            plugin_state,
            tokenizer,
            client,
            breakers,
            addresses,
            live_config: ArcSwap::from_pointee(live_config),
            registry: Mutex::new(registry),
            config: Mutex::new(config),
            sources: Mutex::default(),
            request_log: RequestLog::new(Instant::now()),
            cache_audit: CacheAudit::default(),
            decision_log,
            tasks,
            in_flight: watch::Sender::new(0),
            draining: AtomicBool::new(false),
            winding_down: CancellationToken::new(),
            force_closed: CancellationToken::new(),
            closed: CancellationToken::new(),
            seeds: RandomState::new(),
            requests: AtomicU64::new(0),
            last_viewed: AtomicU64::new(0),
            reload_failures: AtomicU64::new(0),
        }
    }

    /// A unique seed for a request.
    pub(super) fn seed(&self) -> u64 {
        // Relaxed, here and below: counters that publish nothing.
        self.seeds.hash_one(self.requests.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Admission control: none at the limit.
    pub(super) fn admit(self: &Arc<Self>, limit: usize) -> Option<Admission> {
        let admitted = self.in_flight.send_if_modified(|count| {
            let room = *count < limit;
            *count += usize::from(room);
            room
        });
        admitted.then(|| Admission(Arc::clone(self)))
    }

    /// Notes that `/state` is read.
    pub(super) fn mark_viewed(&self) {
        let millis = self.request_log.started().elapsed().as_millis() as u64;
        self.last_viewed.store(millis.max(1), Ordering::Relaxed);
    }

    /// Whether `/state` was read recently, so that traces are worth their cost.
    pub(super) fn is_viewed(&self) -> bool {
        let viewed = self.last_viewed.load(Ordering::Relaxed);
        viewed != 0 && self.request_log.started().elapsed() < Duration::from_millis(viewed) + TRACE_WINDOW
    }
}

/// How long traces are recorded after `/state` was last read.
const TRACE_WINDOW: Duration = Duration::from_secs(10);

/// A request in flight; counted until it is dropped.
pub(super) struct Admission(Arc<AppState>);

impl Drop for Admission {
    fn drop(&mut self) {
        self.0.in_flight.send_modify(|count| *count -= 1);
    }
}
