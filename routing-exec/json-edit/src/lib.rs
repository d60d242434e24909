//! JSON read in place (zero-copy) and edited byte for byte.
//!
//! Bodies pass through a router on their way to an engine. Plugins look at one field of them; executors change two or three.
//! So nothing here builds a tree: an [`Object`] is a checked text whose values are slices of it, and an [`Edit`] copies all
//! that it does not touch, whitespace and the spelling of numbers included.
//!
//! The whole text is checked as RFC 8259 has it: UTF-8, strings with their escapes, numbers, nesting of at most
//! [`MAX_DEPTH`], and nothing after the end. Any bytes are answered by a value or by a [`JsonError`], never by a panic. A
//! `\u` escape of half a surrogate pair is let through, as the grammar and Python do; such a string has no text
//! ([`Raw::as_str`] is `None`), and what it means is for the engine to say.
//!
//! Of members of the same name the last counts, as for Python.
//!
//! # Examples
//!
//! ```
//! use json_edit::{Edit, Object};
//!
//! let body = Object::parse(br#"{"model": "m",  "n": 1.0, "max_tokens": 50}"#)?;
//! assert_eq!(body.get("max_tokens").and_then(|value| value.as_u64()), Some(50));
//!
//! let prefill = Edit::new(body).set("max_tokens", 1).set("stream", false).remove("model").finish();
//! assert_eq!(prefill, br#"{  "n": 1.0, "max_tokens": 1,"stream":false}"#);
//! # Ok::<(), json_edit::JsonError>(())
//! ```

#![forbid(unsafe_code)]

mod edit;
mod error;
mod fragment;
mod raw;
mod scan;
mod text;

use std::borrow::Cow;
use std::fmt;

pub use edit::Edit;
pub use error::{Expected, JsonError};
pub use fragment::Fragment;
pub use raw::{Elements, Kind, Raw};
pub use scan::MAX_DEPTH;
use scan::Scanner;
pub use text::write_string;

/// The text of a JSON object that was checked whole, with what whitespace there is around it.
///
/// It is a reference: copying it is free, and reading it allocates nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Object<'a> {
    text: &'a str,
}

impl<'a> Object<'a> {
    /// Checks a text.
    ///
    /// # Errors
    ///
    /// Where the text stops being a JSON object, and what was expected there.
    pub fn parse(text: &'a [u8]) -> Result<Self, JsonError> {
        Self::parse_each(text, |_| {})
    }

    /// Checks a text, and shows each of its members on the way: one pass for all that is wanted of a long text.
    ///
    /// # Errors
    ///
    /// As [`Self::parse`]; some members were shown then.
    pub fn parse_each(text: &'a [u8], show: impl FnMut(Member<'a>)) -> Result<Self, JsonError> {
        let text = scan::text(text)?;
        Walk::whole(text, show)?;
        Ok(Self { text })
    }

    /// Checks a text and looks up members on the way, each by its name as [`Self::get`] does.
    ///
    /// # Errors
    ///
    /// As [`Self::parse`].
    ///
    /// # Examples
    ///
    /// ```
    /// let (_, [n, model]) = json_edit::Object::parse_finding(br#"{"n": 1, "n": 2}"#, ["n", "model"])?;
    /// assert_eq!((n.and_then(|n| n.as_u64()), model), (Some(2), None));
    /// # Ok::<(), json_edit::JsonError>(())
    /// ```
    pub fn parse_finding<const N: usize>(
        text: &'a [u8],
        names: [&str; N],
    ) -> Result<(Self, [Option<Raw<'a>>; N]), JsonError> {
        let mut found = [None; N];
        let object = Self::parse_each(text, |member| {
            if let Some(at) = names.iter().position(|name| member.is(name)) {
                found[at] = Some(member.value);
            }
        })?;
        Ok((object, found))
    }

    /// The same of one member.
    ///
    /// # Errors
    ///
    /// As [`Self::parse`].
    pub fn find(text: &'a [u8], name: &str) -> Result<Option<Raw<'a>>, JsonError> {
        Self::parse_finding(text, [name]).map(|(_, [found])| found)
    }

    /// The text, as it was given.
    #[must_use]
    pub fn as_bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    /// The members in the order of the text, those of the same name all of them.
    #[must_use]
    pub fn members(&self) -> Members<'a> {
        Members { walk: Walk::new(self.text).ok() }
    }

    /// The value of a name; the last, if there are several.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Raw<'a>> {
        self.members().filter(|member| member.is(name)).last().map(|member| member.value)
    }

    /// The value at the end of a path of names through nested objects; none for an empty path.
    #[must_use]
    pub fn get_path(&self, path: &[&str]) -> Option<Raw<'a>> {
        let (last, objects) = path.split_last()?;
        let inner = objects.iter().try_fold(*self, |object, name| object.get(name)?.object())?;
        inner.get(last)
    }

    /// A text that is known to be an object.
    fn checked(text: &'a str) -> Self {
        Self { text }
    }
}

