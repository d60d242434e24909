//! Named values: said once in a document, and referred to by the parameters of several plugins.
//!
//! A parameter `{ $value: NAME }` stands for the value of that name under `values`. What is wrong inside of a value is told where
//! the value stands, once, however many plugins refer to it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::{PluginDefinition, Problem};
use crate::parameters::Given;
use crate::path::{Path, Segment};
use crate::suggest::Suggestions;
use crate::value::Value;

/// The one key of a reference.
pub(crate) const REFERENCE: &str = "$value";

/// What a reference has where its name should be; nothing if it is no reference.
pub(super) fn reference(value: &Value) -> Option<&Value> {
    match value {
        Value::Map(map) if map.len() == 1 => map.get(REFERENCE),
        _ => None,
    }
}

/// Whether a value, or something inside of it, is a reference.
pub(super) fn refers(value: &Value) -> bool {
    reference(value).is_some()
        || match value {
            Value::List(values) => values.iter().any(refers),
            Value::Map(values) => values.values().any(refers),
            _ => false,
        }
}

/// Parameters with values in place of what refers to them; nothing if one of them refers to no value.
pub(super) fn resolve<'d>(values: &BTreeMap<String, Value>, given: &'d Given) -> Option<Cow<'d, Given>> {
    if !given.values().any(|value| reference(value).is_some()) {
        return Some(Cow::Borrowed(given));
    }
    let value = |given: &Value| match reference(given) {
        Some(Value::Text(name)) => values.get(name).cloned(),
        Some(_) => None,
        None => Some(given.clone()),
    };
    let resolved: Option<Given> = given.iter().map(|(name, given)| Some((name.clone(), value(given)?))).collect();
    resolved.map(Cow::Owned)
}

/// What refers to no value, each with its path among the parameters.
pub(super) fn problems(
    values: &BTreeMap<String, Value>,
    plugin: &PluginDefinition,
    suggestions: &Suggestions,
) -> Vec<(Vec<Segment>, Problem)> {
    let references = plugin.parameters.iter().filter_map(|(parameter, given)| Some((parameter, reference(given)?)));
    let problem = |name: &Value| match name {
        Value::Text(name) if values.contains_key(name) => None,
        Value::Text(name) => {
            let suggestion = suggestions.nearest(name, values.keys().map(String::as_str)).map(Into::into);
            Some(Problem::UnknownValue { plugin: plugin.name.as_str().into(), value: name.as_str().into(), suggestion })
        }
        other => Some(Problem::wrong_type("the name of a value", other)),
    };
    let placed = |(parameter, name): (&String, &Value)| {
        let path = vec![Segment::Field(parameter.as_str().into()), Segment::Field(REFERENCE.into())];
        Some((path, problem(name)?))
    };
    references.filter_map(placed).collect()
}

/// Where something inside of resolved parameters is written: in the value, if its parameter refers to one.
pub(super) fn written_at(plugin: &Path, given: &Given, inside: &[Segment]) -> Path {
    let referred = match inside.first() {
        Some(Segment::Field(parameter)) => given.get(&**parameter).and_then(reference),
        _ => None,
    };
    match referred {
        Some(Value::Text(name)) => Path::of("values").field(name).then(&inside[1..]),
        _ => plugin.clone().field("parameters").then(inside),
    }
}
