//! A serde enum access over a word, or over a map with one entry: the word and something to it.

use serde::de::value::StrDeserializer;
use serde::de::{Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, Unexpected, VariantAccess, Visitor};

use super::entries::deny_unknown;
use super::{Names, Refusal};
use crate::path::Segment;
use crate::value::{Value, entries};

/// A variant, and what is to it.
pub(crate) struct Variant<'v> {
    pub(crate) name: &'v str,
    pub(crate) value: Option<&'v Value>,
}

impl<'v> Variant<'v> {
    fn inside(&self, error: Refusal) -> Refusal {
        if self.value.is_some() { error.inside(Segment::Field(self.name.into())) } else { error }
    }

    fn given(&self, expected: &str) -> Result<&'v Value, Refusal> {
        self.value.ok_or_else(|| Refusal::invalid_type(Unexpected::UnitVariant, &expected))
    }
}

impl<'de> EnumAccess<'de> for Variant<'de> {
    type Error = Refusal;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), Refusal> {
        Ok((seed.deserialize(StrDeserializer::<Refusal>::new(self.name))?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'de> {
    type Error = Refusal;

    fn unit_variant(self) -> Result<(), Refusal> {
        self.value.map_or(Ok(()), |value| <()>::deserialize(value).map_err(|error| self.inside(error)))
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Refusal> {
        seed.deserialize(self.given("newtype variant")?).map_err(|error| self.inside(error))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Refusal> {
        self.given("tuple variant")?.deserialize_seq(visitor).map_err(|error| self.inside(error))
    }

    fn struct_variant<V: Visitor<'de>>(self, fields: Names, visitor: V) -> Result<V::Value, Refusal> {
        let made = match self.given("struct variant")? {
            Value::Map(values) => deny_unknown(values.keys(), fields).and_then(|()| visitor.visit_map(entries(values))),
            other => other.deserialize_any(visitor),
        };
        made.map_err(|error| self.inside(error))
    }
}
