//! A leg: its context for a dialect, and the body that the dialect makes.

use std::borrow::Cow;

use bytes::Bytes;
use http::HeaderMap;
use http::uri::PathAndQuery;
use json_edit::Object;
use routing_core::Pod;
use routing_core::Role;

use super::address::PodAddresses;
use super::api::Api;
use super::error::{DroppedHandoff, HandoffError};

/// One leg's request, as a [`Handoff`](super::Handoff) sees it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct LegContext<'r> {
    /// The request's API.
    pub api: Api,
    /// The client's own body, untouched.
    pub body: &'r Bytes,
    /// The step's name in its workflow.
    pub step: &'r str,
    /// The step's role.
    pub role: Role,
    /// Whether this leg's response goes to the client.
    pub is_last: bool,
    /// The pod of this leg.
    pub pod: Option<Pod>,
    /// The pod that prefills for this leg, if one does.
    pub prefill: Option<Pod>,
    /// Addresses of pods.
    pub addresses: &'r dyn PodAddresses,
    /// A random number that both legs of one handoff share. Dialects use 63 bits of it.
    pub transfer: u64,
    /// The prefill leg's response, once that is done.
    pub prefilled: Option<&'r [u8]>,
    /// The response of the latest encode leg before this one, once that is done.
    pub encoded: Option<&'r [u8]>,
    /// Whether this leg is sent first, and may decline for prefill.
    pub probing: bool,
}

impl<'r> LegContext<'r> {
    /// The only leg of a request.
    #[must_use]
    pub fn new(api: Api, body: &'r Bytes, addresses: &'r dyn PodAddresses) -> Self {
        Self {
            api,
            body,
            step: "",
            role: Role::Both,
            is_last: true,
            pod: None,
            prefill: None,
            addresses,
            transfer: 0,
            prefilled: None,
            encoded: None,
            probing: false,
        }
    }

    /// Sets the step.
    #[must_use]
    pub fn step(self, name: &'r str, role: Role, is_last: bool) -> Self {
        Self { step: name, role, is_last, ..self }
    }

    /// Sets the pod, and the one that prefills for it.
    #[must_use]
    pub fn pods(self, pod: Pod, prefill: Option<Pod>) -> Self {
        Self { pod: Some(pod), prefill, ..self }
    }

    /// Sets the transfer's number.
    #[must_use]
    pub fn transfer(self, number: u64) -> Self {
        Self { transfer: number, ..self }
    }

    /// Sets the prefill leg's response.
    #[must_use]
    pub fn prefilled(self, response: Option<&'r [u8]>) -> Self {
        Self { prefilled: response, ..self }
    }

    /// Sets the encode leg's response.
    #[must_use]
    pub fn encoded(self, response: Option<&'r [u8]>) -> Self {
        Self { encoded: response, ..self }
    }

    /// Sets whether this leg is sent first, and may decline for prefill.
    #[must_use]
    pub fn probing(self, probing: bool) -> Self {
        Self { probing, ..self }
    }

    /// The leg's side of a handoff, if there is one.
    pub(super) fn side(&self) -> Side {
        match (self.role, self.prefill) {
            (Role::Prefill, _) => Side::Prefill,
            (Role::Decode | Role::Both, Some(_)) => Side::Decode,
            _ => Side::Neither,
        }
    }

    /// The pod that prefills, seen from either leg.
    pub(super) fn prefiller(&self) -> Result<Pod, HandoffError> {
        let pod = if self.role == Role::Prefill { self.pod } else { self.prefill };
        pod.ok_or(HandoffError::NoPod)
    }

    /// The address of the pod that prefills.
    pub(super) fn prefiller_address(&self) -> Result<Cow<'r, str>, HandoffError> {
        let pod = self.prefiller()?;
        self.addresses.address(pod).ok_or(HandoffError::NoAddress(pod))
    }

    /// The client's body, parsed.
    pub(super) fn object(&self) -> Result<Object<'r>, HandoffError> {
        Object::parse(self.body).map_err(HandoffError::Body)
    }

    /// The body as the client sent it. Never an encode pod's: what it is to encode is a part of that.
    pub(super) fn untouched(&self) -> Result<LegBody, HandoffError> {
        if self.role == Role::Encode { Err(HandoffError::Encode) } else { Ok(LegBody::new(self.body.clone())) }
    }
}

/// A side of a handoff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Prefill,
    Decode,
    /// No pod prefills for it.
    Neither,
}

/// The body and headers of a leg.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LegBody {
    /// The body. The client's own bytes, where nothing had to be changed.
    pub body: Bytes,
    /// Headers to add or to replace.
    pub headers: HeaderMap,
    /// The path, where it is not the client's: an encoder may have one of its own.
    pub path: Option<PathAndQuery>,
    /// Why the handoff was dropped.
    pub dropped: Option<DroppedHandoff>,
}

impl LegBody {
    /// A body alone.
    #[must_use]
    pub fn new(body: impl Into<Bytes>) -> Self {
        Self { body: body.into(), headers: HeaderMap::new(), path: None, dropped: None }
    }
}
