//! A dynamically typed value, as documents carry it until a plugin's own type takes it.
//!
//! It holds what YAML, JSON and TOML have in common, so that a document read from one can be written in another.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::ser::{Serialize, Serializer};

use crate::parameters::{Entries, Names, Refusal, Variant, Visited, hand_over};
use crate::path::Segment;

/// A value of a document: of a parameter, or of a schema.
///
/// # Examples
///
/// ```
/// use routing_core::Value;
///
/// let value: Value = serde_json::from_str(r#"{"regions": ["eu", "us"], "limit": 3}"#)?;
/// let Value::Map(map) = value else { panic!("not a map") };
/// assert_eq!(map["limit"], Value::from(3_i64));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[expect(clippy::exhaustive_enums, reason = "the kinds of value that the formats share: complete by nature")]
pub enum Value {
    /// Nothing. TOML cannot write it.
    #[default]
    Null,
    /// Yes or no.
    Bool(bool),
    /// A whole number.
    Integer(i64),
    /// A whole number that only the unsigned type can hold. TOML cannot write it.
    Unsigned(u64),
    /// Any other number. Only finite ones are read.
    Float(f64),
    /// A text.
    Text(String),
    /// Values in order.
    List(Vec<Value>),
    /// Values by name.
    Map(BTreeMap<String, Value>),
}

macro_rules! value_from {
    ($($type:ty => $variant:ident,)*) => {$(
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$variant(value)
            }
        }
    )*};
}

value_from! { bool => Bool, i64 => Integer, f64 => Float, }

impl From<u64> for Value {
    /// One number has one form, so that equal documents are equal.
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Self::Unsigned(value), Self::Integer)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl Serialize for Value {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Integer(value) => serializer.serialize_i64(*value),
            Self::Unsigned(value) => serializer.serialize_u64(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Text(value) => serializer.serialize_str(value),
            Self::List(values) => values.serialize(serializer),
            Self::Map(values) => values.serialize(serializer),
        }
    }
}

/// How deep values may be nested in each other: more than any plugin takes, and little enough for every stack.
pub(crate) const MOST_NESTING: usize = 64;

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        AnyValue { depth: 0 }.deserialize(deserializer)
    }
}

impl fmt::Display for Value {
    /// What kind of value it is, and which if it is small.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("nothing"),
            Self::Bool(value) => write!(f, "`{value}`"),
            Self::Integer(value) => write!(f, "the number `{value}`"),
            Self::Unsigned(value) => write!(f, "the number `{value}`"),
            Self::Float(value) => write!(f, "the number `{value}`"),
            Self::Text(value) => write!(f, "the text `{value}`"),
            Self::List(_) => f.write_str("a list"),
            Self::Map(_) => f.write_str("a map"),
        }
    }
}

/// Takes any value.
#[derive(Clone, Copy)]
struct AnyValue {
    depth: usize,
}

impl AnyValue {
    fn deeper<E: Error>(self) -> Result<Self, E> {
        if self.depth >= MOST_NESTING {
            return Err(E::custom(format_args!("nested more than {MOST_NESTING} levels deep")));
        }
        Ok(Self { depth: self.depth + 1 })
    }
}

impl<'de> DeserializeSeed<'de> for AnyValue {
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

impl<'de> Visitor<'de> for AnyValue {
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

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        // JSON would write it as nothing, and the document would not be the same any more.
        if !value.is_finite() {
            return Err(E::custom(format_args!("`{value}` is no finite number: give one, or leave it out")));
        }
        Ok(Value::Float(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let (inside, mut values) = (self.deeper()?, Vec::new());
        while let Some(value) = seq.next_element_seed(inside)? {
            values.push(value);
        }
        Ok(Value::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let (inside, mut values) = (self.deeper()?, BTreeMap::new());
        while let Some(key) = map.next_key::<String>()? {
            let value = map.next_value_seed(inside)?;
            if values.contains_key(&key) {
                return Err(A::Error::custom(format_args!("`{key}` is given twice")));
            }
            values.insert(key, value);
        }
        Ok(Value::Map(values))
    }
}

/// The other way: a plugin's own type is made of a value.
impl<'de> Deserializer<'de> for &'de Value {
    type Error = Refusal;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Visited<'de, V, Refusal> {
        match self {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Integer(value) => visitor.visit_i64(*value),
            Value::Unsigned(value) => visitor.visit_u64(*value),
            Value::Float(value) => visitor.visit_f64(*value),
            Value::Text(value) => visitor.visit_borrowed_str(value),
            Value::List(values) => visitor.visit_seq(Elements { rest: values.iter().enumerate() }),
            Value::Map(values) => entries(values).deserialize_any(visitor),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Visited<'de, V, Refusal> {
        match self {
            Value::Null => visitor.visit_none(),
            value => visitor.visit_some(value),
        }
    }

    hand_over! {
        deserialize_newtype_struct(self, &'static str) => visit_newtype_struct(self);
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: Names,
        visitor: V,
    ) -> Visited<'de, V, Refusal> {
        match self {
            Value::Map(values) => entries(values).deserialize_struct(name, fields, visitor),
            other => other.deserialize_any(visitor),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: Names,
        visitor: V,
    ) -> Visited<'de, V, Refusal> {
        match self {
            Value::Text(name) => visitor.visit_enum(Variant { name, value: None }),
            Value::Map(values) => entries(values).deserialize_enum(name, variants, visitor),
            other => other.deserialize_any(visitor),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Refusal> for &'de Value {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// The elements of a list, each refused by its number.
struct Elements<'v> {
    rest: std::iter::Enumerate<std::slice::Iter<'v, Value>>,
}

impl<'de> SeqAccess<'de> for Elements<'de> {
    type Error = Refusal;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Refusal> {
        let Some((at, value)) = self.rest.next() else { return Ok(None) };
        seed.deserialize(value).map(Some).map_err(|error| error.inside(Segment::Element(at)))
    }
}

/// A map of values as something to deserialize from.
pub(crate) fn entries(values: &BTreeMap<String, Value>) -> Entries<'_, impl Iterator<Item = (&str, &Value)>> {
    Entries::new(values.iter().map(|(name, value)| (name.as_str(), value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Shape {
        Point,
        Circle(f64),
        Box { width: u8 },
    }

    fn read(json: &str) -> Result<Shape, Refusal> {
        let value: Value = serde_json::from_str(json).expect("valid JSON");
        Shape::deserialize(&value)
    }

    #[test]
    fn types_of_every_kind_are_made_of_values() {
        assert_eq!(read("\"point\"").ok(), Some(Shape::Point));
        assert_eq!(read(r#"{"circle": 2}"#).ok(), Some(Shape::Circle(2.0)));
        assert_eq!(read(r#"{"box": {"width": 3}}"#).ok(), Some(Shape::Box { width: 3 }));
        assert!(read(r#"{"box": {"width": 300}}"#).is_err());
        let nested: Value = serde_json::from_str("[null, 1, [true]]").expect("valid JSON");
        assert_eq!(<(Option<u8>, u8, Vec<bool>)>::deserialize(&nested).ok(), Some((None, 1, vec![true])));
    }

    #[test]
    fn a_number_has_one_form() {
        assert_eq!(Value::from(7_u64), Value::from(7_i64));
        assert_eq!(Value::from(u64::MAX), Value::Unsigned(u64::MAX));
    }
}
