//! Problems of a document, each with the names an operator needs to fix it.

use std::fmt;

use crate::fault::Fault;
use crate::parameters::ParameterError;
use crate::stage::Stage;
use crate::suggest::DidYouMean;

/// One thing that is wrong with a document. The operator who wrote it can fix it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
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

/// Why a document does not build: everything that is wrong with it.
#[derive(Clone, Debug, PartialEq)]
pub struct DocumentError {
    problems: Vec<Problem>,
    /// As many as problems.
    paths: Vec<Option<Box<str>>>,
}

impl DocumentError {
    /// To be filled, and thrown away if it stays empty.
    pub(super) fn new() -> Self {
        Self { problems: Vec::new(), paths: Vec::new() }
    }

    pub(super) fn push(&mut self, path: Option<Box<str>>, problem: Problem) {
        self.paths.push(path);
        self.problems.push(problem);
    }

    /// Every problem; never empty.
    #[must_use]
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }

    /// Every problem with where it is in the document, such as `workflow.steps[0].profile`; nowhere if it is a fault of
    /// the whole.
    pub fn placed(&self) -> impl Iterator<Item = (Option<&str>, &Problem)> {
        self.paths.iter().map(Option::as_deref).zip(&self.problems)
    }
}

impl std::error::Error for DocumentError {}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} problem{}", self.problems.len(), if self.problems.len() == 1 { "" } else { "s" })?;
        self.placed().try_for_each(|(path, problem)| match path {
            Some(path) => write!(f, "\n  - {path}: {problem}"),
            None => write!(f, "\n  - {problem}"),
        })
    }
}
