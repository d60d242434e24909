//! Serde reflection: the fields of a type, recorded by a probing deserializer.
//!
//! A derived type says what it wants before it gets it: "a struct of these fields", "an unsigned number". The probe
//! writes that down and then refuses. Types that ask for "anything", as untagged and flattened ones do, tell nothing,
//! and nothing is claimed of them.

use std::collections::BTreeMap;

use serde::de::value::{Error as Noted, StrDeserializer};
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::{Entries, Names, Refusal, Visited, parse};
use crate::path::Segment;
use crate::value::Value;

/// What a type asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shape {
    /// It does not say.
    #[default]
    Any,
    /// Nothing, as a word has nothing to it.
    Unit,
    Bool,
    Integer,
    Unsigned,
    Number,
    Text,
    /// One of several words, each with what is to it.
    Words(Vec<(&'static str, Shape)>),
    List(Box<Shape>),
    Map(Box<Shape>),
    Struct(Vec<(&'static str, Shape)>),
}

impl Shape {
    /// Some value of this shape; a type with a narrower idea refuses it.
    fn sample(&self) -> Value {
        match self {
            Self::Any | Self::Unit => Value::Null,
            Self::Bool => Value::Bool(false),
            Self::Integer | Self::Unsigned => Value::Integer(1),
            Self::Number => Value::Float(1.0),
            Self::Text => Value::Text(String::new()),
            Self::Words(words) => Value::from(words.first().map(|(word, _)| *word).unwrap_or_default()),
            Self::List(_) => Value::List(Vec::new()),
            Self::Map(_) | Self::Struct(_) => Value::Map(BTreeMap::new()),
        }
    }
}

/// The fields of a struct and what each takes; none for a type that is no struct.
pub(super) fn fields<P: DeserializeOwned>() -> Option<Vec<(&'static str, Shape)>> {
    match shape::<P>(&mut Vec::new()) {
        Shape::Struct(fields) => Some(fields),
        _ => None,
    }
}

/// What a type asks for at the end of a way into it, with all that is further in. A type that holds itself has no end.
fn shape<P: DeserializeOwned>(way: &mut Vec<Into>) -> Shape {
    let mut shape = Shape::Any;
    let _ = P::deserialize(Probe { shape: &mut shape, way, depth: 0 });
    if way.len() >= DEEPEST {
        return shape;
    }
    let mut further = |step: Into| {
        way.push(step);
        let inside = self::shape::<P>(way);
        way.pop();
        inside
    };
    match &mut shape {
        Shape::Struct(fields) => fields.iter_mut().for_each(|(name, shape)| *shape = further(Into::Field(name))),
        Shape::Words(words) => words.iter_mut().for_each(|(word, shape)| *shape = further(Into::Word(word))),
        Shape::List(inside) | Shape::Map(inside) => **inside = further(Into::Element),
        _ => {}
    }
    shape
}

/// A step further into a type.
#[derive(Clone, Copy)]
enum Into {
    Field(&'static str),
    Word(&'static str),
    Element,
}

/// Those that must be given: with all others left out, the type misses one after the other. It is found only as far as
/// samples suit the type; one that may be given by another name is not among them.
pub(super) fn required<P: DeserializeOwned>(fields: &[(&'static str, Shape)]) -> Vec<Box<str>> {
    let (mut given, mut required) = (BTreeMap::new(), Vec::new());
    while let Err(refusal) = parse::<P>(&given) {
        let Some(parameter) = refusal.missing().filter(|_| refusal.path().is_empty()) else { break };
        let Some(field) = fields.iter().find(|(name, _)| *name == parameter) else { break };
        if given.insert(parameter.to_owned(), field.1.sample()).is_some() {
            break;
        }
        if !has_other_name::<P>(field, fields) {
            required.push(parameter.into());
        }
    }
    required
}

/// Whether a field has an alias: serde lists it among the fields, and refuses it after the field's own name.
fn has_other_name<P: DeserializeOwned>(field: &(&'static str, Shape), fields: &[(&'static str, Shape)]) -> bool {
    let (name, shape) = field;
    let sample = shape.sample();
    let twice = Refusal::duplicate_field(name).to_string();
    let is_same = |(other, other_shape): &&(&'static str, Shape)| {
        match P::deserialize(Entries::new([(*name, &sample), (*other, &Value::Null)])) {
            Err(error) if error.path().is_empty() && error.to_string() == twice => true,
            // The sample is refused before it comes to the other name. What looks the same may be the same.
            Err(error) => {
                let own = Segment::Field((*name).into());
                error.path().first() == Some(&own) && other_shape == shape
            }
            Ok(_) => false,
        }
    };
    fields.iter().filter(|(other, _)| other != name).any(|other| is_same(&other))
}

/// Goes some way into a type, takes a note of what is asked for there, and never gives it.
struct Probe<'s> {
    shape: &'s mut Shape,
    way: &'s [Into],
    /// How many types it is inside of.
    depth: usize,
}

impl<'s> Probe<'s> {
    fn noted<T>(self, shape: Shape) -> Result<T, Noted> {
        if self.way.is_empty() {
            *self.shape = shape;
        }
        Err(Noted::custom("noted"))
    }

    /// The same, one type further in; none where it is deep enough. A type that holds itself has no end.
    fn deeper(self) -> Result<Self, Noted> {
        match self.depth < 4 * DEEPEST {
            true => Ok(Self { depth: self.depth + 1, ..self }),
            false => Err(Noted::custom("too deep")),
        }
    }

    /// What is next on the way, and the only element or entry that leads there.
    fn next(self) -> Option<(Into, One<'s>)> {
        let (next, way) = self.way.split_first()?;
        let name = match next {
            Into::Field(name) | Into::Word(name) => name,
            Into::Element => "any",
        };
        Some((*next, One { shape: self.shape, name: Some(name), way, depth: self.depth + 1 }))
    }

    /// A struct, or what one of its fields asks for.
    fn fields<'de, V: Visitor<'de>>(self, fields: Names, visitor: V) -> Visited<'de, V, Noted> {
        if self.way.is_empty() {
            return self.noted(Shape::Struct(unknown(fields)));
        }
        match self.next() {
            Some((Into::Field(_), one)) => visitor.visit_map(one),
            _ => Err(Noted::custom("no such way")),
        }
    }
}

/// The only element of a list, or the only entry of a map: one that takes every refusal has no end.
struct One<'s> {
    shape: &'s mut Shape,
    /// Its name in a map; none once it is handed out.
    name: Option<&'static str>,
    way: &'s [Into],
    depth: usize,
}

impl One<'_> {
    fn value(&mut self) -> Probe<'_> {
        Probe { shape: self.shape, way: self.way, depth: self.depth }
    }
}

/// How far types are looked into.
const DEEPEST: usize = 6;

fn unknown(names: Names) -> Vec<(&'static str, Shape)> {
    names.iter().map(|name| (*name, Shape::Any)).collect()
}

macro_rules! note {
    ($($shape:ident: $($method:ident)*;)*) => {$($(
        fn $method<V: Visitor<'de>>(self, _: V) -> Visited<'de, V, Noted> {
            self.noted(Shape::$shape)
        }
    )*)*};
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Noted;

    note! {
        Any: deserialize_any deserialize_bytes deserialize_byte_buf deserialize_unit;
        Any: deserialize_identifier deserialize_ignored_any;
        Bool: deserialize_bool;
        Integer: deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128;
        Unsigned: deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128;
        Number: deserialize_f32 deserialize_f64;
        Text: deserialize_char deserialize_str deserialize_string;
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Visited<'de, V, Noted> {
        visitor.visit_some(self.deeper()?)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Visited<'de, V, Noted> {
        visitor.visit_newtype_struct(self.deeper()?)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, _: V) -> Visited<'de, V, Noted> {
        self.noted(Shape::Any)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Visited<'de, V, Noted> {
        if self.way.is_empty() {
            return self.noted(Shape::List(Box::default()));
        }
        match self.next() {
            Some((Into::Element, one)) => visitor.visit_seq(one),
            _ => Err(Noted::custom("no such way")),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, _: V) -> Visited<'de, V, Noted> {
        self.noted(Shape::List(Box::default()))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(self, _: &'static str, _: usize, _: V) -> Visited<'de, V, Noted> {
        self.noted(Shape::List(Box::default()))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Visited<'de, V, Noted> {
        if self.way.is_empty() {
            return self.noted(Shape::Map(Box::default()));
        }
        match self.next() {
            Some((Into::Element, one)) => visitor.visit_map(one),
            _ => Err(Noted::custom("no such way")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(self, _: &'static str, fields: Names, visitor: V) -> Visited<'de, V, Noted> {
        self.fields(fields, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(self, _: &'static str, words: Names, visitor: V) -> Visited<'de, V, Noted> {
        if self.way.is_empty() {
            return self.noted(Shape::Words(unknown(words)));
        }
        match self.next() {
            Some((Into::Word(_), one)) => visitor.visit_enum(one),
            _ => Err(Noted::custom("no such way")),
        }
    }
}

impl<'de, 's> EnumAccess<'de> for One<'s> {
    type Error = Noted;
    type Variant = Probe<'s>;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Probe<'s>), Noted> {
        let word = seed.deserialize(StrDeserializer::<Noted>::new(self.name.unwrap_or_default()))?;
        Ok((word, Probe { shape: self.shape, way: self.way, depth: self.depth }))
    }
}

impl<'de> VariantAccess<'de> for Probe<'_> {
    type Error = Noted;

    fn unit_variant(self) -> Result<(), Noted> {
        self.noted(Shape::Unit)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Noted> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Noted> {
        self.noted(Shape::List(Box::default()))
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: Names, visitor: V) -> Result<V::Value, Noted> {
        self.fields(fields, visitor)
    }
}

impl<'de> MapAccess<'de> for One<'_> {
    type Error = Noted;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Noted> {
        let name = self.name.take().map(StrDeserializer::<Noted>::new);
        name.map(|name| seed.deserialize(name)).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Noted> {
        seed.deserialize(self.value())
    }
}

impl<'de> SeqAccess<'de> for One<'_> {
    type Error = Noted;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Noted> {
        self.name.take().map(|_| seed.deserialize(self.value())).transpose()
    }
}

#[cfg(test)]
mod tests;
