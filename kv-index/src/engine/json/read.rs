//! Typed reads of JSON values. A null is the same as not there.

use serde_json::{Map, Value};

use crate::engine::event::{EngineHash, FieldProblem};

/// What is wrong with an event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fault {
    pub(super) field: &'static str,
    pub(super) problem: FieldProblem,
}

impl Fault {
    pub(super) const fn new(field: &'static str, problem: FieldProblem) -> Self {
        Self { field, problem }
    }
}

/// A field that has to be there, by one of the readers below.
pub(super) fn required<'v, T>(
    from: &'v Map<String, Value>,
    field: &'static str,
    read: impl Fn(&'static str, &'v Value) -> Result<T, Fault>,
) -> Result<T, Fault> {
    optional(from, field, read)?.ok_or(Fault::new(field, FieldProblem::Missing))
}

/// A field that may be missing, by one of the readers below.
pub(super) fn optional<'v, T>(
    from: &'v Map<String, Value>,
    field: &'static str,
    read: impl Fn(&'static str, &'v Value) -> Result<T, Fault>,
) -> Result<Option<T>, Fault> {
    from.get(field).filter(|value| !value.is_null()).map(|value| read(field, value)).transpose()
}

pub(super) fn object<'v>(field: &'static str, value: &'v Value) -> Result<&'v Map<String, Value>, Fault> {
    value.as_object().ok_or(Fault::new(field, FieldProblem::WrongType))
}

pub(super) fn items<'v>(field: &'static str, value: &'v Value) -> Result<&'v [Value], Fault> {
    value.as_array().map(Vec::as_slice).ok_or(Fault::new(field, FieldProblem::WrongType))
}

pub(super) fn text<'v>(field: &'static str, value: &'v Value) -> Result<&'v str, Fault> {
    value.as_str().ok_or(Fault::new(field, FieldProblem::WrongType))
}

/// A whole number that is not negative and fits.
pub(super) fn unsigned<T: TryFrom<u64>>(field: &'static str, value: &Value) -> Result<T, Fault> {
    let number = value.as_u64().and_then(|number| number.try_into().ok());
    number.ok_or_else(|| Fault::new(field, not_a_number(value)))
}

/// A block's name: a whole number with a sign or without.
pub(super) fn hash(field: &'static str, value: &Value) -> Result<EngineHash, Fault> {
    let hash = value.as_u64().map(EngineHash::new).or_else(|| value.as_i64().map(EngineHash::from_signed));
    hash.ok_or_else(|| Fault::new(field, not_a_number(value)))
}

pub(super) fn hashes(field: &'static str, value: &Value) -> Result<Vec<EngineHash>, Fault> {
    items(field, value)?.iter().map(|value| hash(field, value)).collect()
}

/// A level of the cache, in the word that other engines have for it.
pub(super) fn medium(field: &'static str, value: &Value) -> Result<&'static str, Fault> {
    Ok(match unsigned::<u64>(field, value)? {
        0 => "GPU",
        1 => "CPU",
        _ => "DISK",
    })
}

/// What a value is, for errors.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn not_a_number(value: &Value) -> FieldProblem {
    if value.is_number() { FieldProblem::OutOfRange } else { FieldProblem::WrongType }
}
