//! Every parameter of every stock plugin, however deep inside of others: a misspelt name is refused, with the one that is meant.
#![cfg(feature = "serde")]

use routing_core::{ParameterError, Problem, Registry, Value};
use routing_plugins::register;

use super::world::state;

fn get<'v>(value: &'v Value, name: &str) -> Option<&'v Value> {
    let Value::Map(map) = value else { return None };
    map.get(name)
}

/// A way into parameters, by what leads there: JSON in front of the inner value, and behind it.
#[derive(Clone, Default)]
struct Way {
    front: String,
    back: String,
}

impl Way {
    fn then(&self, front: &str, back: &str) -> Self {
        Self { front: format!("{}{front}", self.front), back: format!("{back}{}", self.back) }
    }
}

/// What a schema leaves open, and every object with its fields.
#[derive(Default)]
struct Found {
    objects: Vec<(Way, Vec<String>)>,
    open: Vec<Way>,
}

fn walk(schema: &Value, way: &Way, found: &mut Found) {
    if *schema == Value::Bool(true) {
        found.open.push(way.clone());
    }
    if let Some(Value::List(choices)) = get(schema, "anyOf") {
        choices.iter().for_each(|choice| walk(choice, way, found));
    }
    if let Some(items) = get(schema, "items") {
        walk(items, &way.then("[", "]"), found);
    }
    match get(schema, "additionalProperties") {
        Some(Value::Bool(false)) => {
            let Some(Value::Map(properties)) = get(schema, "properties") else { panic!("an object has properties") };
            found.objects.push((way.clone(), properties.keys().cloned().collect()));
            for (name, inside) in properties {
                walk(inside, &way.then(&format!(r#"{{"{name}": "#), "}"), found);
            }
        }
        Some(values) => walk(values, &way.then(r#"{"any": "#, "}"), found),
        None => {}
    }
}

#[test]
fn a_misspelt_parameter_is_refused_at_any_depth_of_every_plugin() {
    let mut registry = Registry::new();
    register(&mut registry, &state()).expect("nothing else is registered");
    let schema = registry.schema();
    let plugins =
        ["properties", "plugins", "items", "anyOf"].iter().fold(&schema, |at, name| get(at, name).expect("it"));
    let Value::List(plugins) = plugins else { panic!("a list of types") };
    let (mut nested, mut open) = (0, Vec::new());
    for plugin in plugins {
        let properties = get(plugin, "properties").expect("an object");
        let Some(Value::Text(kind)) = get(properties, "type").and_then(|kind| get(kind, "const")) else {
            panic!("a type")
        };
        let mut found = Found::default();
        walk(get(properties, "parameters").expect("parameters"), &Way::default(), &mut found);
        assert!(!found.objects.is_empty(), "{kind} does not tell its parameters");
        open.extend(found.open.iter().map(|way| format!("{kind}: {}", way.front)));
        for (Way { front, back }, fields) in found.objects {
            nested += usize::from(!front.is_empty());
            // One letter too many, or any name where there is none.
            let wrong = format!("{}_", fields.first().map_or("any", String::as_str));
            let json = format!(
                r#"{{"plugins": [{{"type": "{kind}", "parameters": {front}{{"{wrong}": 1}}{back}}}], "profiles": []}}"#
            );
            let error = registry.read(&mut serde_json::Deserializer::from_str(&json)).expect_err(&json);
            let told = error.placed().find_map(|(place, problem)| match problem {
                Problem::Parameter { error: ParameterError::Unknown { suggestion, .. }, .. } => {
                    Some((place, suggestion))
                }
                // A choice that is unknown is told as one.
                Problem::Parameter { error: ParameterError::Invalid { reason, .. }, .. } if reason.contains(&wrong) => {
                    Some((place, &None))
                }
                _ => None,
            });
            let (place, suggestion) = told.unwrap_or_else(|| panic!("{json}: {error}"));
            if let Some(meant) = suggestion {
                assert!(fields.iter().any(|field| **field == **meant), "{json}: {error}");
                assert!(place.path().to_string().ends_with(&wrong), "{place}");
            }
        }
    }
    assert!(nested > 10, "{nested} objects inside of others");
    // A word, or a map with the host's word: its type tries one after the other, and does not say which.
    assert_eq!(
        open,
        [r#"metric_filter: {"conditions": [{"metric": "#],
        "parameters that tell nothing of themselves can hide a misspelt name"
    );
}

/// What its type does not tell of itself, it refuses by itself, and as well as all others.
#[test]
fn a_metric_of_the_hosts_has_one_name_and_nothing_else() {
    let mut registry = Registry::new();
    register(&mut registry, &state()).expect("nothing else is registered");
    let told = |metric: &str| {
        let condition = format!(r#"{{"metric": {metric}, "is": "below", "value": 1}}"#);
        let plugin = format!(r#"{{"type": "metric_filter", "parameters": {{"conditions": [{condition}]}}}}"#);
        let json = format!(r#"{{"plugins": [{plugin}], "profiles": []}}"#);
        let read = registry.read(&mut serde_json::Deserializer::from_str(&json));
        read.map(drop).map_err(|error| error.to_string().lines().skip(1).collect::<Vec<_>>().join("\n"))
    };
    assert_eq!(told(r#"{"host": "heat"}"#), Ok(()));
    assert_eq!(told(r#""waiting""#), Ok(()));
    let place = "plugins[0].parameters.conditions[0].metric";
    let refused = |metric: &str, path: &str, what: &str| {
        assert_eq!(told(metric), Err(format!("  - {place}{path}: plugin `metric_filter`: {what}")), "{metric}");
    };
    refused(r#"{"host": "heat", "unit": "C"}"#, ".unit", "unknown parameter `conditions[0].metric.unit`");
    refused(r#"{"hosts": "heat"}"#, ".hosts", "unknown parameter `conditions[0].metric.hosts` (did you mean `host`?)");
    refused("{}", "", "parameter `conditions[0].metric.host` is missing");
    refused(r#""waitin""#, "", "parameter `conditions[0].metric`: unknown value `waitin` (did you mean `waiting`?)");
}
