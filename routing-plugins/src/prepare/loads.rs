//! Measures what pods have to do, once, so that all plugins of a decision see the same figures.

use std::sync::Arc;

use kv_index::PodId;
use routing_core::{Declare, PluginError, Preparer, Preparing, Slot, Write};

use crate::load::{LoadTracker, PodLoad};

/// What every pod has to do.
#[derive(Debug)]
pub struct Loads;

impl Slot for Loads {
    type Value = LoadTable;
    const NAME: &'static str = "fleet.loads";

    fn clear(value: &mut LoadTable) {
        value.pods.clear();
    }
}

/// The loads of all pods of a fleet, by pod.
#[derive(Debug, Default)]
pub struct LoadTable {
    pods: Vec<PodLoad>,
}

impl LoadTable {
    /// What a pod has to do; nothing, if it is not of the fleet.
    #[must_use]
    #[inline]
    pub fn of(&self, pod: PodId) -> PodLoad {
        self.pods.get(pod.index()).copied().unwrap_or_default()
    }
}

impl FromIterator<(PodId, PodLoad)> for LoadTable {
    fn from_iter<I: IntoIterator<Item = (PodId, PodLoad)>>(loads: I) -> Self {
        let mut table = Self::default();
        for (pod, load) in loads {
            table.pods.resize(table.pods.len().max(pod.index() + 1), PodLoad::default());
            table.pods[pod.index()] = load;
        }
        table
    }
}

/// What [`LoadPreparer`] takes.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct LoadParameters {}

/// Writes [`Loads`].
#[derive(Debug)]
pub struct LoadPreparer<const W: usize = 4> {
    tracker: Arc<LoadTracker<W>>,
    loads: Write<Loads>,
}

impl<const W: usize> LoadPreparer<W> {
    /// Declares that it writes loads.
    pub fn declare(declare: &mut Declare<'_>, _parameters: LoadParameters, tracker: Arc<LoadTracker<W>>) -> Self {
        Self { tracker, loads: declare.writes() }
    }
}

impl<const W: usize> Preparer<W> for LoadPreparer<W> {
    fn prepare(&self, context: &mut Preparing<'_, W>) -> Result<(), PluginError> {
        let fleet = context.fleet();
        let (_, table) = context.write(self.loads)?;
        for pod in fleet.pods().iter() {
            table.pods.resize(pod.index() + 1, PodLoad::default());
            let (in_flight, load) = (self.tracker.in_flight(pod), fleet.load(pod));
            table.pods[pod.index()] = PodLoad {
                in_flight,
                requests: in_flight.requests.max(load.running + load.waiting),
                running: load.running,
                waiting: load.waiting,
                tokens: (in_flight.prompt_tokens + in_flight.output_tokens).max(load.tokens),
                kv_used: load.kv_used,
                age: None,
            };
        }
        Ok(())
    }
}
