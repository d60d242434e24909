//! Message normalization for chat templates: parts of text joined, JSON strings as objects.
//!
//! What needs no change is passed on as it is.

use minijinja::value::{Value, ValueKind};

use super::{ContentFormat, TemplateError};

/// How the arguments of tool calls are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arguments {
    Parsed,
    AsGiven,
}

/// The messages for the template, and whether any arguments were parsed.
pub(super) fn prepared(
    messages: &Value,
    format: ContentFormat,
    arguments: Arguments,
) -> Result<(Value, bool), TemplateError> {
    let mut parsed = false;
    let list = match messages.kind() {
        ValueKind::Seq => messages.try_iter().map_err(|_| TemplateError::NoMessages)?,
        _ => return Err(TemplateError::NoMessages),
    };
    let mut prepared = Vec::new();
    for (at, message) in list.enumerate() {
        if message.kind() != ValueKind::Map {
            return Err(TemplateError::NotAMessage(at));
        }
        let mut message = message;
        let content = attribute(&message, "content");
        if content.kind() == ValueKind::Seq && format == ContentFormat::Text {
            message = with(&message, "content", joined(&content, at)?);
        }
        let calls = attribute(&message, "tool_calls");
        if calls.kind() == ValueKind::Seq && arguments == Arguments::Parsed {
            let calls = elements(&calls).map(|call| with_parsed_arguments(&call, &mut parsed)).collect::<Vec<_>>();
            message = with(&message, "tool_calls", Value::from(calls));
        }
        prepared.push(message);
    }
    if prepared.is_empty() {
        return Err(TemplateError::NoMessages);
    }
    Ok((Value::from(prepared), parsed))
}

/// Parts of text as one text.
fn joined(parts: &Value, message: usize) -> Result<Value, TemplateError> {
    let mut text = String::new();
    for (at, part) in elements(parts).enumerate() {
        if at > 0 {
            text.push('\n');
        }
        let inner = attribute(&part, "text");
        match part.as_str().or_else(|| inner.as_str()) {
            Some(piece) => text.push_str(piece),
            None => {
                let kind = attribute(&part, "type");
                let kind = kind.as_str().unwrap_or("unknown").into();
                return Err(TemplateError::ContentPart { message, kind });
            }
        }
    }
    Ok(Value::from(text))
}

fn with_parsed_arguments(call: &Value, parsed: &mut bool) -> Value {
    let function = attribute(call, "function");
    let arguments = attribute(&function, "arguments");
    let Some(text) = arguments.as_str() else { return call.clone() };
    // What is no JSON stays the string it is: the template may still know what to do.
    let object = match text {
        "" => Value::from_iter(std::iter::empty::<(&str, Value)>()),
        text => match serde_json::from_str(text) {
            Ok(object) => object,
            Err(_) => return call.clone(),
        },
    };
    *parsed = true;
    with(call, "function", with(&function, "arguments", object))
}

/// An attribute of a map; undefined if there is none.
fn attribute(value: &Value, name: &str) -> Value {
    match value.kind() {
        ValueKind::Map => value.get_attr(name).unwrap_or(Value::UNDEFINED),
        _ => Value::UNDEFINED,
    }
}

fn elements(value: &Value) -> impl Iterator<Item = Value> {
    value.try_iter().into_iter().flatten()
}

/// A map with one entry replaced, in the same order.
fn with(map: &Value, name: &str, value: Value) -> Value {
    let entry = |key: Value| {
        let kept = if key.as_str() == Some(name) { value.clone() } else { map.get_item(&key).unwrap_or_default() };
        (key, kept)
    };
    elements(map).map(entry).collect()
}
