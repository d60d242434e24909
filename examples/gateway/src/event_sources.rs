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
use std::error::Error;
use std::sync::Arc;

use kv_index::{Pod, PodRetired};
use pointsman::Router;
use pointsman::zmq::{Subscriber, SubscriberStatus};
use tokio_util::sync::CancellationToken;

use super::app_state::AppState;
use super::config::{Config, EventSourceSettings, Events, PodSettings, ZmqEndpoints};
use super::error::StartError;
use pointsman_example_common::bearer_token::Token;
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
    status: PodStatus,
}

/// Where a source's status is read.
#[derive(Debug)]
enum PodStatus {
    Zmq(SubscriberStatus),
    Other(Arc<SourceStatus>),
    /// They could not be followed: with the next configuration it is tried again.
    Failed(Arc<SourceStatus>),
}

impl EventSources {
    /// Starts the fleet-wide transports, a stream from the restored position. They are in no lock's shadow: whoever holds the
    /// configuration may wait for the sources, and never the other way round.
    ///
    /// # Errors
    ///
    /// When a transport needs a feature that is not compiled in, or its address cannot be bound.
    #[cfg_attr(not(any(feature = "nats", feature = "grpc")), expect(unused_variables, reason = "none is compiled in"))]
    pub(super) fn start_fleet_wide(
        &mut self,
        app: &Arc<AppState>,
        FleetWide { settings, token, position }: FleetWide<'_>,
    ) -> Result<(), StartError> {
        self.restored_position = position;
        if let Some(settings) = &settings.nats {
            #[cfg(feature = "nats")]
            self.nats.replace(nats::start(app, settings, position));
            #[cfg(not(feature = "nats"))]
            return Err(not_compiled("sources.nats", "nats", settings));
        }
        if let Some(settings) = &settings.grpc {
            #[cfg(feature = "grpc")]
            grpc::start(app, settings, token.unwrap_or_default())?;
            #[cfg(not(feature = "grpc"))]
            return Err(not_compiled("sources.grpc", "grpc", (settings, token)));
        }
        Ok(())
    }

    /// Starts the sources of new pods; stops those of pods that were removed or have another source now.
    pub(super) fn follow(&mut self, app: &Arc<AppState>, config: &Config) {
        let served = config.served();
        // Routers have their pods in the order of the configuration.
        let pods = app.models.iter().zip(&served).flat_map(|(model, served)| {
            let handles = model.router.pods().into_iter().map(|entry| entry.pod);
            handles.zip(served.pods).map(|(pod, settings)| Configured { router: &model.router, pod, settings })
        });
        let pods: Vec<Configured<'_>> = pods.collect();
        self.pods.retain(|name, running| {
            let kept = pods.iter().any(|Configured { pod, settings, .. }| {
                settings.name == *name && *pod == running.pod && settings.events == running.events
            });
            let kept = kept && !matches!(running.status, PodStatus::Failed(_));
            if !kept {
                running.stop.cancel();
            }
            kept
        });
        for configured in &pods {
            let Configured { router, pod, settings } = configured;
            if self.pods.contains_key(&settings.name) {
                continue;
            }
            let events = settings.events.clone();
            let stop = app.tasks.token();
            let other = Arc::new(SourceStatus::new(events.name()));
            let status = match &events {
                Events::Zmq(endpoints) => match subscribe_zmq(app, router, *pod, endpoints, &stop) {
                    Ok(status) => PodStatus::Zmq(status),
                    Err(error) => {
                        tracing::warn!(pod = settings.name, %error, "a pod's events are not followed");
                        PodStatus::Failed(other)
                    }
                },
                // Reporters of all transports meet in the ingest.
                Events::Pushed => PodStatus::Other(other),
                Events::None => {
                    other.set(SourceState::Off);
                    PodStatus::Other(other)
                }
            };
            self.pods.insert(settings.name.clone(), PodSource { pod: *pod, events, stop, status });
        }
        let pushed = pods.iter().filter(|configured| configured.settings.events == Events::Pushed);
        let pushed = pushed.filter_map(|Configured { router, pod, settings }| {
            let PodStatus::Other(status) = &self.pods.get(&settings.name)?.status else { return None };
            let observer = Some(router.cache_audit().change_log(*pod) as _);
            Some((settings.name.clone(), PushedPod { status: Arc::clone(status), observer }))
        });
        app.ingest.accept_only(pushed.collect());
    }

    /// Status and counters of a pod's source.
    pub(super) fn view(&self, name: &str) -> SourceView {
        match self.pods.get(name).map(|source| &source.status) {
            Some(PodStatus::Zmq(status)) => zmq::view(status),
            Some(PodStatus::Other(status) | PodStatus::Failed(status)) => status.view(),
            None => SourceView::default(),
        }
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

/// What fleet-wide sources are started with.
pub(super) struct FleetWide<'s> {
    pub(super) settings: &'s EventSourceSettings,
    /// Of reporters.
    pub(super) token: Option<&'s str>,
    /// Of the stream, in the snapshot that was restored.
    pub(super) position: Option<u64>,
}

/// A pod of the configuration, with its router.
struct Configured<'c> {
    router: &'c Router,
    pod: Pod,
    settings: &'c PodSettings,
}

fn subscribe_zmq(
    app: &Arc<AppState>,
    router: &Router,
    pod: Pod,
    endpoints: &ZmqEndpoints,
    stop: &CancellationToken,
) -> Result<SubscriberStatus, Box<dyn Error>> {
    let config = zmq::subscriber_config(endpoints, router.feed_config(pod)?)?;
    let subscriber = Subscriber::new(Arc::clone(router.index()), pod, config)?;
    let (status, stop) = (subscriber.status(), stop.clone());
    app.tasks.spawn(async move {
        tokio::select! {
            () = stop.cancelled() => {}
            PodRetired(_) = subscriber.run() => {}
        }
    });
    Ok(status)
}

/// The endpoints that reporters push to. All of them need the token.
pub(super) fn push_routes(ingest: &Arc<EventIngest>, token: &str) -> axum::Router {
    http::routes(Arc::clone(ingest), http::BodyLimits::default(), Token::new(token))
}

#[cfg(not(all(feature = "nats", feature = "grpc")))]
fn not_compiled<T>(setting: &'static str, feature: &'static str, _unused: T) -> StartError {
    StartError::Feature { setting, feature }
}
