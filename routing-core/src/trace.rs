//! Decision traces: the reasons of a plan as data, and as a text table.

use std::fmt;
use std::sync::Arc;

use kv_index::{DEFAULT_POD_WORDS, PodId, PodSet};

use crate::fleet::Fleet;
use crate::flow::FlowTrace;
use crate::scores::Pick;

/// A decision's reasons, step by step. Filled only when it is asked for.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Trace<const W: usize = DEFAULT_POD_WORDS> {
    /// The version of the fleet it was decided on.
    pub fleet: u64,
    /// The request's seed, which decided ties.
    pub seed: u64,
    /// What flow control did before it was decided, where there is some.
    pub flow: Option<FlowTrace>,
    /// The steps, in the order they were decided.
    pub steps: Vec<StepTrace<W>>,
}

/// What happened in a step.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct StepTrace<const W: usize = DEFAULT_POD_WORDS> {
    /// Its name.
    pub step: Arc<str>,
    /// Whether it was taken; if not, nothing else is here.
    pub taken: bool,
    /// The pods it began with.
    pub offered: PodSet<W>,
    /// What each filter did, in order.
    pub filters: Vec<FilterTrace<W>>,
    /// The candidates that are [tried last](crate::Filter::last_resort).
    pub last_resort: PodSet<W>,
    /// What each scorer gave, in order.
    pub scorers: Vec<ScorerTrace>,
    /// The candidates' totals.
    pub totals: Vec<(PodId, f32)>,
    /// The picker.
    pub picker: Option<Arc<str>>,
    /// What it ranked, best first.
    pub ranking: Vec<Pick>,
}

/// What a filter did.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FilterTrace<const W: usize = DEFAULT_POD_WORDS> {
    /// Its name.
    pub filter: Arc<str>,
    /// The candidates it wanted gone.
    pub removed: PodSet<W>,
    /// Whether that was everyone, and it was passed over.
    pub passed_over: bool,
}

