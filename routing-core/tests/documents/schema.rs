//! The schema that is checked in, and what a schema says of a registry's types.

use std::path::Path;

use routing_core::{Registry, Value};

use crate::plugins;

fn at<'v>(value: &'v Value, path: &[&str]) -> &'v Value {
    path.iter().fold(value, |value, step| match value {
        Value::Map(map) => map.get(*step).unwrap_or_else(|| panic!("no `{step}` in {map:?}")),
        Value::List(list) => &list[step.parse::<usize>().expect("a list is indexed by number")],
        other => panic!("no `{step}` in {other:?}"),
    })
}

fn texts(list: &[&str]) -> Value {
    Value::List(list.iter().copied().map(Value::from).collect())
}

#[test]
#[allow(clippy::disallowed_methods, reason = "whoever runs the test says whether to write the file anew")]
fn the_schema_that_is_checked_in_is_the_one_that_is_generated() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/profile.schema.json");
    let schema = Registry::<4>::new().schema();
    let text = serde_json::to_string_pretty(&schema).expect("JSON writes it") + "\n";
    if std::env::var_os("POINTSMAN_BLESS").is_some() {
        std::fs::write(&path, &text).expect("the schema can be written");
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        kept, text,
        "routing-core/schema/profile.schema.json is stale; run \
         `POINTSMAN_BLESS=1 cargo test -p pointsman-routing-core --features serde --test documents` and commit it"
    );
}

#[test]
fn a_schema_tells_types_parameters_and_what_must_be_given() {
    let schema = plugins::registry().schema();
    // Sorted by name: best, cache, label, prefix_search, region.
    let types = ["properties", "plugins", "items", "anyOf"];
    let label = at(at(&schema, &types), &["2"]);
    assert_eq!(at(label, &["properties", "type", "const"]), &Value::from("label"));
    assert_eq!(at(label, &["required"]), &texts(&["type", "parameters"]));
    assert_eq!(at(label, &["properties", "parameters", "required"]), &texts(&["key", "value"]));
    assert_eq!(at(label, &["properties", "parameters", "additionalProperties"]), &Value::Bool(false));
    let region = at(at(&schema, &types), &["4", "properties", "parameters", "properties"]);
    assert_eq!(at(region, &["elsewhere", "anyOf", "0", "type"]), &Value::from("number"));
    assert_eq!(at(region, &["mode", "anyOf", "0", "anyOf", "0", "enum"]), &texts(&["strict", "lenient"]));
    let when = ["properties", "workflow", "properties", "steps", "items", "properties", "when", "anyOf", "0"];
    let condition = at(at(&schema, &when), &["properties", "parameters", "properties", "lacking"]);
    assert_eq!(at(condition, &["minimum"]), &Value::Integer(0));
}
