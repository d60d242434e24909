//! Changes to an object that leave everything else as it was written.

use super::fragment::Fragment;
use super::text::write_string;
use super::{Member, Object, Walk};

/// Changes to an [`Object`], written out at once by [`Self::finish`].
///
/// What is not changed stays as it was, byte for byte and in its order. A member that is set keeps its place; a new one goes
/// behind the last, in the order in which they were set. A member that is removed takes the comma and the whitespace before
/// it along. Where a name that is changed stands several times, only its last member is left, which is the one that counted.
///
/// Changes count in the order in which they are made: a later one of the same member replaces or refines an earlier one.
///
/// # Examples
///
/// ```
/// use json_edit::{Edit, Object};
///
/// let body = Object::parse(br#"{"sampling_params": {"max_tokens": 9, "seed": 1e2}}"#)?;
/// let edited = Edit::new(body).set_path(&["sampling_params", "max_tokens"], 1).set("stream", false).finish();
/// assert_eq!(edited, br#"{"sampling_params": {"max_tokens": 1, "seed": 1e2},"stream":false}"#);
/// # Ok::<(), json_edit::JsonError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Edit<'a> {
    object: Object<'a>,
    changes: Changes<'a>,
}

impl<'a> Edit<'a> {
    /// No changes yet.
    #[must_use]
    pub fn new(object: Object<'a>) -> Self {
        Self { object, changes: Changes::default() }
    }

    /// Sets a member.
    #[must_use]
    pub fn set(self, name: &'a str, value: impl Into<Fragment<'a>>) -> Self {
        self.set_path(&[name], value)
    }

