//! Deserialization of documents against a vocabulary, so that the format's own error has the position of what is unknown.
//!
//! Whatever is refused is refused while the format still stands at it: a name at its key, a value at itself. Only what
//! is given before it can be judged (parameters in front of their type) and what is missing is refused at the whole
//! that it belongs to.

mod objects;
mod parameters;
mod references;

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use self::references::{Defined, Part, Reference, References};
use super::Document;
use super::words::{AnyWord, Word};
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
        Reader::new(&Defined::new(known)).deserialize(deserializer)
    }
}

/// Something with named fields.
trait Object: Sized {
    const WHAT: &'static str;
    const FIELDS: &'static [&'static str];
    const REQUIRED: &'static [&'static str];

    fn empty() -> Self;

    /// Reads the value of a field.
    fn field<'de, A: MapAccess<'de>>(&mut self, at: &mut Field<'_, A>) -> Result<(), A::Error>;

    /// Looks at the whole, once all is read.
    fn finish<E: Error>(&mut self, _known: &dyn Vocabulary) -> Result<(), E> {
        Ok(())
    }
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
        self.map.next_value_seed(AnyWord(PhantomData))
    }

    fn object<T: Object>(&mut self) -> Result<T, A::Error> {
        self.map.next_value_seed(Reader::new(self.known))
    }

    /// A name that something else must have.
    fn reference(&mut self, what: Part) -> Result<String, A::Error> {
        self.map.next_value_seed(Reference { what, known: self.known })
    }

    fn references(&mut self, what: Part) -> Result<Vec<String>, A::Error> {
        self.map.next_value_seed(References(Reference { what, known: self.known }))
    }

    fn objects<T: Object>(&mut self) -> Result<Vec<T>, A::Error> {
        self.map.next_value_seed(Readers(Reader::new(self.known)))
    }
}

/// Reads an object.
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
        let mut object = T::empty();
        let mut seen = Vec::new();
        while let Some(name) = map.next_key_seed(FieldName { what: T::WHAT, known: T::FIELDS, seen: &seen })? {
            seen.push(name);
            object.field(&mut Field { name, map: &mut map, known: self.known })?;
        }
        if let Some(missing) = T::REQUIRED.iter().find(|name| !seen.contains(name)) {
            return Err(A::Error::custom(format_args!("a {} lacks `{missing}`", T::WHAT)));
        }
        object.finish(self.known)?;
        Ok(object)
    }
}

/// Reads a list of objects.
struct Readers<'k, T>(Reader<'k, T>);

impl<'de, T: Object> DeserializeSeed<'de> for Readers<'_, T> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<T>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, T: Object> Visitor<'de> for Readers<'_, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list, each a {}", T::WHAT)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
        let mut objects = Vec::new();
        while let Some(object) = seq.next_element_seed(Reader::new(self.0.known))? {
            objects.push(object);
        }
        Ok(objects)
    }
}

/// Reads the name of a field.
struct FieldName<'s> {
    what: &'static str,
    known: &'static [&'static str],
    seen: &'s [&'static str],
}

impl<'de> DeserializeSeed<'de> for FieldName<'_> {
    type Value = &'static str;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<&'static str, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for FieldName<'_> {
    type Value = &'static str;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a field of a {}", self.what)
    }

    fn visit_str<E: Error>(self, given: &str) -> Result<&'static str, E> {
        let Some(name) = self.known.iter().find(|name| **name == given) else {
            let meant = DidYouMean(suggest(given, self.known.iter().copied()));
            return Err(E::custom(format_args!("unknown field `{given}` of a {}{meant}", self.what)));
        };
        if self.seen.contains(name) {
            return Err(E::custom(format_args!("`{name}` of a {} is given twice", self.what)));
        }
        Ok(name)
    }
}
