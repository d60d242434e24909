//! The decision loop: prepare, filter, score and pick for each step; then the plan is recorded.

use std::sync::Arc;

use kv_index::PodSet;

use crate::context::{PrepareContext, RoutingContext};
use crate::error::DecideError;
use crate::fault::PluginName;
use crate::fleet::{Fleet, Role};
use crate::input::RoutingInput;
use crate::plan::{CacheHint, Candidate, FailurePolicy, RoutingPlan};
use crate::plugin::{Filter, PluginError};
use crate::prefix_matches::PrefixMatches;
use crate::profile::OnEmpty;
use crate::program::Program;
use crate::request::Request;
use crate::scores::{self, Pick, Ranking, Scores, Totals};
use crate::step::{Named, Step};
use crate::trace::Trace;
use crate::workflow::Workflow;
use crate::workspace::Workspace;

impl<const W: usize> Workflow<W> {
    /// Decides where a request goes.
    ///
    /// The same input and plugins give the same plan. Once warm it allocates nothing, takes no lock and waits for nothing,
    /// unless a plugin does or it is traced.
    ///
    /// # Errors
    ///
    /// When no candidate is left for a step that is not to be skipped then, a plugin fails, or no step is taken. The plan is
    /// then empty.
    pub fn decide(
        &self,
        workspace: &mut Workspace<W>,
        input: RoutingInput<'_, W>,
        plan: &mut RoutingPlan,
    ) -> Result<(), DecideError> {
        let version = input.fleet.version();
        plan.begin(version);
        let decided = self.take_steps(workspace, input, plan);
        if decided.is_err() {
            // Half a plan is none.
            plan.begin(version);
        }
        decided
    }

    fn take_steps(
        &self,
        workspace: &mut Workspace<W>,
        input: RoutingInput<'_, W>,
        plan: &mut RoutingPlan,
    ) -> Result<(), DecideError> {
        let RoutingInput { request, fleet, excluded, has_room, mut trace } = input;
        if workspace.slots.brand != self.layout.brand {
            return Err(DecideError::ForeignWorkspace);
        }
        workspace.begin();
        if let Some(trace) = trace.as_deref_mut() {
            trace.begin(fleet.version(), request.seed);
        }
        for (at, step) in self.steps.iter().enumerate() {
            // Each step draws for itself: tied pods of two steps must not be the same ones every time.
            let seed = scores::mix(request.seed.wrapping_add(at as u64));
            let trace = trace.as_deref_mut();
            let mut pass = Pass { step, request, fleet, excluded: &excluded, seed, workspace, trace };
            if !pass.is_taken()? {
                continue;
            }
            pass.prepare()?;
            let Kept { first, last } = match pass.filter(offered(step.role, fleet) - excluded) {
                // The step can be done without, and whether its pods fail or there are none makes no difference.
                Err(DecideError::AllFiltered { .. } | DecideError::NoneOffered { .. }) if self.can_skip(step) => {
                    continue;
                }
                kept => kept?,
            };
            pass.score(first | last)?;
            pass.pick(first, last)?;
            workspace.picks[at] = workspace.ranking.picks.first().map(|pick| pick.pod);
            self.enter(step, workspace, fleet, plan);
        }
        if plan.used == 0 {
            return Err(DecideError::NoStepTaken);
        }
        // Decided in one order, executed in another.
        plan.steps[..plan.used].sort_unstable_by_key(|step| step.order);
        if let Some(has_room) = has_room {
            let full = plan.steps().iter().find(|step| !has_room(step));
            full.map_or(Ok(()), |step| Err(DecideError::NoRoom { step: Arc::clone(&step.name) }))?;
        }
        self.record(workspace, (request, fleet, &excluded), plan)
    }

    /// Whether the plan is of use without a step: not without the one that is executed last.
    fn can_skip(&self, step: &Step<W>) -> bool {
        step.on_failure == FailurePolicy::Skip && usize::from(step.order) + 1 < self.steps.len()
    }

