//! LLM gateway on the Pointsman crates: OpenAI's HTTP API and Anthropic's in front, engine pods behind.
//!
//! ```text
//!  client ─▶ listener ─▶ handler ─▶ router of its model ─▶ host + executor ─▶ response_body ─▶ client
//!                                   ▲        │                  │
//!  gateway.yaml ─▶ watch ─▶ reload ─┤        ▼                  ▼
//!  pods ─▶ health ──────────────────┤     findings          request_log ─▶ state, metrics, explain
//!  cache events ─▶ event_sources ───┘     (zmq, nats, grpc, http)
//! ```
//!
//! | files | concept |
//! |---|---|
//! | [`config`] | configuration file: schema, defaults, validation |
//! | `model`, `reload`, [`watch`] | a `pointsman::Router` for each model; atomic reload of profiles, fleets and limits |
//! | `listener`, `tls`, `write_timeout`, `descriptors`, `routes`, `probes` | connections, their share of file descriptors, and routes |
//! | `pod_client`, `pod_tls` | the HTTP client for pods, and TLS towards them |
//! | `flow` | flow control: who requests are of, and what became of them |
//! | `handler`, `uploads`, `host`, `prefetched`, `response_body`, `error_response` | the way of a request |
//! | `health` | active health checks, engine load |
//! | [`event_sources`], `snapshot` | what feeds the index |
//! | `observers`, `request_record`, `record_log` | decision log and access log: a line a request, with the cached tokens expected, reported, and why they differ |
//! | [`logging`], `source_log`, `truncation_log`, `otlp` | the log, what is told in it once a second, traces |
//! | `request_log`, `findings`, [`state`], [`state_page`], `metrics`, `pod_metrics`, `histogram`, `explain`, [`admin_page`] | observability |
//! | `start`, `app_state`, `tasks`, `stop_signal`, `maintenance` | startup, shared state, tasks |
//!
//! Invariants: a request sees one version of its model's profile and fleet; a reload takes effect whole or not at all; after
//! [`Gateway::drain`], or when a [`Gateway`] is dropped, no task and no socket of it is left.

#![forbid(unsafe_code)]

pub mod admin_page;
mod app_state;
pub mod config;
mod descriptors;
mod error;
mod error_response;
pub mod event_sources;
mod explain;
mod findings;
mod flow;
mod handler;
mod health;
mod histogram;
mod host;
mod listener;
pub mod logging;
mod maintenance;
mod metrics;
mod model;
mod observers;
#[cfg(feature = "otlp")]
mod otlp;
mod peers;
mod pod_client;
mod pod_metrics;
mod pod_tls;
mod prefetched;
mod probes;
mod record_log;
mod reload;
mod request_log;
mod request_record;
mod response_body;
mod routes;
mod snapshot;
mod source_log;
mod start;
pub mod state;
pub mod state_page;
mod stop_signal;
mod tasks;
mod tls;
mod tokenizer;
mod truncation_log;
mod uploads;
pub mod watch;
mod write_timeout;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kv_index::Index;
use pointsman::Router;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use self::app_state::AppState;
pub use self::config::{Config, ConfigError};
pub use self::error::{ReloadError, StartError};
pub use self::state::State;

/// A running gateway. Dropping it aborts all responses; [`Self::drain`] is the graceful shutdown.
pub struct Gateway {
    app: Arc<AppState>,
    address: SocketAddr,
    internal_address: Option<SocketAddr>,
    connections: TaskTracker,
}

