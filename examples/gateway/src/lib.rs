//! A gateway: HTTP in front, pods behind, profile and fleet from a file.
//!
//! ```text
//!  client ──▶ serve ──▶ complete: asked → wanted → serving (decide) → host + driver (carry out) → passing ──▶ client
//!                                                    ▲                     │
//!  file ──▶ watch ──▶ reload ────────────────────────┤                     ▼
//!  pods ──▶ health, scrape ──────────────────────────┘                   book ──▶ state, metrics, explain
//!  events ──▶ sources ──▶ the index ──▶ snapshot
//! ```
//!
//! | file | idea |
//! |---|---|
//! | [`config`] | what an operator writes, checked whole |
//! | `serving`, `roster`, `reload` | one version of profile, fleet and limits, swapped at once |
//! | `complete`, `asked`, `wanted`, `host`, `passing` | one request from its bytes to its answer |
//! | `serve`, `tls`, `taking`, `routes`, `answer` | listeners, connections, paths, errors |
//! | `health`, `scrape` | how pods are |
//! | `sources`, [`source`], `snapshot` | where the index comes from |
//! | `book`, [`state`], `metrics`, [`explain`], [`page`] | what happened and why |
//! | [`watch`] | the file that changes |
//!
//! Rules that hold whatever happens: a request sees one version of everything; a reload takes effect whole or not at all;
//! after [`Gateway::drain`], or when a [`Gateway`] is dropped, no task and no socket of it is left.

#![forbid(unsafe_code)]

mod answer;
mod asked;
mod book;
mod complete;
pub mod config;
mod error;
pub mod explain;
mod health;
mod host;
mod keep;
mod metrics;
pub mod page;
mod passing;
mod reload;
mod roster;
mod routes;
mod scrape;
mod serve;
mod serving;
mod shared;
mod snapshot;
pub mod source;
mod sources;
mod start;
pub mod state;
mod taking;
mod tasks;
mod tls;
mod tokens;
mod wanted;
pub mod watch;
mod workflow;

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kv_index::Index;
use routing_plugins::PluginState;
use tokio_util::task::TaskTracker;

pub use self::config::{Config, ConfigError};
pub use self::error::{ProfileError, ReloadError, StartError};
use self::shared::Shared;
pub use self::state::State;

/// A gateway that runs. Dropped, it stops at once, and answers under way break off; [`Self::drain`] is the kind way.
pub struct Gateway {
    shared: Arc<Shared>,
    address: SocketAddr,
    internal_address: Option<SocketAddr>,
    connections: TaskTracker,
}

impl Gateway {
    /// Starts a gateway: everything listens, and every pod was asked once how it is, when this returns.
    ///
    /// # Errors
    ///
    /// When the configuration, the profile, a file that it names or an address cannot be used. Nothing runs then.
    pub async fn start(config: Config) -> Result<Self, StartError> {
        start::start(config).await
    }

    /// Where clients are served.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the internal endpoints are, if they have an address of their own.
    #[must_use]
    pub fn internal_address(&self) -> Option<SocketAddr> {
        self.internal_address
    }

    /// Which pods hold which blocks.
    #[must_use]
    pub fn index(&self) -> &Arc<Index> {
        &self.shared.plugin_state.index
    }

    /// What plugins share with the gateway: load, circuits, sessions.
    #[must_use]
    pub fn plugin_state(&self) -> &PluginState {
        &self.shared.plugin_state
    }

    /// The configuration in force.
    #[must_use]
    pub fn config(&self) -> Config {
        self.shared.config.lock().clone()
    }

    /// Takes another configuration: profile, fleet, limits, patience, health. Requests that come from now on see all of it;
    /// streams go on.
    ///
    /// # Errors
    ///
    /// When it cannot be served, or changes what is fixed at the start; then nothing changes, and it is counted.
    pub fn reload(&self, config: Config) -> Result<(), ReloadError> {
        reload::reload(&self.shared, config).inspect_err(|_| self.count_bad_reload())
    }

    /// What the gateway is at, as its page shows it. Who asks is taken to look: reasons of decisions are kept for a while.
    #[must_use]
    pub fn state(&self) -> State {
        self.shared.look();
        state::gather(&self.shared)
    }

    /// Stops: takes nothing new, lets streams end, but for no longer than `most`; then nothing is left running.
    ///
    /// From the first moment `/health` says 503 and new requests get a 503 that closes their connection. What is under way
    /// after `most` is cut: a stream ends with an error event, any other answer breaks off. A configured snapshot is written.
    pub async fn drain(self, most: Duration) -> Drained {
        let shared = &self.shared;
        // Relaxed: the tokens wake whoever waits; requests only need to see it soon.
        shared.draining.store(true, Ordering::Relaxed);
        shared.winding_down.cancel();
        let mut under_way = shared.in_flight.subscribe();
        let ended = tokio::time::timeout(most, under_way.wait_for(|count| *count == 0)).await.is_ok();
        let mut cut = 0;
        if !ended {
            cut = *shared.in_flight.borrow();
            shared.cut.cancel();
            // A client that does not read has had its chance.
            let _ = tokio::time::timeout(LAST_WORDS, under_way.wait_for(|count| *count == 0)).await;
        }
        shared.closed.cancel();
        self.connections.close();
        let _ = tokio::time::timeout(LAST_WORDS, self.connections.wait()).await;
        keep::keep_now(shared).await;
        shared.tasks.stop();
        shared.tasks.wait().await;
        Drained { cut }
    }

    fn count_bad_reload(&self) {
        // Relaxed: a count that publishes nothing.
        self.shared.bad_reloads.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.shared.closed.cancel();
        self.shared.tasks.stop();
    }
}

impl fmt::Debug for Gateway {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { address, internal_address, .. } = self;
        f.debug_struct("Gateway").field("address", address).field("internal_address", internal_address).finish()
    }
}

/// How a drain went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained {
    /// Answers that were cut, because they took too long.
    pub cut: usize,
}

/// How long the last bytes may take to reach their clients.
const LAST_WORDS: Duration = Duration::from_secs(2);
