//! JSON Schema of the documents that a registry reads, for editors and pipelines.
//!
//! It says what can be learnt of a type by watching it deserialize: the names of its parameters, their JSON types, and
//! which must be given, and what is inside of nested structs. It does not say what a type checks by itself, such as ranges.
//! It may take what [`Registry::read`] refuses; what is read and builds, it takes.

use super::{PluginType, Registry};
use crate::document::{Document, REFERENCE, Word};
use crate::fleet::Role;
use crate::parameters::{ParameterType, Shape};
use crate::plan::FailurePolicy;
use crate::profile::OnEmpty;
use crate::stage::Stage;
use crate::value::Value;

impl<const W: usize> Registry<W> {
    /// A JSON schema (2020-12) of the documents that this registry reads.
    ///
    /// A registry to which no plugin type is added describes the frame alone: types and parameters, of conditions too,
    /// are left open.
    ///
    /// # Examples
    ///
    /// ```
    /// use routing_core::Registry;
    ///
    /// let schema = serde_json::to_string_pretty(&<Registry>::new().schema())?;
    /// assert!(schema.contains("next_candidate"));
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn schema(&self) -> Value {
        // A condition that is defined among the plugins is of no use there, and no error.
        let plugins = self.choice(|_| true);
        let conditions = self.choice(|stage| stage == Stage::Condition);
        let version = map([("const", Value::Integer(Document::VERSION.into()))]);
        let fields = [
            ("version", version),
            ("values", or_null(of("object"))),
            ("plugins", list(plugins)),
            ("profiles", list(profile())),
            ("workflow", workflow(conditions)),
        ];
        let mut schema = object(fields, &["profiles"]);
        if let Value::Map(schema) = &mut schema {
            let reference = object([(REFERENCE, of("string"))], &[REFERENCE]);
            schema.insert("$defs".to_owned(), map([("reference", reference)]));
            schema.insert("$schema".to_owned(), "https://json-schema.org/draft/2020-12/schema".into());
            schema.insert("title".to_owned(), "Pointsman workflow".into());
        }
        schema
    }

    /// One of the types in some stages.
    fn choice(&self, is_meant: impl Fn(Stage) -> bool) -> Value {
        let types = self.types.iter().filter(|(_, kind)| is_meant(kind.stage));
        let types: Vec<Value> = types.map(|(name, kind)| plugin(name, kind)).collect();
        if types.is_empty() {
            let fields = [("name", of("string")), ("type", of("string")), ("parameters", or_null(of("object")))];
            return object(fields, &["type"]);
        }
        map([("anyOf", Value::List(types))])
    }
}

fn plugin<const W: usize>(name: &str, kind: &PluginType<W>) -> Value {
    let mut required = vec!["type"];
    if !kind.parameters.required.is_empty() {
        required.push("parameters");
    }
    let stage = kind.stage.to_string();
    let kind_name = map([("const", name.into()), ("description", stage.as_str().into())]);
    let fields = [("name", of("string")), ("type", kind_name), ("parameters", parameters(&kind.parameters))];
    object(fields, &required)
}

/// Nothing is no parameters, where none must be given.
fn parameters(parameters: &ParameterType) -> Value {
    let Some(fields) = &parameters.fields else { return or_null(of("object")) };
    let required: Vec<&str> = parameters.required.iter().map(|name| &**name).collect();
    let field = |(name, shape): &(&'static str, Shape)| {
        let takes_null = parameters.takes_null(name);
        (*name, or_reference(if takes_null { or_null(shaped(shape)) } else { shaped(shape) }))
    };
    let schema = object(fields.iter().map(field), &required);
    if required.is_empty() { or_null(schema) } else { schema }
}

fn shaped(shape: &Shape) -> Value {
    match shape {
        Shape::Any => Value::Bool(true),
        Shape::Bool => of("boolean"),
        Shape::Integer => of("integer"),
        Shape::Unsigned => map([("type", "integer".into()), ("minimum", Value::Integer(0))]),
        Shape::Number => of("number"),
        Shape::Text => of("string"),
        Shape::Unit => of("null"),
        Shape::Words(words) => {
            let plain = one_of(words.iter().map(|(word, _)| *word));
            map([("anyOf", Value::List(vec![plain, object(inside(words), &[])]))])
        }
        // What is inside may be an option.
        Shape::List(element) => map([("type", "array".into()), ("items", or_null(shaped(element)))]),
        Shape::Map(value) => map([("type", "object".into()), ("additionalProperties", or_null(shaped(value)))]),
        // A derived struct takes its fields in order, too.
        Shape::Struct(fields) => map([("anyOf", Value::List(vec![object(inside(fields), &[]), of("array")]))]),
    }
}

/// What is inside of something, which may be options.
fn inside(fields: &[(&'static str, Shape)]) -> impl Iterator<Item = (&'static str, Value)> {
    fields.iter().map(|(name, shape)| (*name, or_null(shaped(shape))))
}

/// A parameter may stand for one of the document's values.
fn or_reference(schema: Value) -> Value {
    let reference = map([("$ref", "#/$defs/reference".into())]);
    match schema {
        Value::Bool(true) => schema,
        schema => map([("anyOf", Value::List(vec![schema, reference]))]),
    }
}

fn or_null(schema: Value) -> Value {
    match schema {
        Value::Bool(true) => schema,
        schema => map([("anyOf", Value::List(vec![schema, of("null")]))]),
    }
}

fn profile() -> Value {
    let filter = object([("plugin", of("string")), ("on_empty", word::<OnEmpty>())], &["plugin"]);
    let weight = map([("type", "number".into()), ("minimum", Value::Integer(0))]);
    let scorer = object([("plugin", of("string")), ("weight", weight)], &["plugin", "weight"]);
    let fields = [
        ("name", of("string")),
        ("prepare", list(of("string"))),
        ("filter", list(filter)),
        ("score", list(scorer)),
        ("pick", of("string")),
        ("record", list(of("string"))),
    ];
    object(fields, &["name", "pick"])
}

fn workflow(condition: Value) -> Value {
    let fields = [
        ("name", of("string")),
        ("profile", of("string")),
        ("role", word::<Role>()),
        ("when", condition),
        ("on_failure", word::<FailurePolicy>()),
        ("ranked", map([("type", "integer".into()), ("minimum", Value::Integer(1))])),
        ("independent", of("boolean")),
    ];
    let step = object(fields, &["name", "profile"]);
    object([("steps", list(step)), ("executed_in", list(of("string")))], &["steps"])
}

fn object<'f>(fields: impl IntoIterator<Item = (&'f str, Value)>, required: &[&str]) -> Value {
    let mut schema =
        vec![("type", "object".into()), ("properties", map(fields)), ("additionalProperties", Value::Bool(false))];
    if !required.is_empty() {
        schema.push(("required", Value::List(required.iter().map(|name| Value::from(*name)).collect())));
    }
    map(schema)
}

fn list(items: Value) -> Value {
    map([("type", "array".into()), ("items", items)])
}

fn word<T: Word>() -> Value {
    one_of(T::WORDS.iter().map(|(word, _)| *word))
}

fn one_of(words: impl Iterator<Item = &'static str>) -> Value {
    map([("enum", Value::List(words.map(Value::from).collect()))])
}

fn of(kind: &str) -> Value {
    map([("type", kind.into())])
}

fn map<'f>(fields: impl IntoIterator<Item = (&'f str, Value)>) -> Value {
    Value::Map(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}
