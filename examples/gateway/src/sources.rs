//! Event sources: started as a configuration asks for them, stopped when a reload removes them.
//!
//! The only file that knows which sources there are. A source is a task that ends with its token; what it has to tell of
//! itself is read here for pages and metrics.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use kv_index::engine::EngineFeedConfig;
use kv_index::{BlockSize, ChainSeed, Pod};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::config::{Events, GrpcSource, NatsSource, ZmqEndpoints};
use super::error::StartError;
use super::page;
use super::roster::Roster;
use super::shared::Shared;
use super::source::{push, zmq};
use pointsman_reporter::event_ingest::EventIngest;
use pointsman_reporter::source_status::{SourceState, SourceStatus};

/// How a pod's events come in.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct EventFigures {
    /// `zmq`, `pushed` or `none`.
    pub source: String,
    /// What it is at: `connecting`, `live`, `replaying`, `lost`; `off` if there is none.
    pub state: String,
    /// Batches taken.
    pub batches: u64,
    /// Times that something was missing.
    pub gaps: u64,
    /// Batches that never came.
    pub lost: u64,
    /// Seconds since the last one; none before the first.
    pub age_s: Option<f64>,
}

/// The sources that run.
#[derive(Debug, Default)]
pub(super) struct SourceTasks {
    pods: BTreeMap<String, PodSource>,
    /// How far the fleet's source had come when the index was last kept.
    resumed_at: Option<u64>,
    #[cfg(feature = "nats")]
    nats: Option<Arc<super::source::nats::Position>>,
}

#[derive(Debug)]
struct PodSource {
    pod: Pod,
    events: Events,
    stop: CancellationToken,
    status: Arc<SourceStatus>,
}

impl SourceTasks {
    /// Starts what serves the whole fleet, from where an earlier life had come. Reporters bring `token` along.
    ///
    /// # Errors
    ///
    /// When a source needs a feature that is not there, or cannot listen.
    pub(super) fn start_fleet(
        &mut self,
        shared: &Arc<Shared>,
        token: Option<&str>,
        position: Option<u64>,
    ) -> Result<(), StartError> {
        self.resumed_at = position;
        let sources = shared.config.lock().sources.clone();
        if let Some(nats) = &sources.nats {
            self.start_nats(shared, nats)?;
        }
        if let Some(grpc) = &sources.grpc {
            start_grpc(shared, grpc, token.unwrap_or_default())?;
        }
        Ok(())
    }

    #[cfg(feature = "nats")]
    fn start_nats(&mut self, shared: &Arc<Shared>, nats: &NatsSource) -> Result<(), StartError> {
        use super::source::nats::{NatsConfig, Position, Start, follow};
        let position = Arc::new(Position::default());
        let config = NatsConfig::new(&nats.url, &nats.stream, &nats.subject);
        let from = self.resumed_at.map_or(Start::First, Start::After);
        let (inbox, stop) = (Arc::clone(&shared.inbox), shared.tasks.token());
        shared.tasks.spawn_closing(follow(inbox, config, from, Arc::clone(&position), stop));
        self.nats = Some(position);
        Ok(())
    }

    #[cfg(not(feature = "nats"))]
    fn start_nats(&mut self, _: &Arc<Shared>, _: &NatsSource) -> Result<(), StartError> {
        Err(StartError::Feature { setting: "sources.nats", feature: "nats" })
    }

    /// Starts the sources of new pods, and stops those of pods that are gone or have others now.
    pub(super) fn follow(&mut self, shared: &Arc<Shared>, roster: &Roster) {
        self.pods.retain(|name, running| {
            let kept = roster.members.iter().any(|member| {
                member.settings.name == *name && member.pod == running.pod && member.settings.events == running.events
            });
            if !kept {
                running.stop.cancel();
            }
            kept
        });
        for member in &roster.members {
            if self.pods.contains_key(&member.settings.name) {
                continue;
            }
            let events = member.settings.events.clone();
            let (stop, status) = (shared.tasks.token(), Arc::new(SourceStatus::new(events.name())));
            if let Events::Zmq(endpoints) = &events {
                follow_zmq(shared, member.pod, endpoints, Arc::clone(&status), stop.clone());
            }
            self.pods.insert(member.settings.name.clone(), PodSource { pod: member.pod, events, stop, status });
        }
        let pushed = self.pods.iter().filter(|(_, source)| source.events == Events::Pushed);
        shared.inbox.only(pushed.map(|(name, source)| (name.clone(), Arc::clone(&source.status))).collect());
    }

