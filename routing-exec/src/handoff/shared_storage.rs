//! Shared KV storage (LMCache): the prefill pod writes blocks, the decode pod reads them.

use json_edit::{Edit, Object, Raw};

use super::api::Api;
use super::dialect::Dialect;
use super::error::HandoffError;
use super::leg::{LegBody, LegContext, Side};
use super::prefill::{self, Caps, When};
use super::sse_frames;
use super::{Handoff, HandoffMode, HandoffReuse};

/// A store of blocks that both pods use, such as LMCache's.
///
/// The prefill leg has `max_tokens` and `max_completion_tokens` of 1 (`min_tokens` too, where the client has set it) and no
/// stream. Both legs have a `cache_hit_threshold` of 0: by then each pod is to work with whatever the store has. So does a leg
/// that nobody prefills for, where the client has set one: with nobody to turn to, a pod must not decline.
///
/// A client of chat or completions that sets `cache_hit_threshold` lets the decode pod judge whether prefill is worth while.
/// Then the decode pod is asked first, with the client's own body ([`Handoff::decodes_first`]). If it holds less of the prompt than that it does
/// nothing and answers with a `finish_reason` of `cache_threshold` ([`Handoff::wants_prefill`]); prefill and a second decode
/// leg follow.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SharedStorage;

impl Handoff for SharedStorage {
    fn name(&self) -> &str {
        Dialect::SharedStorage.name()
    }

    fn mode(&self) -> HandoffMode {
        HandoffMode::Serial
    }

    /// What is in the store is there for everybody.
    fn reuse(&self) -> HandoffReuse {
        HandoffReuse::Always
    }

    fn leg(&self, leg: &LegContext<'_>) -> Result<LegBody, HandoffError> {
        let edit = match leg.side() {
            // Asked by the client's threshold it may decline, and nobody is there to prefill for it.
            Side::Neither if leg.is_last && !leg.probing && has_threshold(leg.body) => Edit::new(leg.object()?),
            Side::Neither => return leg.untouched(),
            Side::Prefill => {
                let caps = Caps { completion: When::Always, least: When::IfPresent };
                prefill::one_token(leg.api, leg.object()?, caps)?
            }
            Side::Decode => Edit::new(leg.object()?),
        };
        Ok(LegBody::new(edit.set(THRESHOLD, 0).finish()))
    }

    fn decodes_first(&self, api: Api, body: &[u8]) -> bool {
        // Others have no `choices` to decline in.
        matches!(api, Api::Chat | Api::Completions) && has_threshold(body)
    }

    fn wants_prefill(&self, events: bool, answer: &[u8]) -> Option<bool> {
        if events {
            return sse_frames::frames(answer).filter_map(sse_frames::data).find_map(first_choice);
        }
        // A document tells once it is whole; one that never is, is the client's to see.
        Object::parse(answer).ok().map(|_| first_choice(answer).unwrap_or_default())
    }
}

const THRESHOLD: &str = "cache_hit_threshold";

fn has_threshold(body: &[u8]) -> bool {
    Object::find(body, THRESHOLD).is_ok_and(|threshold| threshold.is_some())
}

/// Whether a response's first choice asks for prefill; none if it says nothing yet. What has no choices does not ask.
fn first_choice(document: &[u8]) -> Option<bool> {
    let choices = Object::find(document, "choices").ok().flatten().and_then(Raw::array);
    let Some(mut choices) = choices else { return Some(false) };
    let Some(first) = choices.next()?.object() else { return Some(false) };
    match first.get("finish_reason").filter(|reason| !reason.is_null()) {
        Some(reason) => Some(reason.as_str().is_some_and(|reason| reason == "cache_threshold")),
        None => speaks(first).then_some(false),
    }
}

/// Whether a choice has any text. The first of a chat stream only says whose turn it is, before the engine has begun.
fn speaks(choice: Object<'_>) -> bool {
    let is_empty = |value: Raw<'_>| matches!(value.as_bytes(), b"null" | b"\"\"" | b"[]" | b"{}");
    let delta = choice.get("delta").and_then(Raw::object);
    let mut parts = delta.into_iter().flat_map(|delta| delta.members()).filter(|member| !member.is("role"));
    parts.any(|part| !is_empty(part.value()))
        || ["text", "token_ids", "message"].iter().any(|name| choice.get(name).is_some_and(|value| !is_empty(value)))
}
