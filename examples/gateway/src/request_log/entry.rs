//! Entries of the request log: decisions and requests in flight.

use std::sync::Arc;
use std::time::{Duration, Instant};

use routing_core::{Fleet, Pod, Trace};

use pointsman::Audited;

/// A routing decision.
#[derive(Clone)]
pub(crate) struct Decision {
    /// Assigned by the log.
    pub(crate) key: u64,
    pub(crate) id: Arc<str>,
    pub(crate) at: Instant,
    pub(crate) prompt_tokens: u64,
    pub(crate) expected_tokens: u64,
    pub(crate) model: Arc<str>,
    pub(crate) profile: Arc<str>,
    /// The version it was decided on: names are resolved only for display.
    pub(crate) fleet: Arc<Fleet>,
    /// Each step with its first candidate.
    pub(crate) picks: Vec<(Arc<str>, Option<Pod>)>,
    pub(crate) trace: Option<Arc<Trace>>,
    /// How the request ended, once it has.
    pub(crate) ended: Option<Ended>,
    /// Cached tokens, expected and reported.
    pub(crate) audited: Option<Audited>,
}

/// How a request ended.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) id: Arc<str>,
    pub(crate) outcome: String,
    /// The last pod.
    pub(crate) pod: Option<Arc<str>>,
    pub(crate) ttft: Option<Duration>,
    pub(crate) total: Duration,
}

impl Decision {
    /// A decision before dispatch.
    pub(crate) fn new(id: Arc<str>, at: Instant, model: &str, profile: Arc<str>, fleet: Arc<Fleet>) -> Self {
        Self {
            key: 0,
            id,
            at,
            prompt_tokens: 0,
            expected_tokens: 0,
            model: model.into(),
            profile,
            fleet,
            picks: Vec::new(),
            trace: None,
            ended: None,
            audited: None,
        }
    }
}

/// A request in flight.
#[derive(Clone, Debug)]
pub(crate) struct ActiveRequest {
    pub(crate) id: Arc<str>,
    pub(crate) began: Instant,
    pub(crate) pod: Option<Arc<str>>,
    pub(crate) stage: Stage,
    pub(crate) ttft: Option<Duration>,
}

impl ActiveRequest {
    pub(super) fn new(id: Arc<str>, began: Instant) -> Self {
        Self { id, began, pod: None, stage: Stage::Prefill, ttft: None }
    }
}

/// Stage of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A pod computes the prompt.
    Prefill,
    /// A pod continues after another's prefill.
    Decode,
    /// The response is streamed.
    Streaming,
}

impl Stage {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Streaming => "streaming",
        }
    }
}
