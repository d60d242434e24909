//! Hooks: change the request of each step, inject into its body, watch and change the response stream.

use std::num::NonZeroU16;

use bytes::Bytes;
use http::{Request, response};
use routing_core::{Pod, Role};

use crate::report::DispatchReport;

/// Callbacks at each step of a dispatch, each optional. Hooks run in the order in which they were given.
///
/// One value per dispatch, so a hook may keep state.
pub trait Hook: Send {
    /// Names the hook in errors.
    fn name(&self) -> &str;

    /// Changes a request, headers and body, before it is sent to a pod.
    ///
    /// # Errors
    ///
    /// Rejects the request, which ends the dispatch.
    fn before_send(&mut self, _target: &Target<'_>, _request: &mut Request<Bytes>) -> Result<(), HookError> {
        Ok(())
    }

    /// Changes the head of the client's response.
    ///
    /// # Errors
    ///
    /// Rejects the response, which ends the dispatch.
    fn on_response_head(&mut self, _pod: Pod, _head: &mut response::Parts) -> Result<(), HookError> {
        Ok(())
    }

    /// Changes a chunk of the client's response; an empty one is not forwarded.
    ///
    /// # Errors
    ///
    /// Rejects the rest of the response, which ends the dispatch.
    fn on_chunk(&mut self, chunk: Bytes) -> Result<Bytes, HookError> {
        Ok(chunk)
    }

    /// Receives the report at the end of the dispatch.
    fn on_finish(&mut self, _report: &DispatchReport) {}
}

/// The destination of a request.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Target<'r> {
    /// The name of the step.
    pub step: &'r str,
    /// The step's role.
    pub role: Role,
    /// The pod.
    pub pod: Pod,
    /// Pods that failed in this step before.
    pub retry: u32,
}

/// Why a hook rejected a request or a response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("hook `{hook}`: {reason}")]
#[non_exhaustive]
pub struct HookError {
    /// The hook.
    pub hook: Box<str>,
    /// The hook's own reason.
    pub reason: Box<str>,
    /// The client's status.
    pub status: NonZeroU16,
}

impl HookError {
    /// A rejection with a status for the client.
    #[must_use]
    pub fn new(hook: &str, reason: &str, status: NonZeroU16) -> Self {
        Self { hook: hook.into(), reason: reason.into(), status }
    }
}
