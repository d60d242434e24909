//! Total latency scorer: the seconds that a request adds to all answers, its own and those of others on the pod.

use kv_index::{DEFAULT_POD_WORDS, PodId};
use std::sync::Arc;

use routing_core::{Declare, PluginError, Read, RoutingContext, Scorer, Scores};

use super::normalize;
use super::prefill_queue::PrefillQueues;
use super::prompt::PromptReads;
use crate::cost_model::CostModel;
use crate::load::PodLoad;
use crate::memories::PrefillQueue;
use crate::parameters::{Amount, Positive, parameters};
use crate::prepare::Loads;

parameters! {
    /// What [`TotalLatencyScorer`] takes.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct TotalLatencyParameters {
        /// How long steps take. A [`PrefillQueueRecorder`](crate::record::PrefillQueueRecorder) beside it takes the same.
        pub cost_model: CostModel = CostModel::FUSED,
        /// Tokens that an answer is taken to have, unless the request allows fewer; 512, unless given.
        pub answer_tokens: Amount = const { Amount::constant(512.0) },
        /// Tokens that have to be computed of a request that was not sent from here and waits, as its engine reports; 1,024,
        /// unless given.
        pub waiting_tokens: Amount = const { Amount::constant(1024.0) },
        /// A wait for the first token counts twice where it is this part of what a cold, idle pod takes for the prompt, and ever
        /// more beyond; 0.3, unless given.
        pub patience: Positive = const { Positive::constant(0.3) },
        /// Seconds that a second of prefill costs those who come later; 2, unless given.
        pub compute: Amount = const { Amount::constant(2.0) },
        /// What a second later counts where an answer has begun: it is read while it is made. 0.1, unless given.
        pub decode: Amount = const { Amount::constant(0.1) },
    }
}

/// Scores by the seconds that a request adds to all answers on a pod: 1 for the fewest, 0 for the most, all 1 when equal.
///
/// With `T` for its time to the first token there, `P` for its own prefill, and `C` for that of the whole prompt, the cost is
///
/// ```text
/// T · (1 + T / (patience · C)) + P · (compute + w + decode · b) + decode · (L · s + (b + w) · L / 2 · d)
/// ```
///
/// - `T` is the wait for what is queued, as [`FirstTokenScorer`](super::FirstTokenScorer) has it, and `P`. It counts by its square
///   too: late ones are what users remember. How late is late follows from the prompt: a long one waits for its holder, a short one
///   does not.
/// - `P` delays those who come later, the `w` who wait for their first token (about as many will stand behind as stand before), and
///   the `b` that decode, whose next token comes after it.
/// - Its own answer takes `L` steps of `s`, and makes as many steps of others longer by `d`, of which they are half through.
///
/// So a holder that decodes much is left for another one before it is slow, a pod that computes is not given the answers of others,
/// and what is computed twice has its price. A [`SpeculateRecorder`](crate::record::SpeculateRecorder) beside it lets a crowd
/// on a new prompt meet where the first of it went, until waiting there costs more than computing it again.
#[derive(Debug)]
pub struct TotalLatencyScorer<const W: usize = DEFAULT_POD_WORDS> {
    parameters: TotalLatencyParameters,
    queues: Arc<PrefillQueues<W>>,
    loads: Read<Loads>,
    prompt: PromptReads<W>,
}

impl<const W: usize> TotalLatencyScorer<W> {
    /// Declares that it reads loads and who holds the prompt.
    pub fn declare(
        declare: &mut Declare<'_>,
        parameters: TotalLatencyParameters,
        queues: Arc<PrefillQueues<W>>,
    ) -> Self {
        declare.recalls::<PrefillQueue>((Arc::as_ptr(&queues) as usize, parameters.cost_model));
        Self { parameters, queues, loads: declare.reads(), prompt: PromptReads::declare(declare) }
    }
}

impl TotalLatencyParameters {
    /// What a request costs on a pod with this load and, where one is kept, a queue of so many seconds.
    fn cost(&self, request: &RequestCost, load: &PodLoad, queue: Option<f64>) -> f64 {
        let (model, backlog) = (&self.cost_model, load.backlog());
        let waiting = f64::from(load.in_flight.prefilling) + backlog.waiting;
        let decoding = (f64::from(load.requests) - waiting).max(0.0);
        let others = model.waiting_prefill(&backlog, self.waiting_tokens.get());
        let wait = others + model.expected_wait(&backlog, queue);
        let own = request.own + request.steps * model.decode_share(&backlog);
        let first = wait + own;
        let late = first * first / (self.patience.get() * request.cold).max(f64::MIN_POSITIVE);
        let beside = own * (self.compute.get() + waiting + self.decode.get() * decoding);
        let (sequences, context) = (decoding + waiting, backlog.decoding + (waiting + 1.0) * request.context);
        let answer = request.answer
            * (model.decode_seconds(sequences + 1.0, context)
                + sequences * 0.5 * model.sequence_seconds(sequences, request.context));
        // Amounts are finite, and may still multiply to more than there are numbers.
        (first + late + beside + self.decode.get() * answer).min(f64::MAX)
    }
}

/// What a request costs on every pod that holds as much of its prompt.
#[derive(Clone, Copy, Debug)]
struct RequestCost {
    /// Seconds of its own prefill, and of all of the prompt's.
    own: f64,
    cold: f64,
    /// Steps that its prefill takes.
    steps: f64,
    /// Tokens of its answer, and of its context half through that.
    answer: f64,
    context: f64,
}

impl<const W: usize> Scorer<W> for TotalLatencyScorer<W> {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let (loads, prompt) = (context.read(self.loads)?, self.prompt.read(context)?);
        let (fleet, queues) = (context.fleet(), self.queues.at(context.request().now));
        let (model, total) = (&self.parameters.cost_model, prompt.tokens as f64);
        let answer = self.parameters.answer_tokens.get();
        let answer = context.request().most_output.map_or(answer, |most| answer.min(most.into()));
        let cold = model.prefill_seconds(total, 0.0);
        let mut costs = [[0.0; 64]; W];
        let costs = costs.as_flattened_mut();
        prompt.by_depth(scores.candidates(), |pods, depth| {
            let new = prompt.uncached(depth) as f64;
            let request = RequestCost {
                own: model.prefill_seconds(new, total - new),
                cold,
                steps: new / model.step_tokens.get(),
                answer,
                context: total + answer * 0.5,
            };
            let cost = |pod: PodId| {
                let queue = fleet.handle(pod).and_then(|pod| queues.of(pod));
                self.parameters.cost(&request, &loads.of(pod), queue)
            };
            pods.iter().for_each(|pod| costs[pod.index()] = cost(pod));
        });
        normalize::by_cost(scores, costs);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
