//! Serde reflection: the fields of a type, recorded by a probing deserializer.
//!
//! A derived type says what it wants before it gets it: "a struct of these fields", "an unsigned number". The probe
//! writes that down and then refuses. Types that ask for "anything", as untagged and flattened ones do, tell nothing,
//! and nothing is claimed of them.

use std::collections::BTreeMap;

use serde::de::value::{Error as Refusal, StrDeserializer};
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::{Entries, Names, ParameterError, Visited, parse};
use crate::value::Value;

/// What a type asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Shape {
    /// It does not say.
    #[default]
    Any,
    Bool,
    Integer,
    Unsigned,
    Number,
    Text,
    /// One of several words, or a word with something to it.
    Words(&'static [&'static str]),
    List(Box<Shape>),
    Map(Box<Shape>),
    Struct(&'static [&'static str]),
}

impl Shape {
    /// Some value of this shape; a type with a narrower idea refuses it.
    fn sample(&self) -> Value {
        match self {
            Self::Any => Value::Null,
            Self::Bool => Value::Bool(false),
            Self::Integer | Self::Unsigned => Value::Integer(1),
            Self::Number => Value::Float(1.0),
            Self::Text => Value::Text(String::new()),
            Self::Words(words) => Value::from(words.first().copied().unwrap_or_default()),
            Self::List(_) => Value::List(Vec::new()),
            Self::Map(_) | Self::Struct(_) => Value::Map(BTreeMap::new()),
        }
    }
}

/// The fields of a struct and what each takes; none for a type that is no struct.
pub(super) fn fields<P: DeserializeOwned>() -> Option<Vec<(&'static str, Shape)>> {
    let mut shape = Shape::Any;
    let _ = P::deserialize(Probe { shape: &mut shape, field: None, depth: 0 });
    let Shape::Struct(names) = shape else { return None };
    let probe = |name: &&'static str| {
        let mut shape = Shape::Any;
        let _ = P::deserialize(Probe { shape: &mut shape, field: Some(name), depth: 0 });
        (*name, shape)
    };
    Some(names.iter().map(probe).collect())
}

/// Those that must be given: with all others left out, the type misses one after the other. It is found only as far as
/// samples suit the type; one that may be given by another name is not among them.
pub(super) fn required<P: DeserializeOwned>(fields: &[(&'static str, Shape)]) -> Vec<Box<str>> {
    let (mut given, mut required) = (BTreeMap::new(), Vec::new());
    while let Err(ParameterError::Missing { parameter }) = parse::<P>(&given) {
        let Some(field) = fields.iter().find(|(name, _)| **name == *parameter) else { break };
        if given.insert(parameter.to_string(), field.1.sample()).is_some() {
            break;
        }
        if !has_other_name::<P>(field, fields) {
            required.push(parameter);
        }
    }
    required
}

/// Whether a field has an alias: serde lists it among the fields, and refuses it after the field's own name.
fn has_other_name<P: DeserializeOwned>(field: &(&'static str, Shape), fields: &[(&'static str, Shape)]) -> bool {
    let (name, shape) = field;
    let sample = shape.sample();
    let twice = ParameterError::duplicate_field(name);
    let is_same = |(other, other_shape): &&(&'static str, Shape)| {
        match P::deserialize(Entries::new([(*name, &sample), (*other, &Value::Null)])) {
            Err(error) if error == twice => true,
            // The sample is refused before it comes to the other name. What looks the same may be the same.
            Err(error) => error.given() == Some(name) && other_shape == shape,
            Ok(_) => false,
        }
    };
    fields.iter().filter(|(other, _)| other != name).any(|other| is_same(&other))
}

/// Takes notes of what is asked for, of one field of a struct if one is named, and never gives it.
struct Probe<'s> {
    shape: &'s mut Shape,
    field: Option<&'static str>,
    /// How many types it is inside of.
    depth: usize,
}

impl<'s> Probe<'s> {
    fn noted<T>(self, shape: Shape) -> Result<T, Refusal> {
        *self.shape = shape;
        Err(Refusal::custom("noted"))
    }

    /// The same, one type further in; none where it is deep enough. A type that holds itself has no end.
    fn deeper(self) -> Option<Self> {
        (self.depth < DEEPEST).then_some(Self { depth: self.depth + 1, ..self })
    }

    /// What is asked for inside of a list or a map: of one element, since one that takes every refusal has no end.
    fn one<'i>(&self, shape: &'i mut Shape) -> Option<One<'i>> {
        (self.depth < DEEPEST).then_some(One { shape, name: Some("any"), depth: self.depth + 1 })
    }
}

/// The only element of a list, or the only entry of a map.
struct One<'s> {
    shape: &'s mut Shape,
    /// Its name in a map; none once it is handed out.
    name: Option<&'static str>,
    depth: usize,
}

impl One<'_> {
    fn value(&mut self) -> Probe<'_> {
        Probe { shape: self.shape, field: None, depth: self.depth }
    }
}

/// How far types are looked into.
const DEEPEST: usize = 8;

fn too_deep() -> Refusal {
    Refusal::custom("too deep")
}

