//! Parameter types of plugins, learnt by reflection over serde.
//!
//! A derived struct tells its fields, however deep inside of others, and any other name is refused, whether or not it denies
//! unknown fields. A type with a flattened field or a tag does not tell them: what it does not refuse itself is taken.

mod collect;
mod entries;
mod error;
mod probe;
mod refusal;
mod variant;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Visitor};

pub(crate) use entries::Entries;
pub use error::ParameterError;
pub(crate) use probe::Shape;
pub use refusal::Refusal;
pub(crate) use variant::Variant;

use crate::path::Segment;
use crate::value::{Value, entries};

/// Parameters as a document gives them.
pub(crate) type Given = BTreeMap<String, Value>;

/// What a visitor makes of a value, or why it cannot.
pub(crate) type Visited<'de, V, E> = Result<<V as Visitor<'de>>::Value, E>;

/// Methods of a deserializer, each by one of the visitor's.
macro_rules! hand_over {
    ($($method:ident($self:ident $(, $name:ty)*) => $visit:ident($given:expr);)*) => {$(
        fn $method<V: Visitor<'de>>($self, $(_: $name,)* visitor: V) -> Visited<'de, V, Refusal> {
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
    check: fn(&Given) -> Result<(), Refusal>,
    takes_null: fn(&str) -> bool,
}

impl ParameterType {
    pub(crate) fn of<P: DeserializeOwned>() -> Self {
        let fields = probe::fields::<P>();
        let required = fields.as_deref().map(probe::required::<P>).unwrap_or_default();
        Self { fields, required, check: |given| parse::<P>(given).map(drop), takes_null: takes_null::<P> }
    }

    /// Whether nothing suits a parameter, whatever the others are.
    pub(crate) fn takes_null(&self, name: &str) -> bool {
        (self.takes_null)(name)
    }

    /// Whether nothing is wrong with parameters.
    pub(crate) fn suit(&self, given: &Given) -> bool {
        (self.check)(given).is_ok()
    }

    /// Everything that is wrong with parameters, each with its path.
    pub(crate) fn problems(&self, given: &Given) -> Vec<(Vec<Segment>, ParameterError)> {
        collect::all(given, self.check)
    }
}

/// Makes parameters of what is given.
pub(crate) fn parse<P: DeserializeOwned>(given: &Given) -> Result<P, Refusal> {
    P::deserialize(entries(given))
}

fn takes_null<P: DeserializeOwned>(name: &str) -> bool {
    match P::deserialize(Entries::new([(name, &Value::Null)])) {
        // That others are missing is no fault of this one: only what its own value meets counts.
        Err(error) => error.is_missing() || error.path().is_empty(),
        Ok(_) => true,
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

    fn problems(kind: &ParameterType, json: &str) -> Vec<ParameterError> {
        kind.problems(&given(json)).into_iter().map(|(_, error)| error).collect()
    }

    fn paths(kind: &ParameterType, json: &str) -> Vec<String> {
        kind.problems(&given(json)).into_iter().map(|(path, _)| crate::Path::from(path).to_string()).collect()
    }

    #[test]
    fn every_parameter_is_checked_for_itself() {
        let sample = ParameterType::of::<Sample>();
        let unknown = ParameterError::Unknown { parameter: "regoin".into(), suggestion: Some("region".into()) };
        let problems = problems(&sample, r#"{"regoin": "eu", "limit": 1000}"#);
        assert_eq!(problems[1], unknown);
        assert!(matches!(&problems[0], ParameterError::Invalid { parameter: Some(name), .. } if &**name == "limit"));
        assert_eq!(problems.len(), 2);
    }

    #[test]
    fn what_must_be_given_is_missed_once_the_rest_is_sound() {
        let sample = ParameterType::of::<Sample>();
        assert_eq!(problems(&sample, "{}"), [ParameterError::Missing { parameter: "region".into() }]);
        assert_eq!(problems(&sample, r#"{"region": "eu"}"#), []);
        assert_eq!(sample.required, ["region".into()]);
    }

    #[test]
    fn a_type_without_parameters_takes_none() {
        let none = ParameterType::of::<NoParameters>();
        assert_eq!(problems(&none, "{}"), []);
        assert_eq!(
            problems(&none, r#"{"x": 1}"#),
            [ParameterError::Unknown { parameter: "x".into(), suggestion: None }]
        );
    }

    #[test]
    fn nothing_at_all_is_a_type_without_parameters() {
        let none = ParameterType::of::<()>();
        assert_eq!(problems(&none, "{}"), []);
        assert_eq!(problems(&none, r#"{"x": 1}"#).len(), 1);
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only how it deserializes matters")]
    struct Wrapped(Sample);

    #[test]
    fn a_wrapped_type_is_what_it_wraps() {
        let wrapped = ParameterType::of::<Wrapped>();
        assert_eq!(wrapped.required, ["region".into()]);
        assert_eq!(problems(&wrapped, r#"{"region": "eu", "limit": 3}"#), []);
        assert_eq!(problems(&wrapped, r#"{"region": "eu", "limit": 300}"#).len(), 1);
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
        let [problem] = &*problems(&nested, r#"{"inner": {}, "shares": {"1": 0.5}}"#) else { panic!("one") };
        assert_eq!(problem.to_string(), "parameter `inner.region` is missing");
        let [problem] = &*problems(&nested, r#"{"inner": {"region": "eu"}, "shares": {"70000": 0.5}}"#) else {
            panic!("one")
        };
        assert!(problem.to_string().starts_with("parameter `shares`: invalid value: integer `70000`"), "{problem}");
    }

    #[derive(Debug, Deserialize)]
    #[serde(rename_all = "snake_case")]
    #[expect(dead_code, reason = "only how it deserializes matters")]
    enum Choice {
        One(Sample),
        Two { samples: Vec<Sample> },
        Three,
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only how it deserializes matters")]
    struct Deep {
        choice: Choice,
        list: Vec<Choice>,
        map: BTreeMap<String, Sample>,
    }

    #[test]
    fn a_name_that_is_misspelt_is_refused_at_any_depth_and_so_are_all_of_them() {
        let deep = ParameterType::of::<Deep>();
        let json = r#"{
            "choice": {"two": {"samples": [{"region": "eu", "limti": 1}, {"region": 1}, {"region": "eu"}, {"limit": "x"}], "smaples": 1}},
            "list": ["three", {"one": {"regoin": "eu", "limit": 1}}, "thre", {"two": {"samples": []}, "one": {}}],
            "map": {"a": {"region": "eu", "x": 1}},
            "mpa": {}
        }"#;
        let expected = [
            "choice.two.samples[0].limti",
            "choice.two.samples[1].region",
            "choice.two.samples[3]",
            "choice.two.samples[3].limit",
            "choice.two.smaples",
            "list[1].one.regoin",
            "list[2]",
            "list[3]",
            "map.a.x",
            "mpa",
        ];
        assert_eq!(paths(&deep, json), expected);
        let first = &problems(&deep, json)[0];
        let text = "unknown parameter `choice.two.samples[0].limti` (did you mean `limit`?)";
        assert_eq!(first.to_string(), text);
    }

    #[test]
    fn what_is_missing_only_since_it_is_refused_is_not_told_again() {
        let nested = ParameterType::of::<Nested>();
        let json = r#"{"inner": {"region": 3}, "shares": {"1": "x", "2": 0.5, "3": []}}"#;
        assert_eq!(paths(&nested, json), ["inner.region", "shares.1", "shares.3"]);
    }
}
