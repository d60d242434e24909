//! How one pod continues what another has computed: what goes out on each leg, as each engine has it.
//!
//! A [`Handoff`] is a dialect. It is given the client's own body and makes the body of a leg from it, so that limits,
//! streaming and all else that a prefill leg goes without are there again for the decode leg. What a leg need not change
//! stays as the client wrote it, byte for byte; a leg that hands nothing over is sent the very same bytes,
//! but for a threshold that [`SharedStorage`] lifts.
//!
//! | dialect | legs | what it passes on |
//! |---|---|---|
//! | [`Nixl`] | one after the other | vLLM: the `kv_transfer_params` that the prefill pod answers |
//! | [`SglangBootstrap`] | at once | SGLang: where to meet, and a room that both know |
//! | [`Mooncake`] | at once | vLLM with Mooncake: a transfer's id and the prefill engine's |
//! | [`SharedStorage`] | one after the other | nothing: both pods share a store |
//! | [`Plain`] | as told | nothing: both pods get the same request |
//!
//! Nothing here does I/O. A dialect names no host but those that [`PodAddresses`] knows of the plan's own pods, and whatever a
//! client put into the fields of a handoff is replaced or removed on every leg that takes part in one.

mod address;
mod api;
mod error;
pub mod headers;
mod ids;
mod leg;
mod mooncake;
mod nixl;
mod plain;
mod prefill;
mod sglang;
mod shared_storage;
mod sse_frames;
mod strip;
mod usage;

use std::fmt;

pub use address::PodAddresses;
pub use api::Api;
pub use error::{DroppedHandoff, HandoffError};
pub use headers::strip_routing_headers;
pub use leg::{LegBody, LegContext};
pub use mooncake::{Mooncake, MooncakeEngine, MooncakeEngines};
pub use nixl::Nixl;
pub use plain::Plain;
pub use sglang::SglangBootstrap;
pub use shared_storage::SharedStorage;
pub use strip::strip_handoff_fields;
pub use usage::UsageFix;

/// How the legs of a request stand to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "an executor must know what to do in each")]
pub enum HandoffMode {
    /// There is one leg; nothing is handed over.
    Single,
    /// The decode leg begins when the prefill leg is done, and may need its answer.
    Serial,
    /// Both legs are sent at once and meet by themselves. Of what the prefill leg answers only the beginning is kept.
    Concurrent,
}

/// When what was handed out for one decode pod serves another. Where it does not, prefill runs again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "an executor must know what to do in each")]
pub enum HandoffReuse {
    /// Once it was sent to a pod it is used up.
    Never,
    /// As long as the pod it was for cannot have begun with it: there was no connection, or the pod was full (429, 503).
    Unbegun,
    /// Whatever became of the pod it was for.
    Always,
}

/// A dialect in which a prefill pod hands over to a decode pod.
pub trait Handoff: Send + Sync + fmt::Debug {
    /// How the legs stand to each other.
    fn mode(&self) -> HandoffMode;

    /// When another decode pod can take up what a prefill pod handed out for one that failed.
    fn reuse(&self) -> HandoffReuse;

    /// What is sent on a leg.
    ///
    /// # Errors
    ///
    /// If the client's body is no JSON object, or if the dialect needs to know something of a pod that nobody knows.
    fn leg(&self, leg: &LegContext<'_>) -> Result<LegBody, HandoffError>;

    /// What puts right what the last leg's answer says of cached tokens, given the prefill leg's answer. `events` tells a
    /// stream of server-sent events from one JSON document. None if nothing is to be put right; not to be asked where
    /// [`LegBody::dropped`] says that nothing was passed on, since the decode pod's own figure is right then.
    fn usage(&self, api: Api, events: bool, prefilled: Option<&[u8]>) -> Option<UsageFix> {
        let _ = (api, events, prefilled);
        None
    }

    /// Whether the decode pod is to be asked first, alone and with the client's own body: prefill only follows if
    /// [`Self::wants_prefill`] of what it answers.
    fn decodes_first(&self, api: Api, body: &[u8]) -> bool {
        let _ = (api, body);
        false
    }

    /// Whether the answer to a decode leg that was sent first asks for prefill. None as long as the answer's beginning does
    /// not tell. A stream is shown as it grows, up to a bound; a document when it is whole.
    fn wants_prefill(&self, events: bool, answer: &[u8]) -> Option<bool> {
        let _ = (events, answer);
        Some(false)
    }
}

// A host chooses one when it starts and shares it between requests.
const _: fn(&dyn Handoff) = |_| {};
