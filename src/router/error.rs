//! What can be wrong with a router, and why a request is not routed.

use std::fmt;

use routing_core::DecideError;
use routing_core::flow::FlowConfigError;
use routing_exec::handoff::RoleNotCarried;

use crate::api_error::ApiError;
use crate::pod_registry::PodError;
use crate::profile::ProfileError;

/// Why a router cannot be built: every fault there is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub struct RouterError {
    /// The faults; at least one.
    pub faults: Vec<RouterFault>,
}

impl fmt::Display for RouterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, fault) in self.faults.iter().enumerate() {
            write!(f, "{}{fault}", if at == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

/// One thing that is wrong with a router.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RouterFault {
    /// The model has no name.
    #[error("the model has no name: give the one that its pods know it by")]
    NoName,
    /// Two models, aliases or adapters have one name.
    #[error("the name `{0}` is there twice: a request must mean one model or adapter")]
    NameTwice(Box<str>),
    /// A block has no tokens.
    #[error("a block has no tokens: give the block size of the engines, such as 16")]
    BlockSize,
    /// More pods are allowed for than the router is wide.
    #[error("{asked} pods do not fit a router for {width}: make it wider by `RouterBuilder::<WORDS>`, 64 pods a word")]
    TooManyPods {
        /// What was asked for.
        asked: usize,
        /// What fits.
        width: usize,
    },
    /// The profile cannot be used.
    #[error("the profile `{name}` cannot be used: {source}")]
    Profile {
        /// Its name.
        name: Box<str>,
        /// Why.
        source: ProfileError,
    },
    /// The profile has a step whose role the dialect of handoffs does not carry.
    #[error(transparent)]
    Role(#[from] RoleNotCarried),
    /// Pods are fed by events, which a profile that guesses what they hold would contradict.
    #[error(
        "pods are fed by their engines' events: `approximate_prefix` would guess against them; take a profile that goes by events"
    )]
    FedByEvents,
    /// Flow control has settings that make no sense.
    #[error("flow control cannot be used: {0}")]
    FlowControl(#[from] FlowConfigError),
    /// A pod cannot be used.
    #[error(transparent)]
    Pod(#[from] PodError),
}

impl From<RouterFault> for RouterError {
    fn from(fault: RouterFault) -> Self {
        Self { faults: vec![fault] }
    }
}

/// Why a request is not routed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RouteError {
    /// It asks for another model.
    #[error("the model `{0}` does not exist")]
    UnknownModel(Box<str>),
    /// The engine's rules do not cover its prompt.
    #[error("the prompt has no hashes: {0}")]
    Unhashable(Box<str>),
    /// No pod is left for it, or a plugin failed.
    #[error(transparent)]
    Decide(#[from] DecideError),
}

impl From<RouteError> for ApiError {
    fn from(error: RouteError) -> Self {
        match error {
            RouteError::UnknownModel(name) => Self::unknown_model(&name),
            RouteError::Unhashable(why) => Self::bad_request("unhashable_prompt", why),
            RouteError::Decide(error) => Self::unavailable("no_pod_available", error.to_string()),
        }
    }
}
