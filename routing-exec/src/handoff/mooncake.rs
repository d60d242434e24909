//! vLLM's Mooncake connector: both legs name a transfer's id, and the decode leg the prefill engine.

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;
use json_edit::{Edit, Fragment, JsonError, Object};
use routing_core::Pod;

use super::address::host;
use super::dialect::Dialect;
use super::error::{DroppedHandoff, HandoffError};
use super::headers::DATA_PARALLEL_RANK;
use super::ids::uuid;
use super::leg::{LegBody, LegContext, Side};
use super::prefill::{self, Caps, When};
use super::{Handoff, HandoffMode, HandoffReuse};

/// vLLM's Mooncake connector: both legs are sent at once with `kv_transfer_params` that name one transfer.
///
/// The prefill leg has `max_tokens` of 1 (`max_completion_tokens` and `min_tokens` too, where the client has set them), no
/// stream, and goes to the data-parallel rank whose engine the decode leg names, by the header `x-data-parallel-rank`. The
/// decode leg is the client's own body with the prefill pod's bootstrap server and engine.
///
/// Of several prompts in one request, or several answers to it, vLLM makes requests that would share the transfer and get each other's blocks:
/// then none is named, and the decode pod prefills by itself ([`LegBody::dropped`]).
///
/// An engine's id changes whenever it starts, so the host asks each prefill pod's bootstrap server for it
/// ([`MooncakeEngine::query`]) and answers by [`MooncakeEngines`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Mooncake {
    engines: Arc<dyn MooncakeEngines>,
    port: u16,
}

impl Mooncake {
    /// With what is known of engines, and bootstrap servers at the usual port, 8998.
    #[must_use]
    pub fn new(engines: Arc<dyn MooncakeEngines>) -> Self {
        Self { engines, port: 8998 }
    }

    /// The same with bootstrap servers at another port.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// The URL of the bootstrap server of the pod at an address; what it answers to `GET {url}/query` is read by
    /// [`MooncakeEngine::query`].
    #[must_use]
    pub fn bootstrap_url(&self, address: &str) -> String {
        format!("http://{}:{}", host(address), self.port)
    }
}

/// The engines of pods.
pub trait MooncakeEngines: Send + Sync + fmt::Debug {
    /// The engine of a pod; `None` if unknown.
    fn engine(&self, pod: Pod) -> Option<MooncakeEngine>;
}

/// No engine is known.
impl MooncakeEngines for () {
    fn engine(&self, _: Pod) -> Option<MooncakeEngine> {
        None
    }
}

/// An engine that registered with a bootstrap server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what a host fills in by name")]
pub struct MooncakeEngine {
    /// What it calls itself since it started.
    pub id: Arc<str>,
    /// Which data-parallel rank of its worker it is.
    pub rank: u32,
}

impl MooncakeEngine {
    /// The engines in a bootstrap server's answer to `/query`, such as `{"0": {"engine_id": "…"}}`. What is not of this form
    /// is left out.
    ///
    /// # Errors
    ///
    /// If the response is no JSON object.
    pub fn query(answer: &[u8]) -> Result<Vec<Self>, JsonError> {
        let engine = |rank: &str, entry: Object<'_>| {
            let id = entry.get("engine_id")?.as_str()?;
            Some(Self { id: Arc::from(&*id), rank: rank.parse().ok()? })
        };
        let members = Object::parse(answer)?.members();
        Ok(members.filter_map(|member| engine(&member.name()?, member.value().object()?)).collect())
    }
}

impl Handoff for Mooncake {
    fn name(&self) -> &str {
        Dialect::Mooncake.name()
    }

    fn mode(&self) -> HandoffMode {
        HandoffMode::Concurrent
    }

    /// The transfer is over when one of its legs is.
    fn reuse(&self) -> HandoffReuse {
        HandoffReuse::Never
    }

    fn leg(&self, leg: &LegContext<'_>) -> Result<LegBody, HandoffError> {
        let side = leg.side();
        if side == Side::Neither {
            return leg.untouched();
        }
        let body = leg.object()?;
        let caps = Caps { completion: When::IfPresent, least: When::IfPresent };
        if prefill::is_split(leg.api, body) {
            return match side {
                Side::Decode => prefill::dropped(leg, DroppedHandoff::Batched),
                _ => Ok(LegBody::new(prefill::unset_transfer(prefill::one_token(leg.api, body, caps)?).finish())),
            };
        }
        let pod = leg.prefiller()?;
        let engine = self.engines.engine(pod).ok_or(HandoffError::NoEngine(pod))?;
        let transfer = format!("xfer-{}", uuid(leg.transfer));
        let mut parameters = vec![
            ("do_remote_prefill", Fragment::from(side == Side::Decode)),
            ("do_remote_decode", Fragment::from(side == Side::Prefill)),
            ("transfer_id", Fragment::from(&*transfer)),
        ];
        if side == Side::Decode {
            let url = self.bootstrap_url(&leg.prefiller_address()?);
            parameters.push(("remote_bootstrap_addr", Fragment::from(&*url)));
            parameters.push(("remote_engine_id", Fragment::from(&*engine.id)));
            let edit = prefill::set_transfer(Edit::new(body), leg.api, Fragment::object(parameters));
            return Ok(LegBody::new(edit.finish()));
        }
        let edit = prefill::one_token(leg.api, body, caps)?;
        let mut sent = LegBody::new(prefill::set_transfer(edit, leg.api, Fragment::object(parameters)).finish());
        sent.headers.insert(DATA_PARALLEL_RANK, HeaderValue::from(engine.rank));
        Ok(sent)
    }
}
