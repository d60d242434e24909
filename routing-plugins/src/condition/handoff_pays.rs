//! Conditional disaggregation by price: a prefill step only where another pod computes the prompt for less.

use kv_index::DEFAULT_POD_WORDS;
use routing_core::{Condition, Declare, PluginError, Read, ReadPick, RoutingContext};

use crate::prepare::HandoffCosts;

/// What [`HandoffPaysCondition`] takes.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct HandoffPaysParameters {
    /// The step whose pick answers.
    pub step: Box<str>,
}

impl HandoffPaysParameters {
    /// For the pick of a step.
    #[must_use]
    pub fn new(step: &str) -> Self {
        Self { step: step.into() }
    }
}

/// Holds if the prompt costs less on another pod, its transfer included, than on the one that another step picked to answer.
///
/// By [`HandoffCosts`]: the time to the first token, what a prefill takes from those that decode beside it, and what it takes from all. Decode
/// pods that are busy have prompts computed elsewhere, idle ones do not, and how long a prompt has to be for that follows from both.
#[derive(Clone, Copy, Debug)]
pub struct HandoffPaysCondition<const W: usize = DEFAULT_POD_WORDS> {
    costs: Read<HandoffCosts>,
    pick: ReadPick,
}

impl<const W: usize> HandoffPaysCondition<W> {
    /// Declares that it reads costs, and what the step picked.
    pub fn declare(declare: &mut Declare<'_>, parameters: &HandoffPaysParameters) -> Self {
        Self { costs: declare.reads(), pick: declare.reads_pick(&parameters.step) }
    }
}

impl<const W: usize> Condition<W> for HandoffPaysCondition<W> {
    fn holds(&self, context: &RoutingContext<'_, W>) -> Result<bool, PluginError> {
        Ok(context.read(self.costs)?.of(context.pick(self.pick)?).is_apart())
    }
}
