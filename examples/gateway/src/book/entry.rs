//! A decision and a request under way, as they are kept.

use std::sync::Arc;
use std::time::{Duration, Instant};

use routing_core::{Pod, Trace};

use crate::serving::Serving;

/// A decision that was made.
#[derive(Clone)]
pub(crate) struct Decision {
    /// Given by the book.
    pub(crate) key: u64,
    pub(crate) id: Arc<str>,
    pub(crate) at: Instant,
    pub(crate) prompt_tokens: u64,
    pub(crate) matched_tokens: u64,
    /// By what it was decided: names are looked up only when somebody wants to see them.
    pub(crate) serving: Arc<Serving>,
    /// Each step with the pod that is asked first.
    pub(crate) picks: Vec<(Arc<str>, Option<Pod>)>,
    /// The pod that was asked last, once the request is over.
    pub(crate) answered_by: Option<Pod>,
    pub(crate) trace: Option<Arc<Trace>>,
    pub(crate) outcome: Option<String>,
    pub(crate) ttft: Option<Duration>,
    pub(crate) total: Option<Duration>,
}

impl Decision {
    /// A decision whose request has yet to be carried out.
    pub(crate) fn new(id: Arc<str>, at: Instant, serving: Arc<Serving>) -> Self {
        Self {
            key: 0,
            id,
            at,
            prompt_tokens: 0,
            matched_tokens: 0,
            serving,
            picks: Vec::new(),
            answered_by: None,
            trace: None,
            outcome: None,
            ttft: None,
            total: None,
        }
    }
}

/// A request under way.
#[derive(Clone, Debug)]
pub(crate) struct Flow {
    pub(crate) id: Arc<str>,
    pub(crate) began: Instant,
    pub(crate) pod: Option<Pod>,
    pub(crate) stage: Stage,
    pub(crate) ttft: Option<Duration>,
}

impl Flow {
    pub(super) fn new(id: Arc<str>, began: Instant) -> Self {
        Self { id, began, pod: None, stage: Stage::Prefill, ttft: None }
    }
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// A pod computes the prompt.
    Prefill,
    /// A pod goes on with what another one computed.
    Decode,
    /// The client is answered.
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
