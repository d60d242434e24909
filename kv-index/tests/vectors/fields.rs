//! Strict JSON object reader: every field must be read.

use kv_index::engine::BlockDigest;
use serde_json::{Map, Value};

pub(crate) struct Fields {
    name: String,
    fields: Map<String, Value>,
}

impl Fields {
    pub(crate) fn new(name: impl Into<String>, value: Value) -> Self {
        let name = name.into();
        let Value::Object(fields) = value else { panic!("{name}: not an object") };
        Self { name, fields }
    }

    /// An element of an array of cases, called by its own name.
    pub(crate) fn case(value: Value) -> Self {
        let name = value["name"].as_str().unwrap_or("unnamed").to_owned();
        let mut case = Self::new(name, value);
        case.skip("name");
        case.skip("notes");
        case
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// A field that may be missing or null.
    pub(crate) fn get(&mut self, field: &str) -> Option<Value> {
        self.fields.remove(field).filter(|value| !value.is_null())
    }

    /// A field that must be there, if only as null.
    pub(crate) fn take(&mut self, field: &str) -> Value {
        self.fields.remove(field).unwrap_or_else(|| panic!("{}: no field {field}", self.name))
    }

    /// The first field whose name begins like this, with the rest of its name.
    pub(crate) fn prefixed(&mut self, prefix: &str) -> Option<(String, Value)> {
        let field = self.fields.keys().find(|field| field.starts_with(prefix))?.clone();
        let value = self.take(&field);
        Some((field[prefix.len()..].to_owned(), value))
    }

    pub(crate) fn has(&self, field: &str) -> bool {
        self.fields.contains_key(field)
    }

    pub(crate) fn text(&mut self, field: &str) -> Option<String> {
        match self.take(field) {
            Value::Null => None,
            Value::String(text) => Some(text),
            other => panic!("{}: {field} is {other}", self.name),
        }
    }

    pub(crate) fn flag(&mut self, field: &str) -> bool {
        self.take(field).as_bool().unwrap_or_else(|| panic!("{}: {field} is no flag", self.name))
    }

    pub(crate) fn number(&mut self, field: &str) -> usize {
        number(&self.take(field)).try_into().unwrap_or_else(|_| panic!("{}: {field} is negative", self.name))
    }

    pub(crate) fn list(&mut self, field: &str) -> Vec<Value> {
        match self.take(field) {
            Value::Null => Vec::new(),
            Value::Array(items) => items,
            other => panic!("{}: {field} is {other}", self.name),
        }
    }

    pub(crate) fn numbers(&mut self, field: &str) -> Vec<i128> {
        self.list(field).iter().map(number).collect()
    }

    pub(crate) fn texts(&mut self, field: &str) -> Vec<String> {
        self.list(field).iter().map(text).collect()
    }

    pub(crate) fn skip(&mut self, field: &str) {
        self.fields.remove(field);
    }

    /// Whatever was not asked for is something that this test does not understand.
    pub(crate) fn finish(self) {
        let left: Vec<_> = self.fields.keys().collect();
        assert!(left.is_empty(), "{}: not understood: {left:?}", self.name);
    }
}

pub(crate) fn number(value: &Value) -> i128 {
    let number = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    number.unwrap_or_else(|| panic!("not an integer of 64 bits: {value}"))
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}")).to_owned()
}

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    assert!(hex.len() % 2 == 0, "not hexadecimal: {hex}");
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn hexes(digests: &[BlockDigest]) -> Vec<String> {
    digests.iter().map(ToString::to_string).collect()
}
