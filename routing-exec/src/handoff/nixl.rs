//! vLLM's NIXL connector: the prefill response names its blocks, and the decode pod fetches them.

use json_edit::{Fragment, Object, Raw};

use super::api::Api;
use super::dialect::Dialect;
use super::error::{DroppedHandoff, HandoffError};
use super::leg::{LegBody, LegContext, Side};
use super::prefill::{self, Caps, PARAMETERS, When};
use super::usage::{self, UsageFix};
use super::{Handoff, HandoffMode, HandoffReuse};

/// vLLM's NIXL connector: prefill with one token, then decode with the `kv_transfer_params` that came of it.
///
/// The prefill leg has `max_tokens`, `max_completion_tokens` and `min_tokens` of 1 (of Responses `max_output_tokens`, of
/// `/inference/v1/generate` those in `sampling_params`), no stream, and the parameters that ask for a transfer. The decode leg
/// is the client's own body with the parameters of the response, copied as they are written: engines change them between
/// releases.
///
/// A decode pod that is told to fetch, but not from where, fails the request or waits for blocks that never come. So if one
/// of the five that it needs (`remote_block_ids`, `remote_engine_id`, `remote_request_id`, `remote_host`, `remote_port`) is
/// missing, `null` or empty, none is passed on, the decode pod prefills by itself, and [`LegBody::dropped`] says so. So too
/// for several prompts in one request, or several answers to it (`n`, `best_of`): the response describes only one. Then the prefill pod is not
/// asked to keep blocks, which nobody would fetch.
///
/// The response's cached tokens are those of the prefill pod, 0 if it does not say: the decode pod would count all that it
/// fetched.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Nixl;

impl Handoff for Nixl {
    fn name(&self) -> &str {
        Dialect::Nixl.name()
    }

    fn mode(&self) -> HandoffMode {
        HandoffMode::Serial
    }

    /// The prefill pod keeps the blocks until they are fetched or their lease runs out. Then it gives them to another request,
    /// whose tokens a second decode pod would read: so only what nobody can have fetched is used again.
    fn reuse(&self) -> HandoffReuse {
        HandoffReuse::IfUnprocessed
    }

    fn leg(&self, leg: &LegContext<'_>) -> Result<LegBody, HandoffError> {
        match leg.side() {
            Side::Neither => leg.untouched(),
            Side::Prefill => {
                let caps = Caps { completion: When::Always, least: When::Always };
                let edit = prefill::one_token(leg.api, leg.object()?, caps)?;
                let edit = match prefill::is_split(leg.api, leg.object()?) {
                    true => prefill::unset_transfer(edit),
                    false => prefill::set_transfer(edit, leg.api, asked()),
                };
                Ok(LegBody::new(edit.finish()))
            }
            Side::Decode => decode(leg),
        }
    }

    fn usage(&self, api: Api, events: bool, prefilled: Option<&[u8]>) -> Option<UsageFix> {
        // Where nothing was passed on, the decode pod's own figure is right.
        transferred(prefilled).ok()?;
        UsageFix::new(api, events, usage::cached_tokens(api, prefilled?))
    }
}

/// The parameters by which a prefill pod is asked to keep its blocks for another.
fn asked() -> Fragment<'static> {
    Fragment::object([
        ("do_remote_decode", true.into()),
        ("do_remote_prefill", false.into()),
        ("remote_engine_id", Fragment::NULL),
        ("remote_block_ids", Fragment::NULL),
        ("remote_host", Fragment::NULL),
        ("remote_port", Fragment::NULL),
    ])
}

fn decode(leg: &LegContext<'_>) -> Result<LegBody, HandoffError> {
    let body = leg.object()?;
    let is_split = prefill::is_split(leg.api, body);
    let parameters = if is_split { Err(DroppedHandoff::Batched) } else { transferred(leg.prefilled) };
    match parameters {
        Ok(parameters) => {
            let edit = json_edit::Edit::new(body);
            Ok(LegBody::new(prefill::set_transfer(edit, leg.api, parameters.into()).finish()))
        }
        Err(why) => prefill::dropped(leg, why),
    }
}

/// The parameters of a prefill response, if they are all that a decode pod needs.
fn transferred(answer: Option<&[u8]>) -> Result<Raw<'_>, DroppedHandoff> {
    let answer = answer.and_then(|answer| Object::parse(answer).ok()).ok_or(DroppedHandoff::Unreadable)?;
    let parameters = answer.get(PARAMETERS).ok_or(DroppedHandoff::NoParameters)?;
    let object = parameters.object().ok_or(DroppedHandoff::NoParameters)?;
    let is_there = |name: &&str| object.get(name).is_some_and(says_something);
    NEEDED.iter().find(|name| !is_there(name)).map_or(Ok(parameters), |name| Err(DroppedHandoff::Missing(name)))
}

const NEEDED: [&str; 5] = ["remote_block_ids", "remote_engine_id", "remote_request_id", "remote_host", "remote_port"];

/// Whether a value is neither `null`, nor an empty string, nor a list with nothing in it or in its lists.
fn says_something(value: Raw<'_>) -> bool {
    if let Some(mut elements) = value.array() {
        return elements.any(says_something);
    }
    !value.is_null() && value.as_bytes() != b"\"\""
}
