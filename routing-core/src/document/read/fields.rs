//! The second pass over a document: each part made of the tree's values, and all that does not fit noted.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use super::notes::Notes;
use crate::document::words::{self, Word};
use crate::document::{PluginDefinition, Problem};
use crate::path::Segment;
use crate::value::Value;

/// Whether a field must be given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    Required,
    Optional,
}

/// The fields of one part of a document, taken out one by one.
pub(super) struct Fields<'n> {
    notes: &'n Notes,
    map: BTreeMap<String, Value>,
}

impl<'n> Fields<'n> {
    /// The fields of what is called so; none if it has none. What is unknown or missing is noted.
    pub(super) fn of(notes: &'n Notes, what: &'static str, value: Value, known: &[(&str, Need)]) -> Option<Self> {
        let Value::Map(map) = value else {
            notes.wrong(Problem::wrong_type(format!("a {what}"), &value));
            return None;
        };
        let mut meant = Vec::new();
        for name in map.keys().filter(|name| known.iter().all(|(known, _)| known != name)) {
            let nearest = notes.suggestions.nearest(name, known.iter().map(|(name, _)| *name));
            meant.extend(nearest);
            let (field, suggestion) = (name.as_str().into(), nearest.map(Into::into));
            notes.wrong_field(name, notes.path().field(name), Problem::UnknownField { what, field, suggestion });
        }
        for (name, need) in known {
            if *need == Need::Required && !map.contains_key(*name) {
                if meant.contains(name) {
                    // That the one that was meant is missing is the same mistake.
                    notes.spoil(notes.path().field(name));
                } else {
                    notes.wrong_field(name, notes.path(), Problem::MissingField { what, field: (*name).into() });
                }
            }
        }
        Some(Self { notes, map })
    }

    /// Reads a field, if it is given.
    pub(super) fn read<T>(&mut self, name: &str, read: impl FnOnce(&'n Notes, Value) -> Option<T>) -> Option<T> {
        let value = self.map.remove(name)?;
        self.notes.within(Segment::Field(name.into()), || read(self.notes, value))
    }

    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        self.read(name, text)
    }

    pub(super) fn word<T: Word>(&mut self, name: &str) -> Option<T> {
        self.read(name, |notes, value| {
            let given = text(notes, value)?;
            words::read(&given).map_err(|problem| notes.wrong(problem)).ok()
        })
    }

    pub(super) fn texts(&mut self, name: &str) -> Option<Vec<String>> {
        // What is no text has been noted, and its place is kept: others are told by their numbers.
        self.read(name, |notes, value| list(notes, value, |notes, value| Some(text(notes, value).unwrap_or_default())))
    }

    pub(super) fn list<T>(&mut self, name: &str, read: impl FnMut(&'n Notes, Value) -> Option<T>) -> Option<Vec<T>> {
        self.read(name, |notes, value| list(notes, value, read))
    }

    pub(super) fn bool(&mut self, name: &str) -> Option<bool> {
        self.read(name, |notes, value| match value {
            Value::Bool(given) => Some(given),
            other => wrong(notes, "true or false", &other),
        })
    }

    pub(super) fn number(&mut self, name: &str) -> Option<f64> {
        self.read(name, |notes, value| match value {
            Value::Integer(given) => Some(given as f64),
            Value::Unsigned(given) => Some(given as f64),
            // One that is not finite is noted already.
            Value::Float(given) => Some(given),
            other => wrong(notes, "a number", &other),
        })
    }

    pub(super) fn count(&mut self, name: &str) -> Option<NonZeroUsize> {
        self.read(name, |notes, value| {
            let given = match value {
                Value::Integer(given) => usize::try_from(given).ok().and_then(NonZeroUsize::new),
                _ => None,
            };
            given.or_else(|| wrong(notes, "a whole number above 0", &value))
        })
    }

    /// Parameters or values by name, as they are: the types that take them judge them. Nothing at all is none of them.
    pub(super) fn values(&mut self, name: &str) -> Option<BTreeMap<String, Value>> {
        self.read(name, |notes, value| match value {
            Value::Map(given) => Some(given),
            Value::Null => Some(BTreeMap::new()),
            other => wrong(notes, &format!("{name} by name"), &other),
        })
    }

    pub(super) fn plugin(&mut self, name: &str) -> Option<PluginDefinition> {
        self.read(name, super::objects::plugin)
    }
}

fn wrong<T>(notes: &Notes, expected: &str, found: &Value) -> Option<T> {
    notes.wrong(Problem::wrong_type(expected, found));
    None
}

fn text(notes: &Notes, value: Value) -> Option<String> {
    match value {
        Value::Text(given) => Some(given),
        other => wrong(notes, "a text", &other),
    }
}

/// Every element that can be read; the others are noted.
fn list<'n, T>(notes: &'n Notes, value: Value, mut read: impl FnMut(&'n Notes, Value) -> Option<T>) -> Option<Vec<T>> {
    let Value::List(values) = value else { return wrong(notes, "a list", &value) };
    let read = |(at, value)| notes.within(Segment::Element(at), || read(notes, value));
    Some(values.into_iter().enumerate().filter_map(read).collect())
}
