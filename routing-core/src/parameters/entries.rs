//! A serde deserializer over values by name.
//!
//! What is wrong inside of a value is told as a fault of its name, so that a field that a nested struct misses is not
//! taken for a parameter.

use serde::de::value::{MapAccessDeserializer, StrDeserializer};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};

use super::{Names, ParameterError, Visited, hand_over};
use crate::value::Value;

/// Entries of a map.
pub(crate) struct Entries<'v, I> {
    rest: I,
    /// The one whose name is read, and whose value is not.
    next: Option<(&'v str, &'v Value)>,
}

impl<'v, I: Iterator<Item = (&'v str, &'v Value)>> Entries<'v, I> {
    pub(crate) fn new(entries: impl IntoIterator<IntoIter = I>) -> Self {
        Self { rest: entries.into_iter(), next: None }
    }

    /// Nothing at all is as good as no entries.
    fn unit<V: Visitor<'v>>(mut self, visitor: V) -> Result<V::Value, ParameterError> {
        match self.rest.next() {
            None => visitor.visit_unit(),
            Some(entry) => visitor.visit_map(Entries::new(std::iter::once(entry).chain(self.rest))),
        }
    }
}

impl<'de, I: Iterator<Item = (&'de str, &'de Value)>> MapAccess<'de> for Entries<'de, I> {
    type Error = ParameterError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ParameterError> {
        self.next = self.rest.next();
        self.next.map(|(name, _)| seed.deserialize(Name(name))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ParameterError> {
        let (name, value) = self.next.take().unwrap_or(("", &Value::Null));
        seed.deserialize(value).map_err(|error| error.of(name))
    }
}

impl<'de, I: Iterator<Item = (&'de str, &'de Value)>> Deserializer<'de> for Entries<'de, I> {
    type Error = ParameterError;

    hand_over! {
        deserialize_any(self) => visit_map(self);
        deserialize_option(self) => visit_some(self);
        deserialize_newtype_struct(self, &'static str) => visit_newtype_struct(self);
        deserialize_enum(self, &'static str, Names) => visit_enum(MapAccessDeserializer::new(self));
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Visited<'de, V, ParameterError> {
        self.unit(visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Visited<'de, V, ParameterError> {
        self.unit(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf seq tuple tuple_struct map
        struct identifier ignored_any
    }
}

/// A name, which is a number where a number is asked for: documents have no other names.
struct Name<'v>(&'v str);

macro_rules! number {
    ($($visit:ident: $($method:ident)*;)*) => {$($(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Visited<'de, V, ParameterError> {
            match self.0.parse() {
                Ok(number) => visitor.$visit(number),
                Err(_) => visitor.visit_borrowed_str(self.0),
            }
        }
    )*)*};
}

impl<'de> Deserializer<'de> for Name<'de> {
    type Error = ParameterError;

    number! {
        visit_bool: deserialize_bool;
        visit_i64: deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64;
        visit_i128: deserialize_i128;
        visit_u64: deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64;
        visit_u128: deserialize_u128;
    }

    hand_over! {
        deserialize_any(self) => visit_borrowed_str(self.0);
        deserialize_option(self) => visit_some(self);
        deserialize_newtype_struct(self, &'static str) => visit_newtype_struct(self);
        deserialize_enum(self, &'static str, Names) => visit_enum(StrDeserializer::new(self.0));
    }

    serde::forward_to_deserialize_any! {
        f32 f64 char str string bytes byte_buf unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
