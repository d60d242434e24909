//! Named values: said once in a document, and referred to by the parameters of several plugins.
//!
//! A parameter `{ $value: NAME }`, or one inside of another, stands for the value of that name under `values`. What is wrong inside of a value is told where
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

/// The names that a value, or something inside of it, refers to.
pub(super) fn referred(value: &Value) -> Vec<&str> {
    let mut names = Vec::new();
    each_reference(value, &mut Vec::new(), &mut |_, name| {
        if let Value::Text(name) = name {
            names.push(name.as_str());
        }
    });
    names
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

/// Parameters with values in place of what refers to them, at any depth; nothing if one of them refers to no value.
pub(super) fn resolve<'d>(values: &BTreeMap<String, Value>, given: &'d Given) -> Option<Cow<'d, Given>> {
    if !given.values().any(refers) {
        return Some(Cow::Borrowed(given));
    }
    let resolved: Option<Given> =
        given.iter().map(|(name, given)| Some((name.clone(), resolved(values, given)?))).collect();
    resolved.map(Cow::Owned)
}

fn resolved(values: &BTreeMap<String, Value>, given: &Value) -> Option<Value> {
    match (reference(given), given) {
        (Some(Value::Text(name)), _) => values.get(name).cloned(),
        (Some(_), _) => None,
        (None, Value::List(list)) => {
            list.iter().map(|given| resolved(values, given)).collect::<Option<_>>().map(Value::List)
        }
        (None, Value::Map(map)) => {
            let inside = map.iter().map(|(name, given)| Some((name.clone(), resolved(values, given)?)));
            inside.collect::<Option<_>>().map(Value::Map)
        }
        (None, _) => Some(given.clone()),
    }
}

/// What refers to no value, each with its path among the parameters.
pub(super) fn problems(
    values: &BTreeMap<String, Value>,
    plugin: &PluginDefinition,
    suggestions: &Suggestions,
) -> Vec<(Vec<Segment>, Problem)> {
    let problem = |name: &Value| match name {
        Value::Text(name) if values.contains_key(name) => None,
        Value::Text(name) => {
            let suggestion = suggestions.nearest(name, values.keys().map(String::as_str)).map(Into::into);
            Some(Problem::UnknownValue { plugin: plugin.name.as_str().into(), value: name.as_str().into(), suggestion })
        }
        other => Some(Problem::wrong_type("the name of a value", other)),
    };
    let mut problems = Vec::new();
    for (parameter, given) in &plugin.parameters {
        each_reference(given, &mut vec![Segment::Field(parameter.as_str().into())], &mut |path, name| {
            problems.extend(problem(name).map(|problem| (path.to_vec(), problem)));
        });
    }
    problems
}

/// Hands out every reference inside of a value: where it is, and what it has where its name should be.
fn each_reference<'v>(value: &'v Value, path: &mut Vec<Segment>, each: &mut dyn FnMut(&[Segment], &'v Value)) {
    let parts: Vec<(Segment, &Value)> = match value {
        Value::Map(map) => map.iter().map(|(name, value)| (Segment::Field(name.as_str().into()), value)).collect(),
        Value::List(list) => list.iter().enumerate().map(|(at, value)| (Segment::Element(at), value)).collect(),
        _ => Vec::new(),
    };
    let is_reference = reference(value).is_some();
    for (segment, value) in parts {
        path.push(segment);
        if is_reference {
            each(path, value);
        } else {
            each_reference(value, path, each);
        }
        path.pop();
    }
}

/// Where something inside of resolved parameters is written: in the value, if what it is inside of refers to one.
pub(super) fn written_at(plugin: &Path, given: &Given, inside: &[Segment]) -> Path {
    let mut at = match inside.first() {
        Some(Segment::Field(parameter)) => given.get(&**parameter),
        _ => None,
    };
    for depth in 1..=inside.len() {
        if let Some(Value::Text(name)) = at.and_then(reference) {
            return Path::of("values").field(name).then(&inside[depth..]);
        }
        at = match (at, inside.get(depth)) {
            (Some(Value::Map(map)), Some(Segment::Field(name))) => map.get(&**name),
            (Some(Value::List(list)), Some(Segment::Element(at))) => list.get(*at),
            _ => None,
        };
    }
    plugin.clone().field("parameters").then(inside)
}
