//! Total latency scorer: the seconds that a request adds to all answers, its own and those of others on the pod.

use kv_index::{DEFAULT_POD_WORDS, PodSet};
use std::sync::Arc;

use routing_core::{Declare, Fleet, PluginError, Read, RoutingContext, Scorer, Scores, TryRead};

use super::normalize::{self, finite};
use super::prefill_queue::{PrefillQueues, queued};
use super::prompt::{PromptReads, PromptSize};
use crate::answer_lengths::{AnswerKey, AnswerLengths};
use crate::cost_model::CostModel;
use crate::load::Backlog;
use crate::memories::PrefillQueue;
use crate::pace::PodPaces;
use crate::parameters::{Amount, Positive, parameters};
use crate::plugin_state::PluginState;
use crate::prepare::Loads;
use crate::program::{WorkingSets, WorkingSetsSlot};

parameters! {
    /// What [`TotalLatencyScorer`] takes.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct TotalLatencyParameters {
        /// How long steps take. A [`PrefillQueueRecorder`](crate::record::PrefillQueueRecorder) beside it takes the same.
        pub cost_model: CostModel = CostModel::FUSED,
        /// Tokens of an answer as most are; 256, unless given. One that is expected to have fewer, or that its request allows fewer, has
        /// those. One that has more counts for as many: by then the pod is another than it is now.
        pub answer_tokens: Positive = const { Positive::constant(256.0) },
        /// Tokens that have to be computed of a request that was not sent from here and waits, as its engine reports; 1,024,
        /// unless given.
        pub waiting_tokens: Amount = const { Amount::constant(1024.0) },
        /// A wait for the first token counts twice where it is this part of what a cold, idle pod takes for the prompt, and ever
        /// more beyond; 1, unless given.
        pub patience: Positive = const { Positive::constant(1.0) },
        /// What it counts that an answer takes twice as long as alone on a pod, against a first token that takes as long again as
        /// a cold, idle pod takes for the prompt; 0.25, unless given.
        pub decode: Amount = const { Amount::constant(0.25) },
        /// What a second of its answer counts besides, against one of its first token; 0.75, unless given.
        pub answer_second: Amount = const { Amount::constant(0.75) },
        /// What a second of an answer counts besides that is on the pod already; 0.08, unless given. Less than one of its own: what
        /// is computed delays somebody wherever it is.
        pub other_second: Amount = const { Amount::constant(0.08) },
        /// What a second of computing counts for the cache that it takes from others; 2, unless given.
        pub eviction: Amount = const { Amount::constant(2.0) },
        /// What a second of computing counts for the contexts that it takes from [programs](crate::program) which will be back; 32, unless given.
        /// Each of them takes another's in turn.
        pub expected_back: Amount = const { Amount::constant(32.0) },
        /// Whether each pod's [pace](PodPaces) and the [lengths of answers](AnswerLengths) count, as they are learned; they do, unless told
        /// not to. The recorder of queues has to say the same.
        pub learns: bool = true,
    }
}

/// Scores by the seconds that a request adds to all answers on a pod: 1 for the fewest, 0 for the most, all 1 when equal.
///
/// With `T` for its time to the first token there, `P` for what its prefill adds to steps, and `C` for the prefill of the whole
/// prompt, the cost is
///
/// ```text
/// T · (1 + T / (patience · C)) + P · (w + D) + W · (eviction + v) + d · L · s + D · L / 2 · l
/// ```
///
/// - `T` is the wait for what is queued, as [`FirstTokenScorer`](super::FirstTokenScorer) has it, and its own prefill. It counts by
///   its square too: late ones are what users remember. How late is late follows from the prompt: a long one waits for its holder, a
///   short one does not.
/// - What a second counts to whom an answer has begun follows in part from the request as well: `d = answer_second + decode · C / (A · s₁)`,
///   with `A` tokens of an answer as most are, and `s₁` for a step of one sequence. `D` is the sum of that for those that decode on the
///   pod, by their tokens and with `other_second` each.
/// - `P` delays the `w` who wait for their first token (about as many will stand behind as stand before), and those that decode, whose
///   next token comes after it. What a step takes for being one is not part of it: they are in the same step.
/// - It is work that a pod could have done for others, and delays those who come later, wherever they go: `v` is `w` of the
///   fleet's pods on average. And it pushes as much out of the pod's cache, to be computed again, and leaves as much behind in
///   another's, of use to nobody. `W` is `P` at the pace of the fleet: a slow pod's second is worth less. So what is held matters ever
///   more as the fleet fills.
/// - Its own answer of `L` tokens takes as many steps of `s`, and makes as many steps of others longer by `l`, of which they are half through.
///
/// Where [programs](crate::program) are recognized and a pod's cache is known, what of `W` would push out contexts that are expected back counts
/// `expected_back` besides.
///
/// All of a pod's seconds are by its [pace](PodPaces), those of its answer by that of its decoding, and `C` by the fleet's.
///
/// So a holder that decodes much is left for another one before it is slow, a pod that computes is not given the answers of others,
/// and what is computed twice has its price. A [`SpeculateRecorder`](crate::record::SpeculateRecorder) beside it lets a crowd
/// on a new prompt meet where the first of it went, until waiting there costs more than computing it again.
#[derive(Debug)]
pub struct TotalLatencyScorer<const W: usize = DEFAULT_POD_WORDS> {
    parameters: TotalLatencyParameters,
    queues: Arc<PrefillQueues<W>>,
    /// Where it learns.
    learned: Option<Learned<W>>,
    loads: Read<Loads>,
    prompt: PromptReads<W>,
    /// Where programs are recognized.
    working_sets: TryRead<WorkingSetsSlot>,
}

