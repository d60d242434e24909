//! Positions of problems: the format is made to fail at a path, and says where that is.
//!
//! Formats tell line and column only of their errors. So a text is read again for a problem, by a seed that follows the path
//! and refuses what stands there; what the format says of that refusal is the problem's place.

use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

use super::DocumentError;
use super::read::{Notes, tree};
use crate::path::Segment;
use crate::value::{MOST_NESTING, Value};

/// What a format is to deserialize, for [`Registry::load`](crate::Registry::load) and [`DocumentError::locate`].
///
/// ```
/// use routing_core::DocumentSeed;
/// use serde::de::DeserializeSeed;
///
/// fn json(text: &str, seed: DocumentSeed<'_>) -> Result<(), serde_json::Error> {
///     let mut deserializer = serde_json::Deserializer::from_str(text);
///     seed.deserialize(&mut deserializer)?;
///     deserializer.end()
/// }
/// ```
#[derive(Debug)]
pub struct DocumentSeed<'s>(pub(super) Mode<'s>);

#[derive(Debug)]
pub(super) enum Mode<'s> {
    /// Notes what is wrong, and keeps what is read.
    Read(&'s Notes, &'s RefCell<Option<Value>>),
    /// Fails at a path.
    Trace(Trace<'s>),
}

impl<'de> DeserializeSeed<'de> for DocumentSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        match self.0 {
            Mode::Read(notes, kept) => {
                *kept.borrow_mut() = Some(tree(notes, deserializer)?);
                Ok(())
            }
            Mode::Trace(trace) => trace.deserialize(deserializer),
        }
    }
}

impl DocumentError {
    /// The same with the line and column of each problem, as far as the format of the text tells them.
    ///
    /// `text` has the format read the document's text by a seed, as for [`Registry::load`](crate::Registry::load). It is
    /// called for each problem that has no place yet, until some million values were read again; the rest stay without.
    #[must_use]
    pub fn locate<E: fmt::Display>(mut self, mut text: impl FnMut(DocumentSeed<'_>) -> Result<(), E>) -> Self {
        let read = Cell::new(0);
        for (place, problem) in self.placed_mut().filter(|(place, _)| place.position.is_none()) {
            let at = if problem.is_of_a_key() { Target::Key } else { Target::Value };
            let at = if problem.is_of_a_second() { Target::SecondKey } else { at };
            let mut path = place.path.segments();
            let mut target = at;
            while read.get() < MOST_READ {
                let trace = Trace { path: Some(path), target, depth: 0, read: &read };
                let refused = text(DocumentSeed(Mode::Trace(trace))).err().map(|error| error.to_string());
                place.position = refused.as_deref().filter(|text| text.contains(MARK)).and_then(position);
                if place.position.is_some() {
                    break;
                }
                // It is not written out: what it belongs to is.
                let Some((_, around)) = path.split_last() else { break };
                (path, target) = (around, Target::Value);
            }
        }
        self.sort();
        self
    }
}

/// Values that are read again at most.
const MOST_READ: usize = 3_000_000;

/// What the refusal says, to be told from what the format has to say.
const MARK: &str = "the place that is looked for";

/// What of a path's end is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Key,
    SecondKey,
    Value,
}

/// Follows a path, and refuses what is at its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trace<'s> {
    /// What is left of it; none off the path.
    path: Option<&'s [Segment]>,
    target: Target,
    depth: usize,
    read: &'s Cell<usize>,
}

impl<'s> Trace<'s> {
    fn count<E: Error>(&self) -> Result<(), E> {
        self.read.set(self.read.get() + 1);
        if self.path.is_some_and(<[Segment]>::is_empty) {
            return Err(E::custom(MARK));
        }
        if self.depth > MOST_NESTING { Err(E::custom("nested too deeply")) } else { Ok(()) }
    }

    /// One step further in, on the path or off it.
    fn inside(&self, path: Option<&'s [Segment]>) -> Self {
        Self { path, depth: self.depth + 1, ..*self }
    }

    /// The next step of the path, and what is left after it.
    fn next(&self) -> Option<(&'s Segment, &'s [Segment])> {
        self.path.and_then(<[Segment]>::split_first)
    }
}

impl<'de> DeserializeSeed<'de> for Trace<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

macro_rules! count {
    ($($visit:ident($($type:ty)?);)*) => {$(
        fn $visit<E: Error>(self, $(_: $type)?) -> Result<(), E> {
            self.count()
        }
    )*};
}

impl<'de> Visitor<'de> for Trace<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    count! {
        visit_unit();
        visit_none();
        visit_bool(bool);
        visit_i64(i64);
        visit_u64(u64);
        visit_f64(f64);
        visit_str(&str);
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.count()?;
        let mut at = 0;
        loop {
            let path = self.next().filter(|(next, _)| **next == Segment::Element(at)).map(|(_, rest)| rest);
            if seq.next_element_seed(self.inside(path))?.is_none() {
                return Ok(());
            }
            at += 1;
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.count()?;
        let wanted = match self.next() {
            Some((Segment::Field(name), rest)) => Some((&**name, rest)),
            _ => None,
        };
        let refused = |seen: usize| match (wanted, self.target) {
            (Some((name, [])), Target::Key) => Some(name),
            (Some((name, [])), Target::SecondKey) if seen > 0 => Some(name),
            _ => None,
        };
        let mut seen = 0;
        while let Some(name) = map.next_key_seed(Key(refused(seen)))? {
            let path = wanted.filter(|(wanted, _)| **wanted == *name).map(|(_, rest)| rest);
            seen += usize::from(path.is_some());
            // A key that is looked for is not looked for as a value.
            let path = path.filter(|rest| !rest.is_empty() || self.target == Target::Value);
            map.next_value_seed(self.inside(path))?;
        }
        Ok(())
    }
}

/// Reads a key, unless it is the one to refuse.
struct Key<'s>(Option<&'s str>);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        deserializer.deserialize_string(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = String;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<String, E> {
        if self.0 == Some(name) { Err(E::custom(MARK)) } else { Ok(name.to_owned()) }
    }
}

/// The line and column that a format's error tells, both from 1: YAML and JSON at its end, TOML at its beginning.
pub(super) fn position(error: &str) -> Option<(usize, usize)> {
    let number = |text: &str| text.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok();
    let read = |(_, rest): (&str, &str)| {
        let (line, rest) = rest.split_once(' ')?;
        let column = rest.strip_prefix("column ")?;
        Some((number(line)?, number(column)?)).filter(|(line, _)| *line > 0)
    };
    let of_toml = error.strip_prefix("TOML parse error").and_then(|rest| rest.split_once(" at line ")).and_then(read);
    of_toml.or_else(|| error.rsplit_once(" at line ").and_then(read))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formats_words_for_a_place_are_understood() {
        assert_eq!(position("plugins: bad at line 3 column 14"), Some((3, 14)));
        assert_eq!(position("bad at line 7 at line 3 column 14"), Some((3, 14)));
        assert_eq!(position("TOML parse error at line 2, column 5\n  |\n2 | a at line 9 column 9"), Some((2, 5)));
        assert_eq!(position("bad"), None);
        assert_eq!(position("bad at line 0 column 0"), None);
    }
}
