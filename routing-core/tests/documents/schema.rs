//! The schema that is checked in, and what a schema says of a registry's types.

use std::path::Path;

use routing_core::{PluginError, Registry, RoutingContext, Scorer, Scores, Value};
use serde::Deserialize;

use crate::{format, plugins};

fn at<'v>(value: &'v Value, path: &[&str]) -> &'v Value {
    path.iter().fold(value, |value, step| match value {
        Value::Map(map) => map.get(*step).unwrap_or_else(|| panic!("no `{step}` in {map:?}")),
        Value::List(list) => &list[step.parse::<usize>().expect("a list is indexed by number")],
        other => panic!("no `{step}` in {other:?}"),
    })
}

/// What a schema says of a plugin type.
fn plugin<'v>(schema: &'v Value, kind: &str) -> &'v Value {
    let Value::List(types) = at(schema, &["properties", "plugins", "items", "anyOf"]) else { panic!("no list") };
    let is_meant = |plugin: &&Value| at(plugin, &["properties", "type", "const"]) == &Value::from(kind);
    types.iter().find(is_meant).unwrap_or_else(|| panic!("no `{kind}` among the plugins"))
}

fn texts(list: &[&str]) -> Value {
    Value::List(list.iter().copied().map(Value::from).collect())
}

#[test]
#[allow(clippy::disallowed_methods, reason = "whoever runs the test says whether to write the file anew")]
fn the_schema_that_is_checked_in_is_the_one_that_is_generated() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema/profile.schema.json");
    let schema = <Registry>::new().schema();
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
    let label = plugin(&schema, "label");
    assert_eq!(at(label, &["required"]), &texts(&["type", "parameters"]));
    assert_eq!(at(label, &["properties", "parameters", "required"]), &texts(&["key", "value"]));
    assert_eq!(at(label, &["properties", "parameters", "additionalProperties"]), &Value::Bool(false));
    // None of its parameters must be given: none at all will do.
    let region = at(plugin(&schema, "region"), &["properties", "parameters", "anyOf"]);
    assert_eq!(at(region, &["1", "type"]), &Value::from("null"));
    let region = at(region, &["0", "properties"]);
    assert_eq!(at(region, &["elsewhere", "anyOf", "0", "type"]), &Value::from("number"));
    assert_eq!(at(region, &["mode", "anyOf", "0", "anyOf", "0", "enum"]), &texts(&["strict", "lenient"]));
    let when = ["properties", "workflow", "properties", "steps", "items", "properties", "when", "anyOf", "0"];
    assert_eq!(at(region, &["elsewhere", "anyOf", "1", "$ref"]), &Value::from("#/$defs/reference"));
    assert_eq!(at(&schema, &["$defs", "reference", "required"]), &texts(&["$value"]));
    let condition = at(at(&schema, &when), &["properties", "parameters", "properties", "lacking"]);
    assert_eq!(at(condition, &["anyOf", "0", "minimum"]), &Value::Integer(0));
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only how it deserializes matters")]
struct Inner {
    limit: u8,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "only how it deserializes matters")]
struct Lenient {
    #[serde(alias = "zone")]
    region: String,
    #[serde(deserialize_with = "Option::deserialize")]
    share: Option<f32>,
    inner: Inner,
    #[serde(default)]
    limit: u8,
}

struct Nothing;

impl Scorer for Nothing {
    fn score(&self, _: &RoutingContext<'_>, _: &mut Scores<'_>) -> Result<(), PluginError> {
        Ok(())
    }
}

#[test]
fn a_schema_takes_what_is_read() {
    let mut registry = plugins::registry();
    registry.scorer::<Lenient, _>("lenient", |_, _| Nothing).expect("the name is free");
    let text = "
plugins:
  - type: best
    parameters:
  - { type: prefix_miss, parameters: { step: only, lacking: 1 } }
  - { type: lenient, parameters: { zone: eu, share: null, inner: [3] } }
profiles:
  - { name: only, pick: best }
";
    let document = format::yaml(&registry, text).expect("all of it is read");
    document.build(&registry).expect("all of it builds");
    let schema = registry.schema();
    assert_eq!(at(plugin(&schema, "best"), &["properties", "parameters", "anyOf", "1", "type"]), &Value::from("null"));
    // A condition among the plugins is of no use, and no error.
    plugin(&schema, "prefix_miss");
    let lenient = at(plugin(&schema, "lenient"), &["properties", "parameters"]);
    // Not the region, which has another name, nor the limit, which only the inner one must have.
    assert_eq!(at(lenient, &["required"]), &texts(&["share", "inner"]));
    assert_eq!(at(lenient, &["properties", "zone", "anyOf", "0", "type"]), &Value::from("string"));
    assert_eq!(at(lenient, &["properties", "share", "anyOf", "0", "anyOf", "1", "type"]), &Value::from("null"));
    let inner = at(lenient, &["properties", "inner", "anyOf", "0", "anyOf"]);
    assert_eq!(at(inner, &["0", "additionalProperties"]), &Value::Bool(false));
    assert_eq!(at(inner, &["0", "properties", "limit", "anyOf", "0", "type"]), &Value::from("integer"));
    assert_eq!(at(inner, &["1", "type"]), &Value::from("array"));
}

#[test]
fn the_frame_alone_leaves_every_type_open() {
    let schema = <Registry>::new().schema();
    let when = ["properties", "workflow", "properties", "steps", "items", "properties", "when"];
    for open in [at(&schema, &["properties", "plugins", "items"]), at(&schema, &when)] {
        assert_eq!(at(open, &["properties", "type", "type"]), &Value::from("string"));
    }
}
