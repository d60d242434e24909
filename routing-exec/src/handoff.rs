//! Handoffs of prefill/decode disaggregation: the request of each leg, in each engine's dialect.
//!
//! A [`Handoff`] is a dialect. It makes the body of each leg from the client's own, so that limits, streaming and all else that a
//! prefill leg goes without are there for the decode leg. All else stays byte for byte as the client wrote it; a leg without a
//! handoff is sent the very same bytes, but for a threshold that [`SharedStorage`] lifts. [`Dialect`] lists the dialects by name.
//!
//! | dialect | legs | what it passes on |
//! |---|---|---|
//! | [`Nixl`] | serial | vLLM: the `kv_transfer_params` that the prefill pod answers |
//! | [`SglangBootstrap`] | concurrent | SGLang: the bootstrap server, and a room that both know |
//! | [`Mooncake`] | concurrent | vLLM with Mooncake: a transfer's id and the prefill engine's |
//! | [`SharedStorage`] | serial | nothing: both pods share a store |
//! | [`Plain`] | as configured | nothing: both pods get the same request |
//!
//! None of these carries [`Role::Encode`]: encoders take one request a media item, and a completion sent to one would be
//! answered by a model that has no decoder. [`check_roles`] refuses such a plan before anything is sent; a dialect of the host's own
//! may carry it ([`Handoff::carries`]).
//!
//! No I/O. A dialect names no host but the [`PodAddresses`] of the plan's own pods, and what a client put into the fields of a
//! handoff is replaced or removed on every leg that takes part in one.

mod address;
mod api;
mod dialect;
mod error;
pub mod headers;
mod ids;
mod leg;
mod mooncake;
mod nixl;
mod plain;
mod prefill;
mod roles;
mod sglang;
mod shared_storage;
mod sse_frames;
mod usage;

use std::fmt;

use routing_core::Role;

pub use address::{PodAddresses, parse_origin};
pub use api::Api;
pub use dialect::{Dialect, UnknownDialect};
pub use error::{DroppedHandoff, HandoffError};
pub use headers::strip_routing_headers;
pub use leg::{LegBody, LegContext};
pub use mooncake::{Mooncake, MooncakeEngine, MooncakeEngines};
pub use nixl::Nixl;
pub use plain::Plain;
pub use roles::{RoleNotCarried, check_roles};
pub use sglang::SglangBootstrap;
pub use shared_storage::SharedStorage;
pub use usage::UsageFix;

/// The order of a request's legs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "an executor must know what to do in each")]
pub enum HandoffMode {
    /// One leg, without a handoff.
    Single,
    /// The decode leg is sent after the prefill leg's response, which it may need.
    Serial,
    /// Both legs are sent at once, and the engines find each other. Of the prefill leg's response only the beginning is kept.
    Concurrent,
}

/// When a handoff to one decode pod serves another. Where it does not, prefill runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "an executor must know what to do in each")]
pub enum HandoffReuse {
    /// Never: a handoff that was sent is consumed.
    Never,
    /// If its pod cannot have processed it: there was no connection, or the pod was overloaded (429, 503).
    IfUnprocessed,
    /// Always.
    Always,
}

/// A dialect in which a prefill pod hands off to a decode pod.
pub trait Handoff: Send + Sync + fmt::Debug {
    /// Its name, in errors.
    fn name(&self) -> &str {
        "custom"
    }

    /// Whether it makes requests for steps of a role. A plan with a step of another role is refused, when a router is built or
    /// changed and before a dispatch sends anything. Unless said otherwise that is every role but [`Role::Encode`]; who carries that
    /// one makes its request in [`Self::leg`], and finds the response in [`LegContext::encoded`].
    fn carries(&self, role: Role) -> bool {
        role != Role::Encode
    }

    /// The order of the legs.
    fn mode(&self) -> HandoffMode;

    /// When a handoff serves another decode pod after its own failed.
    fn reuse(&self) -> HandoffReuse;

    /// The body and headers of a leg.
    ///
    /// # Errors
    ///
    /// If the client's body is no JSON object, or if the address or engine of a pod is unknown.
    fn leg(&self, leg: &LegContext<'_>) -> Result<LegBody, HandoffError>;

    /// The correction of cached tokens in the last leg's `usage`, given the prefill leg's response; `None` if none is needed. `events`
    /// distinguishes SSE streams from JSON documents. Not to be called where the handoff was [dropped](LegBody::dropped): the
    /// decode pod's own figure is right then.
    fn usage(&self, api: Api, events: bool, prefilled: Option<&[u8]>) -> Option<UsageFix> {
        let _ = (api, events, prefilled);
        None
    }

    /// Whether the decode leg is sent first, alone and with the client's own body: prefill only follows if its response
    /// [wants it](Self::wants_prefill).
    fn decodes_first(&self, api: Api, body: &[u8]) -> bool {
        let _ = (api, body);
        false
    }

    /// Whether the response to a decode leg that was sent first asks for prefill; `None` if its beginning does not show that yet. A
    /// stream is passed as it grows, up to a bound; a document when it is complete.
    fn wants_prefill(&self, events: bool, response: &[u8]) -> Option<bool> {
        let _ = (events, response);
        Some(false)
    }
}

// Object safe: dispatches share one.
const _: fn(&dyn Handoff) = |_| {};
