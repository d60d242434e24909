//! The stages of a selector, and what a plugin of each is made by.

use std::fmt;

use crate::declare::Make;
use crate::plugin::{Condition, Filter, Picker, Preparer, Recorder, Scorer};

/// The stage that a plugin runs in, in the order of stages within a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Stage {
    /// Whether the step is taken.
    Condition,
    /// Values that later plugins read.
    Prepare,
    /// Candidates removed.
    Filter,
    /// Candidates scored.
    Score,
    /// Candidates ranked.
    Pick,
    /// Notes of the finished plan.
    Record,
}

impl Stage {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Condition => "condition",
            Self::Prepare => "preparer",
            Self::Filter => "filter",
            Self::Score => "scorer",
            Self::Pick => "picker",
            Self::Record => "recorder",
        }
    }
}

impl fmt::Display for Stage {
    /// The word for a plugin of the stage.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A plugin that is made once it can declare, by its stage. That each is boxed proves every plugin trait object safe.
pub(crate) enum MakePlugin<const W: usize> {
    Condition(Make<dyn Condition<W>>),
    Prepare(Make<dyn Preparer<W>>),
    Filter(Make<dyn Filter<W>>),
    Score(Make<dyn Scorer<W>>),
    Pick(Make<dyn Picker<W>>),
    Record(Make<dyn Recorder<W>>),
}
