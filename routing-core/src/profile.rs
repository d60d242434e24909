//! A routing profile under construction: plugins by stage, in order, with their weights.

use std::sync::Arc;

use kv_index::DEFAULT_POD_WORDS;

use crate::declare::Declare;
use crate::fault::BuildError;
use crate::plugin::{Filter, Picker, Preparer, Recorder, Scorer};
use crate::selector::Selector;
use crate::stage::MakePlugin;
use crate::step::StepBuilder;
use crate::workflow::WorkflowBuilder;

/// Collects the plugins of one [`Selector`]: preparers, filters, scorers and recorders in the order they run, and one picker.
///
/// Nothing is checked before [`build`](Self::build), and then everything is.
#[must_use]
pub struct ProfileBuilder<const W: usize = DEFAULT_POD_WORDS> {
    pub(crate) name: Arc<str>,
    pub(crate) entries: Vec<Entry<W>>,
}

/// A plugin of a profile, or the condition of a step.
pub(crate) struct Entry<const W: usize> {
    pub(crate) name: Arc<str>,
    pub(crate) kind: Box<str>,
    pub(crate) make: MakePlugin<W>,
    /// Of filters.
    pub(crate) on_empty: OnEmpty,
    /// Of scorers.
    pub(crate) weight: f64,
    /// Its number among those of its stage, where some are left out; unless given, as they are counted.
    pub(crate) at: Option<usize>,
}

impl<const W: usize> Entry<W> {
    /// A plugin that is called as its type is.
    pub(crate) fn new(name: &str, make: MakePlugin<W>) -> Self {
        Self { name: name.into(), kind: name.into(), make, on_empty: OnEmpty::Fail, weight: 1.0, at: None }
    }
}

/// What happens when a filter leaves nobody.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "fail or go on: complete by nature")]
pub enum OnEmpty {
    /// The decision ends, and says which filter it was.
    #[default]
    Fail,
    /// The filter is passed over: its wish cannot be had.
    KeepPrevious,
}

/// A method that adds a plugin to its stage, with what the stage wants to know of it besides.
macro_rules! adds {
    ($(#[$doc:meta])* $method:ident, $plugin:ident, $stage:ident $(, $besides:ident: $type:ty)?) => {
        $(#[$doc])*
        pub fn $method<P>(
            self,
            name: &str,
            $($besides: $type,)?
            declare: impl FnOnce(&mut Declare<'_>) -> P + Send + 'static,
        ) -> Self
        where
            P: $plugin<W> + 'static,
        {
            let make = MakePlugin::$stage(Box::new(|d| Box::new(declare(d))));
            self.entry(Entry { $($besides,)? ..Entry::new(name, make) })
        }
    };
}

impl<const W: usize> ProfileBuilder<W> {
    /// An empty profile.
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), entries: Vec::new() }
    }

    adds! {
        /// Adds a preparer after those that are there.
        ///
        /// `declare` makes the plugin, and declares on the way what it reads and writes.
        preparer, Preparer, Prepare
    }

    adds! {
        /// Adds a filter after those that are there.
        filter, Filter, Filter, on_empty: OnEmpty
    }

    adds! {
        /// Adds a scorer. Its weight counts in proportion to the sum of all weights of the step.
        scorer, Scorer, Score, weight: f64
    }

    adds! {
        /// Sets the picker.
        picker, Picker, Pick
    }

    adds! {
        /// Adds a recorder after those that are there.
        recorder, Recorder, Record
    }

    /// Says of which type the plugin added last is, for those that require or exclude it; its name, unless said.
    pub fn of_type(mut self, kind: &str) -> Self {
        if let Some(last) = self.entries.last_mut() {
            last.kind = kind.into();
        }
        self
    }

    /// Makes every plugin and checks them together.
    ///
    /// # Errors
    ///
    /// With every fault there is.
    pub fn build(self) -> Result<Selector<W>, BuildError> {
        let step = StepBuilder::new(&Arc::clone(&self.name), self);
        WorkflowBuilder::new().step(step).build().map(Selector)
    }

    /// As [`build`](Self::build), and what works but was hardly meant is a fault too.
    ///
    /// # Errors
    ///
    /// With every fault there is, or else with every warning.
    pub fn build_strict(self) -> Result<Selector<W>, BuildError> {
        let step = StepBuilder::new(&Arc::clone(&self.name), self);
        WorkflowBuilder::new().step(step).build_strict().map(Selector)
    }

    pub(crate) fn entry(mut self, entry: Entry<W>) -> Self {
        self.entries.push(entry);
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