    /// How a pod's events come in.
    pub(super) fn figures(&self, name: &str) -> EventFigures {
        let Some(PodSource { events, status, .. }) = self.pods.get(name) else { return EventFigures::default() };
        let view = status.view();
        let state = match view.state {
            _ if *events == Events::None => "off",
            SourceState::Connecting => "connecting",
            SourceState::Live => "live",
            SourceState::Replaying => "replaying",
            SourceState::Lost => "lost",
        };
        EventFigures {
            source: view.source.to_owned(),
            state: state.to_owned(),
            batches: view.batches,
            gaps: view.gaps,
            lost: view.lost,
            age_s: view.age_s,
        }
    }

    /// How far the fleet's source has come, for whoever keeps the index. Asked before the index is read.
    pub(super) fn position(&self) -> Option<u64> {
        #[cfg(feature = "nats")]
        if let Some(nats) = &self.nats {
            return Some(nats.position());
        }
        self.resumed_at
    }
}

fn follow_zmq(
    shared: &Arc<Shared>,
    pod: Pod,
    endpoints: &ZmqEndpoints,
    status: Arc<SourceStatus>,
    stop: CancellationToken,
) {
    let ZmqEndpoints { events, replay, topic, .. } = endpoints.clone();
    let size = BlockSize::new(shared.model.block_size.get()).expect("a block size is not zero");
    let feed = EngineFeedConfig::tokens(ChainSeed::new(&shared.model.name), size);
    let (index, endpoints) = (Arc::clone(&shared.plugin_state.index), zmq::Endpoints { events, replay, topic });
    shared.tasks.spawn_closing(zmq::follow(index, pod, feed, endpoints, status, stop));
}

#[cfg(feature = "grpc")]
fn start_grpc(shared: &Arc<Shared>, grpc: &GrpcSource, token: &str) -> Result<(), StartError> {
    let wrong = |error: std::io::Error| StartError::Listen { address: grpc.listen, kind: error.kind() };
    let listener = std::net::TcpListener::bind(grpc.listen).map_err(wrong)?;
    listener.set_nonblocking(true).map_err(wrong)?;
    let listener = tokio::net::TcpListener::from_std(listener).map_err(wrong)?;
    let (inbox, token, stop) = (Arc::clone(&shared.inbox), push::Token::new(token), shared.tasks.token());
    shared.tasks.spawn_closing(async move {
        // A peer that never says a word would be waited for without end.
        let patience = async {
            stop.cancelled().await;
            tokio::time::sleep(super::LAST_WORDS).await;
        };
        tokio::select! {
            () = patience => {}
            served = super::source::grpc::serve(inbox, listener, token, stop.clone()) => {
                if let Err(error) = served {
                    eprintln!("reports by gRPC have ended: {error}");
                }
            }
        }
    });
    Ok(())
}

#[cfg(not(feature = "grpc"))]
fn start_grpc(_: &Arc<Shared>, _: &GrpcSource, _: &str) -> Result<(), StartError> {
    Err(StartError::Feature { setting: "sources.grpc", feature: "grpc" })
}

/// The endpoints that reporters push to. Every one of them wants the token.
pub(super) fn routes(inbox: &Arc<EventIngest>, token: &str) -> Router {
    push::routes(Arc::clone(inbox), push::Limits::default(), push::Token::new(token))
}

/// The page for people.
pub(super) fn page() -> Router {
    page::routes()
}