impl Gateway {
    /// Starts a gateway. When this returns, everything listens and every pod had its first health check.
    ///
    /// # Errors
    ///
    /// When the configuration, the profile, a file that it names or an address is invalid. Nothing runs then.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        start::start(config).await
    }

    /// The address of the clients' listener.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of the internal listener, if there is one.
    #[must_use]
    pub fn internal_address(&self) -> Option<SocketAddr> {
        self.internal_address
    }

    /// The routers, one for each model, in the order of the configuration.
    pub fn routers(&self) -> impl Iterator<Item = &Router> {
        self.app.models.iter().map(|model| &model.router)
    }

    /// The router of the first model, which is the only one in most gateways.
    #[must_use]
    pub fn router(&self) -> &Router {
        &self.app.models[0].router
    }

    /// Its index of cache blocks.
    #[must_use]
    pub fn index(&self) -> &Arc<Index> {
        self.router().index()
    }

    /// The current configuration.
    #[must_use]
    pub fn config(&self) -> Config {
        self.app.config.lock().clone()
    }

    /// Applies another configuration: profile, fleet, limits, timeouts, health checks. Later requests see all of it; streams
    /// continue.
    ///
    /// # Errors
    ///
    /// When it is invalid, or changes what needs a restart; then nothing changes, and the failure is counted.
    pub fn reload(&self, config: Config) -> Result<(), ReloadError> {
        reload::reload(&self.app, config).inspect_err(|_| self.count_reload_failure())
    }

    /// The state, as the admin page shows it. Traces of decisions are recorded for ten seconds from now.
    #[must_use]
    pub fn state(&self) -> State {
        self.app.mark_viewed();
        state::gather(&self.app)
    }

    /// Takes readiness away: `/readyz` and `/health` are 503 from now on, so that balancers send new clients elsewhere. Requests
    /// are served as before, on connections old and new: until balancers have noticed, it is the gateway that they go to. After
    /// `drain_grace` it is time to [drain](Self::drain).
    pub fn withdraw(&self) {
        // Relaxed: a flag that stands for itself.
        self.app.withdrawn.store(true, Ordering::Relaxed);
    }

    /// Graceful shutdown: rejects new requests and lets streams end, up to `timeout`; then nothing is left running.
    ///
    /// From the start `/readyz` is 503 and new requests get a 503 that closes their connection. Bodies that are being read have two
    /// seconds to come in. At the timeout an event stream ends with an error event, and any other response is aborted. A
    /// configured snapshot is written.
    pub async fn drain(self, timeout: Duration) -> Drained {
        let app = &self.app;
        // Relaxed: the signal wakes waiting tasks; requests only need to see it soon.
        app.draining.store(true, Ordering::Relaxed);
        app.winding_down.give();
        let now = tokio::time::Instant::now();
        let deadline = now.checked_add(timeout).unwrap_or(now + FAR_OFF);
        info!(in_flight = *app.in_flight.borrow(), ?timeout, "draining");
        uploads::close(app, deadline).await;
        let mut in_flight = app.in_flight.subscribe();
        let ended = tokio::time::timeout_at(deadline, in_flight.wait_for(|count| *count == 0)).await.is_ok();
        let mut truncated = 0;
        if !ended {
            truncated = *app.in_flight.borrow();
            app.force_closed.give();
            // Not longer: a client may have stopped reading.
            let _ = tokio::time::timeout(LAST_BYTES_TIMEOUT, in_flight.wait_for(|count| *count == 0)).await;
        }
        app.closed.give();
        self.connections.close();
        let _ = tokio::time::timeout(LAST_BYTES_TIMEOUT, self.connections.wait()).await;
        maintenance::write_snapshot(app).await;
        maintenance::write_records(app, true).await;
        app.observers.shutdown().await;
        app.tasks.stop();
        app.tasks.wait().await;
        if truncated > 0 {
            warn!(truncated, "responses were truncated at the drain timeout");
        }
        info!(truncated, "stopped");
        Drained { truncated }
    }

    fn count_reload_failure(&self) {
        // Relaxed: a counter that publishes nothing.
        self.app.reload_failures.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.app.closed.give();
        self.app.tasks.stop();
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, internal_address, .. } = self;
        f.debug_struct("Gateway").field("address", address).field("internal_address", internal_address).finish()
    }
}

/// Result of a drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Responses truncated at the timeout.
    pub truncated: usize,
}

/// A timeout beyond what clocks measure.
const FAR_OFF: Duration = Duration::from_secs(30 * 365 * 86_400);
/// Time for the last bytes to reach clients.
const LAST_BYTES_TIMEOUT: Duration = Duration::from_secs(2);
