//! Least-load scorer: by requests, tokens or queue length.

use kv_index::DEFAULT_POD_WORDS;
use routing_core::{Declare, PluginError, Read, RoutingContext, Scorer, Scores};

use super::normalize::{self, Span};
use super::prompt::{PromptReads, PromptSize};
use crate::load::{Figures, PodLoad};
use crate::parameters::{Fraction, Positive};
use crate::prepare::Loads;

/// What [`LeastLoadScorer`] takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct LeastLoadParameters {
    /// What is counted; requests, unless given.
    pub by: LoadFigure,
    /// How it becomes a score; relative to the other candidates, unless given.
    pub form: LoadForm,
    /// Whether this request is counted too, on every pod with what it would add there: one request, the prompt's tokens, or
    /// those of them that the pod does not hold. Not counted, unless given. For tokens it takes a search of the index.
    pub with_request: bool,
    /// Whether pods without a [report that counts](PodLoad::is_reported) get 0, and are left out of what others are compared with. They
    /// are scored like all, unless given.
    pub only_reported: bool,
}

crate::parameters::setters! { LeastLoadParameters {
    by: LoadFigure,
    form: LoadForm,
    with_request: bool,
    only_reported: bool,
} }

/// What of a pod's load is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum LoadFigure {
    /// Requests on the pod, own figures and the engine's merged.
    #[default]
    Requests,
    /// Requests sent from here and not done.
    InFlight,
    /// Requests sent from here that have not seen their first token.
    Prefilling,
    /// Requests that the engine reports as being worked on.
    Running,
    /// Requests that the engine reports as waiting.
    Waiting,
    /// Tokens of all requests, own figures and the engine's merged.
    Tokens,
    /// Tokens in flight from here that have to be computed.
    UncachedTokens,
}

/// How a load becomes a score.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum LoadForm {
    /// `(most − x) / (most − least)` over the candidates: 1 for the least loaded, 0 for the most, all 1 when equal.
    #[default]
    Relative,
    /// `best · (1 − min(x, limit) / limit)`: `best` for an idle pod, 0 from the limit on.
    Limit {
        /// The load from which on a pod gets 0.
        limit: Positive,
        /// What an idle pod gets; 1, unless given.
        #[cfg_attr(feature = "serde", serde(default = "all"))]
        best: Fraction,
    },
    /// 1 up to a load that counts as idle; beyond it `busy · (most − x) / most`, with the most loaded of the candidates.
    Idle {
        /// The load up to which a pod counts as idle; 0, unless given.
        #[cfg_attr(feature = "serde", serde(default))]
        idle: u32,
        /// What a busy pod gets at most; 1, unless given.
        #[cfg_attr(feature = "serde", serde(default = "all"))]
        busy: Fraction,
    },
}

#[cfg(feature = "serde")]
fn all() -> Fraction {
    Fraction::ONE
}

/// Scores by how little a candidate has to do: 1 for the least or for an idle one, 0 for the most or for one at its limit.
///
/// What is counted and how it becomes a score is said by [`LoadFigure`] and [`LoadForm`].
#[derive(Debug)]
pub struct LeastLoadScorer<const W: usize = DEFAULT_POD_WORDS> {
    parameters: LeastLoadParameters,
    loads: Read<Loads>,
    /// Read only if the request's tokens are counted.
    prompt: Option<PromptReads<W>>,
    /// What requests score, where that can be told beforehand.
    by_requests: Option<ByRequests>,
}

/// The scores of 0, 1 and more requests, up to where all more get the same.
#[derive(Debug)]
struct ByRequests {
    scores: Vec<f32>,
    last: u32,
    /// What each request takes off the first score, if that gives every one of them to the bit.
    ///
    /// Vectors work out a line, but look nothing up. Where a limit is a power of two, it is one.
    slope: Option<f32>,
}

