//! The cost formula of [`TotalLatencyScorer`](super::TotalLatencyScorer), for pods side by side (SIMD by auto-vectorization).
//!
//! What a request, a model and parameters make of it is worked out once, so that a pod takes some products and sums. They are the same
//! for all pods and without a branch: the compiler makes vectors of them. What they have to give stands in `literal`.

use super::{OTHER_SECOND, TotalLatencyParameters};
use crate::load::{BacklogBlock, LANES};
use crate::pace::{Pace, PaceBlock, PrefillShare, ShareBlock};
use crate::score::normalize::finite;
use crate::score::pod_rows::Row;

/// What of a request is the same wherever it goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestFigures {
    /// Seconds of the prefill of the whole prompt on a cold pod, and tokens of that.
    pub(super) whole: f64,
    pub(super) tokens: f64,
    /// Tokens of its answer.
    pub(super) answer: f64,
    /// Requests that wait for their first token, on a pod of the fleet on average; and the fleet's pace.
    pub(super) crowd: f64,
    pub(super) typical: f64,
    /// What part of its time a pod computes prompts on average, as far as it counts.
    pub(super) share: PrefillShare,
    /// Whether that of a pod counts as seen.
    pub(super) as_seen: bool,
}

/// What a prefill costs on every pod that holds as much of the prompt.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prefill {
    /// Seconds of its own, and those of them that it adds to steps of others.
    own: f64,
    work: f64,
    /// Seconds for each token that decodes beside it: it is in all steps of the prefill.
    beside: f64,
}

impl Prefill {
    pub(super) fn new(parameters: &TotalLatencyParameters, tokens: f64, new: f64) -> Self {
        let model = &parameters.cost_model;
        let own = model.prefill_seconds(new, tokens - new);
        let steps = new / model.step_tokens.get();
        Self { own, work: (own - model.fixed.get()).max(0.0), beside: steps * model.per_context.get() }
    }

    /// Seconds that it adds to steps of others.
    pub(super) fn work(&self) -> f64 {
        self.work
    }
}

/// The formula's constants for one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestCost {
    /// What the square of a wait counts.
    late: f64,
    /// What a second of prefill costs those who come later, wherever they go.
    later: f64,
    /// What a second counts to others whose answers have begun: for each token of theirs, and for each of them; and to one that waits.
    token: f64,
    sequence: f64,
    second: f64,
    /// Of a decode step: its fixed part squared, and seconds for each sequence.
    base: f64,
    product: f64,
    /// What seconds of a step count by its own answer: of its products, for each sequence, token and context of one like it.
    step: f64,
    per_sequence: f64,
    per_token: f64,
    per_context: f64,
    /// Half of the seconds that its answer adds to another: by the slope of products, and whatever they are.
    slope: f64,
    longer: f64,
    /// Steps of its own answer for what a second of them counts, and the part of their time that pods compute prompts on average.
    per_step: f64,
    share: PrefillShare,
    as_seen: bool,
}

impl RequestCost {
    pub(super) fn new(parameters: &TotalLatencyParameters, request: &RequestFigures) -> Self {
        let RequestFigures { whole, tokens, answer, crowd, typical, share, as_seen } = *request;
        let model = &parameters.cost_model;
        let alone = (parameters.answer_tokens.get() * model.decode_products(1.0).0).max(f64::MIN_POSITIVE);
        let [second, token] = [whole, model.per_token.get()].map(|seconds| parameters.decode.get() * seconds / alone);
        let second = parameters.answer_second.get() + second;
        let context = model.per_context.get() * (tokens + answer * 0.5);
        let (product, step, half) = (model.product_seconds(), answer * second, answer * 0.5);
        Self {
            late: 1.0 / (parameters.patience.get() * typical * whole).max(f64::MIN_POSITIVE),
            later: typical * (parameters.eviction.get() + crowd),
            token,
            sequence: parameters.other_second.unwrap_or(OTHER_SECOND).get(),
            second,
            // So that no pod's products are 0: they divide.
            base: (model.decode_step.get() * model.decode_step.get()).max(f64::MIN_POSITIVE),
            product,
            step,
            per_sequence: step * model.per_sequence.get(),
            per_token: step * model.per_context.get(),
            per_context: step * context,
            slope: half * product,
            longer: half * (model.per_sequence.get() + context),
            per_step: 1.0 / step.max(f64::MIN_POSITIVE),
            share,
            as_seen,
        }
    }

