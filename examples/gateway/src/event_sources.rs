//! Event transports: the table of what feeds the index (ZeroMQ, NATS, gRPC, HTTP), and the tasks that run for it.
//!
//! A transport is a row here, a file below, and its settings in `config/events.rs`. Per-pod sources follow the fleet over
//! reloads; fleet-wide ones run from start to stop. A source is a task that ends with its token. The rule: a source never
//! reports `live` while it knows that something is missing.

#[cfg(feature = "grpc")]
pub mod grpc;
pub mod http;
#[cfg(feature = "nats")]
pub mod nats;
pub mod zmq;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use kv_index::engine::EngineFeedConfig;
use kv_index::{BlockSize, ChainSeed, Pod};
use tokio_util::sync::CancellationToken;

use super::app_state::AppState;
use super::config::{Events, ZmqEndpoints};
use super::error::StartError;
use super::pod_registry::PodRegistry;
use pointsman_reporter::event_ingest::{EventIngest, PushedPod};
use pointsman_reporter::source_status::{SourceState, SourceStatus, SourceView};

/// The running sources.
#[derive(Debug, Default)]
pub(super) struct EventSources {
    pods: BTreeMap<String, PodSource>,
    /// The stream position of the restored snapshot.
    restored_position: Option<u64>,
    #[cfg(feature = "nats")]
    nats: Option<Arc<nats::StreamPosition>>,
}

#[derive(Debug)]
struct PodSource {
    pod: Pod,
    events: Events,
    stop: CancellationToken,
    status: Arc<SourceStatus>,
}

impl EventSources {
    /// Starts the fleet-wide transports, a stream from the restored `position`. Reporters authenticate with `token`.
    ///
    /// # Errors
    ///
    /// When a transport needs a feature that is not compiled in, or its address cannot be bound.
    pub(super) fn start_fleet_wide(
        &mut self,
        app: &Arc<AppState>,
        token: Option<&str>,
        position: Option<u64>,
    ) -> Result<(), StartError> {
        self.restored_position = position;
        let sources = app.config.lock().event_sources.clone();
        if let Some(settings) = &sources.nats {
            #[cfg(feature = "nats")]
            self.nats.replace(nats::start(app, settings, position));
            #[cfg(not(feature = "nats"))]
            return Err(not_compiled("sources.nats", "nats", settings));
        }
        if let Some(settings) = &sources.grpc {
            #[cfg(feature = "grpc")]
            grpc::start(app, settings, token.unwrap_or_default())?;
            #[cfg(not(feature = "grpc"))]
            return Err(not_compiled("sources.grpc", "grpc", (settings, token)));
        }
        Ok(())
    }

    /// Starts the sources of new pods; stops those of pods that were removed or have another source now.
    pub(super) fn follow(&mut self, app: &Arc<AppState>, registry: &PodRegistry) {
        self.pods.retain(|name, running| {
            let kept = registry.pods.iter().any(|entry| {
                entry.settings.name == *name && entry.pod == running.pod && entry.settings.events == running.events
            });
            if !kept {
                running.stop.cancel();
            }
            kept
        });
        app.cache_audit.retain(|pod| registry.pods.iter().any(|entry| entry.pod == pod));
        for entry in &registry.pods {
            if self.pods.contains_key(&entry.settings.name) {
                continue;
            }
            let events = entry.settings.events.clone();
            let (stop, status) = (app.tasks.token(), Arc::new(SourceStatus::new(events.name())));
            match &events {
                Events::Zmq(endpoints) => subscribe_zmq(app, entry.pod, endpoints, &status, &stop),
                // Reporters of all transports meet in the ingest.
                Events::Pushed => {}
                Events::None => status.set(SourceState::Off),
            }
            self.pods.insert(entry.settings.name.clone(), PodSource { pod: entry.pod, events, stop, status });
        }
        let pushed = self.pods.iter().filter(|(_, source)| source.events == Events::Pushed);
        let pushed = pushed.map(|(name, source)| {
            let observer = Some(app.cache_audit.change_log(source.pod) as _);
            (name.clone(), PushedPod { status: Arc::clone(&source.status), observer })
        });
        app.ingest.accept_only(pushed.collect());
    }

    /// Status and counters of a pod's source.
    pub(super) fn view(&self, name: &str) -> SourceView {
        self.pods.get(name).map(|source| source.status.view()).unwrap_or_default()
    }

    /// The position of the fleet-wide stream, for a snapshot. Read before the index is.
    pub(super) fn position(&self) -> Option<u64> {
        #[cfg(feature = "nats")]
        if let Some(nats) = &self.nats {
            return Some(nats.position());
        }
        self.restored_position
    }
}

fn subscribe_zmq(
    app: &Arc<AppState>,
    pod: Pod,
    endpoints: &ZmqEndpoints,
    status: &Arc<SourceStatus>,
    stop: &CancellationToken,
) {
    let size = BlockSize::new(app.model.block_size.get()).expect("a block size is not zero");
    let mut feed = match &app.model.hashing {
        Some(_) => EngineFeedConfig::engine_hashes(size),
        None => EngineFeedConfig::tokens(ChainSeed::new(&app.model.name), size),
    };
    feed.observer = Some(app.cache_audit.change_log(pod));
    let subscriber = zmq::Subscriber {
        index: Arc::clone(&app.plugin_state.index),
        pod,
        feed,
        endpoints: endpoints.clone(),
        status: Arc::clone(status),
        timing: zmq::Timing::default(),
    };
    app.tasks.spawn_closing(subscriber.run(stop.clone()));
}

/// The endpoints that reporters push to. All of them need the token.
pub(super) fn push_routes(ingest: &Arc<EventIngest>, token: &str) -> Router {
    http::routes(Arc::clone(ingest), http::BodyLimits::default(), http::Token::new(token))
}

#[cfg(not(all(feature = "nats", feature = "grpc")))]
fn not_compiled<T>(setting: &'static str, feature: &'static str, _unused: T) -> StartError {
    StartError::Feature { setting, feature }
}