macro_rules! note {
    ($($shape:ident: $($method:ident)*;)*) => {$($(
        fn $method<V: Visitor<'de>>(self, _: V) -> Visited<'de, V, Refusal> {
            self.noted(Shape::$shape)
        }
    )*)*};
}

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Refusal;

    note! {
        Any: deserialize_any deserialize_bytes deserialize_byte_buf deserialize_unit;
        Any: deserialize_identifier deserialize_ignored_any;
        Bool: deserialize_bool;
        Integer: deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64 deserialize_i128;
        Unsigned: deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128;
        Number: deserialize_f32 deserialize_f64;
        Text: deserialize_char deserialize_str deserialize_string;
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Visited<'de, V, Refusal> {
        visitor.visit_some(self.deeper().ok_or_else(too_deep)?)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Visited<'de, V, Refusal> {
        visitor.visit_newtype_struct(self.deeper().ok_or_else(too_deep)?)
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, _: V) -> Visited<'de, V, Refusal> {
        self.noted(Shape::Any)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Visited<'de, V, Refusal> {
        let mut element = Shape::Any;
        let refused = visitor.visit_seq(self.one(&mut element).ok_or_else(too_deep)?);
        *self.shape = Shape::List(Box::new(element));
        refused
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, _: V) -> Visited<'de, V, Refusal> {
        self.noted(Shape::List(Box::default()))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(self, _: &'static str, _: usize, _: V) -> Visited<'de, V, Refusal> {
        self.noted(Shape::List(Box::default()))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Visited<'de, V, Refusal> {
        let mut value = Shape::Any;
        let refused = visitor.visit_map(self.one(&mut value).ok_or_else(too_deep)?);
        *self.shape = Shape::Map(Box::new(value));
        refused
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: Names,
        visitor: V,
    ) -> Visited<'de, V, Refusal> {
        if self.field.is_some() {
            return visitor.visit_map(One { shape: self.shape, name: self.field, depth: self.depth });
        }
        self.noted(Shape::Struct(fields))
    }

    fn deserialize_enum<V: Visitor<'de>>(self, _: &'static str, variants: Names, _: V) -> Visited<'de, V, Refusal> {
        self.noted(Shape::Words(variants))
    }
}

impl<'de> MapAccess<'de> for One<'_> {
    type Error = Refusal;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Refusal> {
        let name = self.name.take().map(StrDeserializer::<Refusal>::new);
        name.map(|name| seed.deserialize(name)).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Refusal> {
        seed.deserialize(self.value())
    }
}

impl<'de> SeqAccess<'de> for One<'_> {
    type Error = Refusal;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refusal> {
        self.name.take().map(|_| seed.deserialize(self.value())).transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Mode {
        Fast,
        Exact,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only how it deserializes matters")]
    struct Inner {
        x: u8,
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only how it deserializes matters")]
    struct Sample {
        name: String,
        count: NonZeroU32,
        share: Option<f32>,
        mode: Mode,
        #[serde(default)]
        regions: Vec<String>,
        #[serde(default)]
        limits: BTreeMap<String, u64>,
        #[serde(default)]
        inner: Option<Inner>,
        #[serde(default)]
        rest: Value,
    }

    #[test]
    fn a_derived_type_tells_its_fields_and_what_each_takes() {
        let fields = fields::<Sample>().expect("a struct");
        let expected = [
            ("name", Shape::Text),
            ("count", Shape::Unsigned),
            ("share", Shape::Number),
            ("mode", Shape::Words(&["fast", "exact"])),
            ("regions", Shape::List(Box::new(Shape::Text))),
            ("limits", Shape::Map(Box::new(Shape::Unsigned))),
            ("inner", Shape::Struct(&["x"])),
            ("rest", Shape::Any),
        ];
        assert_eq!(fields, expected);
        assert_eq!(required::<Sample>(&fields), ["name".into(), "count".into(), "mode".into()]);
    }

    #[test]
    fn a_type_that_is_no_struct_tells_nothing() {
        assert_eq!(fields::<BTreeMap<String, u8>>(), None);
        assert_eq!(fields::<Value>(), None);
    }

    #[derive(Deserialize)]
    #[serde(transparent)]
    #[expect(dead_code, reason = "only how it deserializes matters")]
    struct Tree(BTreeMap<String, Tree>);

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only how it deserializes matters")]
    struct Chain(Option<Box<Chain>>);

    /// Takes whatever there is, even a refusal.
    struct Lenient;

    impl<'de> Deserialize<'de> for Lenient {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            Ok(u8::deserialize(deserializer).map_or(Self, |_| Self))
        }
    }

    #[derive(Deserialize)]
    #[expect(dead_code, reason = "only how it deserializes matters")]
    struct Endless {
        tree: Tree,
        chain: Option<Chain>,
        list: Vec<Lenient>,
        map: BTreeMap<String, Lenient>,
    }

    #[test]
    fn a_type_without_end_is_looked_into_only_so_far() {
        let fields = fields::<Endless>().expect("a struct");
        assert!(matches!(&fields[0], ("tree", Shape::Map(inner)) if matches!(&**inner, Shape::Map(_))));
        assert_eq!(fields[1], ("chain", Shape::Any));
        assert_eq!(fields[2], ("list", Shape::List(Box::new(Shape::Unsigned))));
        assert_eq!(fields[3], ("map", Shape::Map(Box::new(Shape::Unsigned))));
        assert_eq!(required::<Endless>(&fields), ["tree".into(), "list".into(), "map".into()]);
    }
}
