//! What cases give, read strictly: what a mapping does not know is an error, never passed over.

use std::fmt::{Debug, Display};

use serde_json::Value;

use crate::case::Case;

/// Refuses names that a mapping does not know.
pub(crate) fn known(value: &Value, names: &[&str]) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    let object = value.as_object().ok_or_else(|| format!("unknown: not an object: {value}"))?;
    match object.keys().find(|name| !names.contains(&name.as_str())) {
        Some(name) => Err(format!("unknown `{name}`")),
        None => Ok(()),
    }
}

/// Refuses parameters and inputs that a mapping does not know.
pub(crate) fn known_case(case: &Case, params: &[&str], input: &[&str]) -> Result<(), String> {
    known(&case.params, params)?;
    known(&case.input, input)
}

pub(crate) fn number(value: &Value, name: &str) -> Result<Option<f64>, String> {
    match &value[name] {
        Value::Null => Ok(None),
        number => number.as_f64().map(Some).ok_or_else(|| format!("unknown `{name}`, no number: {number}")),
    }
}

pub(crate) fn signed(value: &Value, name: &str) -> Result<Option<i64>, String> {
    match &value[name] {
        Value::Null => Ok(None),
        number => number.as_i64().map(Some).ok_or_else(|| format!("unknown `{name}`, no whole number: {number}")),
    }
}

pub(crate) fn whole(value: &Value, name: &str) -> Result<Option<u64>, String> {
    match &value[name] {
        Value::Null => Ok(None),
        number => number.as_u64().map(Some).ok_or_else(|| format!("unknown `{name}`, no whole number: {number}")),
    }
}

/// True or false; false where it is missing.
pub(crate) fn flag(value: &Value, name: &str) -> Result<bool, String> {
    match &value[name] {
        Value::Null => Ok(false),
        flag => flag.as_bool().ok_or_else(|| format!("unknown `{name}`, neither true nor false: {flag}")),
    }
}

pub(crate) fn list<'v>(value: &'v Value, name: &str) -> Result<&'v [Value], String> {
    value[name].as_array().map(Vec::as_slice).ok_or_else(|| format!("unknown `{name}`, no list"))
}

pub(crate) fn text(value: &Value) -> Result<String, String> {
    value.as_str().map(str::to_owned).ok_or_else(|| format!("unknown, no text: {value}"))
}

/// A text, or a list of them.
pub(crate) fn texts(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::Array(list) => list.iter().map(text).collect(),
        value => Ok(vec![text(value)?]),
    }
}

/// A list of numbers, some of which may be missing.
pub(crate) fn figures(list: &Value) -> Result<Vec<Option<f64>>, String> {
    let list = list.as_array().ok_or("unknown input: no list")?;
    let figure = |value: &Value| match value {
        Value::Null => Ok(None),
        value => value.as_f64().map(Some).ok_or(format!("unknown figure {value}")),
    };
    list.iter().map(figure).collect()
}

/// A list of counts; missing ones are 0, and below 0 there are none.
pub(crate) fn counts(list: &Value) -> Result<Vec<u32>, String> {
    let count = |figure: Option<f64>| {
        let figure = figure.unwrap_or_default();
        let whole = figure >= 0.0 && figure <= f64::from(u32::MAX) && figure.fract() == 0.0;
        if whole { Ok(figure as u32) } else { Err(format!("unknown count {figure}")) }
    };
    figures(list)?.into_iter().map(count).collect()
}

/// Tokens: a list of them, or how many there are.
pub(crate) fn tokens(value: &Value) -> Result<Vec<u32>, String> {
    match value.as_u64() {
        Some(count) => Ok((0..u32::try_from(count).map_err(|error| error.to_string())?).collect()),
        None => counts(value),
    }
}

/// Whether parameters are taken or refused, as expected.
pub(crate) fn refused<T: Debug, E: Display>(case: &Case, built: Result<T, E>) -> Result<(), String> {
    known(&case.expected, &["error"])?;
    let expected = case.expected["error"].as_bool().ok_or("unknown expectation: neither refused nor taken")?;
    match built {
        Err(_) if expected => Ok(()),
        Ok(_) if !expected => Ok(()),
        Err(error) => Err(format!("found refused: {error}")),
        Ok(built) => Err(format!("found taken: {built:?}")),
    }
}

pub(crate) fn equal(found: &Value, expected: &Value) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("found {found}, expected {expected}")) }
}
