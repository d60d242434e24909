//! Error collection: everything that is wrong with a document, noted while it is read, each with its path.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use crate::document::{DocumentError, Place, Problem};
use crate::path::{Path, Segment};
use crate::suggest::Suggestions;

/// Where reading stands, and what was found on the way.
#[derive(Debug)]
pub(in crate::document) struct Notes {
    path: RefCell<Path>,
    problems: RefCell<Vec<(Place, Problem)>>,
    /// What is known to be wrong already: what follows from it is not told again.
    spoilt: RefCell<HashSet<Path>>,
    /// Whether the format was told to stop, for a problem that is noted.
    pub(super) stopped: Cell<bool>,
    pub(super) suggestions: Suggestions,
}

impl Notes {
    pub(in crate::document) fn new() -> Self {
        Self {
            path: RefCell::default(),
            problems: RefCell::default(),
            spoilt: RefCell::default(),
            stopped: Cell::new(false),
            suggestions: Suggestions::new(),
        }
    }

    pub(super) fn path(&self) -> Path {
        self.path.borrow().clone()
    }

    pub(super) fn enter(&self, segment: Segment) {
        self.path.borrow_mut().push(segment);
    }

    pub(super) fn leave(&self) {
        self.path.borrow_mut().pop();
    }

    /// Does something one step further in.
    pub(super) fn within<T>(&self, segment: Segment, work: impl FnOnce() -> T) -> T {
        self.enter(segment);
        let done = work();
        self.leave();
        done
    }

    /// Something is wrong with what is read just now.
    pub(super) fn wrong(&self, problem: Problem) {
        let path = self.path();
        self.spoilt.borrow_mut().insert(path.clone());
        self.problems.borrow_mut().push((path.into(), problem));
    }

    /// The format refuses what is read just now.
    pub(super) fn refused(&self, reason: &str, position: Option<(usize, usize)>) {
        let place = Place { path: self.path(), position };
        self.problems.borrow_mut().push((place, Problem::Format { reason: reason.into() }));
    }

    /// What is there, or should be, is known to be wrong by something else.
    pub(super) fn spoil(&self, path: Path) {
        self.spoilt.borrow_mut().insert(path);
    }

    /// Something is wrong with a field of it that is not there to be read, or should not be.
    pub(super) fn wrong_field(&self, name: &str, place: Path, problem: Problem) {
        self.spoilt.borrow_mut().insert(self.path().field(name));
        self.problems.borrow_mut().push((place.into(), problem));
    }

    /// Whether something there, or around it, is known to be wrong.
    pub(in crate::document) fn is_spoilt(&self, path: &Path) -> bool {
        let spoilt = self.spoilt.borrow();
        let mut path = path.clone();
        loop {
            if spoilt.contains(&path) {
                return true;
            }
            if path.is_whole() {
                return false;
            }
            path.pop();
        }
    }

    /// Adds what is found later, once the whole is read; not what follows from what is known.
    pub(in crate::document) fn add(&self, path: Path, problem: Problem) {
        if !self.is_spoilt(&path) {
            self.problems.borrow_mut().push((path.into(), problem));
        }
    }

    pub(in crate::document) fn are_empty(&self) -> bool {
        self.problems.borrow().is_empty()
    }

    pub(in crate::document) fn into_error(self) -> DocumentError {
        DocumentError::new(self.problems.into_inner())
    }
}
