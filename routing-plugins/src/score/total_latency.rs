//! Total latency scorer: the seconds that a request adds to all answers, its own and those of others on the pod.

mod cost;

use kv_index::{DEFAULT_POD_WORDS, PodId, PodSet};
use std::sync::Arc;

use routing_core::{Declare, Fleet, PluginError, Read, Request, RoutingContext, Scorer, Scores, TryRead};

use super::normalize::{self, finite};
use super::pod_rows::{ROWS, Row, each_place, each_waiting, rows_of, waiting};
use super::prefill_queue::PrefillQueues;
use super::prefill_wait::PrefillWaits;
use super::prompt::{PromptReads, PromptSize};
use crate::answer_lengths::{AnswerKey, AnswerLengths};
use crate::cost_model::CostModel;
use crate::load::LANES;
use crate::memories::PrefillQueue;
use crate::pace::{Pace, PaceTable, PodPaces};
use crate::parameters::{Amount, Fraction, Positive, parameters};
use crate::plugin_state::PluginState;
use crate::prepare::Loads;
use crate::program::{WorkingSets, WorkingSetsSlot};
use cost::{PodTerms, Prefill, RequestCost, RequestFigures};

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
        /// What a second of an answer counts besides that is on the pod already. Less than one of its own: what is computed delays somebody wherever it
        /// is. Unless given, 0.08; and 0.3 where [another pod may compute the prompt](crate::prepare::HandoffCostPreparer), which is there for that.
        pub other_second: Option<Amount> = None,
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
///   Where more of the pod's time than of others' went lately to prompts that were sent from here, `s` is as much longer: an answer has a
///   token for each step, and prompts that come later are not in any queue yet.
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
pub struct TotalLatencyScorer<const W: usize = DEFAULT_POD_WORDS>(TotalLatency<W>);

/// What a second of others' answers counts where one pod does all.
const OTHER_SECOND: Amount = Amount::constant(0.08);

/// What requests cost on pods, for whoever goes by it.
#[derive(Debug)]
pub(crate) struct TotalLatency<const W: usize> {
    parameters: TotalLatencyParameters,
    parting: Option<Fraction>,
    queues: Arc<PrefillQueues<W>>,
    /// Where it learns.
    learned: Option<Learned<W>>,
    /// What stands for paces where it does not.
    model_paces: PaceTable,
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
        Self(TotalLatency::declare(declare, parameters, state))
    }
}

impl<const W: usize> TotalLatency<W> {
    pub(crate) fn declare(
        declare: &mut Declare<'_>,
        parameters: TotalLatencyParameters,
        state: &PluginState<W>,
    ) -> Self {
        let queues = Arc::clone(&state.prefill_queues);
        declare.recalls::<PrefillQueue>((Arc::as_ptr(&queues) as usize, parameters.cost_model, parameters.learns));
        let (loads, prompt) = (declare.reads_parts(Loads::BACKLOGS), PromptReads::declare(declare));
        let working_sets = declare.tries();
        let learned = parameters
            .learns
            .then(|| Learned { paces: Arc::clone(&state.paces), lengths: Arc::clone(&state.answer_lengths) });
        let model_paces = PaceTable::new(PodSet::<W>::CAPACITY, Pace::ONE, std::iter::empty());
        Self { parameters, parting: None, queues, learned, model_paces, loads, prompt, working_sets }
    }

    /// The same where pods may part into those that compute prompts and those that answer. An answer is as much longer as prompts
    /// were seen to take of a pod's time, be that chance, and this part of that counts against a pod that computes none, the rest against the fleet: what
    /// chance began goes on.
    pub(crate) fn parting(mut self, parting: Fraction) -> Self {
        self.parameters.other_second.get_or_insert(const { Amount::constant(0.3) });
        Self { parting: Some(parting), ..self }
    }

    /// Tokens of the answer: as learned, no more than the request allows, and no more than count.
    fn answer(&self, request: &Request<'_>, prompt_tokens: u64) -> f64 {
        let lengths = self.learned.as_ref().map(|learned| &learned.lengths);
        let learned = lengths.and_then(|lengths| lengths.learned(AnswerKey::of(request, prompt_tokens)));
        let most = request.most_output.map(f64::from);
        [learned, most].into_iter().flatten().fold(self.parameters.answer_tokens.get(), f64::min)
    }

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

