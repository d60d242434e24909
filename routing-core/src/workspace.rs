//! Reusable buffers of decisions (scratch space).

use kv_index::{DEFAULT_POD_WORDS, PodId, PodSet};

use crate::declare::Layout;
use crate::scores::Ranking;
use crate::slot::Slots;

/// What decisions of one workflow work in: slots, score rows, a ranking.
///
/// A decision clears what it uses and keeps the memory, so a warm one allocates nothing.
#[derive(Debug)]
pub struct Workspace<const W: usize = DEFAULT_POD_WORDS> {
    pub(crate) slots: Slots,
    pub(crate) picks: Vec<Option<PodId>>,
    pub(crate) row: Vec<f32>,
    pub(crate) totals: Vec<f32>,
    pub(crate) ranking: Ranking,
}

impl<const W: usize> Workspace<W> {
    pub(crate) fn new(layout: &Layout) -> Self {
        let pods = PodSet::<W>::CAPACITY;
        Self {
            slots: Slots::new(layout.brand, &layout.slots),
            picks: vec![None; layout.steps.len()],
            row: vec![0.0; pods],
            totals: vec![0.0; pods],
            ranking: Ranking::default(),
        }
    }

    pub(crate) fn begin(&mut self) {
        self.slots.begin();
        self.picks.fill(None);
    }
}
