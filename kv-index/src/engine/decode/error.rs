//! Decode errors: why a payload is no batch of events.

use crate::engine::event::FieldProblem;

/// Why a payload is no batch of events, and where.
///
/// Nothing of such a payload is used: past the damage no event's beginning can be told. The host treats it as a
/// lost batch. The bytes were damaged, or a publisher of another kind is on this address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("payload at byte {at}: {problem}")]
#[expect(clippy::exhaustive_structs, reason = "a place and a reason: complete by nature")]
pub struct DecodeError {
    /// Offset of the value that is wrong.
    pub at: usize,
    /// What is wrong with it.
    pub problem: DecodeProblem,
}

/// What is wrong with a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeProblem {
    /// The payload was cut, or a length in it is wrong.
    #[error("a value of at least {needed} bytes begins here, but {left} are left")]
    EndsEarly {
        /// Bytes that the value takes at least, its head included.
        needed: u64,
        /// Bytes from its beginning to the end of the payload.
        left: u64,
    },
    /// A byte that msgpack does not use. The payload is of another format.
    #[error("the byte c1, which begins no value")]
    Reserved,
    /// The batch is over and the payload is not.
    #[error("{extra} bytes follow the batch")]
    Trailing {
        /// Bytes after the batch.
        extra: usize,
    },
    /// A good value, but not an array.
    #[error("{found}, where a batch is an array of timestamp, events and rank")]
    NotABatch {
        /// What it is.
        found: &'static str,
    },
    /// An array too short to be a batch.
    #[error("an array of {elements} elements, where a batch has a timestamp and events at least")]
    ShortBatch {
        /// Elements of the array.
        elements: u32,
    },
    /// The timestamp, the list of events or the rank is not one.
    #[error("{field} is {problem}")]
    Field {
        /// The field, by the engines' name for it.
        field: &'static str,
        /// What is wrong with it.
        problem: FieldProblem,
    },
}
