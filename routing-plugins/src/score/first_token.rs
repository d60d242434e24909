//! Time-to-first-token (TTFT) scorer: queue, own prefill and decoding beside it, with a wait credit for cached prefixes.

use kv_index::DEFAULT_POD_WORDS;
use std::sync::Arc;

use routing_core::{Declare, PluginError, Read, RoutingContext, Scorer, Scores};

use super::normalize::{self, finite};
use super::pod_rows::{ROWS, each_place, each_waiting, rows_of};
use super::prefill_queue::PrefillQueues;
use super::prefill_wait::PrefillWaits;
use super::prompt::PromptReads;
use crate::cost_model::CostModel;
use crate::load::{BacklogBlock, LANES};
use crate::memories::PrefillQueue;
use crate::parameters::Amount;
use crate::prepare::Loads;

/// What [`FirstTokenScorer`] takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct FirstTokenParameters {
    /// How long prefills take. A [`PrefillQueueRecorder`](crate::record::PrefillQueueRecorder) beside it takes the same.
    pub cost_model: CostModel,
    /// How long a request rather waits than to recompute what a pod holds; not at all, unless given.
    pub wait_credit: WaitCredit,
    /// Tokens that have to be computed of a request that was not sent from here and waits, as its engine reports: others'
    /// prompts are not known. 0, unless given: such requests do not count.
    pub waiting_tokens: Amount,
}

crate::parameters::setters! { FirstTokenParameters {
    cost_model: CostModel,
    wait_credit: WaitCredit,
    waiting_tokens: Amount,
} }

impl FirstTokenParameters {
    /// What [`profiles::first_token`](crate::profiles::first_token) has.
    #[must_use]
    pub fn measured() -> Self {
        let waiting_tokens = const { Amount::constant(1024.0) };
        Self { wait_credit: WaitCredit::MEASURED, waiting_tokens, ..Self::default() }
    }
}

/// How long a request rather waits in a queue than to recompute what a pod holds of it.
///
/// What is computed again takes its time on a pod that others use too, and takes room there that others' blocks had. That
/// is worth some wait: [`factor`](Self::factor) seconds for each second of prefill that is saved beyond
/// [`above`](Self::above), and [`most`](Self::most) in all. What takes less than `above` to compute is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct WaitCredit {
    /// Seconds of waiting for a second of prefill that is saved; 0, unless given.
    pub factor: Amount,
    /// Seconds of prefill that are not worth waiting for; 0, unless given.
    pub above: Amount,
    /// Seconds that are waited at most; 0, unless given.
    pub most: Amount,
}

crate::parameters::setters! { WaitCredit {
    factor: Amount,
    above: Amount,
    most: Amount,
} }

impl WaitCredit {
    /// What [`profiles::first_token`](crate::profiles::first_token) has: ten seconds for one, beyond a fifth of a second, and
    /// five at most.
    pub const MEASURED: Self = Self {
        factor: const { Amount::constant(10.0) },
        above: const { Amount::constant(0.2) },
        most: const { Amount::constant(5.0) },
    };

    /// Seconds that are worth waiting to save so many.
    #[inline]
    fn of(&self, saved: f64) -> f64 {
        (self.factor.get() * (saved - self.above.get()).max(0.0)).min(self.most.get())
    }
}

/// Scores by the expected seconds to the first token: 1 for the soonest, 0 for the latest, all 1 when equal.
///
/// The cost, in seconds, is `max(0, Q − credit) + P + S · D`:
///
/// - `P` is the prompt's own prefill, from what the pod holds of it.
/// - `Q` is the time until the pod gets to it. There are two estimates, and the lesser counts: all prompts that were sent
///   there and have no first token, as if none of them had begun; and the pod's [queue](PrefillQueues), which time works off
///   at the model's pace, where a [`PrefillQueueRecorder`](crate::record::PrefillQueueRecorder) keeps one. A queue that is worked off
///   while requests still wait was taken for too short: then half of what was sent counts. Nothing is queued where no
///   request waits for its first token. What others sent and the pod's engine reports as waiting comes before it too, at
///   [so many tokens](FirstTokenParameters::waiting_tokens) each.
/// - `S · D` is what decoding takes meanwhile: `D` for each step by the [cost model](CostModel), in `S` = 1 + own tokens / tokens
///   of a step: there is always the step under way.
/// - The [`WaitCredit`] is for queues alone: they pass. How much a pod decodes lasts, and is not forgiven, or whoever holds a
///   popular prompt would be given ever more.
///
/// Without a credit, without a queue and with `per_context` at 0 this is the estimate that Mooncake's conductor goes by. It sees
/// only its own request, and so does not mind filling one pod with decoding requests while another has none.
#[derive(Debug)]
pub struct FirstTokenScorer<const W: usize = DEFAULT_POD_WORDS> {
    parameters: FirstTokenParameters,
    queues: Arc<PrefillQueues<W>>,
    loads: Read<Loads>,
    prompt: PromptReads<W>,
}

