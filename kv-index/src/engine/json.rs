//! TensorRT-LLM's KV-cache events: the JSON of `/kv_cache_events`.
//!
//! Each has a number, a window, and one of four kinds of data: a pool was created, blocks were stored, removed, or
//! updated. They become the events the other engines send. Any bytes give an answer or an error that says where; a
//! malformed event costs that event and no other.

mod read;
mod stored;
#[cfg(test)]
mod tests;

use serde_json::error::Category;
use serde_json::{Map, Value};

use super::event::{EngineCreated, EngineEvent, EngineMoved, EngineRemoved, FieldProblem};
use crate::blocks::BlockSize;
use read::{Fault, hash, hashes, items, medium, object, optional, required, unsigned};

/// What one request for events brought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrtllmEvents {
    /// The events in order. A malformed one stands for nothing, but its number counts if it has one.
    pub events: Vec<TrtllmEvent>,
    /// Blocks that were announced before they were full. They are left out, for nobody else can use them.
    pub partial: u64,
    /// Tokens of a block that cannot be of the size that was said, if one shows: it has more, or has fewer and others
    /// hang under it.
    pub odd_size: Option<u32>,
    /// Events of a type that no listed release has. They are among the events, and stand for nothing.
    pub unknown: u32,
    /// Events of a known type that do not have its form.
    pub malformed: u32,
    /// The first of those.
    pub fault: Option<TrtllmFault>,
}

/// One numbered event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TrtllmEvent {
    /// Its number: from 0 on, one by one, for each rank.
    pub id: u64,
    /// The attention data-parallel rank it is of, if there are several.
    pub rank: Option<u32>,
    /// What it says in the other engines' words. Nothing, if only priorities changed.
    pub events: Vec<EngineEvent<'static>>,
}

/// What is wrong with a malformed event, and which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event {index}: {field} is {problem}")]
#[expect(clippy::exhaustive_structs, reason = "a place and a reason: complete by nature")]
pub struct TrtllmFault {
    /// How many events stand before it.
    pub index: usize,
    /// The field, by the engine's name for it.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: FieldProblem,
}

/// Decodes the body of `/kv_cache_events`: an array of events, or a single one.
///
/// - Blocks are of `block_size` tokens, the engine's `tokens_per_block`; those with fewer are partial.
/// - A stored event becomes one [`Stored`](EngineEvent::Stored) for each stretch of blocks of one level and one salt,
///   each hanging on the block before it. Level 0 is `GPU`, level 1 `CPU`, and any other `DISK`.
/// - What sets a block apart besides its tokens is in its extra keys: `mm_keys` as
///   [`Media`](super::ExtraKey::Media) with the hash and the offset the engine gives, and, if any of the block's
///   `token_extra_id`s is not 0, all of them as [`Digest`](super::ExtraKey::Digest), eight bytes each, little endian.
/// - An update of the level becomes [`Moved`](EngineEvent::Moved); one of the priority alone stands for nothing.
/// - `layer_group_id`, which newer releases send, is the group. An empty object is no event, and is passed over.
///
/// # Errors
///
/// When the bytes are not JSON, or neither an array nor an object. Another service is on this address, or the body
/// was cut.
///
/// # Examples
///
/// ```
/// use kv_index::BlockSize;
/// use kv_index::engine::{EngineEvent, decode_trtllm};
///
/// let body = br#"[{"event_id": 4, "data": {"type": "removed", "block_hashes": [7]}, "window_size": 4096}]"#;
/// let decoded = decode_trtllm(body, BlockSize::new(32).expect("not zero"))?;
/// assert_eq!(decoded.events[0].id, 4);
/// let EngineEvent::Removed(removed) = &decoded.events[0].events[0] else { panic!("another event") };
/// assert_eq!(removed.hashes[0].get(), 7);
/// # Ok::<(), kv_index::engine::JsonError>(())
/// ```
pub fn decode_trtllm(json: &[u8], block_size: BlockSize) -> Result<TrtllmEvents, JsonError> {
    let body: Value = serde_json::from_slice(json).map_err(|error| JsonError::new(json, &error))?;
    let mut decoded = TrtllmEvents::default();
    match &body {
        Value::Array(events) => {
            events.iter().enumerate().for_each(|(index, event)| decoded.add(index, event, block_size));
        }
        Value::Object(_) => decoded.add(0, &body, block_size),
        _ => return Err(JsonError { at: 0, problem: JsonProblem::NotEvents { found: read::kind(&body) } }),
    }
    Ok(decoded)
}