impl ByRequests {
    fn new(scores: Vec<f32>) -> Option<Self> {
        let (first, second) = (*scores.first()?, *scores.get(1)?);
        let (last, slope) = (u32::try_from(scores.len() - 1).ok()?, first - second);
        let mut line = (0..=last).map(|requests| first - requests as f32 * slope);
        let is_line = scores.iter().all(|score| line.next().is_some_and(|on| on.to_bits() == score.to_bits()));
        Some(Self { scores, last, slope: is_line.then_some(slope) })
    }

    fn fill<const W: usize>(&self, figures: &[Figures], scores: &mut Scores<'_, W>) {
        let (last, first) = (self.last, self.scores[0]);
        match self.slope {
            // As signed, which is what vectors convert; the last is far below the highest.
            Some(slope) => scores.fill_from(figures, |load| first - load.requests.min(last) as i32 as f32 * slope),
            None => scores.fill_from(figures, |load| self.scores[load.requests.min(last) as usize]),
        }
    }
}

impl<const W: usize> LeastLoadScorer<W> {
    /// Declares that it reads loads, and who holds the prompt if the request's tokens are counted.
    pub fn declare(declare: &mut Declare<'_>, parameters: LeastLoadParameters) -> Self {
        let tokens = matches!(parameters.by, LoadFigure::Tokens | LoadFigure::UncachedTokens);
        let requests = parameters.by == LoadFigure::Requests && !parameters.only_reported;
        let loads = if requests { declare.reads_parts(Loads::FIGURES) } else { declare.reads() };
        let prompt = (parameters.with_request && tokens).then(|| PromptReads::declare(declare));
        let mut scorer = Self { parameters, loads, prompt, by_requests: None };
        if let (true, LoadForm::Limit { limit, .. }) = (requests, parameters.form) {
            if limit.get() <= TABLED {
                let (loads, added) = (0..=limit.get().ceil() as u32, scorer.added(None, 0));
                let score = |load| parameters.form.score(&Span::EMPTY, f64::from(load) + added);
                scorer.by_requests = ByRequests::new(loads.map(score).collect());
            }
        }
        scorer
    }

    /// Scores by requests alone.
    fn score_requests(&self, figures: &[Figures], scores: &mut Scores<'_, W>) {
        if let Some(by_requests) = &self.by_requests {
            return by_requests.fill(figures, scores);
        }
        let (form, added) = (self.parameters.form, self.added(None, 0));
        let load = |figures: Figures| f64::from(figures.requests) + added;
        let mut span = Span::EMPTY;
        for pod in scores.candidates() {
            span.add(load(figures.get(pod.index()).copied().unwrap_or_default()));
        }
        scores.fill_from(figures, |figures| form.score(&span, load(figures)));
    }

    /// What the request adds to a pod that holds so many leading blocks.
    fn added(&self, prompt: Option<&PromptSize<'_, W>>, depth: usize) -> f64 {
        match (self.parameters.with_request, self.parameters.by, prompt) {
            (false, ..) => 0.0,
            (true, LoadFigure::Tokens, Some(prompt)) => prompt.tokens as f64,
            (true, LoadFigure::UncachedTokens, Some(prompt)) => prompt.uncached(depth) as f64,
            (true, ..) => 1.0,
        }
    }
}

/// The highest limit up to which scores are worked out when a workflow is built.
const TABLED: f64 = 1024.0;

impl LoadFigure {
    #[inline]
    fn of(self, load: &PodLoad) -> f64 {
        match self {
            Self::Requests => f64::from(load.requests),
            Self::InFlight => f64::from(load.in_flight.requests),
            Self::Prefilling => f64::from(load.in_flight.prefilling),
            Self::Running => f64::from(load.running),
            Self::Waiting => f64::from(load.waiting),
            Self::Tokens => load.tokens as f64,
            Self::UncachedTokens => load.in_flight.uncached_tokens as f64,
        }
    }
}

