//! Application state: what all requests and tasks of a gateway share.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use pointsman::{ApiError, BodyLimits, UploadLimits, Uploads, requested_model};
use tokio::sync::{Notify, watch};

use super::config::{ClientSettings, Config, Limits};
use super::event_sources::EventSources;
use super::findings::FindingLog;
use super::flow::FlowMetrics;
use super::model::Model;
use super::observers::Observers;
use super::peers::PeerCounts;
use super::pod_client::PodClient;
use super::pod_metrics::PodMetrics;
use super::request_log::RequestLog;
use super::stop_signal::StopSignal;
use super::tasks::Tasks;
use pointsman_reporter::event_ingest::EventIngest;

pub(super) struct AppState {
    /// In the order of the configuration; at least one.
    pub(super) models: Vec<Model>,
    pub(super) client: PodClient,
    /// Loaded once by each request.
    pub(super) limits: ArcSwap<ClientLimits>,
    /// The configuration in force. Locked through a reload, so that they come one after the other; never by who has `sources`.
    pub(super) config: Mutex<Config>,
    pub(super) sources: Mutex<EventSources>,
    /// Where pushed events are applied.
    pub(super) ingest: Arc<EventIngest>,
    /// Notified when there may be pods that were never checked.
    pub(super) pods_changed: Notify,
    pub(super) request_log: RequestLog,
    pub(super) pod_metrics: PodMetrics,
    pub(super) flow_metrics: FlowMetrics,
    pub(super) peers: PeerCounts,
    pub(super) findings: Mutex<FindingLog>,
    pub(super) observers: Observers,
    pub(super) tasks: Tasks,
    /// Requests in flight.
    pub(super) in_flight: watch::Sender<usize>,
    /// Bodies that are being read, and their bounds.
    pub(super) uploading: watch::Sender<usize>,
    pub(super) uploads: Uploads,
    /// Whether readiness is gone, which a drain's grace period begins with.
    pub(super) withdrawn: AtomicBool,
    pub(super) draining: AtomicBool,
    /// Given when a drain begins: connections close after their current request.
    pub(super) winding_down: StopSignal,
    /// Given soon after: bodies are not read any more.
    pub(super) uploads_closed: StopSignal,
    /// Given at the drain timeout: responses are truncated.
    pub(super) force_closed: StopSignal,
    /// Given when listeners close.
    pub(super) closed: StopSignal,
    seeds: RandomState,
    requests: AtomicU64,
    /// When `/state` was last read, in milliseconds after the start; 0 for never.
    last_viewed: AtomicU64,
    /// Reloads that failed.
    pub(super) reload_failures: AtomicU64,
}

/// Bounds towards clients.
#[derive(Clone, Debug)]
pub(super) struct ClientLimits {
    pub(super) limits: Limits,
    /// Between two reads or writes of a client.
    pub(super) idle_timeout: Duration,
    /// Of the headers of a request.
    pub(super) headers_timeout: Duration,
    /// Of one body.
    pub(super) body: BodyLimits,
    /// Of all bodies that are being read.
    pub(super) uploads: UploadLimits,
    /// Whether pods without a key of their own see the client's.
    pub(super) forwards_authorization: bool,
    /// By what clients are told apart.
    pub(super) clients: ClientSettings,
}

impl ClientLimits {
    pub(super) fn of(config: &Config) -> Self {
        let (limits, timeouts) = (config.limits.clone(), &config.timeouts);
        Self {
            idle_timeout: timeouts.client_idle_timeout,
            headers_timeout: timeouts.headers_timeout,
            body: BodyLimits::default()
                .max_bytes(limits.max_request_bytes)
                .idle_timeout(timeouts.client_idle_timeout)
                .total_timeout(timeouts.body_timeout),
            uploads: UploadLimits::default().max_uploads(limits.max_uploads).max_bytes(limits.max_upload_bytes),
            limits,
            forwards_authorization: config.pod_auth.forward_client,
            clients: config.clients.clone(),
        }
    }
}

/// The parts of an [`AppState`].
pub(super) struct Parts {
    pub(super) config: Config,
    pub(super) models: Vec<Model>,
    pub(super) client: PodClient,
    pub(super) ingest: Arc<EventIngest>,
    pub(super) tasks: Tasks,
    pub(super) observers: Observers,
}

impl AppState {
    pub(super) fn new(parts: Parts) -> Self {
        let Parts { config, models, client, ingest, tasks, observers } = parts;
        Self {
            models,
            client,
            ingest,
            limits: ArcSwap::from_pointee(ClientLimits::of(&config)),
            config: Mutex::new(config),
            sources: Mutex::default(),
            pods_changed: Notify::new(),
            request_log: RequestLog::new(Instant::now()),
            pod_metrics: PodMetrics::default(),
            flow_metrics: FlowMetrics::default(),
            peers: PeerCounts::default(),
            findings: Mutex::default(),
            observers,
            tasks,
            in_flight: watch::Sender::new(0),
            uploading: watch::Sender::new(0),
            uploads: Uploads::default(),
            withdrawn: AtomicBool::new(false),
            draining: AtomicBool::new(false),
            winding_down: StopSignal::default(),
            uploads_closed: StopSignal::default(),
            force_closed: StopSignal::default(),
            closed: StopSignal::default(),
            seeds: RandomState::new(),
            requests: AtomicU64::new(0),
            last_viewed: AtomicU64::new(0),
            reload_failures: AtomicU64::new(0),
        }
    }

    /// The model that a request's body names.
    ///
    /// # Errors
    ///
    /// 400 where the body names none, 404 where it is none of these.
    pub(super) fn model_of(&self, body: &[u8]) -> Result<&Model, ApiError> {
        if let [only] = &self.models[..] {
            // It tells what is wrong with the name, or with the body.
            return Ok(only);
        }
        let name = requested_model(body)?;
        let found = self.models.iter().find(|model| model.router.named_model(&name).is_some());
        found.ok_or_else(|| ApiError::unknown_model(&name))
    }

    /// A unique number for a request.
    pub(super) fn number(&self) -> u64 {
        // Relaxed, here and below: counters that publish nothing.
        self.seeds.hash_one(self.requests.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Whether balancers may send new clients here.
    pub(super) fn is_withdrawn(&self) -> bool {
        self.withdrawn.load(Ordering::Relaxed) || self.is_draining()
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
