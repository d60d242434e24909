//! Problems of a document, each with the names an operator needs to fix it.

use std::fmt;

use crate::fault::Fault;
use crate::parameters::ParameterError;
use crate::path::Path;
use crate::stage::Stage;
use crate::suggest::DidYouMean;
use crate::value::Value;

/// One thing that is wrong with a document. The operator who wrote it can fix it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// The format cannot read it. What comes after is not looked at.
    #[error("{reason}")]
    Format {
        /// In the words of the format.
        reason: Box<str>,
    },
    /// It is of a version that is not known.
    #[error("unknown version {found}: this reads version {supported}")]
    UnknownVersion {
        /// The version given.
        found: Box<str>,
        /// The version that is supported.
        supported: u32,
    },
    /// It is nested too deeply. What comes after is not looked at.
    #[error("nested more than {most} levels deep")]
    TooDeep {
        /// How deep it may be.
        most: usize,
    },
    /// A part has no such field.
    #[error("unknown field `{field}` of a {what}{}", DidYouMean(suggestion.as_deref()))]
    UnknownField {
        /// What part it is.
        what: &'static str,
        /// The name given.
        field: Box<str>,
        /// A field with a name like it.
        suggestion: Option<Box<str>>,
    },
    /// A field that must be given is not.
    #[error("a {what} lacks `{field}`")]
    MissingField {
        /// What part it is.
        what: &'static str,
        /// The field.
        field: Box<str>,
    },
    /// A name is given twice in one map.
    #[error("`{name}` is given twice: remove one of them")]
    GivenTwice {
        /// The name.
        name: Box<str>,
    },
    /// A value is of another type than its field.
    #[error("expected {expected}, found {found}")]
    WrongType {
        /// What the field takes.
        expected: Box<str>,
        /// What is given.
        found: Box<str>,
    },
    /// A number is infinite or none, which not every format can write.
    #[error("this is no finite number: give one, or leave it out")]
    NotFinite,
    /// A word that has no meaning where it stands.
    #[error("unknown {what} `{given}`{}", DidYouMean(suggestion.as_deref()))]
    UnknownWord {
        /// What it should be.
        what: &'static str,
        /// The word given.
        given: Box<str>,
        /// A word like it.
        suggestion: Option<Box<str>>,
    },
    /// A plugin has an empty name.
    #[error("the name of a plugin is empty: leave it out to call it as its type")]
    EmptyPluginName,
    /// No such plugin type is registered.
    #[error("unknown plugin type `{kind}`{}", DidYouMean(suggestion.as_deref()))]
    UnknownType {
        /// The type given.
        kind: Box<str>,
        /// A type with a name like it.
        suggestion: Option<Box<str>>,
    },
    /// A plugin's parameters are refused.
    #[error("plugin `{plugin}`: {error}")]
    Parameter {
        /// The plugin's name, or its type where it has none yet.
        plugin: Box<str>,
        /// What is wrong with them.
        error: ParameterError,
    },
    /// A parameter refers to a value that is not defined.
    #[error("plugin `{plugin}` refers to value `{value}`, which is not defined{}", DidYouMean(suggestion.as_deref()))]
    UnknownValue {
        /// The plugin.
        plugin: Box<str>,
        /// The name it gives.
        value: Box<str>,
        /// A value with a name like it.
        suggestion: Option<Box<str>>,
    },
    /// A value is made of another one.
    #[error("value `{value}` refers to another: only parameters refer to values, so write it out")]
    ValueOfValue {
        /// Its name.
        value: Box<str>,
    },
    /// A profile names a plugin that is not defined.
    #[error("profile `{profile}` names plugin `{plugin}`, which is not defined{}", DidYouMean(suggestion.as_deref()))]
    UnknownPlugin {
        /// The profile.
        profile: Box<str>,
        /// The name it gives.
        plugin: Box<str>,
        /// A plugin with a name like it.
        suggestion: Option<Box<str>>,
    },
    /// A step names a profile that is not defined.
    #[error("step `{step}` names profile `{profile}`, which is not defined{}", DidYouMean(suggestion.as_deref()))]
    UnknownProfile {
        /// The step.
        step: Box<str>,
        /// The name it gives.
        profile: Box<str>,
        /// A profile with a name like it.
        suggestion: Option<Box<str>>,
    },
    /// The order of execution names a step that there is not.
    #[error("the order of execution names step `{step}`, which there is not{}", DidYouMean(suggestion.as_deref()))]
    UnknownStep {
        /// The name it gives.
        step: Box<str>,
        /// A step with a name like it.
        suggestion: Option<Box<str>>,
    },
    /// A plugin is used as what it is not.
    #[error("`{user}` uses `{plugin}` as a {used_as}, but it is a {is}")]
    WrongStage {
        /// The profile or step that uses it.
        user: Box<str>,
        /// The plugin.
        plugin: Box<str>,
        /// What it is.
        is: Stage,
        /// What it is used as.
        used_as: Stage,
    },
    /// Two plugins are defined under one name.
    #[error("plugin `{plugin}` is defined twice: rename one of them")]
    DuplicatePlugin {
        /// The name.
        plugin: Box<str>,
    },
    /// Two profiles are defined under one name.
    #[error("profile `{profile}` is defined twice: rename one of them")]
    DuplicateProfile {
        /// The name.
        profile: Box<str>,
    },
    /// Which profile is meant cannot be told.
    #[error("there are {profiles} profiles and no workflow: without one there must be one profile")]
    NoWorkflow {
        /// How many there are.
        profiles: usize,
    },
    /// The workflow that the document describes does not fit together.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl Problem {
    pub(super) fn wrong_type(expected: impl Into<Box<str>>, found: &Value) -> Self {
        Self::WrongType { expected: expected.into(), found: found.to_string().into() }
    }

    /// Whether what is wrong is a name itself, not what it stands for.
    pub(super) fn is_of_a_key(&self) -> bool {
        let unknown = matches!(self, Self::Parameter { error: ParameterError::Unknown { .. }, .. });
        unknown || matches!(self, Self::UnknownField { .. })
    }

    /// Whether what is wrong is that a name is there again.
    pub(super) fn is_of_a_second(&self) -> bool {
        matches!(self, Self::GivenTwice { .. })
    }
}

