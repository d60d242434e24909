//! Fields of a configuration by name and type; what nobody asked for is an unknown field.

use std::cell::RefCell;
use std::time::Duration;

use routing_core::suggest;
use serde_yaml_ng::{Mapping, Value};

use super::error::{Findings, Place};
use super::quantity;

/// How names of fields are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Case {
    /// As they are: the configuration itself.
    Exact,
    /// In whatever case: parameters, which Go's JSON reads so.
    Any,
}

/// The fields of one object. When it is dropped, those that nobody asked for are problems.
#[derive(Debug)]
pub(super) struct Fields<'a> {
    map: Option<&'a Mapping>,
    pub(super) place: Place,
    found: &'a Findings,
    case: Case,
    asked: RefCell<Vec<&'static str>>,
}

impl<'a> Fields<'a> {
    /// The fields of a value, which is an object or nothing.
    pub(super) fn new(value: &'a Value, place: Place, case: Case, found: &'a Findings) -> Self {
        let map = match value {
            Value::Mapping(map) => Some(map),
            Value::Null => None,
            other => {
                found.problem(&place, format!("found {}, expected fields", shown(other)));
                None
            }
        };
        Self { map, place, found, case, asked: RefCell::default() }
    }

    /// A field's value, unless it is missing or null.
    pub(super) fn get(&self, name: &'static str) -> Option<&'a Value> {
        self.asked.borrow_mut().push(name);
        let is_it = |key: &Value| key.as_str().is_some_and(|key| self.is_same(key, name));
        self.map?.iter().find(|(key, _)| is_it(key)).map(|(_, value)| value).filter(|value| !value.is_null())
    }

    /// A text that is not empty: an empty one counts as missing, as in Go.
    pub(super) fn text(&self, name: &'static str) -> Option<&'a str> {
        self.of(name, "a text", Value::as_str).filter(|text| !text.is_empty())
    }

    pub(super) fn flag(&self, name: &'static str) -> Option<bool> {
        self.of(name, "true or false", Value::as_bool)
    }

    pub(super) fn number(&self, name: &'static str) -> Option<f64> {
        self.of(name, "a number", Value::as_f64)
    }

    pub(super) fn whole(&self, name: &'static str) -> Option<i64> {
        self.of(name, "a whole number", Value::as_i64)
    }

    /// A duration as Go writes it: `1m30s`.
    pub(super) fn duration(&self, name: &'static str) -> Option<Duration> {
        let text = self.of(name, "a duration such as 30s", Value::as_str)?;
        let parsed = quantity::duration(text);
        if parsed.is_none() {
            self.problem(name, format!("found `{text}`, expected a duration such as 30s or 1m30s"));
        }
        parsed
    }

    /// A quantity as Kubernetes writes it: `10Gi`, `1k`, 500.
    pub(super) fn quantity(&self, name: &'static str) -> Option<u64> {
        let value = self.get(name)?;
        let parsed = value.as_str().map_or_else(|| value.as_u64(), quantity::quantity);
        if parsed.is_none() {
            self.problem(name, format!("found {}, expected a quantity such as 500, 1k or 10Gi", shown(value)));
        }
        parsed
    }

    /// The fields of an object within; none if it is missing.
    pub(super) fn fields(&self, name: &'static str) -> Option<Self> {
        self.get(name).map(|value| self.inner(value, self.place.key(name)))
    }

    /// The items of a list; none if it is missing.
    pub(super) fn items(&self, name: &'static str) -> Vec<(Place, &'a Value)> {
        let items = self.of(name, "a list", |value| value.as_sequence().map(Vec::as_slice)).unwrap_or_default();
        items.iter().enumerate().map(|(at, item)| (self.place.key(name).index(at), item)).collect()
    }

    /// The items of a list, each an object.
    pub(super) fn objects(&self, name: &'static str) -> Vec<Self> {
        self.items(name).into_iter().map(|(place, item)| self.inner(item, place)).collect()
    }

    /// The items of a list, each a text.
    pub(super) fn texts(&self, name: &'static str) -> Vec<&'a str> {
        let mut texts = Vec::new();
        for (place, item) in self.items(name) {
            match item.as_str() {
                Some(text) => texts.push(text),
                None => self.found.problem(&place, format!("found {}, expected a text", shown(item))),
            }
        }
        texts
    }

    /// All fields, each a text.
    pub(super) fn pairs(&self) -> Vec<(&'a str, &'a str)> {
        let mut pairs = Vec::new();
        for (key, value) in self.map.into_iter().flatten() {
            match (key.as_str(), value.as_str()) {
                (Some(key), Some(value)) => pairs.push((key, value)),
                (key, _) => self.problem(key.unwrap_or("?"), format!("found {}, expected a text", shown(value))),
            }
        }
        pairs
    }

    /// Something is wrong with a field.
    pub(super) fn problem(&self, name: &str, message: impl Into<String>) {
        self.found.problem(&self.place.key(name), message);
    }

    /// Takes a field as known without looking at what is in it.
    pub(super) fn skip(&self, names: &[&'static str]) {
        self.asked.borrow_mut().extend(names);
    }

    /// All of it is known.
    pub(super) fn skip_all(&mut self) {
        self.map = None;
    }

    fn inner(&self, value: &'a Value, place: Place) -> Self {
        Self::new(value, place, self.case, self.found)
    }

    fn of<T>(&self, name: &'static str, expected: &str, read: impl Fn(&'a Value) -> Option<T>) -> Option<T> {
        let value = self.get(name)?;
        let found = read(value);
        if found.is_none() {
            self.problem(name, format!("found {}, expected {expected}", shown(value)));
        }
        found
    }

    fn is_same(&self, key: &str, name: &str) -> bool {
        if self.case == Case::Any { key.eq_ignore_ascii_case(name) } else { key == name }
    }
}

impl Drop for Fields<'_> {
    fn drop(&mut self) {
        let asked = self.asked.borrow();
        for key in self.map.into_iter().flat_map(Mapping::keys) {
            let Some(key) = key.as_str() else {
                self.found.problem(&self.place, format!("found the field {}, expected a name", shown(key)));
                continue;
            };
            if !asked.iter().any(|name| self.is_same(key, name)) {
                let help = match suggest(key, asked.iter().copied()) {
                    Some(near) => format!("did you mean `{near}`?"),
                    None if asked.is_empty() => "there are none".to_owned(),
                    None => format!("there are {}", asked.join(", ")),
                };
                self.found.problem(&self.place.key(key), format!("unknown field `{key}`: {help}"));
            }
        }
    }
}

/// A value in a message, short.
fn shown(value: &Value) -> String {
    match value {
        Value::Mapping(_) => "fields".to_owned(),
        Value::Sequence(_) => "a list".to_owned(),
        Value::String(text) => format!("`{text}`"),
        Value::Null => "nothing".to_owned(),
        other => serde_yaml_ng::to_string(other).unwrap_or_default().trim().to_owned(),
    }
}