/// What a scorer gave.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ScorerTrace {
    /// Its name.
    pub scorer: Arc<str>,
    /// Its share of the total.
    pub weight: f32,
    /// Each candidate's score, as it counted.
    pub scores: Vec<(PodId, f32)>,
    /// Figures that [explain](crate::Scorer::explain) them, by name, where there are some.
    pub figures: Vec<(PodId, Vec<(&'static str, f64)>)>,
}

impl<const W: usize> Trace<W> {
    pub(crate) fn begin(&mut self, fleet: u64, seed: u64) {
        (self.fleet, self.seed, self.flow) = (fleet, seed, None);
        self.steps.clear();
    }

    pub(crate) fn step(&mut self, step: &Arc<str>, taken: bool) {
        self.steps.push(StepTrace { step: Arc::clone(step), taken, ..StepTrace::default() });
    }

    pub(crate) fn offered(&mut self, offered: PodSet<W>) {
        self.last(|step| step.offered = offered);
    }

    pub(crate) fn filtered(&mut self, filter: &Arc<str>, removed: PodSet<W>, passed_over: bool) {
        self.last(|step| step.filters.push(FilterTrace { filter: Arc::clone(filter), removed, passed_over }));
    }

    /// The candidates that are tried after all others.
    pub(crate) fn tried_last(&mut self, last_resort: PodSet<W>) {
        self.last(|step| step.last_resort = last_resort);
    }

    /// A scorer's row, if it set anything.
    pub(crate) fn scored(&mut self, scorer: &Arc<str>, weight: f32, candidates: PodSet<W>, row: Option<&[f32]>) {
        let score = |pod: PodId| row.map_or(0.0, |row| row[pod.index()].clamp(0.0, 1.0));
        let scores = candidates.iter().map(|pod| (pod, score(pod))).collect();
        self.last(|step| {
            step.scorers.push(ScorerTrace { scorer: Arc::clone(scorer), weight, scores, figures: Vec::new() });
        });
    }

    /// What explains the scores of the scorer that came last.
    pub(crate) fn explained(&mut self, figures: impl Iterator<Item = (PodId, Vec<(&'static str, f64)>)>) {
        self.last(|step| {
            if let Some(scorer) = step.scorers.last_mut() {
                scorer.figures = figures.filter(|(_, figures)| !figures.is_empty()).collect();
            }
        });
    }

    pub(crate) fn picked(&mut self, picker: &Arc<str>, candidates: PodSet<W>, totals: &[f32], ranking: &[Pick]) {
        self.last(|step| {
            step.picker = Some(Arc::clone(picker));
            step.totals = candidates.iter().map(|pod| (pod, totals[pod.index()])).collect();
            step.ranking = ranking.to_vec();
        });
    }

    /// A table for people: each pod with what removed it, or with its scores, its total and its rank.
    pub fn table<'t>(&'t self, fleet: &'t Fleet<W>) -> impl fmt::Display + 't {
        Table { trace: self, fleet }
    }

    fn last(&mut self, change: impl FnOnce(&mut StepTrace<W>)) {
        if let Some(step) = self.steps.last_mut() {
            change(step);
        }
    }
}

struct Table<'t, const W: usize> {
    trace: &'t Trace<W>,
    fleet: &'t Fleet<W>,
}

impl<const W: usize> fmt::Display for Table<'_, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(flow) = &self.trace.flow {
            let (band, key, seconds) = (&flow.band, &flow.key, flow.waited.as_secs_f64());
            writeln!(f, "band {band}, key `{key}`: waited {seconds:.3} s ({:?}), {} ahead", flow.why, flow.ahead)?;
        }
        for step in &self.trace.steps {
            if !step.taken {
                writeln!(f, "step {}: skipped", step.step)?;
                continue;
            }
            writeln!(f, "step {} on fleet {}, {} pods offered", step.step, self.trace.fleet, step.offered.len())?;
            for filter in step.filters.iter().filter(|filter| filter.passed_over) {
                writeln!(f, "  filter {} wanted nobody left, and was passed over", filter.filter)?;
            }
            write!(f, "  {:<20}", "pod")?;
            for scorer in &step.scorers {
                write!(f, " {:>14}", format!("{}×{:.2}", scorer.scorer, scorer.weight))?;
            }
            writeln!(f, " {:>8} {:>5}", "total", "rank")?;
            step.offered.iter().try_for_each(|pod| self.line(f, step, pod))?;
        }
        Ok(())
    }
}

impl<const W: usize> Table<'_, W> {
    fn line(&self, f: &mut fmt::Formatter<'_>, step: &StepTrace<W>, pod: PodId) -> fmt::Result {
        write!(f, "  {:<20}", self.fleet.pod(pod).map_or("?", |info| &info.name))?;
        let removed = step.filters.iter().find(|filter| !filter.passed_over && filter.removed.contains(pod));
        if let Some(filter) = removed {
            return writeln!(f, " removed by {}", filter.filter);
        }
        let of = |list: &[(PodId, f32)]| list.iter().find(|(known, _)| *known == pod).map(|(_, score)| *score);
        for scorer in &step.scorers {
            write!(f, " {:>14.3}", of(&scorer.scores).unwrap_or(0.0))?;
        }
        // A decision that failed has no totals.
        if let Some(total) = of(&step.totals) {
            write!(f, " {total:>8.4}")?;
            if let Some(rank) = step.ranking.iter().position(|pick| pick.pod == pod) {
                write!(f, " {:>5}", rank + 1)?;
                if step.last_resort.contains(pod) {
                    write!(f, " tried last")?;
                }
                let tied = step.totals.iter().any(|(other, score)| *other != pod && *score == total);
                if tied {
                    write!(f, " by seed {}", self.trace.seed)?;
                }
            }
        }
        let figures = step.scorers.iter().flat_map(|scorer| &scorer.figures).filter(|(known, _)| *known == pod);
        figures.flat_map(|(_, figures)| figures).try_for_each(|(name, value)| write!(f, " {name}={value:.3}"))?;
        writeln!(f)
    }
}
