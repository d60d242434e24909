//! The first pass over a document: whatever the format has, as one tree of values.
//!
//! Only the format itself, and nesting without end, can stop it. All else that is wrong is noted, and reading goes on.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::notes::Notes;
use crate::document::Problem;
use crate::path::Segment;
use crate::value::{MOST_NESTING, Value};

/// Reads a tree of values.
#[derive(Clone, Copy)]
pub(super) struct Tree<'n> {
    pub(super) notes: &'n Notes,
    pub(super) depth: usize,
}

impl Tree<'_> {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        if self.depth >= MOST_NESTING {
            self.notes.wrong(Problem::TooDeep { most: MOST_NESTING });
            self.notes.stopped.set(true);
            return Err(E::custom("nested too deeply"));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Methods of a visitor that keep what they are given.
macro_rules! keep {
    ($($visit:ident($($value:ident: $type:ty)?) => $given:expr;)*) => {$(
        fn $visit<E: Error>(self, $($value: $type)?) -> Result<Value, E> {
            Ok(Value::from($given))
        }
    )*};
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    keep! {
        visit_unit() => Value::Null;
        visit_none() => Value::Null;
        visit_bool(value: bool) => value;
        visit_i64(value: i64) => value;
        visit_u64(value: u64) => value;
        visit_str(value: &str) => value;
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        // JSON would write it as nothing, and the document would not be the same any more.
        if !value.is_finite() {
            self.notes.wrong(Problem::NotFinite);
        }
        Ok(Value::Float(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let inside = self.deeper()?;
        let mut values = Vec::new();
        loop {
            self.notes.enter(Segment::Element(values.len()));
            let value = seq.next_element_seed(inside)?;
            self.notes.leave();
            let Some(value) = value else { return Ok(Value::List(values)) };
            values.push(value);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let inside = self.deeper()?;
        let mut values = BTreeMap::new();
        while let Some(name) = map.next_key::<String>()? {
            self.notes.enter(Segment::Field(name.as_str().into()));
            let value = map.next_value_seed(inside)?;
            if values.contains_key(&name) {
                self.notes.wrong(Problem::GivenTwice { name: name.as_str().into() });
            }
            self.notes.leave();
            values.entry(name).or_insert(value);
        }
        Ok(Value::Map(values))
    }
}
