//! A profile under construction: which plugins, in which stage, in which order, with which weight.

use kv_index::DEFAULT_POD_WORDS;
use std::sync::Arc;

use crate::declare::{Declare, Make};
use crate::fault::BuildError;
use crate::plugin::{Filter, Picker, Preparer, Recorder, Scorer};
use crate::workflow::{StepBuilder, Workflow, WorkflowBuilder};

/// Collects the plugins of one step: preparers, filters, scorers and recorders in the order they run, and one picker.
///
/// Nothing is checked before [`build`](Self::build), and then everything is.
#[must_use]
pub struct ProfileBuilder<const W: usize = DEFAULT_POD_WORDS> {
    pub(crate) name: Arc<str>,
    pub(crate) entries: Vec<Entry<W>>,
}

pub(crate) struct Entry<const W: usize> {
    pub(crate) name: Arc<str>,
    pub(crate) kind: Box<str>,
    pub(crate) make: Stage<W>,
}

pub(crate) enum Stage<const W: usize> {
    Prepare(Make<dyn Preparer<W>>),
    Filter(OnEmpty, Make<dyn Filter<W>>),
    Score(f64, Make<dyn Scorer<W>>),
    Pick(Make<dyn Picker<W>>),
    Record(Make<dyn Recorder<W>>),
}

/// What happens when a filter leaves nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "fail or go on: complete by nature")]
pub enum OnEmpty {
    /// The decision ends, and says which filter it was.
    Fail,
    /// The filter is passed over: its wish cannot be had.
    KeepPrevious,
}

impl<const W: usize> ProfileBuilder<W> {
    /// An empty profile.
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), entries: Vec::new() }
    }

    /// Adds a preparer after those that are there.
    ///
    /// `declare` makes the plugin, and declares on the way what it reads and writes.
    pub fn preparer<P>(self, name: &str, declare: impl FnOnce(&mut Declare<'_>) -> P + Send + 'static) -> Self
    where
        P: Preparer<W> + 'static,
    {
        self.entry(name, Stage::Prepare(Box::new(|d| Box::new(declare(d)))))
    }

    /// Adds a filter after those that are there.
    pub fn filter<P>(
        self,
        name: &str,
        on_empty: OnEmpty,
        declare: impl FnOnce(&mut Declare<'_>) -> P + Send + 'static,
    ) -> Self
    where
        P: Filter<W> + 'static,
    {
        self.entry(name, Stage::Filter(on_empty, Box::new(|d| Box::new(declare(d)))))
    }

    /// Adds a scorer. Its weight counts in proportion to the sum of all weights of the step.
    pub fn scorer<P>(
        self,
        name: &str,
        weight: f64,
        declare: impl FnOnce(&mut Declare<'_>) -> P + Send + 'static,
    ) -> Self
    where
        P: Scorer<W> + 'static,
    {
        self.entry(name, Stage::Score(weight, Box::new(|d| Box::new(declare(d)))))
    }

    /// Sets the picker.
    pub fn picker<P>(self, name: &str, declare: impl FnOnce(&mut Declare<'_>) -> P + Send + 'static) -> Self
    where
        P: Picker<W> + 'static,
    {
        self.entry(name, Stage::Pick(Box::new(|d| Box::new(declare(d)))))
    }

    /// Adds a recorder after those that are there.
    pub fn recorder<P>(self, name: &str, declare: impl FnOnce(&mut Declare<'_>) -> P + Send + 'static) -> Self
    where
        P: Recorder<W> + 'static,
    {
        self.entry(name, Stage::Record(Box::new(|d| Box::new(declare(d)))))
    }

    /// Says of which type the plugin added last is, for those that require or exclude it; its name, unless said.
    pub fn of_type(mut self, kind: &str) -> Self {
        if let Some(last) = self.entries.last_mut() {
            last.kind = kind.into();
        }
        self
    }

    /// A workflow of this profile alone, its one step called as the profile is.
    ///
    /// # Errors
    ///
    /// With every fault there is.
    pub fn build(self) -> Result<Workflow<W>, BuildError> {
        let name = Arc::clone(&self.name);
        WorkflowBuilder::new().step(StepBuilder::new(&name, self)).build()
    }

    pub(crate) fn entry(mut self, name: &str, make: Stage<W>) -> Self {
        self.entries.push(Entry { name: name.into(), kind: name.into(), make });
        self
    }
}

impl<const W: usize> std::fmt::Debug for ProfileBuilder<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProfileBuilder")
            .field("name", &self.name)
            .field("plugins", &self.entries.iter().map(|entry| &entry.name).collect::<Vec<_>>())
            .finish()
    }
}
