//! The condition of disaggregated serving: leave the prefill pod out where the decode pod holds enough.

use crate::context::RoutingContext;
use crate::declare::{Declare, ReadPick};
use crate::held::Held;
use crate::plugin::{Condition, PluginError};
use crate::slot::Read;
use kv_index::DEFAULT_POD_WORDS;

/// Takes a step unless the pod that another step picked lacks fewer blocks than this.
///
/// What is left to compute decides, not the share that is held: a prefill pod is worth its transfer only if it
/// has enough to do.
#[derive(Clone, Copy, Debug)]
pub struct UnlessHeld<const W: usize = DEFAULT_POD_WORDS> {
    held: Read<Held<W>>,
    pick: ReadPick,
    lacking: usize,
}

impl<const W: usize> UnlessHeld<W> {
    /// Reads what pods hold, and what `step` picked; holds if that pod lacks `lacking` blocks or more.
    pub fn declare(declare: &mut Declare<'_>, step: &str, lacking: usize) -> Self {
        Self { held: declare.reads(), pick: declare.reads_pick(step), lacking }
    }
}

impl<const W: usize> Condition<W> for UnlessHeld<W> {
    fn holds(&self, context: &RoutingContext<'_, W>) -> Result<bool, PluginError> {
        let held = context.read(self.held)?;
        let pick = context.pick(self.pick)?;
        Ok(held.blocks().saturating_sub(held.depth(pick)) >= self.lacking)
    }
}
