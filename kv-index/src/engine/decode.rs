//! Event decoder: a msgpack `KVEventBatch` as vLLM and SGLang publish it.
//!
//! vLLM and SGLang share the format, and so do TensorRT-LLM's push path and Mooncake: a msgpack array of timestamp,
//! events and, in all but the first releases, rank. Events are arrays or maps, by release. Whatever the bytes are,
//! the answer is a batch or an error that says where; a malformed event costs that event and no other.

mod error;
mod field;
mod layout;
#[cfg(test)]
mod tests;

pub use error::{DecodeError, DecodeProblem};

use super::event::{EngineBatch, EngineEvent, EventFault, FieldProblem};
use super::msgpack::{Head, Reader};
use field::Field;
use layout::Form;

/// Decodes a payload, of any listed release of vLLM or SGLang.
///
/// Events of unknown types and malformed ones are left out and counted. More elements than a batch has, and fields
/// that no listed release has, are passed over. Text borrows from the payload. What is allocated is bounded by a
/// multiple of what is there, and never by what a length claims (`tests/decode_memory.rs`).
///
/// # Errors
///
/// When the bytes are not one whole batch and nothing else.
///
/// # Examples
///
/// ```
/// use kv_index::engine::{EngineEvent, decode_batch};
///
/// // [1.5, [["BlockRemoved", [7], "GPU"]], 0]
/// let batch = decode_batch(b"\x93\xca\x3f\xc0\0\0\x91\x93\xacBlockRemoved\x91\x07\xa3GPU\x00")?;
/// assert_eq!((batch.timestamp, batch.rank), (1.5, Some(0)));
/// let EngineEvent::Removed(removed) = &batch.events[0] else { panic!("another event") };
/// assert_eq!(removed.hashes[0].get(), 7);
/// assert_eq!(removed.medium.as_deref(), Some("GPU"));
/// # Ok::<(), kv_index::engine::DecodeError>(())
/// ```
pub fn decode_batch(payload: &[u8]) -> Result<EngineBatch<'_>, DecodeError> {
    let mut reader = Reader::new(payload);
    let elements = match reader.head()? {
        Head::Array(elements) if elements >= 2 => elements,
        Head::Array(elements) => return Err(DecodeError { at: 0, problem: DecodeProblem::ShortBatch { elements } }),
        other => return Err(DecodeError { at: 0, problem: DecodeProblem::NotABatch { found: other.kind() } }),
    };
    let timestamp = header(&mut reader, "ts", |field| field.seconds())?;
    let mut batch = EngineBatch { timestamp, ..EngineBatch::default() };
    events(&mut reader, &mut batch)?;
    if elements > 2 && !reader.nil() {
        batch.rank = Some(header(&mut reader, "data_parallel_rank", |field| field.number())?);
    }
    for _ in 3..elements {
        reader.skip()?;
    }
    match reader.left() {
        0 => Ok(batch),
        extra => Err(DecodeError { at: reader.at(), problem: DecodeProblem::Trailing { extra } }),
    }
}

/// Why an event was not read to its end.
#[derive(Debug)]
enum Stop {
    /// The payload is damaged; there is no telling where the next event is.
    Damage(DecodeError),
    /// The event is not as it should be.
    Fault { field: &'static str, problem: FieldProblem },
}

impl From<DecodeError> for Stop {
    fn from(error: DecodeError) -> Self {
        Self::Damage(error)
    }
}

/// Reads a field of the batch itself: without it there is no batch.
fn header<'a, T>(
    reader: &mut Reader<'a>,
    name: &'static str,
    read: impl FnOnce(&mut Field<'_, 'a>) -> Result<T, Stop>,
) -> Result<T, DecodeError> {
    let at = reader.at();
    read(&mut Field { name, reader }).map_err(|stop| match stop {
        Stop::Damage(error) => error,
        Stop::Fault { field, problem } => DecodeError { at, problem: DecodeProblem::Field { field, problem } },
    })
}

fn events<'a>(reader: &mut Reader<'a>, batch: &mut EngineBatch<'a>) -> Result<(), DecodeError> {
    for _ in 0..header(reader, "events", |field| field.array())? {
        let start = reader.clone();
        match event(reader) {
            Ok(Some(event)) => {
                batch.events.push(event);
                continue;
            }
            Ok(None) => batch.unknown += 1,
            Err(Stop::Fault { field, problem }) => {
                batch.malformed += 1;
                batch.fault.get_or_insert(EventFault { at: start.at(), field, problem });
            }
            Err(Stop::Damage(error)) => return Err(error),
        }
        *reader = start;
        reader.skip()?;
    }
    Ok(())
}

/// Reads an event to its end, or says that its type is unknown.
fn event<'a>(reader: &mut Reader<'a>) -> Result<Option<EngineEvent<'a>>, Stop> {
    let (form, tag) = match reader.head()? {
        Head::Array(0) => return Err(Stop::Fault { field: TAG, problem: FieldProblem::Missing }),
        Head::Array(count) => (Form::Array(count - 1), tag(reader)?),
        Head::Map(entries) => (Form::Map(entries), find_tag(reader.clone(), entries)?),
        _ => return Err(Stop::Fault { field: "event", problem: FieldProblem::WrongType }),
    };
    Ok(match tag {
        b"BlockStored" => Some(EngineEvent::Stored(layout::stored(reader, form)?)),
        b"BlockRemoved" => Some(EngineEvent::Removed(layout::removed(reader, form)?)),
        b"AllBlocksCleared" => layout::cleared(reader, form).map(|()| Some(EngineEvent::Cleared))?,
        _ => None,
    })
}

/// The type of an event that is a map: of its first `type`, wherever that is. Engines write it first.
fn find_tag<'a>(mut reader: Reader<'a>, entries: u32) -> Result<&'a [u8], Stop> {
    for _ in 0..entries {
        if layout::key(&mut reader)? == Some(TAG.as_bytes()) {
            return tag(&mut reader);
        }
        reader.skip()?;
    }
    Err(Stop::Fault { field: TAG, problem: FieldProblem::Missing })
}

fn tag<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Stop> {
    match reader.head()? {
        Head::Text(tag) => Ok(tag),
        _ => Err(Stop::Fault { field: TAG, problem: FieldProblem::WrongType }),
    }
}

const TAG: &str = "type";