impl fmt::Debug for Object<'_> {
    /// Without the contents: they are a client's.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Object({} bytes)", self.text.len())
    }
}

/// A member of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    name: Raw<'a>,
    /// Whether its name is written with escapes: asked for once, and not for each name that it is compared with.
    is_escaped: bool,
    value: Raw<'a>,
}

impl<'a> Member<'a> {
    /// Its name; `None` if that has half a surrogate pair.
    #[must_use]
    pub fn name(&self) -> Option<Cow<'a, str>> {
        self.name.as_str()
    }

    /// Its value.
    #[must_use]
    pub fn value(&self) -> Raw<'a> {
        self.value
    }

    /// Whether this is its name, however it is escaped.
    #[must_use]
    #[inline]
    pub fn is(&self, name: &str) -> bool {
        if self.is_escaped { self.name.as_str().is_some_and(|own| own == name) } else { self.name.inner() == name }
    }
}

/// The members of an [`Object`], in the order of the text.
#[derive(Clone, Debug)]
pub struct Members<'a> {
    walk: Option<Walk<'a>>,
}

impl<'a> Iterator for Members<'a> {
    type Item = Member<'a>;

    fn next(&mut self) -> Option<Member<'a>> {
        // The text was checked, so there is no error to lose.
        self.walk.as_mut()?.next().ok().flatten()
    }
}

/// A walk over the members of one object.
#[derive(Clone, Debug)]
struct Walk<'a> {
    scanner: Scanner<'a>,
    /// Whether a member was passed already.
    begun: bool,
}

impl<'a> Walk<'a> {
    fn new(text: &'a str) -> Result<Self, JsonError> {
        let mut scanner = Scanner::new(text);
        scanner.space();
        scanner.expect(b'{', Expected::Object)?;
        Ok(Self { scanner, begun: false })
    }

    /// Walks over all of a text, and shows each member once it is checked.
    fn whole(text: &'a str, mut show: impl FnMut(Member<'a>)) -> Result<(), JsonError> {
        let mut walk = Self::new(text)?;
        while let Some(member) = walk.next()? {
            show(member);
        }
        walk.scanner.end()
    }

    /// The next member, or nothing once the brace is closed.
    fn next(&mut self) -> Result<Option<Member<'a>>, JsonError> {
        Ok(self.next_at()?.map(|(_, member)| member))
    }

    /// The next member with the place where its name begins; the scanner is left behind its value.
    fn next_at(&mut self) -> Result<Option<(usize, Member<'a>)>, JsonError> {
        let scanner = &mut self.scanner;
        scanner.space();
        if scanner.eat(b'}') {
            return Ok(None);
        }
        if self.begun {
            scanner.expect(b',', Expected::CommaOrBrace)?;
            scanner.space();
        } else if scanner.peek() != Some(b'"') {
            return Err(scanner.error(Expected::NameOrBrace));
        }
        self.begun = true;
        let at = scanner.at();
        scanner.name()?;
        let name = scanner.since(at);
        scanner.colon()?;
        let start = scanner.at();
        // The object itself is one level.
        scanner.value(1)?;
        let is_escaped = name.inner().bytes().any(|byte| byte == b'\\');
        Ok(Some((at, Member { name, is_escaped, value: scanner.since(start) })))
    }
}

#[cfg(test)]
mod tests;
