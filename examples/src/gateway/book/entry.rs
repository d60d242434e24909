//! A decision and a request under way, as they are kept.

use std::sync::Arc;
use std::time::{Duration, Instant};

use routing_core::{Pod, Trace};

use crate::gateway::serving::Serving;

/// A decision that was made.
#[derive(Clone)]
pub(in crate::gateway) struct Decision {
    /// Given by the book.
    pub(in crate::gateway) key: u64,
    pub(in crate::gateway) id: Arc<str>,
    pub(in crate::gateway) at: Instant,
    pub(in crate::gateway) prompt_tokens: u64,
    pub(in crate::gateway) matched_tokens: u64,
    /// By what it was decided: names are looked up only when somebody wants to see them.
    pub(in crate::gateway) serving: Arc<Serving>,
    /// Each step with the pod that is asked first.
    pub(in crate::gateway) picks: Vec<(Arc<str>, Option<Pod>)>,
    /// The pod that was asked last, once the request is over.
    pub(in crate::gateway) answered_by: Option<Pod>,
    pub(in crate::gateway) trace: Option<Arc<Trace>>,
    pub(in crate::gateway) outcome: Option<String>,
    pub(in crate::gateway) ttft: Option<Duration>,
    pub(in crate::gateway) total: Option<Duration>,
}

impl Decision {
    /// A decision whose request has yet to be carried out.
    pub(in crate::gateway) fn new(id: Arc<str>, at: Instant, serving: Arc<Serving>) -> Self {
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
pub(in crate::gateway) struct Flow {
    pub(in crate::gateway) id: Arc<str>,
    pub(in crate::gateway) began: Instant,
    pub(in crate::gateway) pod: Option<Pod>,
    pub(in crate::gateway) stage: Stage,
    pub(in crate::gateway) ttft: Option<Duration>,
}

impl Flow {
    pub(super) fn new(id: Arc<str>, began: Instant) -> Self {
        Self { id, began, pod: None, stage: Stage::Prefill, ttft: None }
    }
}

/// How far a request has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Stage {
    /// A pod computes the prompt.
    Prefill,
    /// A pod goes on with what another one computed.
    Decode,
    /// The client is answered.
    Streaming,
}

impl Stage {
    pub(in crate::gateway) fn name(self) -> &'static str {
        match self {
            Self::Prefill => "prefill",
            Self::Decode => "decode",
            Self::Streaming => "streaming",
        }
    }
}
