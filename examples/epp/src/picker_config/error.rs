//! Everything that is wrong with a configuration, each with its place and line.

use std::cell::RefCell;
use std::fmt;

/// Why a configuration is refused: every problem there is. An operator's to fix.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PickerConfigError {
    /// The problems, by line.
    pub problems: Vec<PickerProblem>,
}

/// One thing that is wrong, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PickerProblem {
    /// Its path, as `plugins[3].parameters.threshold`; empty for the whole.
    pub place: String,
    /// Its line, if the text tells it.
    pub line: Option<usize>,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for PickerConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, problem) in self.problems.iter().enumerate() {
            write!(f, "{}{problem}", if at == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

impl std::error::Error for PickerConfigError {}

impl fmt::Display for PickerProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.place.is_empty() {
            write!(f, "{}: ", self.place)?;
        }
        f.write_str(&self.message)
    }
}

/// A path into a configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place(pub(super) Vec<Segment>);

/// A step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    Key(String),
    Index(usize),
}

impl Place {
    pub(super) fn key(&self, name: &str) -> Self {
        self.with(Segment::Key(name.to_owned()))
    }

    pub(super) fn index(&self, at: usize) -> Self {
        self.with(Segment::Index(at))
    }

    fn with(&self, segment: Segment) -> Self {
        let mut path = self.0.clone();
        path.push(segment);
        Self(path)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, segment) in self.0.iter().enumerate() {
            match segment {
                Segment::Key(name) => write!(f, "{}{name}", if at == 0 { "" } else { "." })?,
                Segment::Index(index) => write!(f, "[{index}]")?,
            }
        }
        Ok(())
    }
}

/// What is found out while a configuration is read and translated.
#[derive(Debug, Default)]
pub(super) struct Findings {
    problems: RefCell<Vec<(Place, String)>>,
    warnings: RefCell<Vec<String>>,
}

impl Findings {
    /// Something that llm-d refuses too, or that has no counterpart here.
    pub(super) fn problem(&self, place: &Place, message: impl Into<String>) {
        let problem = (place.clone(), message.into());
        let mut problems = self.problems.borrow_mut();
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }

    /// Something that an operator should know, and that is run all the same.
    pub(super) fn warn(&self, message: impl Into<String>) {
        let message = message.into();
        let mut warnings = self.warnings.borrow_mut();
        if !warnings.contains(&message) {
            warnings.push(message);
        }
    }

    pub(super) fn warnings(&self) -> Vec<String> {
        self.warnings.borrow().clone()
    }

    /// Whether all is well; else the problems, with their lines in a text.
    pub(super) fn check(&self, text: &str) -> Result<(), PickerConfigError> {
        let located = |(place, message): &(Place, String)| PickerProblem {
            place: place.to_string(),
            line: super::locate::line(text, &place.0),
            message: message.clone(),
        };
        let mut problems: Vec<PickerProblem> = self.problems.borrow().iter().map(located).collect();
        problems.sort_by_key(|problem| problem.line.unwrap_or(usize::MAX));
        if problems.is_empty() { Ok(()) } else { Err(PickerConfigError { problems }) }
    }
}