/// What is learned of pods and answers.
#[derive(Debug)]
struct Learned<const W: usize> {
    paces: Arc<PodPaces<W>>,
    lengths: Arc<AnswerLengths>,
}

impl<const W: usize> TotalLatencyScorer<W> {
    /// Declares that it reads loads and who holds the prompt. Of the state it takes queues, paces and lengths of answers.
    pub fn declare(declare: &mut Declare<'_>, parameters: TotalLatencyParameters, state: &PluginState<W>) -> Self {
        let queues = Arc::clone(&state.prefill_queues);
        declare.recalls::<PrefillQueue>((Arc::as_ptr(&queues) as usize, parameters.cost_model, parameters.learns));
        let (loads, prompt) = (declare.reads_parts(Loads::BACKLOGS), PromptReads::declare(declare));
        let working_sets = declare.tries();
        let learned = parameters
            .learns
            .then(|| Learned { paces: Arc::clone(&state.paces), lengths: Arc::clone(&state.answer_lengths) });
        Self { parameters, queues, learned, loads, prompt, working_sets }
    }
}

impl<const W: usize> TotalLatencyScorer<W> {
    /// Adds what programs cost whose contexts would be pushed out: they compute them again when they are back, each for as long as this one takes.
    #[cold]
    fn add_pushed_out(
        &self,
        sets: &WorkingSets,
        fleet: &Fleet<W>,
        prompt: &PromptSize<'_, W>,
        (candidates, typical): (PodSet<W>, f64),
        costs: &mut [f64],
    ) {
        let (model, price) = (&self.parameters.cost_model, typical * self.parameters.expected_back.get());
        prompt.by_depth(candidates, |pods, depth| {
            let new = prompt.uncached(depth) as f64;
            let work = (model.prefill_seconds(new, prompt.tokens as f64 - new) - model.fixed.get()).max(0.0);
            for pod in pods {
                if let Some(cache) = fleet.pod(pod).and_then(|info| info.kv_tokens) {
                    costs[pod.index()] += finite(price * work * sets.pushed_out(pod, cache));
                }
            }
        });
    }
}

impl TotalLatencyParameters {
    /// What a request costs on a pod with this backlog and pace, if it waits so long for what was sent there.
    #[inline]
    fn cost(&self, request: &RequestCost, backlog: &Backlog, (pace, decoding_pace): (f64, f64), wait: f64) -> f64 {
        let model = &self.cost_model;
        let waiting = waiting(backlog);
        let beside = request.steps * model.decode_share(backlog);
        let first = wait + pace * (request.own + beside);
        // Others are on the way with it: a step is begun for all of them.
        let work = request.work + beside;
        let late = first * first * request.late;
        let decoding = request.token * backlog.decoding + self.other_second.get() * f64::from(backlog.sequences);
        let delayed = work * (pace * (waiting + decoding) + request.later);
        let (products, one_more) = model.decode_products(f64::from(backlog.sequences) + waiting + 1.0);
        let per_context = model.per_context.get();
        let step = products + per_context * (backlog.decoding + (waiting + 1.0) * request.context);
        let longer = one_more + per_context * request.context;
        // Those who wait will decode as well; what their answers are is not known, and they are taken for ones like it.
        let others = decoding + request.second * waiting;
        let answer = request.answer * (request.second * step + others * 0.5 * longer);
        // Amounts are finite, and may still multiply to more than there are numbers.
        finite(first + late + delayed + decoding_pace * answer)
    }

    /// Seconds until a pod with this backlog and pace gets to a request, if its queue is expected to take so long.
    #[inline]
    fn wait(&self, backlog: &Backlog, pace: f64, queue: Option<f64>) -> f64 {
        let others = self.cost_model.waiting_prefill(backlog, self.waiting_tokens.get());
        pace * others + self.cost_model.expected_wait(backlog, pace, queue)
    }
}