    /// What the request costs on each candidate, and what of that is for its answer. In rows of zeros, as many as [`rows_of`] has.
    #[inline]
    pub(crate) fn costs(
        &self,
        context: &RoutingContext<'_, W>,
        candidates: PodSet<W>,
        costs: &mut [Row],
        answer: &mut [Row],
    ) -> Result<(), PluginError> {
        let (backlogs, prompt) = (context.read(self.loads)?.backlogs(), self.prompt.read(context)?);
        let (fleet, parameters, total) = (context.fleet(), &self.parameters, prompt.tokens as f64);
        let learned = self.learned.as_ref().map(|learned| learned.paces.table());
        let paces: &PaceTable = learned.as_deref().map_or(&self.model_paces, |table| table);
        let typical = paces.typical;
        let cost = RequestCost::new(
            parameters,
            &RequestFigures {
                whole: parameters.cost_model.prefill_seconds(total, 0.0),
                tokens: total,
                answer: self.answer(context.request(), prompt.tokens),
                crowd: waiting(backlogs) / fleet.pods().len().max(1) as f64,
                typical: typical.prefill,
                // As that of pods is, which it is held against.
                share: match self.parting {
                    Some(parting) => typical.shares.seen.part(1.0 - f64::from(parting.get())),
                    None => typical.shares.likely,
                },
                as_seen: self.parting.is_some(),
            },
        );
        let prefill = |depth| Prefill::new(parameters, total, prompt.uncached(depth) as f64);
        let [mut wait, mut second] = [[[[0.0; LANES]; ROWS]; W]; 2];
        let [wait, second] = [&mut wait, &mut second].map(|rows| rows_of(rows, candidates));
        let backlogs = &backlogs[..backlogs.len().min(costs.len())];
        let (answer, idle_answer) = answer.split_at_mut(backlogs.len());
        let mut terms = PodTerms { wait, second, answer };
        let queues = self.queues.at(context.request().now);
        let waits = PrefillWaits::new(&parameters.cost_model, parameters.waiting_tokens.get(), fleet, queues);
        each_waiting(backlogs, |(row, lane), backlog| {
            terms.wait[row][lane] = waits.of(backlog, (row, lane), paces.blocks[row].prefill[lane]);
        });
        // Most pods hold nothing of the prompt: they are worked out side by side, others after them.
        let cold = prefill(0);
        let (known, idle) = costs.split_at_mut(backlogs.len());
        cost.fill(&cold, (backlogs, &paces.blocks), &mut terms, known);
        idle.fill([cost.idle(&cold, typical); LANES]);
        idle_answer.fill([cost.idle_answer(typical); LANES]);
        prompt.by_depth(candidates, |pods, depth| {
            if depth > 0 {
                let held = prefill(depth);
                each_place(pods, |(row, lane)| {
                    costs[row][lane] = match (backlogs.get(row), paces.blocks.get(row)) {
                        (Some(backlog), Some(pace)) => {
                            cost.with(&held, backlog.decoding[lane], pace.prefill[lane], terms.of((row, lane)))
                        }
                        _ => cost.idle(&held, typical),
                    };
                });
            }
        });
        if let Some(sets) = context.try_read(self.working_sets)?.filter(|sets| !sets.is_empty()) {
            let costs = costs.as_flattened_mut();
            self.add_pushed_out(sets, fleet, &prompt, (candidates, typical.prefill), costs);
        }
        Ok(())
    }

    /// What `new` of a prompt's tokens push out of a pod's cache where they come to it computed: half of what `eviction` counts, whose other half is
    /// what they leave behind in another's.
    pub(crate) fn pushed_out(&self, total: f64, new: f64) -> f64 {
        let typical = self.learned.as_ref().map_or(self.model_paces.typical, |learned| learned.paces.table().typical);
        0.5 * self.parameters.eviction.get() * typical.prefill * Prefill::new(&self.parameters, total, new).work()
    }

    /// What was learned of a pod and of such answers.
    pub(crate) fn explain(&self, context: &RoutingContext<'_, W>, pod: PodId) -> Vec<(&'static str, f64)> {
        let (Some(learned), Ok(prompt)) = (&self.learned, self.prompt.read(context)) else { return Vec::new() };
        // What costs go by, and of one instant.
        let Pace { prefill, decoding, shares } = learned.paces.table().of(pod);
        let share = if self.parting.is_some() { shares.seen } else { shares.likely };
        vec![
            ("prefill_pace", prefill),
            ("decode_pace", decoding),
            ("prefill_share", share.busy),
            ("answer_tokens", self.answer(context.request(), prompt.tokens)),
        ]
    }
}

impl<const W: usize> Scorer<W> for TotalLatencyScorer<W> {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let candidates = scores.candidates();
        let [mut costs, mut answer] = [[[[0.0; LANES]; ROWS]; W]; 2];
        let [costs, answer] = [&mut costs, &mut answer].map(|rows| rows_of(rows, candidates));
        self.0.costs(context, candidates, costs, answer)?;
        normalize::by_cost(scores, costs.as_flattened());
        Ok(())
    }

    /// What was learned of the pod and of such answers.
    fn explain(&self, context: &RoutingContext<'_, W>, pod: PodId) -> Vec<(&'static str, f64)> {
        self.0.explain(context, pod)
    }
}

#[cfg(test)]
mod literal;
#[cfg(test)]
mod tests;