    /// Lets recorders take note, now that nothing of the decision can fail any more but they.
    fn record(
        &self,
        workspace: &mut Workspace<W>,
        (request, fleet, excluded): (&Request<'_>, &Fleet<W>, &PodSet<W>),
        plan: &RoutingPlan,
    ) -> Result<(), DecideError> {
        for step in self.steps.iter().filter(|step| !step.stages.recorders.is_empty()) {
            let Some(planned) = plan.steps().iter().find(|planned| planned.order == step.order) else { continue };
            for recorder in &step.stages.recorders {
                workspace.slots.running = recorder.brand;
                let Workspace { slots, picks, .. } = &*workspace;
                let context = RoutingContext { request, fleet, excluded, slots, picks };
                recorder.plugin.record(&context, planned).map_err(|source| {
                    let plugin = PluginName { step: Arc::clone(&step.name), plugin: Arc::clone(&recorder.name) };
                    DecideError::Plugin { plugin, source }
                })?;
            }
        }
        Ok(())
    }

    /// Enters a step's outcome in the plan.
    fn enter(&self, step: &Step<W>, workspace: &Workspace<W>, fleet: &Fleet<W>, plan: &mut RoutingPlan) {
        let held = self.layout.prefix_matches.and_then(|at| workspace.slots.of_workflow::<PrefixMatches<W>>(at));
        let program = self.layout.program.and_then(|at| workspace.slots.of_workflow::<Program>(at));
        let entry = plan.next();
        // Mostly it is there from an earlier plan. Counting it anew would be a write that all threads share.
        if !Arc::ptr_eq(&entry.name, &step.name) {
            entry.name.clone_from(&step.name);
        }
        entry.role = step.role;
        entry.on_failure = step.on_failure;
        entry.independent = step.independent;
        entry.order = step.order;
        let ranked = workspace.ranking.picks.iter().take(step.ranked);
        let known = ranked.filter_map(|pick| Some(Candidate { pod: fleet.handle(pick.pod)?, score: pick.score }));
        entry.candidates.extend(known);
        let first = workspace.ranking.picks.first().zip(held);
        entry.cache = first.map(|(pick, held)| CacheHint { held: held.depth(pick.pod), blocks: held.blocks() });
        entry.program = program.copied().flatten();
    }
}

/// The pods that a step of a role is offered. One that only encodes has no decoder: whatever filters there are, it is not sent a
/// prompt to complete.
fn offered<const W: usize>(role: Role, fleet: &Fleet<W>) -> PodSet<W> {
    if role == Role::Encode { fleet.pods() } else { fleet.pods() - fleet.serving(Role::Encode) }
}

/// Ranks pods behind those that were picked, the best of them first.
#[cold]
fn put_last<const W: usize>(ranking: &mut Ranking, last: PodSet<W>, totals: &[f32]) {
    let picked = ranking.picks.len();
    ranking.picks.extend(last.iter().map(|pod| Pick { pod, score: totals[pod.index()] }));
    // Unstable, since the stable sort takes memory; of equals the one with the lowest id.
    ranking.picks[picked..]
        .sort_unstable_by(|one, other| other.score.total_cmp(&one.score).then(one.pod.cmp(&other.pod)));
}

/// The candidates that filters left: those that are picked from, and those that are tried after them.
struct Kept<const W: usize> {
    first: PodSet<W>,
    last: PodSet<W>,
}

/// One pass Prepare → Filter → Score → Pick, over the candidates of one step.
struct Pass<'d, 't, const W: usize> {
    step: &'d Step<W>,
    request: &'d Request<'d>,
    fleet: &'d Fleet<W>,
    excluded: &'d PodSet<W>,
    seed: u64,
    workspace: &'d mut Workspace<W>,
    trace: Option<&'t mut Trace<W>>,
}

impl<const W: usize> Pass<'_, '_, W> {
    fn context(&self) -> RoutingContext<'_, W> {
        let Workspace { slots, picks, .. } = &*self.workspace;
        RoutingContext { request: self.request, fleet: self.fleet, excluded: self.excluded, slots, picks }
    }

    fn plugin(&self, name: &Arc<str>) -> PluginName {
        PluginName { step: Arc::clone(&self.step.name), plugin: Arc::clone(name) }
    }

    fn failed(&self, name: &Arc<str>, source: PluginError) -> DecideError {
        DecideError::Plugin { plugin: self.plugin(name), source }
    }

    fn is_taken(&mut self) -> Result<bool, DecideError> {
        let taken = match &self.step.condition {
            Some(condition) => {
                self.workspace.slots.running = condition.brand;
                condition.plugin.holds(&self.context()).map_err(|source| self.failed(&condition.name, source))?
            }
            None => true,
        };
        if let Some(trace) = &mut self.trace {
            trace.step(&self.step.name, taken);
        }
        Ok(taken)
    }

    fn prepare(&mut self) -> Result<(), DecideError> {
        for preparer in &self.step.stages.preparers {
            let Workspace { slots, picks, .. } = &mut *self.workspace;
            slots.running = preparer.brand;
            let mut context =
                PrepareContext { request: self.request, fleet: self.fleet, excluded: self.excluded, slots, picks };
            let prepared = preparer.plugin.plugin.prepare(&mut context);
            prepared.map_err(|source| self.failed(&preparer.name, source))?;
            for (index, slot) in &preparer.plugin.writes {
                if !self.workspace.slots.is_written(*index) {
                    return Err(DecideError::Unwritten { plugin: self.plugin(&preparer.name), slot });
                }
            }
        }
        Ok(())
    }

