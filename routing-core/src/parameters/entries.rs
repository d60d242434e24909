//! A serde deserializer over values by name, which refuses what a struct does not ask for.
//!
//! A derived struct says its fields when it asks for itself, at any depth. A name that is none of them is refused there and
//! then, whether or not the type denies unknown fields.

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

use super::variant::Variant;
use super::{Names, Refusal, Visited, hand_over};
use crate::path::Segment;
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
    fn unit<V: Visitor<'v>>(mut self, visitor: V) -> Result<V::Value, Refusal> {
        match self.rest.next() {
            None => visitor.visit_unit(),
            Some(entry) => visitor.visit_map(Entries::new(std::iter::once(entry).chain(self.rest))),
        }
    }
}

impl<'de, I: Iterator<Item = (&'de str, &'de Value)>> MapAccess<'de> for Entries<'de, I> {
    type Error = Refusal;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refusal> {
        self.next = self.rest.next();
        self.next.map(|(name, _)| seed.deserialize(Name(name))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refusal> {
        let (name, value) = self.next.take().unwrap_or(("", &Value::Null));
        seed.deserialize(value).map_err(|error| error.inside(Segment::Field(name.into())))
    }
}

impl<'de, I: Iterator<Item = (&'de str, &'de Value)>> Deserializer<'de> for Entries<'de, I> {
    type Error = Refusal;

    hand_over! {
        deserialize_any(self) => visit_map(self);
        deserialize_option(self) => visit_some(self);
        deserialize_newtype_struct(self, &'static str) => visit_newtype_struct(self);
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: Names,
        visitor: V,
    ) -> Visited<'de, V, Refusal> {
        let given: Vec<_> = self.rest.collect();
        deny_unknown(given.iter().map(|(name, _)| *name), fields)?;
        visitor.visit_map(Entries::new(given))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        mut self,
        _: &'static str,
        variants: Names,
        visitor: V,
    ) -> Visited<'de, V, Refusal> {
        let Some((name, value)) = self.rest.next() else {
            return Err(Refusal::custom(format_args!("expected one of {}", variants.join(", "))));
        };
        if let Some((other, _)) = self.rest.next() {
            let both = format!("`{name}` and `{other}` are given, where one of {} is meant", variants.join(", "));
            return Err(Refusal::custom(both));
        }
        visitor.visit_enum(Variant { name, value: Some(value) })
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Visited<'de, V, Refusal> {
        self.unit(visitor)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Visited<'de, V, Refusal> {
        self.unit(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf seq tuple tuple_struct map
        identifier ignored_any
    }
}

/// Whether all names are fields.
pub(super) fn deny_unknown<N: AsRef<str>>(names: impl Iterator<Item = N>, fields: Names) -> Result<(), Refusal> {
    let mut unknown = names.filter(|name| !fields.contains(&name.as_ref()));
    unknown.next().map_or(Ok(()), |name| Err(Refusal::unknown_field(name.as_ref(), fields)))
}

/// A name, which is a number where a number is asked for: documents have no other names.
struct Name<'v>(&'v str);

macro_rules! number {
    ($($visit:ident: $($method:ident)*;)*) => {$($(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Visited<'de, V, Refusal> {
            match self.0.parse() {
                Ok(number) => visitor.$visit(number),
                Err(_) => visitor.visit_borrowed_str(self.0),
            }
        }
    )*)*};
}

impl<'de> Deserializer<'de> for Name<'de> {
    type Error = Refusal;

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
