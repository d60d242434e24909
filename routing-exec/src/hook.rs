//! Where a host looks into a run: before a request is sent, at an answer's head, at each chunk, at the end.

use std::num::NonZeroU16;

use bytes::Bytes;
use http::{Request, response};
use routing_core::Pod;
use routing_core::Role;

use crate::record::Report;

/// What a host does at each step of a run; every part is optional. Hooks run in the order they were given.
///
/// Made for one run, so what it remembers is the run's own.
pub trait Hook: Send {
    /// What operators read when it fails.
    fn name(&self) -> &str;

    /// Before a request is sent to a pod: headers and body may be changed.
    ///
    /// # Errors
    ///
    /// When the request must not go. The run ends with it.
    fn before_send(&mut self, _to: &Target<'_>, _request: &mut Request<Bytes>) -> Result<(), HookError> {
        Ok(())
    }

    /// At the head of the answer that goes to the client.
    ///
    /// # Errors
    ///
    /// When the answer must not go out. The run ends with it.
    fn at_head(&mut self, _from: Pod, _head: &mut response::Parts) -> Result<(), HookError> {
        Ok(())
    }

    /// At a piece of the answer that goes to the client; an empty one is not forwarded.
    ///
    /// # Errors
    ///
    /// When the answer must not go on. The run ends with it.
    fn at_chunk(&mut self, chunk: Bytes) -> Result<Bytes, HookError> {
        Ok(chunk)
    }

    /// At the end, however it ended.
    fn at_end(&mut self, _report: &Report) {}
}

/// Where a request goes.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Target<'r> {
    /// The step that it is for.
    pub step: &'r str,
    /// What the pod is to do.
    pub role: Role,
    /// The pod.
    pub pod: Pod,
    /// How many pods failed in this step before.
    pub retry: u32,
}

/// Why a hook said no.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("hook `{hook}`: {reason}")]
#[non_exhaustive]
pub struct HookError {
    /// The hook.
    pub hook: Box<str>,
    /// Why, in its own words.
    pub reason: Box<str>,
    /// The status that the client gets for it.
    pub status: NonZeroU16,
}

impl HookError {
    /// A refusal with a status for the client.
    #[must_use]
    pub fn new(hook: &str, reason: &str, status: NonZeroU16) -> Self {
        Self { hook: hook.into(), reason: reason.into(), status }
    }
}
