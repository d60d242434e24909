//! One text of a document in each format, and where each format says that something is wrong.

use routing_core::{Document, DocumentError, DocumentSeed, Registry};
use serde::de::DeserializeSeed;

/// A place in a text, both from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// What is said to be wrong first, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) text: String,
    pub(crate) place: Option<Place>,
}

pub(crate) fn read_yaml(text: &str, seed: DocumentSeed<'_>) -> Result<(), serde_yaml_ng::Error> {
    seed.deserialize(serde_yaml_ng::Deserializer::from_str(text))
}

pub(crate) fn read_json(text: &str, seed: DocumentSeed<'_>) -> Result<(), serde_json::Error> {
    seed.deserialize(&mut serde_json::Deserializer::from_str(text))
}

pub(crate) fn read_toml(text: &str, seed: DocumentSeed<'_>) -> Result<(), toml::de::Error> {
    seed.deserialize(toml::Deserializer::parse(text)?)
}

pub(crate) fn yaml(registry: &Registry, text: &str) -> Result<Document, Refusal> {
    let read = registry.read(serde_yaml_ng::Deserializer::from_str(text));
    read.map_err(|error| first(&error.locate(|seed| read_yaml(text, seed))))
}

pub(crate) fn json(registry: &Registry, text: &str) -> Result<Document, Refusal> {
    let read = registry.read(&mut serde_json::Deserializer::from_str(text));
    read.map_err(|error| first(&error.locate(|seed| read_json(text, seed))))
}

pub(crate) fn toml(registry: &Registry, text: &str) -> Result<Document, Refusal> {
    let deserializer = toml::Deserializer::parse(text).map_err(|error| {
        let before = error.span().map_or("", |span| &text[..span.start]);
        let column = before.chars().rev().take_while(|letter| *letter != '\n').count() + 1;
        let place = Some(Place { line: before.matches('\n').count() + 1, column });
        Refusal { text: error.message().to_owned(), place }
    })?;
    registry.read(deserializer).map_err(|error| first(&error.locate(|seed| read_toml(text, seed))))
}

fn first(error: &DocumentError) -> Refusal {
    let (place, problem) = error.placed().next().expect("there is a problem");
    let line_and_column = place.line().zip(place.column());
    Refusal { text: problem.to_string(), place: line_and_column.map(|(line, column)| Place { line, column }) }
}
