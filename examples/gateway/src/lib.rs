//! LLM gateway on the Pointsman crates: OpenAI's HTTP API in front, engine pods behind.
//!
//! ```text
//!  client ─▶ listener ─▶ handler: parsed_request ─▶ routing_request ─▶ live_config (decide) ─▶ host + executor ─▶ response_body ─▶ client
//!                                                                     ▲                      │
//!  gateway.yaml ─▶ watch ─▶ reload ───────────────────────────────────┤                      ▼
//!  pods ─▶ health, scrape ─▶ pod_registry ────────────────────────────┘                 request_log ─▶ state, metrics, explain
//!  cache events ─▶ event_sources (zmq, nats, grpc, http) ─▶ index ─▶ snapshot
//! ```
//!
//! | files | concept |
//! |---|---|
//! | [`config`] | configuration file: schema, defaults, validation |
//! | `live_config`, `pod_registry`, `reload`, [`watch`] | atomic reload of profile, fleet and limits |
//! | `listener`, `tls`, `write_timeout`, `routes` | connections and routes |
//! | `handler`, `parsed_request`, `routing_request`, `host`, `prefetched`, `response_body`, `error_response` | the way of a request |
//! | `health`, `scrape` | active health checks, engine load |
//! | [`event_sources`], `snapshot` | what feeds the index |
//! | `cache_audit`, `decision_log` | cached tokens expected against reported, with causes |
//! | `request_log`, [`state`], `metrics`, `explain`, [`admin_page`] | observability |
//! | `start`, `app_state`, `tasks`, `maintenance` | startup, shared state, tasks |
//!
//! Invariants: a request sees one version of everything; a reload takes effect whole or not at all; after
//! [`Gateway::drain`], or when a [`Gateway`] is dropped, no task and no socket of it is left.

#![forbid(unsafe_code)]

pub mod admin_page;
mod app_state;
mod cache_audit;
pub mod config;
mod decision_log;
mod error;
mod error_response;
pub mod event_sources;
mod explain;
mod handler;
mod health;
mod host;
mod listener;
mod live_config;
mod maintenance;
mod metrics;
mod parsed_request;
mod pod_registry;
mod prefetched;
mod reload;
mod request_log;
mod response_body;
mod routes;
mod routing_request;
mod scrape;
mod snapshot;
mod start;
pub mod state;
mod tasks;
mod tls;
mod tokenizer;
pub mod watch;
mod workflow;
mod write_timeout;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kv_index::Index;
use routing_plugins::PluginState;
use tokio_util::task::TaskTracker;

use self::app_state::AppState;
pub use self::config::{Config, ConfigError};
pub use self::error::{ProfileError, ReloadError, StartError};
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

    /// The index of cache blocks.
    #[must_use]
    pub fn index(&self) -> &Arc<Index> {
        &self.app.plugin_state.index
    }

    /// State shared with plugins: load, circuit breakers, sessions.
    #[must_use]
    pub fn plugin_state(&self) -> &PluginState {
        &self.app.plugin_state
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

    /// Graceful shutdown: rejects new requests and lets streams end, up to `timeout`; then nothing is left running.
    ///
    /// From the start `/health` is 503 and new requests get a 503 that closes their connection. At the timeout an event stream
    /// ends with an error event, and any other response is aborted. A configured snapshot is written.
    pub async fn drain(self, timeout: Duration) -> Drained {
        let app = &self.app;
        // Relaxed: the token wakes waiting tasks; requests only need to see it soon.
        app.draining.store(true, Ordering::Relaxed);
        app.winding_down.cancel();
        let mut in_flight = app.in_flight.subscribe();
        let ended = tokio::time::timeout(timeout, in_flight.wait_for(|count| *count == 0)).await.is_ok();
        let mut truncated = 0;
        if !ended {
            truncated = *app.in_flight.borrow();
            app.force_closed.cancel();
            // Not longer: a client may have stopped reading.
            let _ = tokio::time::timeout(LAST_BYTES_TIMEOUT, in_flight.wait_for(|count| *count == 0)).await;
        }
        app.closed.cancel();
        self.connections.close();
        let _ = tokio::time::timeout(LAST_BYTES_TIMEOUT, self.connections.wait()).await;
        maintenance::write_snapshot(app).await;
        maintenance::write_decisions(app, true).await;
        app.tasks.stop();
        app.tasks.wait().await;
        Drained { truncated }
    }

    fn count_reload_failure(&self) {
        // Relaxed: a counter that publishes nothing.
        self.app.reload_failures.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.app.closed.cancel();
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

/// Time for the last bytes to reach clients.
const LAST_BYTES_TIMEOUT: Duration = Duration::from_secs(2);
