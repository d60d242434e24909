//! Deserialization of documents against a vocabulary, so that the format's own error has the position of what is unknown.
//!
//! Whatever is refused is refused while the format still stands at it: a name at its key, a value at itself. Only what
//! is given before it can be judged (parameters in front of their type) and what is missing is refused at the whole
//! that it belongs to.

mod objects;
mod parameters;
mod references;
mod seeds;

use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, Visitor};

use self::references::{Defined, Part, reference};
use self::seeds::{CheckedText, ListOf};
use super::Document;
use super::words::{self, Word};
use crate::parameters::ParameterType;
use crate::suggest::{DidYouMean, suggest};

/// What a reader knows of plugin types.
pub(crate) trait Vocabulary {
    /// What a type takes, and the nearest known type if it is not known; nothing if any type will do.
    fn parameters(&self, kind: &str) -> Result<Option<&ParameterType>, Option<&str>>;

    /// Takes down what was defined, for what refers to it further on.
    fn define(&self, _what: Part, _names: Vec<String>) {}

    /// Whether a name refers to something; if it is known not to, the nearest that does.
    fn refer(&self, _what: Part, _name: &str) -> Result<(), Option<String>> {
        Ok(())
    }
}

/// Knows nothing and takes everything: the document is judged when it is built.
struct AnyType;

impl Vocabulary for AnyType {
    fn parameters(&self, _: &str) -> Result<Option<&ParameterType>, Option<&str>> {
        Ok(None)
    }
}

impl<'de> Deserialize<'de> for Document {
    /// Takes any plugin type, parameters and names; [`Registry::read`](crate::Registry::read) is stricter.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Reader::new(&AnyType).deserialize(deserializer)
    }
}

impl Document {
    pub(crate) fn read<'de, D: Deserializer<'de>>(known: &dyn Vocabulary, deserializer: D) -> Result<Self, D::Error> {
        Reader::new(&Defined { known, parts: RefCell::default() }).deserialize(deserializer)
    }
}

/// Something with named fields.
trait Object: Clone + Default {
    const WHAT: &'static str;
    const FIELDS: &'static [(&'static str, Need)];

    /// Reads the value of a field.
    fn field<'de, A: MapAccess<'de>>(&mut self, at: &mut Field<'_, A>) -> Result<(), A::Error>;

    /// Looks at the whole, once all is read.
    fn finish<E: Error>(&mut self, _known: &dyn Vocabulary) -> Result<(), E> {
        Ok(())
    }
}

/// Whether a field must be given.
#[derive(Clone, Copy, PartialEq)]
enum Need {
    Required,
    Optional,
}

/// A field whose value comes next.
struct Field<'f, A> {
    name: &'static str,
    map: &'f mut A,
    known: &'f dyn Vocabulary,
}

impl<'de, A: MapAccess<'de>> Field<'_, A> {
    fn value<T: Deserialize<'de>>(&mut self) -> Result<T, A::Error> {
        self.map.next_value()
    }

    fn word<T: Word>(&mut self) -> Result<T, A::Error> {
        self.map.next_value_seed(CheckedText::new(format!("a {}", T::WHAT), words::read::<T>))
    }

    fn object<T: Object>(&mut self) -> Result<T, A::Error> {
        self.map.next_value_seed(Reader::new(self.known))
    }

    /// A name that something else must have.
    fn reference(&mut self, what: Part) -> Result<String, A::Error> {
        self.map.next_value_seed(reference(what, self.known))
    }

    fn references(&mut self, what: Part) -> Result<Vec<String>, A::Error> {
        self.map.next_value_seed(ListOf(reference(what, self.known)))
    }

    fn objects<T: Object>(&mut self) -> Result<Vec<T>, A::Error> {
        self.map.next_value_seed(ListOf(Reader::new(self.known)))
    }
}

/// Reads an object.
#[derive(Clone)]
struct Reader<'k, T> {
    known: &'k dyn Vocabulary,
    object: PhantomData<T>,
}

impl<'k, T> Reader<'k, T> {
    fn new(known: &'k dyn Vocabulary) -> Self {
        Self { known, object: PhantomData }
    }
}

impl<'de, T: Object> DeserializeSeed<'de> for Reader<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: Object> Visitor<'de> for Reader<'_, T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {}", T::WHAT)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<T, A::Error> {
        let (mut object, mut seen) = (T::default(), Vec::new());
        let what = format!("a field of a {}", T::WHAT);
        while let Some(name) = map.next_key_seed(CheckedText::new(&*what, |given| field_name::<T>(given, &seen)))? {
            seen.push(name);
            object.field(&mut Field { name, map: &mut map, known: self.known })?;
        }
        let is_missing = |(name, need): &&(&'static str, Need)| *need == Need::Required && !seen.contains(name);
        if let Some((missing, _)) = T::FIELDS.iter().find(is_missing) {
            return Err(A::Error::custom(format_args!("a {} lacks `{missing}`", T::WHAT)));
        }
        object.finish(self.known)?;
        Ok(object)
    }
}

/// The field that a name stands for, unless it was seen already.
fn field_name<T: Object>(given: &str, seen: &[&'static str]) -> Result<&'static str, String> {
    let names = || T::FIELDS.iter().map(|(name, _)| *name);
    let Some(name) = names().find(|name| *name == given) else {
        let meant = DidYouMean(suggest(given, names()));
        return Err(format!("unknown field `{given}` of a {}{meant}", T::WHAT));
    };
    if seen.contains(&name) {
        return Err(format!("`{name}` of a {} is given twice", T::WHAT));
    }
    Ok(name)
}
