//! Reading a document: a tree of values, then its parts, with everything noted that is wrong.
//!
//! Formats end at their first error, so nothing of ours is one: the format is only asked for a tree of values, and what does
//! not fit is noted with its path. Where a path stands in the text is asked of the format afterwards (`locate`).

mod fields;
mod notes;
mod objects;
mod tree;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error};

pub(super) use self::notes::Notes;
use self::tree::Tree;
use super::locate::{DocumentSeed, Mode, position};
use super::{Document, DocumentError, Problem};
use crate::path::Path;
use crate::registry::Registry;
use crate::value::Value;

impl<'de> Deserialize<'de> for Document {
    /// Takes any plugin type, parameters and names; [`Registry::read`](crate::Registry::read) is stricter.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let notes = Notes::new();
        let document = objects::document(&notes, tree(&notes, deserializer)?);
        match document {
            Some(document) if notes.are_empty() => Ok(document),
            _ => Err(D::Error::custom(notes.into_error())),
        }
    }
}

/// Whatever the format has; what is wrong with it is noted.
pub(super) fn tree<'de, D: Deserializer<'de>>(notes: &Notes, deserializer: D) -> Result<Value, D::Error> {
    Tree { notes, depth: 0 }.deserialize(deserializer)
}

impl<const W: usize> Registry<W> {
    /// Reads a document, and refuses what this registry does not know.
    ///
    /// Names that refer to plugins, profiles and steps are resolved too; whether all of it makes a workflow is for
    /// [`Document::build`] to say. [`DocumentError::locate`] tells where in the text things stand, and
    /// [`load`](Self::load) does all three.
    ///
    /// Documents nest at most 64 levels deep.
    ///
    /// # Errors
    ///
    /// With everything that is wrong, each with its path; or with what the format could not read. Which parameters there
    /// are is known of derived structs, however deep inside of others; with a flattened field or a tag, they take what they
    /// do not refuse themselves.
    pub fn read<'de, D: Deserializer<'de>>(&self, deserializer: D) -> Result<Document, DocumentError> {
        let notes = Notes::new();
        let read = tree(&notes, deserializer).map_err(|error| error.to_string());
        self.judge(notes, read)
    }

    /// Reads a document and builds it: everything that is wrong, with its line and column where the format tells them.
    ///
    /// `text` has a format read the text by a seed, as `seed.deserialize(...)`. It is called once, and once more for each
    /// problem if there are any.
    ///
    /// # Errors
    ///
    /// With everything that is wrong.
    ///
    /// # Examples
    ///
    /// ```
    /// use routing_core::Registry;
    /// use serde::de::DeserializeSeed;
    ///
    /// let text = "profiles:\n  - nmae: serve\n    pick: best\n";
    /// let error = <Registry>::new().load(|seed| seed.deserialize(serde_yaml_ng::Deserializer::from_str(text)));
    /// let error = error.expect_err("a profile has a name, and `best` is not defined");
    /// let told = error.to_string();
    /// assert!(told.contains("profiles[0].nmae (line 2 column 5): unknown field `nmae` of a profile (did you mean `name`?)"));
    /// assert!(told.contains("profiles[0].pick (line 3 column 11): profile `` names plugin `best`"));
    /// ```
    pub fn load<E: std::fmt::Display>(
        &self,
        mut text: impl FnMut(DocumentSeed<'_>) -> Result<(), E>,
    ) -> Result<crate::Workflow<W>, DocumentError> {
        let (notes, tree) = (Notes::new(), std::cell::RefCell::new(None));
        let read = text(DocumentSeed(Mode::Read(&notes, &tree))).map_err(|error| error.to_string());
        let read = read.map(|()| tree.take().unwrap_or_default());
        let built = self.judge(notes, read).and_then(|document| document.build(self));
        built.map_err(|error| error.locate(text))
    }

    /// A document of what was read, if nothing is wrong with it.
    fn judge(&self, notes: Notes, read: Result<Value, String>) -> Result<Document, DocumentError> {
        let document = match read {
            Ok(tree) => objects::document(&notes, tree),
            Err(reason) => {
                if !notes.stopped.get() {
                    notes.refused(&reason, position(&reason));
                }
                None
            }
        };
        let Some(document) = document else { return Err(notes.into_error()) };
        let unnamed = Unnamed::of(&document, &notes);
        for (path, problem) in document.names(self) {
            if !unnamed.might_be(&problem) {
                notes.add(path, problem);
            }
        }
        if notes.are_empty() { Ok(document) } else { Err(notes.into_error()) }
    }
}

/// The kinds of things of which one could not be read, so that a name may be its own.
struct Unnamed {
    plugin: bool,
    profile: bool,
    step: bool,
}

impl Unnamed {
    fn of(document: &Document, notes: &Notes) -> Self {
        let is_spoilt = |list: &str| notes.is_spoilt(&Path::of(list));
        let is_lost = |list: &str, at: usize| notes.is_spoilt(&Path::of(list).element(at).field("name"));
        let mut steps = document.workflow.iter().flat_map(|workflow| &workflow.steps).enumerate();
        Self {
            plugin: is_spoilt("plugins") || document.plugins.iter().any(|plugin| plugin.name.is_empty()),
            profile: is_spoilt("profiles") || (0..document.profiles.len()).any(|at| is_lost("profiles", at)),
            step: is_spoilt("workflow.steps") || steps.any(|(at, _)| is_lost("workflow.steps", at)),
        }
    }

    /// Whether what a problem misses may be there, unread.
    fn might_be(&self, problem: &Problem) -> bool {
        match problem {
            Problem::UnknownPlugin { .. } => self.plugin,
            Problem::UnknownProfile { .. } => self.profile,
            Problem::UnknownStep { .. } => self.step,
            Problem::DuplicatePlugin { plugin } => plugin.is_empty(),
            Problem::DuplicateProfile { profile } => profile.is_empty() && self.profile,
            _ => false,
        }
    }
}
