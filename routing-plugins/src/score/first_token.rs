//! Time-to-first-token (TTFT) scorer: queue, own prefill and decoding beside it, with a wait credit for cached prefixes.

use kv_index::DEFAULT_POD_WORDS;
use std::sync::Arc;

use routing_core::{Declare, PluginError, Read, RoutingContext, Scorer, Scores};

use super::normalize;
use super::prefill_queue::PrefillQueues;
use super::prompt::PromptReads;
use crate::cost_model::CostModel;
use crate::load::PodLoad;
use crate::parameters::Amount;
use crate::prepare::Loads;

/// What [`FirstTokenScorer`] takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[expect(clippy::exhaustive_structs, reason = "parameters that a host fills in by name")]
pub struct FirstTokenParameters {
    /// How long prefills take. A [`PrefillQueueRecorder`](crate::record::PrefillQueueRecorder) beside it takes the same.
    pub cost_model: CostModel,
    /// How long a request rather waits than to recompute what a pod holds; not at all, unless given.
    pub wait_credit: WaitCredit,
}

/// How long a request rather waits in a queue than to recompute what a pod holds of it.
///
/// What is computed again takes its time on a pod that others use too, and takes room there that others' blocks had. That
/// is worth some wait: [`factor`](Self::factor) seconds for each second of prefill that is saved beyond
/// [`above`](Self::above), and [`most`](Self::most) in all. What takes less than `above` to compute is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[expect(clippy::exhaustive_structs, reason = "parameters that a host fills in by name")]
pub struct WaitCredit {
    /// Seconds of waiting for a second of prefill that is saved; 0, unless given.
    pub factor: Amount,
    /// Seconds of prefill that are not worth waiting for; 0, unless given.
    pub above: Amount,
    /// Seconds that are waited at most; 0, unless given.
    pub most: Amount,
}

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
///   request waits for its first token.
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
        Self { parameters, queues, loads: declare.reads(), prompt: PromptReads::declare(declare) }
    }
}

impl FirstTokenParameters {
    /// Seconds until a pod with this load gets to a request, if its queue is expected to take so long.
    #[inline]
    fn wait(&self, load: &PodLoad, queue: Option<f64>) -> f64 {
        if load.in_flight.prefilling == 0 {
            return 0.0;
        }
        let sent = self.cost_model.queued_prefill(load);
        match queue {
            // Time has worked the queue off, and still somebody waits: the pod is slower than the model.
            Some(queue) if queue <= 0.0 => 0.5 * sent,
            Some(queue) => queue.min(sent),
            None => sent,
        }
    }
}

impl<const W: usize> Scorer<W> for FirstTokenScorer<W> {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let (loads, prompt) = (context.read(self.loads)?, self.prompt.read(context)?);
        let (fleet, now) = (context.fleet(), context.request().now);
        let FirstTokenParameters { cost_model, wait_credit } = self.parameters;
        let total = prompt.tokens as f64;
        let all = cost_model.prefill_seconds(total, 0.0);
        normalize::by_cost_and_depth(scores, prompt.held, |pod, depth| {
            let (load, new) = (loads.of(pod), prompt.uncached(depth) as f64);
            let queue = fleet.handle(pod).and_then(|pod| self.queues.of(pod, now));
            let saved = all - cost_model.prefill_seconds(new, total - new);
            let wait = (self.parameters.wait(&load, queue) - wait_credit.of(saved)).max(0.0);
            // Amounts are finite, and may still multiply to more than there are numbers.
            (wait + cost_model.prefill_under_load(&load, new, total - new) + cost_model.decode_share(&load))
                .min(f64::MAX)
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
