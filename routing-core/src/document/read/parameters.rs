//! Deserialization of a plugin's type and parameters, checked as they come.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

use super::Vocabulary;
use super::seeds::CheckedText;
use crate::document::Problem;
use crate::parameters::{Given, ParameterError, ParameterType};
use crate::value::{AnyValue, Value};

/// Reads the type of a plugin.
pub(super) fn kind(known: &dyn Vocabulary) -> CheckedText<impl FnOnce(&str) -> Result<String, Problem>> {
    CheckedText::new("a plugin type", move |kind: &str| match known.parameters(kind) {
        Ok(_) => Ok(kind.to_owned()),
        Err(suggestion) => Err(Problem::UnknownType { kind: kind.into(), suggestion: suggestion.map(Into::into) }),
    })
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

    /// The name of a parameter that is known, and not given yet.
    fn name(&self, name: &str, given: &Given) -> Result<String, Problem> {
        if given.contains_key(name) {
            return Err(self.problem(ParameterError::custom(format_args!("parameter `{name}` is given twice"))));
        }
        let known = self.parameters.map_or(Ok(()), |known| known.name(name));
        known.map(|()| name.to_owned()).map_err(|error| self.problem(error))
    }

    /// A value that suits the parameter.
    fn value(&self, name: &str, value: Value) -> Result<Value, Problem> {
        let suits = self.parameters.map_or(Ok(()), |known| known.value(name, &value));
        suits.map(|()| value).map_err(|error| self.problem(error))
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
        const NAME: &str = "the name of a parameter";
        while let Some(name) = map.next_key_seed(CheckedText::new(NAME, |name: &str| self.name(name, &given)))? {
            let value = map.next_value_seed(AnyValue(|value| self.value(&name, value)))?;
            given.insert(name, value);
        }
        match self.parameters.map(|known| known.together(&given)) {
            Some(Err(error)) => Err(A::Error::custom(self.problem(error))),
            _ => Ok(given),
        }
    }
}
