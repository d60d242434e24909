//! SLO headroom scorer: predicted latency against latency targets.

use kv_index::{DEFAULT_POD_WORDS, Matches, PodId, PodSet};
use routing_core::{Declare, PluginError, PrefixMatches, Read, Request, RoutingContext, Scorer, Scores, TryRead};

use super::predictions::{PredictionTable, Predictions};
use crate::parameters::{Amount, Positive, parameters};
use crate::prepare::{LoadTable, Loads};
use crate::score::normalize::{self, Span};

parameters! {
    /// What [`HeadroomScorer`] takes.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct HeadroomParameters {
        /// When the first token should come, in milliseconds. A request whose deadline is sooner has that as its target.
        pub ttft_target_ms: Option<Positive> = None,
        /// How long each further token may take, in milliseconds.
        pub tpot_target_ms: Option<Positive> = None,
        /// How much the first token counts; 0.8, unless given.
        pub ttft_weight: Amount = const { Amount::constant(0.8) },
        /// How much further tokens count; 0.2, unless given.
        pub tpot_weight: Amount = const { Amount::constant(0.2) },
        /// Which of those that meet the targets are better; those with the least headroom, unless given.
        pub prefer: PreferredHeadroom = PreferredHeadroom::Least,
        /// How much free KV cache counts where nothing is predicted; 1, unless given.
        pub kv_weight: Amount = Amount::ONE,
        /// How much a short queue counts where nothing is predicted; 1, unless given.
        pub queue_weight: Amount = Amount::ONE,
        /// How much the held share of the prompt counts where nothing is predicted; 1, unless given.
        pub held_weight: Amount = Amount::ONE,
    }
}

/// Which of the candidates that meet the targets are better.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[expect(clippy::exhaustive_enums, reason = "little or much: complete by nature")]
pub enum PreferredHeadroom {
    /// Those that meet them barely: fast pods stay free for who needs them.
    #[default]
    Least,
    /// Those that meet them by far.
    Most,
}

/// Scores how well predicted latencies fit the targets: from 0.01 to 1 among those of the best class, 0 for all others.
///
/// A candidate's headroom is target minus prediction, for the first token and for further ones. There are classes, best
/// first: both headrooms are 0 or above, or nothing is predicted for the pod; targets are missed, but nothing from here is
/// in flight there; only further tokens are too slow; only the first; both. The candidates of the best class that has any
/// are scored, all others get 0.
///
/// In the class, the sizes of headrooms are brought to 0..=1 (`n`, least to most) and weighed: `c = α · n_ttft + β · n_tpot`, the
/// weights in proportion. Where all are the same on one axis, the other alone counts; on both, `c` is 0.5. The score is
/// `(⌊100 · (1 − c)⌋ + 1) / 100`, at most 1, and with `c` for `1 − c` if [most](PreferredHeadroom::Most) is preferred. Of those
/// that miss targets, those that miss them least are always better.
///
/// With no target at all, a target of 0 is missed by everyone, and the fastest is best. With one target, the other axis is
/// left out. Where nothing is predicted for any candidate, the score is `kv · (1 − used) + queue · (most − waiting) / most + held
/// · held / blocks`, the weights in proportion, rounded to hundredths; an idle queue counts 1, and if no weight is above
/// 0, `kv` counts alone.
#[derive(Debug)]
pub struct HeadroomScorer<const W: usize = DEFAULT_POD_WORDS> {
    parameters: HeadroomParameters,
    predictions: TryRead<Predictions>,
    loads: Read<Loads>,
    held: TryRead<PrefixMatches<W>>,
}

impl<const W: usize> HeadroomScorer<W> {
    /// Declares that it reads loads, and predictions and who holds the prompt if somebody writes them.
    pub fn declare(declare: &mut Declare<'_>, parameters: HeadroomParameters) -> Self {
        Self { parameters, predictions: declare.tries(), loads: declare.reads(), held: declare.tries() }
    }

    fn by_headroom(&self, class: &Class<W>, targets: &Targets, table: &PredictionTable, scores: &mut Scores<'_, W>) {
        let HeadroomParameters { ttft_weight, tpot_weight, prefer, .. } = self.parameters;
        let [ttft, tpot] = class.sizes.each_ref().map(|span| span.width() > SAME);
        let (alpha, beta) = match (ttft, tpot) {
            (true, false) => (1.0, 0.0),
            (false, true) => (0.0, 1.0),
            _ => shares([ttft_weight, tpot_weight]).map_or((1.0, 0.0), |[alpha, beta]| (alpha, beta)),
        };
        let part = |axis: usize, headroom: f64| match class.sizes[axis].width() > SAME {
            true => class.sizes[axis].position(headroom.abs()),
            false => 0.5,
        };
        for pod in class.members {
            let [ttft, tpot] = targets.headrooms(table, pod).unwrap_or_default();
            let c = alpha * part(0, ttft) + beta * part(1, tpot);
            let most = prefer == PreferredHeadroom::Most && class.rank == MET;
            let c = if most { c } else { 1.0 - c };
            scores.set(pod, (((c * 100.0).floor() + 1.0) / 100.0).min(1.0) as f32);
        }
    }

