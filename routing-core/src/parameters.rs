//! Parameter types of plugins, learnt by reflection over serde.
//!
//! A parameter is checked alone, at the moment it is read, so that the format can say where it stands. A derived struct
//! tells its fields, and any other name is refused, whether or not it denies unknown fields. A type with a flattened
//! field or a tag does not tell them: what it does not refuse itself is taken.

mod entries;
mod error;
mod probe;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Visitor};

pub(crate) use entries::Entries;
pub use error::ParameterError;
pub(crate) use probe::Shape;

use crate::suggest::suggest;
use crate::value::{Value, entries};

/// Parameters as a document gives them.
pub(crate) type Given = BTreeMap<String, Value>;

/// What a visitor makes of a value, or why it cannot.
pub(crate) type Visited<'de, V, E> = Result<<V as Visitor<'de>>::Value, E>;

/// Methods of a deserializer, each by one of the visitor's.
macro_rules! hand_over {
    ($($method:ident($self:ident $(, $name:ty)*) => $visit:ident($given:expr);)*) => {$(
        fn $method<V: Visitor<'de>>($self, $(_: $name,)* visitor: V) -> Visited<'de, V, ParameterError> {
            visitor.$visit($given)
        }
    )*};
}

pub(crate) use hand_over;

/// The words or fields that a type knows.
pub(crate) type Names = &'static [&'static str];

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
        Err(ParameterError::Unknown { parameter: name.into(), suggestion: suggest(name, names()).map(Into::into) })
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
    match P::deserialize(Entries::new([(name, value)])) {
        Err(error @ ParameterError::Invalid { parameter: Some(_), .. }) => Err(error),
        // That others are missing is no fault of this one: only what its own value meets counts.
        _ => Ok(()),
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
        let unknown = ParameterError::Unknown { parameter: "regoin".into(), suggestion: Some("region".into()) };
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
            [ParameterError::Unknown { parameter: "x".into(), suggestion: None }]
        );
    }

    #[test]
    fn nothing_at_all_is_a_type_without_parameters() {
        let none = ParameterType::of::<()>();
        assert_eq!(none.problems(&given("{}")), []);
        assert_eq!(none.problems(&given(r#"{"x": 1}"#)).len(), 1);
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only how it deserializes matters")]
    struct Wrapped(Sample);

    #[test]
    fn a_wrapped_type_is_what_it_wraps() {
        let wrapped = ParameterType::of::<Wrapped>();
        assert_eq!(wrapped.required, ["region".into()]);
        assert_eq!(wrapped.problems(&given(r#"{"region": "eu", "limit": 3}"#)), []);
        assert_eq!(wrapped.problems(&given(r#"{"region": "eu", "limit": 300}"#)).len(), 1);
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only how it deserializes matters")]
    struct Nested {
        inner: Sample,
        shares: BTreeMap<u16, f32>,
    }

    #[test]
    fn what_is_wrong_inside_of_a_value_is_told_of_its_parameter() {
        let nested = ParameterType::of::<Nested>();
        let [problem] = &*nested.problems(&given(r#"{"inner": {}, "shares": {"1": 0.5}}"#)) else { panic!("one") };
        assert_eq!(problem.to_string(), "parameter `inner`: parameter `region` is missing");
        let [problem] = &*nested.problems(&given(r#"{"shares": {"70000": 0.5}}"#)) else { panic!("one") };
        assert!(problem.to_string().starts_with("parameter `shares`: invalid value: integer `70000`"), "{problem}");
    }
}
