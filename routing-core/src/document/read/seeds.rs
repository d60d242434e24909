//! Seeds that every part of a document is read by: a text that is judged where it stands, and a list of one kind of thing.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

/// Reads a text and makes something of it; a refusal is placed where the text stands.
#[derive(Clone)]
pub(super) struct CheckedText<F> {
    what: String,
    check: F,
}

impl<F> CheckedText<F> {
    /// `what` is what is expected, as an error says it.
    pub(super) fn new<T, R>(what: impl Into<String>, check: F) -> Self
    where
        F: FnOnce(&str) -> Result<T, R>,
    {
        Self { what: what.into(), check }
    }
}

impl<'de, T, R: fmt::Display, F: FnOnce(&str) -> Result<T, R>> DeserializeSeed<'de> for CheckedText<F> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<T, R: fmt::Display, F: FnOnce(&str) -> Result<T, R>> Visitor<'_> for CheckedText<F> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }

    fn visit_str<E: Error>(self, given: &str) -> Result<T, E> {
        (self.check)(given).map_err(E::custom)
    }
}

/// Reads a list, each element by the same seed.
pub(super) struct ListOf<S>(pub(super) S);

impl<'de, T, S: DeserializeSeed<'de, Value = T> + Visitor<'de> + Clone> DeserializeSeed<'de> for ListOf<S> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T, S: DeserializeSeed<'de, Value = T> + Visitor<'de> + Clone> Visitor<'de> for ListOf<S> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list, each ")?;
        self.0.expecting(f)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = seq.next_element_seed(self.0.clone())? {
            elements.push(element);
        }
        Ok(elements)
    }
}