impl<const W: usize> FirstTokenScorer<W> {
    /// Declares that it reads loads and who holds the prompt.
    pub fn declare(declare: &mut Declare<'_>, parameters: FirstTokenParameters, queues: Arc<PrefillQueues<W>>) -> Self {
        declare.recalls::<PrefillQueue>((Arc::as_ptr(&queues) as usize, parameters.cost_model, false));
        Self { parameters, queues, loads: declare.reads_parts(Loads::BACKLOGS), prompt: PromptReads::declare(declare) }
    }
}

impl FirstTokenParameters {
    /// What a prompt of so many tokens costs where so many of them are new.
    fn prompt(&self, total: f64, new: f64) -> PromptCost {
        let own = self.cost_model.prefill_seconds(new, total - new);
        let credit = self.wait_credit.of(self.cost_model.prefill_seconds(total, 0.0) - own);
        PromptCost { own, credit, steps: new / self.cost_model.step_tokens.get() }
    }
}

/// What a prompt costs on every pod that holds as much of it.
#[derive(Clone, Copy, Debug)]
struct PromptCost {
    /// Seconds of its own prefill.
    own: f64,
    /// Seconds of waiting that are forgiven.
    credit: f64,
    /// Steps that its prefill takes.
    steps: f64,
}

impl PromptCost {
    /// Seconds to the first token after a wait, where decoding makes every step longer by so many.
    #[inline]
    fn after(&self, wait: f64, decoding: f64) -> f64 {
        let wait = (wait - self.credit).max(0.0);
        // Amounts are finite, and may still multiply to more than there are numbers.
        finite(wait + (self.own + self.steps * decoding) + decoding)
    }

    /// The same without a wait: there is nothing to forgive.
    #[inline]
    fn at_once(&self, decoding: f64) -> f64 {
        finite((self.own + self.steps * decoding) + decoding)
    }
}

impl<const W: usize> Scorer<W> for FirstTokenScorer<W> {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let (backlogs, prompt) = (context.read(self.loads)?.backlogs(), self.prompt.read(context)?);
        let (fleet, candidates) = (context.fleet(), scores.candidates());
        let (parameters, total) = (&self.parameters, prompt.tokens as f64);
        // Most pods hold nothing of the prompt and have nothing queued: they are worked out side by side, others after them.
        let cold = parameters.prompt(total, prompt.uncached(0) as f64);
        let mut costs = [[[0.0; LANES]; ROWS]; W];
        let costs = rows_of(&mut costs, candidates);
        let backlogs = &backlogs[..backlogs.len().min(costs.len())];
        let (known, idle) = costs.split_at_mut(backlogs.len());
        idle.fill([cold.at_once(0.0); LANES]);
        let context_seconds = parameters.cost_model.per_context.get();
        for (costs, backlog) in known.iter_mut().zip(backlogs) {
            *costs = backlog.decoding.map(|tokens| cold.at_once(context_seconds * tokens));
        }
        let queues = self.queues.at(context.request().now);
        let wait = PrefillWaits::new(&parameters.cost_model, parameters.waiting_tokens.get(), fleet, queues);
        let cost = |backlog: &BacklogBlock, (row, lane): (usize, usize), prompt: &PromptCost| {
            let decoding = context_seconds * backlog.decoding[lane];
            if backlog.waiting[lane] > 0.0 {
                prompt.after(wait.of(backlog, (row, lane), 1.0), decoding)
            } else {
                prompt.at_once(decoding)
            }
        };
        each_waiting(backlogs, |place, backlog| known[place.0][place.1] = cost(backlog, place, &cold));
        prompt.by_depth(candidates, |pods, depth| {
            if depth > 0 {
                let held = parameters.prompt(total, prompt.uncached(depth) as f64);
                each_place(pods, |(row, lane)| {
                    costs[row][lane] = match backlogs.get(row) {
                        Some(backlog) => cost(backlog, (row, lane), &held),
                        None => held.at_once(0.0),
                    };
                });
            }
        });
        normalize::by_cost(scores, costs.as_flattened());
        Ok(())
    }
}

#[cfg(test)]
mod tests;
