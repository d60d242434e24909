//! ZeroMQ event source: the settings of one engine's sockets as [`pointsman::zmq`] takes them, and its status as the gateway shows it.

use std::time::Instant;

use kv_index::EventSemantics;
use kv_index::engine::{EngineFeedConfig, FollowerConfig, FollowerState};
use pointsman::zmq::{EndpointError, SubscriberConfig, SubscriberStatus};
use pointsman_reporter::source_status::{SourceState, SourceView};

use crate::config::{Removals, ZmqEndpoints};

/// How an engine is subscribed to. What evictions count follows from its settings.
///
/// # Errors
///
/// When an endpoint cannot be connected to. A checked configuration has none of those.
pub fn subscriber_config(
    endpoints: &ZmqEndpoints,
    mut feed: EngineFeedConfig,
) -> Result<SubscriberConfig, EndpointError> {
    feed.semantics = match endpoints.removals {
        Removals::LastCopy => EventSemantics::Membership,
        _ => EventSemantics::Copies,
    };
    let mut config = SubscriberConfig::new(endpoints.events.parse()?, FollowerConfig::new(feed));
    config.replay = endpoints.replay.as_deref().map(str::parse).transpose()?;
    config.topic = endpoints.topic.as_str().into();
    Ok(config)
}

/// Status and counters for metrics and the admin page.
#[must_use]
pub fn view(status: &SubscriberStatus) -> SourceView {
    let status = status.get();
    let mut view = SourceView::default();
    view.source = "zmq";
    view.state = match status.state {
        FollowerState::Connecting => SourceState::Connecting,
        FollowerState::Live => SourceState::Live,
        FollowerState::Replaying => SourceState::Replaying,
        FollowerState::Lost => SourceState::Lost,
    };
    (view.batches, view.gaps, view.replays) = (status.batches, status.gaps, status.replays);
    (view.lost, view.duplicates, view.errors) = (status.lost, status.duplicates, status.errors);
    (view.stale, view.foreign, view.restarts, view.dropped) =
        (status.stale, status.foreign, status.restarts, status.dropped);
    view.age_s = status.last_batch.map(|last| Instant::now().saturating_duration_since(last).as_secs_f64());
    view
}