    fn filter(&mut self, offered: PodSet<W>) -> Result<Kept<W>, DecideError> {
        if let Some(trace) = &mut self.trace {
            trace.offered(offered);
        }
        if offered.is_empty() {
            return Err(DecideError::NoneOffered { step: Arc::clone(&self.step.name) });
        }
        let (mut first, mut last) = (offered, PodSet::EMPTY);
        for filter in &self.step.stages.filters {
            let (on_empty, plugin) = (&filter.plugin.0, &*filter.plugin.1);
            self.workspace.slots.running = filter.brand;
            let kept = plugin.filter(&self.context(), first);
            let kept = kept.map_err(|source| self.failed(&filter.name, source))? & first;
            if let Some(trace) = &mut self.trace {
                trace.filtered(&filter.name, first - kept, kept.is_empty() && *on_empty == OnEmpty::KeepPrevious);
            }
            if !kept.is_empty() || *on_empty == OnEmpty::Fail {
                first = kept;
            }
            if !last.is_empty() {
                last = self.narrow_last(filter, last)?;
                if first.is_empty() {
                    (first, last) = (last, PodSet::EMPTY);
                }
            }
            if first.is_empty() {
                let filter = self.plugin(&filter.name);
                return Err(DecideError::AllFiltered { offered: offered.len(), filter });
            }
            if let Some(pods) = plugin.last_resort(&self.context(), first) {
                let others = first - pods;
                if !others.is_empty() {
                    (first, last) = (others, last | first & pods);
                }
            }
        }
        if let (Some(trace), false) = (&mut self.trace, last.is_empty()) {
            trace.tried_last(last);
        }
        Ok(Kept { first, last })
    }

    /// Those of the candidates that are tried last that a filter keeps, by itself: one that narrows to one pod is not to choose among all.
    #[cold]
    fn narrow_last(
        &self,
        filter: &Named<(OnEmpty, Box<dyn Filter<W>>)>,
        last: PodSet<W>,
    ) -> Result<PodSet<W>, DecideError> {
        let (on_empty, plugin) = &filter.plugin;
        let kept = plugin.filter(&self.context(), last);
        let kept = kept.map_err(|source| self.failed(&filter.name, source))? & last;
        Ok(if kept.is_empty() && *on_empty == OnEmpty::KeepPrevious { last } else { kept })
    }

    fn score(&mut self, candidates: PodSet<W>) -> Result<(), DecideError> {
        let length = scores::length(&candidates);
        let mut begun = false;
        for scorer in &self.step.stages.scorers {
            let (weight, plugin) = &scorer.plugin;
            let Workspace { slots, picks, row, totals, .. } = &mut *self.workspace;
            let (row, totals) = (&mut row[..length], &mut totals[..length]);
            slots.running = scorer.brand;
            let context =
                RoutingContext { request: self.request, fleet: self.fleet, excluded: self.excluded, slots, picks };
            let mut scores = Scores::new(candidates, row);
            let scored = plugin.score(&context, &mut scores);
            let row = scores.finish();
            // A row that nobody set anything in is all 0, and adds nothing.
            let added = scored.map(|()| match row {
                Some(row) if begun => scores::add(&candidates, row, *weight, totals),
                Some(row) => scores::begin(&candidates, row, *weight, totals),
                None => Ok(()),
            });
            begun |= row.is_some();
            match added {
                Ok(Ok(())) => {}
                Ok(Err(pod)) => return Err(DecideError::NotANumber { scorer: self.plugin(&scorer.name), pod }),
                Err(source) => return Err(self.failed(&scorer.name, source)),
            }
            if let Some(trace) = &mut self.trace {
                trace.scored(&scorer.name, *weight, candidates, row);
                let context =
                    RoutingContext { request: self.request, fleet: self.fleet, excluded: self.excluded, slots, picks };
                trace.explained(candidates.iter().map(|pod| (pod, plugin.explain(&context, pod))));
            }
        }
        if !begun {
            self.workspace.totals[..length].fill(0.0);
        }
        Ok(())
    }

    fn pick(&mut self, candidates: PodSet<W>, last: PodSet<W>) -> Result<(), DecideError> {
        let Some(picker) = &self.step.stages.picker else {
            return Err(DecideError::NoneOffered { step: Arc::clone(&self.step.name) });
        };
        let Workspace { slots, picks, totals, ranking, .. } = &mut *self.workspace;
        ranking.picks.clear();
        slots.running = picker.brand;
        let all = candidates | last;
        let totals = &totals[..scores::length(&all)];
        let context =
            RoutingContext { request: self.request, fleet: self.fleet, excluded: self.excluded, slots, picks };
        let picked = picker.plugin.pick(&context, &Totals { candidates, totals, seed: self.seed }, ranking);
        ranking.picks.retain(|pick| candidates.contains(pick.pod));
        ranking.picks.iter_mut().for_each(|pick| pick.score = totals[pick.pod.index()]);
        if !last.is_empty() {
            put_last(ranking, last, totals);
        }
        picked.map_err(|source| self.failed(&picker.name, source))?;
        if let Some(trace) = &mut self.trace {
            trace.picked(&picker.name, all, &self.workspace.totals, &self.workspace.ranking.picks);
        }
        if self.workspace.ranking.picks.is_empty() {
            let picker = self.plugin(&picker.name);
            return Err(DecideError::NothingPicked { picker, candidates: candidates.len() });
        }
        Ok(())
    }
}
