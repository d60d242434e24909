//! Names that refer from one part of a document to another, refused where they stand if it is known by then that they
//! lead nowhere.
//!
//! What is referred to usually stands in front: plugins before profiles, profiles before the workflow. Where it does not, the
//! document is read, and what leads nowhere is for its build to say.

use std::cell::RefCell;
use std::fmt;

use super::Vocabulary;
use super::seeds::CheckedText;
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
    pub(super) known: &'k dyn Vocabulary,
    pub(super) parts: RefCell<Vec<(Part, Vec<String>)>>,
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

/// Reads the name of a part, which must be defined if parts of its kind are.
pub(super) fn reference(
    what: Part,
    known: &dyn Vocabulary,
) -> CheckedText<impl FnOnce(&str) -> Result<String, String> + Clone> {
    CheckedText::new(format!("the name of a {what}"), move |name: &str| match known.refer(what, name) {
        Ok(()) => Ok(name.to_owned()),
        Err(suggestion) => Err(format!("unknown {what} `{name}`{}", DidYouMean(suggestion.as_deref()))),
    })
}