    /// What the request costs on pods of such backlogs and paces that hold as much of it, if they get to it in so long.
    ///
    /// By itself: beside what follows, the compiler takes vectors apart. In two loops: the numbers of one fit the registers.
    #[inline(never)]
    pub(super) fn fill(
        &self,
        prefill: &Prefill,
        (backlogs, paces): (&[BacklogBlock], &[PaceBlock]),
        terms: &mut PodTerms<'_>,
        costs: &mut [Row],
    ) {
        let PodTerms { wait, second, answer } = terms;
        for (((backlog, pace), second), answer) in backlogs.iter().zip(paces).zip(&mut **second).zip(&mut **answer) {
            let shares = if self.as_seen { &pace.seen } else { &pace.likely };
            for lane in 0..LANES {
                (second[lane], answer[lane]) = self.beside(&PodFigures::of(backlog, pace, shares, lane));
            }
        }
        let terms = wait.iter().zip(second.iter()).zip(answer.iter());
        for (((backlog, pace), ((wait, second), answer)), costs) in backlogs.iter().zip(paces).zip(terms).zip(costs) {
            for lane in 0..LANES {
                let terms = [wait[lane], second[lane], answer[lane]];
                costs[lane] = self.with(prefill, backlog.decoding[lane], pace.prefill[lane], terms);
            }
        }
    }

    /// What a second of its prefill costs others, and what its answer costs, on a pod.
    #[inline(always)]
    fn beside(&self, pod: &PodFigures) -> (f64, f64) {
        let begun = self.token * pod.decoding + self.sequence * pod.sequences;
        let second = pod.pace * (pod.waiting + begun) + self.later;
        let joined = pod.waiting + 1.0;
        // The step that its answer is in, and by how much that becomes longer: the slope grows with the sequences, and a difference of
        // large numbers would not.
        let sequences = pod.sequences + joined;
        let tokens = self.product * sequences;
        let products = (self.base + tokens * tokens).sqrt();
        let longer = self.slope * (tokens / products) + self.longer;
        let step = self.step * products
            + self.per_sequence * sequences
            + self.per_token * pod.decoding
            + self.per_context * joined;
        // Those who wait will decode as well; what their answers are is not known, and they are taken for ones like it.
        let seconds = pod.decoding_pace * step * self.per_step;
        let stretch = steps_in(self.share, seconds) / steps_in(pod.share, seconds);
        let answer = step * stretch + (begun + self.second * pod.waiting) * longer;
        (second, pod.decoding_pace * answer)
    }

    /// All of that, and its own prefill, on a pod with so many tokens that decode and of such a pace.
    #[inline(always)]
    pub(super) fn with(&self, prefill: &Prefill, decoding: f64, pace: f64, [wait, second, answer]: [f64; 3]) -> f64 {
        let beside = prefill.beside * decoding;
        let first = wait + pace * (prefill.own + beside);
        // Amounts are finite, and may still multiply to more than there are numbers.
        finite(first * (1.0 + self.late * first) + (prefill.work + beside) * second + answer)
    }

    /// What it costs on a pod that has nothing to do.
    pub(super) fn idle(&self, prefill: &Prefill, pace: Pace) -> f64 {
        let (second, answer) = self.beside(&PodFigures::idle(pace, self.as_seen));
        self.with(prefill, 0.0, pace.prefill, [0.0, second, answer])
    }

    /// What of that its answer costs.
    pub(super) fn idle_answer(&self, pace: Pace) -> f64 {
        self.beside(&PodFigures::idle(pace, self.as_seen)).1
    }
}

/// What of the cost on pods does not follow from what they hold of the prompt.
#[derive(Debug)]
pub(super) struct PodTerms<'r> {
    /// Seconds until they get to the request.
    pub(super) wait: &'r mut [Row],
    /// What a second of its prefill costs others.
    pub(super) second: &'r mut [Row],
    /// What its answer costs.
    pub(super) answer: &'r mut [Row],
}

impl PodTerms<'_> {
    #[inline(always)]
    pub(super) fn of(&self, (row, lane): (usize, usize)) -> [f64; 3] {
        [self.wait[row][lane], self.second[row][lane], self.answer[row][lane]]
    }
}

/// What the formula reads of a pod.
#[derive(Clone, Copy, Debug)]
struct PodFigures {
    decoding: f64,
    sequences: f64,
    waiting: f64,
    pace: f64,
    decoding_pace: f64,
    share: PrefillShare,
}

/// Steps in the time of one that only decodes, where some are of prompts as well: those are as long as they are, and no shorter.
#[inline(always)]
fn steps_in(share: PrefillShare, seconds: f64) -> f64 {
    (share.steps * seconds).min(share.busy) + (1.0 - share.busy)
}

impl PodFigures {
    fn idle(pace: Pace, as_seen: bool) -> Self {
        let (decoding, sequences, waiting) = (0.0, 0.0, 0.0);
        Self {
            decoding,
            sequences,
            waiting,
            pace: pace.prefill,
            decoding_pace: pace.decoding,
            share: if as_seen { pace.shares.seen } else { pace.shares.likely },
        }
    }

    #[inline(always)]
    fn of(backlog: &BacklogBlock, pace: &PaceBlock, shares: &ShareBlock, lane: usize) -> Self {
        Self {
            decoding: backlog.decoding[lane],
            sequences: backlog.sequences[lane],
            waiting: backlog.waiting[lane],
            pace: pace.prefill[lane],
            decoding_pace: pace.decoding[lane],
            share: shares.of(lane),
        }
    }
}