/// Why a body is no list of events, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("body at byte {at}: {problem}")]
#[expect(clippy::exhaustive_structs, reason = "a place and a reason: complete by nature")]
pub struct JsonError {
    /// Offset of what is wrong.
    pub at: usize,
    /// What is wrong.
    pub problem: JsonProblem,
}

/// What is wrong with a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JsonProblem {
    /// Not JSON, nested too deep, or followed by something else.
    #[error("not the JSON of events")]
    Syntax,
    /// The body was cut.
    #[error("the body ends early")]
    EndsEarly,
    /// Good JSON, but neither an array nor an object.
    #[error("{found}, where events are an array or an object")]
    NotEvents {
        /// What it is.
        found: &'static str,
    },
}

impl JsonError {
    fn new(json: &[u8], error: &serde_json::Error) -> Self {
        if error.classify() == Category::Eof {
            return Self { at: json.len(), problem: JsonProblem::EndsEarly };
        }
        // Lines and columns count from 1, and columns are bytes.
        let before = json.split_inclusive(|byte| *byte == b'\n').take(error.line().saturating_sub(1));
        let at = before.map(<[u8]>::len).sum::<usize>() + error.column().saturating_sub(1);
        Self { at: at.min(json.len()), problem: JsonProblem::Syntax }
    }
}

impl TrtllmEvents {
    fn add(&mut self, index: usize, event: &Value, block_size: BlockSize) {
        // The engine writes an empty object where it has nothing to say.
        if event.as_object().is_some_and(Map::is_empty) {
            return;
        }
        match self.event(event, block_size) {
            Ok(event) => self.events.push(event),
            Err(Fault { field, problem }) => {
                // Its number still counts: one bad event is not a gap.
                let fields = event.as_object();
                let id = fields.and_then(|event| required(event, "event_id", unsigned).ok());
                let rank = fields.and_then(|event| optional(event, "attention_dp_rank", unsigned).ok().flatten());
                self.events.extend(id.map(|id| TrtllmEvent { id, rank, events: Vec::new() }));
                self.malformed += 1;
                self.fault.get_or_insert(TrtllmFault { index, field, problem });
            }
        }
    }

    fn event(&mut self, event: &Value, block_size: BlockSize) -> Result<TrtllmEvent, Fault> {
        let event = object("event", event)?;
        let data = required(event, "data", object)?;
        let pool = Pool {
            block_size,
            window: optional(event, "window_size", unsigned)?,
            group: optional(event, "layer_group_id", unsigned)?,
        };
        let (id, rank) = (required(event, "event_id", unsigned)?, optional(event, "attention_dp_rank", unsigned)?);
        let events = match required(data, "type", read::text)? {
            "stored" => {
                let blocks = stored::stored(data, pool)?;
                self.partial += blocks.partial;
                self.odd_size = self.odd_size.or(blocks.odd_size);
                blocks.stretches.into_iter().map(EngineEvent::Stored).collect()
            }
            "removed" => vec![EngineEvent::Removed(removed(data, pool)?)],
            "updated" => moved(data, pool)?.map(EngineEvent::Moved).into_iter().collect(),
            "created" => vec![EngineEvent::Created(created(data, pool)?)],
            _ => {
                self.unknown += 1;
                Vec::new()
            }
        };
        Ok(TrtllmEvent { id, rank, events })
    }
}

/// The cache that an event is of.
#[derive(Clone, Copy, Debug)]
struct Pool {
    block_size: BlockSize,
    window: Option<u32>,
    group: Option<u32>,
}

fn removed(data: &Map<String, Value>, pool: Pool) -> Result<EngineRemoved<'static>, Fault> {
    let hashes = required(data, "block_hashes", hashes)?;
    Ok(EngineRemoved { hashes, group: pool.group, window: pool.window, ..EngineRemoved::default() })
}

fn moved(data: &Map<String, Value>, pool: Pool) -> Result<Option<EngineMoved<'static>>, Fault> {
    let hash = required(data, "block_hash", hash)?;
    let Some(levels) = optional(data, "cache_level", object)? else { return Ok(None) };
    let (from, to) = (required(levels, "old_value", medium)?, required(levels, "new_value", medium)?);
    Ok(Some(EngineMoved { hash, from: from.into(), to: to.into(), window: pool.window }))
}

fn created(data: &Map<String, Value>, pool: Pool) -> Result<EngineCreated, Fault> {
    let levels = required(data, "num_blocks_per_cache_level", items)?;
    let levels: Result<_, _> = levels.iter().map(|level| unsigned("num_blocks_per_cache_level", level)).collect();
    Ok(EngineCreated { blocks_per_level: levels?, window: pool.window })
}
