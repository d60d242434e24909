//! Handoff errors, and reasons why a handoff is dropped.

use json_edit::JsonError;
use routing_core::Pod;

use super::api::Api;

/// Why a leg cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HandoffError {
    /// The client's body is no JSON object, as strictly read here. The client can act.
    #[error("the request's body is not a JSON object")]
    Body(#[source] JsonError),
    /// Nothing is known of how requests of this API limit their output, so none can be prefilled. The operator can act, by
    /// a workflow without prefill for these.
    #[error("requests to {0:?} cannot be handed over")]
    Api(Api),
    /// The leg's pod is to encode, and the dialect has no request for it. The operator can act; [`check_roles`](super::check_roles)
    /// tells before anything is sent.
    #[error("an encode pod cannot be sent a whole completion")]
    Encode,
    /// The leg names no pod. The host can act.
    #[error("the leg has no pod")]
    NoPod,
    /// A pod's address is not known. The host can act; a dispatch tries the step's next pod first.
    #[error("the address of {0:?} is not known")]
    NoAddress(Pod),
    /// Which engine runs in a pod is not known. The host can act, by asking the pod's bootstrap server; a dispatch tries the step's
    /// next pod first.
    #[error("the engine of {0:?} is not known")]
    NoEngine(Pod),
}

impl HandoffError {
    /// The status to answer a client with: 400 if the body is at fault, and 502 otherwise.
    #[must_use]
    pub fn status(&self) -> u16 {
        match self {
            Self::Body(_) => 400,
            _ => 502,
        }
    }
}

/// Why a decode pod was not told of what was prefilled for it. It prefills by itself then; a host should count these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DroppedHandoff {
    /// The prefill pod's response is missing, or is no JSON object.
    Unreadable,
    /// It has no object of parameters: an aborted prefill, or an engine without a connector.
    NoParameters,
    /// A parameter that the decode pod cannot do without is missing, `null` or empty.
    Missing(&'static str),
    /// The request has several prompts, or wants several answers, and a transfer is about one.
    Batched,
}