    fn by_load(&self, loads: &LoadTable, held: Option<&Matches<W>>, scores: &mut Scores<'_, W>) {
        let HeadroomParameters { kv_weight, queue_weight, held_weight, .. } = self.parameters;
        let [kv, queue, share] = shares([kv_weight, queue_weight, held_weight]).unwrap_or([1.0, 0.0, 0.0]);
        let candidates = scores.candidates();
        let most = candidates.iter().map(|pod| loads.of(pod).waiting).max().unwrap_or_default();
        let blocks = held.map_or(0, Matches::blocks).max(1) as f64;
        normalize::by_depth(held, candidates, |pods, depth| {
            for pod in pods {
                let load = loads.of(pod);
                let short = if most == 0 { 1.0 } else { f64::from(most - load.waiting) / f64::from(most) };
                let free = 1.0 - normalize::kv_used(load.kv_used);
                let sum = kv * free + queue * short + share * (depth as f64 / blocks);
                scores.set(pod, ((100.0 * sum).round() / 100.0) as f32);
            }
        });
    }
}

impl<const W: usize> Scorer<W> for HeadroomScorer<W> {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let loads = context.read(self.loads)?;
        let candidates = scores.candidates();
        let table = context.try_read(self.predictions)?;
        let Some(table) = table.filter(|table| candidates.iter().any(|pod| table.of(pod).is_some())) else {
            self.by_load(loads, context.try_read(self.held)?, scores);
            return Ok(());
        };
        let targets = Targets::new(&self.parameters, context.request());
        let mut class = Class { rank: u8::MAX, members: PodSet::EMPTY, sizes: [Span::EMPTY; 2] };
        for pod in candidates {
            class.offer(pod, targets.headrooms(table, pod), loads.of(pod).in_flight.requests == 0);
        }
        self.by_headroom(&class, &targets, table, scores);
        Ok(())
    }
}

/// What is aimed at, in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Targets {
    ttft: Option<f64>,
    tpot: Option<f64>,
}

impl Targets {
    fn new(parameters: &HeadroomParameters, request: &Request<'_>) -> Self {
        let left = request.deadline.map(|deadline| deadline.saturating_duration_since(request.now).as_secs_f64() * 1e3);
        let ttft = [parameters.ttft_target_ms.map(Positive::get), left].into_iter().flatten().reduce(f64::min);
        match (ttft, parameters.tpot_target_ms.map(Positive::get)) {
            (None, None) => Self { ttft: Some(0.0), tpot: Some(0.0) },
            (ttft, tpot) => Self { ttft, tpot },
        }
    }

    /// A pod's headrooms; 0 on an axis without a target or a prediction. None if nothing is predicted for the pod.
    #[inline]
    fn headrooms(&self, table: &PredictionTable, pod: PodId) -> Option<[f64; 2]> {
        let prediction = table.of(pod)?;
        let axis = |target: Option<f64>, predicted: Option<std::time::Duration>| {
            target.zip(predicted).map_or(0.0, |(target, predicted)| target - predicted.as_secs_f64() * 1e3)
        };
        Some([axis(self.ttft, prediction.ttft), axis(self.tpot, prediction.tpot)])
    }
}

/// The best class so far.
#[derive(Debug)]
struct Class<const W: usize> {
    rank: u8,
    members: PodSet<W>,
    /// The sizes of its members' headrooms.
    sizes: [Span; 2],
}

impl<const W: usize> Class<W> {
    fn offer(&mut self, pod: PodId, headrooms: Option<[f64; 2]>, idle: bool) {
        let [ttft, tpot] = headrooms.unwrap_or_default();
        let rank = match (ttft < 0.0, tpot < 0.0) {
            (false, false) => MET,
            _ if idle => 1,
            (false, true) => 2,
            (true, false) => 3,
            (true, true) => 4,
        };
        if rank < self.rank {
            *self = Self { rank, members: PodSet::EMPTY, sizes: [Span::EMPTY; 2] };
        }
        if rank == self.rank {
            self.members.insert(pod);
            self.sizes[0].add(ttft.abs());
            self.sizes[1].add(tpot.abs());
        }
    }
}

/// Weights in proportion; none if all are 0.
fn shares<const N: usize>(weights: [Amount; N]) -> Option<[f64; N]> {
    // Quarters: the sum of the largest amounts is finite then.
    let sum: f64 = weights.iter().map(|weight| weight.get() * 0.25).sum();
    (sum > 0.0).then(|| weights.map(|weight| weight.get() * 0.25 / sum))
}

/// The class of those that meet their targets.
const MET: u8 = 0;

/// Headrooms that lie no farther apart, in milliseconds, are the same.
const SAME: f64 = 1e-9;

#[cfg(test)]
mod tests;
