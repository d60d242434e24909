//! What a plugin type takes as parameters, learnt from how the type deserializes itself.
//!
//! A parameter is checked alone, at the moment it is read, so that the format can say where it stands. That its name is
//! known does not depend on whether its type denies unknown fields: it is always checked.

mod error;
mod probe;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, Visitor};

pub(crate) use error::Meant;
pub use error::ParameterError;
pub(crate) use probe::Shape;

use crate::nearest::nearest;
use crate::value::{Value, entries};

/// Parameters as a document gives them.
pub(crate) type Given = BTreeMap<String, Value>;

/// The parameters of a plugin type that has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[expect(clippy::exhaustive_structs, reason = "nothing, by nature")]
pub struct NoParameters {}

/// A type of parameters, without naming it.
#[derive(Debug)]
pub(crate) struct ParameterType {
    /// The names there are and what they take; none if the type does not say.
    pub(crate) fields: Option<Vec<(&'static str, Shape)>>,
    /// Those that must be given.
    pub(crate) required: Vec<Box<str>>,
    check: fn(&Given) -> Result<(), ParameterError>,
    check_one: fn(&str, &Value) -> Result<(), ParameterError>,
}

impl ParameterType {
    pub(crate) fn of<P: DeserializeOwned>() -> Self {
        let fields = probe::fields::<P>();
        let required = fields.as_deref().map(probe::required::<P>).unwrap_or_default();
        Self { fields, required, check: |given| parse::<P>(given).map(drop), check_one: check_one::<P> }
    }

    /// Whether there is such a parameter.
    pub(crate) fn name(&self, name: &str) -> Result<(), ParameterError> {
        let Some(fields) = &self.fields else { return Ok(()) };
        let names = || fields.iter().map(|(name, _)| *name);
        if names().any(|known| known == name) {
            return Ok(());
        }
        Err(ParameterError::Unknown { parameter: name.into(), nearest: nearest(name, names()).map(Into::into) })
    }

    /// Whether a value suits a parameter, whatever the others are.
    pub(crate) fn value(&self, name: &str, value: &Value) -> Result<(), ParameterError> {
        (self.check_one)(name, value)
    }

    /// Whether the parameters make sense together, each being sound for itself.
    pub(crate) fn together(&self, given: &Given) -> Result<(), ParameterError> {
        (self.check)(given)
    }

    /// Everything that is wrong with parameters.
    pub(crate) fn problems(&self, given: &Given) -> Vec<ParameterError> {
        let each = given.iter().map(|(name, value)| self.name(name).and_then(|()| self.value(name, value)));
        let mut problems: Vec<_> = each.filter_map(Result::err).collect();
        if problems.is_empty() {
            problems.extend(self.together(given).err());
        }
        problems
    }
}

/// Makes parameters of what is given.
pub(crate) fn parse<P: DeserializeOwned>(given: &Given) -> Result<P, ParameterError> {
    P::deserialize(entries(given))
}

fn check_one<P: DeserializeOwned>(name: &str, value: &Value) -> Result<(), ParameterError> {
    let mut failed = None;
    // That others are missing is no fault of this one: only what its own value meets counts.
    let _ = P::deserialize(Lone { name: Some(name), value, failed: &mut failed });
    failed.map_or(Ok(()), |error: ParameterError| Err(error.of(name)))
}

/// A map of one entry that remembers whether the entry's value was refused.
struct Lone<'v> {
    name: Option<&'v str>,
    value: &'v Value,
    failed: &'v mut Option<ParameterError>,
}

impl<'de> MapAccess<'de> for Lone<'de> {
    type Error = ParameterError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, ParameterError> {
        let name = self.name.take().map(StrDeserializer::<ParameterError>::new);
        name.map(|name| seed.deserialize(name)).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, ParameterError> {
        let made = seed.deserialize(self.value.into_deserializer());
        made.inspect_err(|error| *self.failed = Some(error.clone()))
    }
}

impl<'de> Deserializer<'de> for Lone<'de> {
    type Error = ParameterError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ParameterError> {
        visitor.visit_map(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple tuple_struct map struct enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only how it deserializes matters")]
    struct Sample {
        region: String,
        #[serde(default)]
        limit: u8,
    }

    fn given(json: &str) -> Given {
        serde_json::from_str(json).expect("valid JSON")
    }

    #[test]
    fn every_parameter_is_checked_for_itself() {
        let sample = ParameterType::of::<Sample>();
        let unknown = ParameterError::Unknown { parameter: "regoin".into(), nearest: Some("region".into()) };
        let problems = sample.problems(&given(r#"{"regoin": "eu", "limit": 1000}"#));
        assert_eq!(problems[1], unknown);
        assert!(matches!(&problems[0], ParameterError::Invalid { parameter: Some(name), .. } if &**name == "limit"));
        assert_eq!(problems.len(), 2);
    }

    #[test]
    fn what_must_be_given_is_missed_once_the_rest_is_sound() {
        let sample = ParameterType::of::<Sample>();
        assert_eq!(sample.problems(&given("{}")), [ParameterError::Missing { parameter: "region".into() }]);
        assert_eq!(sample.problems(&given(r#"{"region": "eu"}"#)), []);
        assert_eq!(sample.required, ["region".into()]);
    }

    #[test]
    fn a_type_without_parameters_takes_none() {
        let none = ParameterType::of::<NoParameters>();
        assert_eq!(none.problems(&given("{}")), []);
        assert_eq!(
            none.problems(&given(r#"{"x": 1}"#)),
            [ParameterError::Unknown { parameter: "x".into(), nearest: None }]
        );
    }
}