impl LoadForm {
    #[inline]
    fn score(&self, span: &Span, load: f64) -> f32 {
        match *self {
            Self::Relative => span.falling(load),
            Self::Limit { limit, best } => (f64::from(best.get()) * (1.0 - load.min(limit.get()) / limit.get())) as f32,
            Self::Idle { idle, .. } if load <= f64::from(idle) => 1.0,
            // Whoever is beyond the idle load, and be it 0, has a load: the most is above 0.
            Self::Idle { busy, .. } => (f64::from(busy.get()) * (span.most() - load) / span.most()) as f32,
        }
    }
}

impl<const W: usize> Scorer<W> for LeastLoadScorer<W> {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let LeastLoadParameters { by, form, only_reported, .. } = self.parameters;
        let loads = context.read(self.loads)?;
        if by == LoadFigure::Requests && !only_reported {
            self.score_requests(loads.figures(), scores);
            return Ok(());
        }
        let prompt = self.prompt.as_ref().map(|prompt| prompt.read(context)).transpose()?;
        let held = prompt.as_ref().map(|prompt| prompt.held);
        let known = |load: &PodLoad| !only_reported || load.is_reported();
        let (candidates, mut span) = (scores.candidates(), Span::EMPTY);
        normalize::by_depth(held, candidates, |pods, depth| {
            let added = self.added(prompt.as_ref(), depth);
            let loads = pods.iter().map(|pod| loads.of(pod)).filter(known);
            loads.for_each(|load| span.add(by.of(&load) + added));
        });
        normalize::by_depth(held, candidates, |pods, depth| {
            let added = self.added(prompt.as_ref(), depth);
            for pod in pods {
                let load = loads.of(pod);
                scores.set(pod, if known(&load) { form.score(&span, by.of(&load) + added) } else { 0.0 });
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::score::testing::{BLOCK, Scene, any_load};

    const FIGURES: [LoadFigure; 7] = [
        LoadFigure::Requests,
        LoadFigure::InFlight,
        LoadFigure::Prefilling,
        LoadFigure::Running,
        LoadFigure::Waiting,
        LoadFigure::Tokens,
        LoadFigure::UncachedTokens,
    ];

    fn limit(limit: f64, best: f32) -> LoadForm {
        LoadForm::Limit { limit: Positive::new(limit).unwrap(), best: Fraction::new(best).unwrap() }
    }

    fn scores(scene: &Scene, parameters: LeastLoadParameters) -> Vec<f32> {
        scene.scores(move |d| LeastLoadScorer::declare(d, parameters))
    }

    fn requests(requests: &'static [u32], form: LoadForm) -> Vec<f32> {
        let scene = Scene::new(requests.len());
        let scene = scene.loads(|at| PodLoad { requests: requests[at], ..PodLoad::default() });
        scores(&scene, LeastLoadParameters { form, ..LeastLoadParameters::default() })
    }

    #[test]
    fn scores_on_a_line_are_those_of_the_table() {
        let table = |most: u32| -> Vec<f32> {
            (0..=most).map(|load| limit(f64::from(most), 1.0).score(&Span::EMPTY, f64::from(load))).collect()
        };
        let slope = |most| ByRequests::new(table(most)).unwrap().slope;
        assert_eq!((slope(32), slope(64), slope(30)), (Some(1.0 / 32.0), Some(1.0 / 64.0), None));
        for most in [1, 2, 30, 32, 33, 64, 1000] {
            let loads: Vec<u32> = (0..most + 3).chain([u32::MAX / 2 + 1, u32::MAX]).collect();
            let pods = loads.len().min(200);
            let loads = &loads[loads.len() - pods..];
            let scene = Scene::new(pods).loads(|at| PodLoad { requests: loads[at], ..PodLoad::default() });
            let parameters = LeastLoadParameters { form: limit(f64::from(most), 1.0), ..Default::default() };
            let expected = loads.iter().map(|load| table(most)[(*load).min(most) as usize]);
            assert_eq!(scores(&scene, parameters), expected.collect::<Vec<_>>(), "{most}");
        }
    }

    #[test]
    fn relative_loads_go_from_1_to_0_and_equals_get_1() {
        assert_eq!(requests(&[10, 5, 0], LoadForm::Relative), [0.0, 0.5, 1.0]);
        assert_eq!(requests(&[5, 5], LoadForm::Relative), [1.0, 1.0]);
    }

    #[test]
    fn against_a_limit_loads_count_by_themselves() {
        assert_eq!(requests(&[0, 5, 10, 20], limit(10.0, 1.0)), [1.0, 0.5, 0.0, 0.0]);
        assert_eq!(requests(&[0, 5, 20], limit(10.0, 0.5)), [0.5, 0.25, 0.0]);
    }

    #[test]
    fn idle_pods_get_1_and_busy_ones_no_more_than_they_may() {
        let form = |idle, busy| LoadForm::Idle { idle, busy: Fraction::new(busy).unwrap() };
        assert_eq!(requests(&[0, 0], form(0, 1.0)), [1.0, 1.0]);
        assert_eq!(requests(&[3, 0, 6], form(0, 1.0)), [0.5, 1.0, 0.0]);
        assert_eq!(requests(&[2, 3, 6], form(2, 0.5)), [1.0, 0.25, 0.0]);
    }

    #[test]
    fn each_figure_counts_its_own() {
        for (at, by) in FIGURES.into_iter().enumerate() {
            let scene = Scene::new(2).loads(|pod| {
                let one = |figure: usize| u32::from(pod == 1 && figure == at);
                let mut load = PodLoad { requests: one(0), running: one(3), waiting: one(4), ..PodLoad::default() };
                (load.in_flight.requests, load.in_flight.prefilling) = (one(1), one(2));
                (load.tokens, load.in_flight.uncached_tokens) = (one(5).into(), one(6).into());
                load
            });
            assert_eq!(
                scores(&scene, LeastLoadParameters { by, ..LeastLoadParameters::default() }),
                [1.0, 0.0],
                "{by:?}"
            );
        }
    }

    #[test]
    fn the_request_counts_by_what_it_adds() {
        let scene = Scene::new(2).prompt(10 * BLOCK, &[5]);
        let with = |by| LeastLoadParameters { by, form: limit(160.0, 1.0), with_request: true, only_reported: false };
        assert_eq!(scores(&scene, with(LoadFigure::UncachedTokens)), [0.5, 0.0]);
        assert_eq!(scores(&scene, with(LoadFigure::Tokens)), [0.0, 0.0]);
        assert_eq!(scores(&scene, with(LoadFigure::Waiting)), [1.0 - 1.0 / 160.0; 2]);
    }

    #[test]
    fn pods_without_a_report_can_be_left_out() {
        let scene = Scene::new(5).loads(|at| {
            let age = (at != 3).then_some(Duration::ZERO);
            PodLoad { waiting: [2, 6, 10, 0, 0][at], age, stale: at == 4, ..PodLoad::default() }
        });
        let by = LoadFigure::Waiting;
        let parameters = LeastLoadParameters { by, only_reported: true, ..LeastLoadParameters::default() };
        assert_eq!(scores(&scene, parameters), [1.0, 0.5, 0.0, 0.0, 0.0]);
    }

    proptest! {
        /// Whatever the loads, scores lie in 0..=1, and who has more to do never scores more.
        #[test]
        fn order_is_kept(
            loads in prop::collection::vec(any_load(), 1..8),
            by in prop::sample::select(&FIGURES[..]),
            form in prop::sample::select(vec![
                LoadForm::Relative,
                limit(1e-300, 1.0),
                limit(100.0, 0.5),
                LoadForm::Idle { idle: 5, busy: Fraction::ONE },
            ]),
        ) {
            let scene = Scene::new(loads.len()).loads(|at| loads[at]);
            let scores = scores(&scene, LeastLoadParameters { by, form, ..LeastLoadParameters::default() });
            for (a, load) in loads.iter().enumerate() {
                prop_assert!((0.0..=1.0).contains(&scores[a]));
                prop_assert!((0..loads.len()).all(|b| by.of(load) > by.of(&loads[b]) || scores[a] >= scores[b]));
            }
        }
    }
}
