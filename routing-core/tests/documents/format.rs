//! One text of a document in each format, and where each format says that something is wrong.

use routing_core::{Document, Registry};

/// A place in a text, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// What a format says is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) text: String,
    pub(crate) place: Option<Place>,
}

pub(crate) fn yaml(registry: &Registry, text: &str) -> Result<Document, Refusal> {
    registry.read(serde_yaml_ng::Deserializer::from_str(text)).map_err(|error| Refusal {
        text: error.to_string(),
        place: error.location().map(|at| Place { line: at.line(), column: at.column() }),
    })
}

pub(crate) fn json(registry: &Registry, text: &str) -> Result<Document, Refusal> {
    registry.read(&mut serde_json::Deserializer::from_str(text)).map_err(|error| Refusal {
        text: error.to_string(),
        place: Some(Place { line: error.line(), column: error.column() }),
    })
}

pub(crate) fn toml(registry: &Registry, text: &str) -> Result<Document, Refusal> {
    let read = toml::Deserializer::parse(text).and_then(|deserializer| registry.read(deserializer));
    read.map_err(|error| Refusal {
        text: error.message().to_owned(),
        place: error.span().map(|span| {
            let before = &text[..span.start];
            let column = before.chars().rev().take_while(|letter| *letter != '\n').count() + 1;
            Place { line: before.matches('\n').count() + 1, column }
        }),
    })
}
