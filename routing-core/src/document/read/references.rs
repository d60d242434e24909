//! Names that refer from one part of a document to another, refused where they stand if it is known by then that they
//! lead nowhere.
//!
//! What is referred to usually stands in front: plugins before profiles, profiles before the workflow. Where it does not, the
//! document is read, and what leads nowhere is for its build to say.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, SeqAccess, Visitor};

use super::Vocabulary;
use crate::parameters::ParameterType;
use crate::suggest::{DidYouMean, suggest};

/// A part of a document that others refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Plugin,
    Profile,
    Step,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plugin => "plugin",
            Self::Profile => "profile",
            Self::Step => "step",
        })
    }
}

/// A vocabulary, and what the document has defined so far.
pub(super) struct Defined<'k> {
    known: &'k dyn Vocabulary,
    parts: RefCell<Vec<(Part, Vec<String>)>>,
}

impl<'k> Defined<'k> {
    pub(super) fn new(known: &'k dyn Vocabulary) -> Self {
        Self { known, parts: RefCell::new(Vec::new()) }
    }
}

impl Vocabulary for Defined<'_> {
    fn parameters(&self, kind: &str) -> Result<Option<&ParameterType>, Option<&str>> {
        self.known.parameters(kind)
    }

    fn define(&self, what: Part, names: Vec<String>) {
        self.parts.borrow_mut().push((what, names));
    }

    fn refer(&self, what: Part, name: &str) -> Result<(), Option<String>> {
        let parts = self.parts.borrow();
        let Some((_, names)) = parts.iter().find(|(part, _)| *part == what) else { return Ok(()) };
        if names.iter().any(|known| known == name) {
            return Ok(());
        }
        Err(suggest(name, names.iter().map(String::as_str)).map(str::to_owned))
    }
}

/// Reads a name that refers to a part.
#[derive(Clone, Copy)]
pub(super) struct Reference<'k> {
    pub(super) what: Part,
    pub(super) known: &'k dyn Vocabulary,
}

impl<'de> DeserializeSeed<'de> for Reference<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Reference<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the name of a {}", self.what)
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<String, E> {
        let refused = |suggestion: Option<String>| {
            let meant = DidYouMean(suggestion.as_deref());
            E::custom(format_args!("unknown {} `{name}`{meant}", self.what))
        };
        self.known.refer(self.what, name).map_err(refused)?;
        Ok(name.to_owned())
    }
}

/// Reads a list of names that refer to parts.
pub(super) struct References<'k>(pub(super) Reference<'k>);

impl<'de> DeserializeSeed<'de> for References<'_> {
    type Value = Vec<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<String>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for References<'_> {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list, each the name of a {}", self.0.what)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<String>, A::Error> {
        let mut names = Vec::new();
        while let Some(name) = seq.next_element_seed(self.0)? {
            names.push(name);
        }
        Ok(names)
    }
}
