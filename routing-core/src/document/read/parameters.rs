//! Deserialization of a plugin's type and parameters, checked as they come.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

use super::Vocabulary;
use crate::document::Problem;
use crate::parameters::{Given, ParameterError, ParameterType};
use crate::value::{AnyValue, Value};

/// Reads the type of a plugin.
pub(super) struct Kind<'k>(pub(super) &'k dyn Vocabulary);

impl<'de> DeserializeSeed<'de> for Kind<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Kind<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a plugin type")
    }

    fn visit_str<E: Error>(self, kind: &str) -> Result<String, E> {
        let known = self.0.parameters(kind);
        known.map(|_| kind.to_owned()).map_err(|suggestion| {
            E::custom(Problem::UnknownType { kind: kind.into(), suggestion: suggestion.map(Into::into) })
        })
    }
}

/// Reads parameters, each checked as it comes if the plugin's type is known by then.
#[derive(Clone, Copy)]
pub(super) struct Parameters<'k> {
    pub(super) plugin: &'k str,
    pub(super) parameters: Option<&'k ParameterType>,
}

impl Parameters<'_> {
    fn problem(&self, error: ParameterError) -> Problem {
        Problem::Parameter { plugin: self.plugin.into(), error }
    }
}

impl<'de> DeserializeSeed<'de> for Parameters<'_> {
    type Value = Given;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Given, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Parameters<'_> {
    type Value = Given;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("parameters by name")
    }

    fn visit_unit<E: Error>(self) -> Result<Given, E> {
        Ok(Given::new())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Given, A::Error> {
        let mut given = BTreeMap::new();
        while let Some(name) = map.next_key_seed(ParameterName { of: self, given: &given })? {
            let value = map.next_value_seed(ParameterValue { of: self, name: &name })?;
            given.insert(name, value);
        }
        match self.parameters.map(|known| known.together(&given)) {
            Some(Err(error)) => Err(A::Error::custom(self.problem(error))),
            _ => Ok(given),
        }
    }
}

/// Reads the name of a parameter.
struct ParameterName<'k> {
    of: Parameters<'k>,
    given: &'k Given,
}

impl<'de> DeserializeSeed<'de> for ParameterName<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for ParameterName<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a parameter")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<String, E> {
        if self.given.contains_key(name) {
            let twice = ParameterError::custom(format_args!("parameter `{name}` is given twice"));
            return Err(E::custom(self.of.problem(twice)));
        }
        let known = self.of.parameters.map_or(Ok(()), |known| known.name(name));
        known.map(|()| name.to_owned()).map_err(|error| E::custom(self.of.problem(error)))
    }
}

/// Reads the value of a parameter.
struct ParameterValue<'k> {
    of: Parameters<'k>,
    name: &'k str,
}

impl<'de> DeserializeSeed<'de> for ParameterValue<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(AnyValue(|value| {
            let suits = self.of.parameters.map_or(Ok(()), |known| known.value(self.name, &value));
            suits.map(|()| value).map_err(|error| self.of.problem(error))
        }))
    }
}