/// What a request costs on every pod that holds as much of its prompt.
#[derive(Clone, Copy, Debug)]
struct RequestCost {
    /// Seconds of its own prefill, and those of them that it adds to steps of others.
    own: f64,
    work: f64,
    /// Steps that its prefill takes.
    steps: f64,
    /// What the square of a wait counts.
    late: f64,
    /// What a second of prefill costs those who come later, wherever they go.
    later: f64,
    /// What a second of its answer counts, and of others' for each token of their contexts.
    second: f64,
    token: f64,
    /// Tokens of its answer, and of its context half through that.
    answer: f64,
    context: f64,
}

/// Requests that wait for their first token on a pod.
#[inline]
fn waiting(backlog: &Backlog) -> f64 {
    f64::from(backlog.prefilling) + backlog.waiting
}

impl<const W: usize> Scorer<W> for TotalLatencyScorer<W> {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let (backlogs, prompt) = (context.read(self.loads)?.backlogs(), self.prompt.read(context)?);
        let (fleet, queues) = (context.fleet(), self.queues.at(context.request().now));
        let (parameters, total) = (&self.parameters, prompt.tokens as f64);
        let model = &parameters.cost_model;
        let typical_answer = parameters.answer_tokens.get();
        let (paces, lengths) = match &self.learned {
            Some(learned) => (Some(&*learned.paces), Some(&*learned.lengths)),
            None => (None, None),
        };
        let learned = lengths.and_then(|lengths| lengths.learned(AnswerKey::of(context.request(), prompt.tokens)));
        let most = context.request().most_output.map(f64::from);
        let answer = [learned, most].into_iter().flatten().fold(typical_answer, f64::min);
        let (typical, typical_decoding) = paces.map_or((1.0, 1.0), |paces| (paces.typical(), paces.typical_decoding()));
        let whole = model.prefill_seconds(total, 0.0);
        let alone = (typical_answer * model.decode_products(1.0).0).max(f64::MIN_POSITIVE);
        let [second, token] = [whole, model.per_token.get()].map(|seconds| parameters.decode.get() * seconds / alone);
        let crowd: f64 = backlogs.iter().map(waiting).sum();
        let request = |depth| {
            let new = prompt.uncached(depth) as f64;
            let own = model.prefill_seconds(new, total - new);
            RequestCost {
                own,
                work: (own - model.fixed.get()).max(0.0),
                steps: new / model.step_tokens.get(),
                late: 1.0 / (parameters.patience.get() * typical * whole).max(f64::MIN_POSITIVE),
                later: typical * (parameters.eviction.get() + crowd / fleet.pods().len().max(1) as f64),
                second: parameters.answer_second.get() + second,
                token,
                answer,
                context: total + answer * 0.5,
            }
        };
        // Most pods hold nothing of the prompt and have nothing queued: they are worked out side by side, others after them.
        let cold = request(0);
        let (mut costs, words) = ([[0.0; 64]; W], scores.candidates().words().iter().rposition(|word| *word != 0));
        let costs = costs[..words.map_or(0, |last| last + 1)].as_flattened_mut();
        let (known, idle) = costs.split_at_mut(backlogs.len().min(costs.len()));
        idle.fill(parameters.cost(&cold, &Backlog::default(), (typical, typical_decoding), 0.0));
        match paces {
            Some(paces) => known.iter_mut().zip(backlogs).zip(paces.iter()).for_each(|((cost, backlog), pace)| {
                *cost = parameters.cost(&cold, backlog, pace, 0.0);
            }),
            None => known.iter_mut().zip(backlogs).for_each(|(cost, backlog)| {
                *cost = parameters.cost(&cold, backlog, (1.0, 1.0), 0.0);
            }),
        }
        let queued = queued::<W>(backlogs) & scores.candidates();
        prompt.by_depth(scores.candidates(), |pods, depth| {
            let (pods, held) = if depth == 0 { (pods & queued, cold) } else { (pods, request(depth)) };
            for pod in pods {
                let backlog = backlogs.get(pod.index()).copied().unwrap_or_default();
                let pace = paces.map_or((1.0, 1.0), |paces| (paces.of(pod), paces.decoding(pod)));
                let wait = if queued.contains(pod) {
                    let queue = fleet.handle(pod).and_then(|pod| queues.of(pod));
                    parameters.wait(&backlog, pace.0, queue)
                } else {
                    0.0
                };
                costs[pod.index()] = parameters.cost(&held, &backlog, pace, wait);
            }
        });
        if let Some(sets) = context.try_read(self.working_sets)?.filter(|sets| !sets.is_empty()) {
            self.add_pushed_out(sets, fleet, &prompt, (scores.candidates(), typical), costs);
        }
        normalize::by_cost(scores, costs);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