/// Where a problem is: its path in the document, and its line and column in the text if they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub(super) path: Path,
    pub(super) position: Option<(usize, usize)>,
}

impl Place {
    /// The path in the document, such as `profiles[0].score[1].weight`.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The line in the text, from 1.
    #[must_use]
    pub fn line(&self) -> Option<usize> {
        self.position.map(|(line, _)| line)
    }

    /// The column in the line, from 1, as the format counts.
    #[must_use]
    pub fn column(&self) -> Option<usize> {
        self.position.map(|(_, column)| column)
    }
}

impl From<Path> for Place {
    fn from(path: Path) -> Self {
        Self { path, position: None }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.path.is_whole(), self.position) {
            (true, None) => f.write_str("document"),
            (true, Some((line, column))) => write!(f, "line {line} column {column}"),
            (false, None) => write!(f, "{}", self.path),
            (false, Some((line, column))) => write!(f, "{} (line {line} column {column})", self.path),
        }
    }
}

/// Why a document is not read or does not build: everything that is wrong with it.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentError {
    problems: Vec<Problem>,
    /// As many as problems.
    places: Vec<Place>,
}

impl DocumentError {
    pub(super) fn new(placed: Vec<(Place, Problem)>) -> Self {
        let (places, problems) = placed.into_iter().unzip();
        Self { problems, places }
    }

    /// Every problem; never empty.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Every problem with where it is.
    pub fn placed(&self) -> impl Iterator<Item = (&Place, &Problem)> {
        self.places.iter().zip(&self.problems)
    }

    pub(super) fn placed_mut(&mut self) -> impl Iterator<Item = (&mut Place, &Problem)> {
        self.places.iter_mut().zip(&self.problems)
    }

    /// In the order of the text, as far as that is known.
    pub(super) fn sort(&mut self) {
        let mut placed: Vec<_> = self.places.drain(..).zip(self.problems.drain(..)).collect();
        placed.sort_by_key(|(place, _)| place.position.unwrap_or((usize::MAX, usize::MAX)));
        *self = Self::new(placed);
    }
}

impl std::error::Error for DocumentError {}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} problem{}", self.problems.len(), if self.problems.len() == 1 { "" } else { "s" })?;
        self.placed().try_for_each(|(place, problem)| write!(f, "\n  - {place}: {problem}"))
    }
}