    /// Sets a member of nested objects. On the way there, what is missing or is no object becomes one. An empty path
    /// changes nothing.
    #[must_use]
    pub fn set_path(mut self, path: &[&'a str], value: impl Into<Fragment<'a>>) -> Self {
        self.changes.make(path, Change::Set(value.into()));
        self
    }

    /// Removes a member, if it is there.
    #[must_use]
    pub fn remove(self, name: &'a str) -> Self {
        self.remove_path(&[name])
    }

    /// Removes a member of nested objects, if it is there. An empty path changes nothing.
    #[must_use]
    pub fn remove_path(mut self, path: &[&'a str]) -> Self {
        self.changes.make(path, Change::Remove);
        self
    }

    /// The text with all changes made.
    #[must_use]
    pub fn finish(self) -> Vec<u8> {
        self.changes.written(self.object).into_bytes()
    }
}

/// What becomes of a member.
#[derive(Clone, Debug)]
enum Change<'a> {
    Set(Fragment<'a>),
    Remove,
    Inside(Changes<'a>),
}

/// Changes to the members of one object, at most one for each name.
#[derive(Clone, Debug, Default)]
struct Changes<'a> {
    members: Vec<(&'a str, Change<'a>)>,
    /// Whether anything was set in the object: then there is one afterwards, even if that was removed again.
    is_made: bool,
}

impl<'a> Changes<'a> {
    /// Adds a change at the end of a path.
    fn make(&mut self, path: &[&'a str], change: Change<'a>) {
        let Some((&name, inner)) = path.split_first() else { return };
        self.is_made |= matches!(change, Change::Set(_));
        let known = self.members.iter_mut().find(|(known, _)| *known == name);
        match known {
            Some((_, known)) if inner.is_empty() => *known = change,
            Some((_, known)) => known.refine(inner, change),
            None => self.members.push((name, Change::at(inner, change))),
        }
    }

    /// The text of an object after these changes.
    fn written(&self, object: Object<'_>) -> String {
        let text = object.text;
        let mut out = Output { text: String::with_capacity(text.len() + 256), is_empty: true };
        let (open, places) = places(object);
        let last = self.last_of_each(&places);
        out.text.push_str(&text[..open]);
        let mut passed = open;
        for (at, place) in places.iter().enumerate() {
            let gap = &text[passed..place.name];
            passed = place.end;
            let change = self.members.iter().zip(&last).find(|((name, _), _)| place.member.is(name));
            let Some(((_, change), last)) = change else {
                out.member(gap, &text[place.name..place.end]);
                continue;
            };
            if *last == Some(at) {
                let value = place.member.value();
                change.rewrite(value.as_text(), value.object(), |value| {
                    out.member(gap, &text[place.name..place.value]);
                    out.text.push_str(value);
                });
            }
        }
        for ((name, change), last) in self.members.iter().zip(&last) {
            if let (None, Some(value)) = (last, change.fresh()) {
                out.separate();
                write_string(name, &mut out.text);
                out.text.push(':');
                out.text.push_str(value.as_str());
            }
        }
        out.text.push_str(&text[passed..]);
        out.text
    }

    /// Where the last member of each changed name stands.
    fn last_of_each(&self, places: &[Place<'_>]) -> Vec<Option<usize>> {
        let last = |name: &str| places.iter().rposition(|place| place.member.is(name));
        self.members.iter().map(|(name, _)| last(name)).collect()
    }

    /// The object that these changes make of nothing, if they set anything.
    fn fresh(&self) -> Option<Fragment<'a>> {
        let members = self.members.iter().filter_map(|(name, change)| Some((*name, change.fresh()?)));
        self.is_made.then(|| Fragment::object(members))
    }
}

impl<'a> Change<'a> {
    /// A change at the end of a path inside a member.
    fn at(path: &[&'a str], change: Self) -> Self {
        if path.is_empty() {
            return change;
        }
        let mut inside = Changes::default();
        inside.make(path, change);
        Self::Inside(inside)
    }

    /// Makes another change, inside of what this one leaves.
    fn refine(&mut self, path: &[&'a str], change: Self) {
        match self {
            Self::Inside(changes) => changes.make(path, change),
            Self::Remove => {
                if let Some(value) = Self::at(path, change).fresh() {
                    *self = Self::Set(value);
                }
            }
            Self::Set(value) => {
                let mut text = value.as_str().to_owned();
                Self::at(path, change)
                    .rewrite(value.as_str(), value.as_raw().object(), |value| value.clone_into(&mut text));
                *value = Fragment::checked(text);
            }
        }
    }

    /// Shows what becomes of a value, unless it is removed.
    fn rewrite(&self, text: &str, object: Option<Object<'_>>, show: impl FnOnce(&str)) {
        match (self, object) {
            (Self::Remove, _) => {}
            (Self::Set(value), _) => show(value.as_str()),
            (Self::Inside(changes), Some(object)) => show(&changes.written(object)),
            (Self::Inside(changes), None) => match changes.fresh() {
                Some(value) => show(value.as_str()),
                None => show(text),
            },
        }
    }

    /// What this makes of nothing.
    fn fresh(&self) -> Option<Fragment<'a>> {
        match self {
            Self::Set(value) => Some(value.clone()),
            Self::Remove => None,
            Self::Inside(changes) => changes.fresh(),
        }
    }
}

/// A member and where it stands in its object's text.
#[derive(Debug)]
struct Place<'a> {
    member: Member<'a>,
    name: usize,
    value: usize,
    end: usize,
}

/// The place behind the brace that opens an object, and those of its members.
fn places(object: Object<'_>) -> (usize, Vec<Place<'_>>) {
    let mut places = Vec::new();
    let Ok(mut walk) = Walk::new(object.text) else { return (0, places) };
    let open = walk.scanner.at();
    while let Ok(Some((name, member))) = walk.next_at() {
        let end = walk.scanner.at();
        places.push(Place { member, name, value: end - member.value.as_text().len(), end });
    }
    (open, places)
}

/// An object that is being written.
#[derive(Debug)]
struct Output {
    text: String,
    is_empty: bool,
}

impl Output {
    /// Writes a member that was there, with the gap before it, of which a first member keeps only what follows a comma.
    fn member(&mut self, gap: &str, member: &str) {
        let gap = if self.is_empty { gap.split_once(',').map_or(gap, |(_, after)| after) } else { gap };
        self.is_empty = false;
        self.text.push_str(gap);
        self.text.push_str(member);
    }

    /// Writes a comma before a new member, unless it is the first.
    fn separate(&mut self) {
        if !self.is_empty {
            self.text.push(',');
        }
        self.is_empty = false;
    }
}
