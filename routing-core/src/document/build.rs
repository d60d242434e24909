//! Building a workflow from a document: name resolution, then validation.
//!
//! Everything that is wrong is reported at once. Where names do not resolve, the workflow is proven without what they
//! stand for, and faults that the missing plugin might cure are held back: one typing error is one problem.

mod left_out;
mod names;
mod sites;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use self::names::Placed;
use super::{Document, DocumentError, Place, PluginDefinition, Problem, ProfileDefinition, StepDefinition, values};
use crate::check::Sited;
use crate::fault::{BuildError, Fault, Warning};
use crate::parameters::Given;
use crate::path::{self, Path};
use crate::profile::{Entry, OnEmpty, ProfileBuilder};
use crate::registry::Registry;
use crate::stage::Stage;
use crate::step::StepBuilder;
use crate::suggest::Suggestions;
use crate::workflow::{Workflow, WorkflowBuilder};

impl Document {
    /// Makes the workflow that the document describes.
    ///
    /// What works and was hardly meant is no error: [`Workflow::warnings`] has it, profiles and plugins that no step uses
    /// among it.
    ///
    /// # Errors
    ///
    /// With everything that is wrong.
    pub fn build<const W: usize>(&self, registry: &Registry<W>) -> Result<Workflow<W>, DocumentError> {
        let (mut workflow, warnings) = self.workflow(registry)?;
        (workflow.warned, workflow.warnings) = warnings.into_iter().unzip();
        workflow.document = Some(Arc::new(self.clone()));
        Ok(workflow)
    }

    /// As [`build`](Self::build), and what works but was hardly meant is a problem too.
    ///
    /// # Errors
    ///
    /// With everything that is wrong, or else with every warning.
    pub fn build_strict<const W: usize>(&self, registry: &Registry<W>) -> Result<Workflow<W>, DocumentError> {
        let workflow = self.build(registry)?;
        if workflow.warnings.is_empty() {
            return Ok(workflow);
        }
        let warnings = workflow.warned.into_iter().zip(workflow.warnings);
        let problem = |(path, warning)| (Place::from(path), Problem::Fault(Fault::Warning(warning)));
        Err(DocumentError::new(warnings.map(problem).collect()))
    }

    /// The names that do not resolve, and parameters that are refused.
    pub(super) fn names<const W: usize>(&self, registry: &Registry<W>) -> Vec<Placed> {
        Building::new(self, registry).problems()
    }

    /// The workflow, and what it is to be warned of.
    fn workflow<const W: usize>(
        &self,
        registry: &Registry<W>,
    ) -> Result<(Workflow<W>, Vec<(Path, Warning)>), DocumentError> {
        let building = Building::new(self, registry);
        let mut problems: Vec<(Place, Problem)> = Vec::new();
        if self.version != Self::VERSION {
            let problem = Problem::UnknownVersion { found: self.version.to_string().into(), supported: Self::VERSION };
            return Err(DocumentError::new(vec![(Path::of("version").into(), problem)]));
        }
        problems.extend(building.problems().into_iter().map(|(path, problem)| (path.into(), problem)));
        let Some(steps) = self.steps() else {
            problems.push((Path::of("workflow").into(), Problem::NoWorkflow { profiles: self.profiles.len() }));
            return Err(DocumentError::new(problems));
        };
        match building.workflow(&steps) {
            Ok((workflow, warnings)) if problems.is_empty() => {
                let placed = warnings.into_iter().map(|(site, warning)| (building.place(&steps, site), warning));
                let warnings = placed.chain(self.unused(&steps)).collect();
                Ok((workflow, warnings))
            }
            Ok(_) => Err(DocumentError::new(problems)),
            Err(error) => {
                let (left_out, told) = (building.left_out(&steps), told(&problems));
                for (site, fault) in error.into_sited() {
                    if !left_out.might_cure(&fault) && !is_told(&told, &fault) {
                        problems.push((building.place(&steps, site).into(), Problem::Fault(fault)));
                    }
                }
                Err(DocumentError::new(problems))
            }
        }
    }

    /// The steps; none if which profile is meant cannot be told.
    fn steps(&self) -> Option<Vec<StepDefinition>> {
        match (&self.workflow, &*self.profiles) {
            (Some(workflow), _) => Some(workflow.steps.clone()),
            (None, [profile]) => Some(vec![StepDefinition::new(&profile.name, &profile.name)]),
            (None, _) => None,
        }
    }

    /// The values that parameters refer to.
    fn referred(&self) -> HashSet<&str> {
        let conditions =
            self.workflow.iter().flat_map(|workflow| &workflow.steps).filter_map(|step| step.when.as_ref());
        let parameters = self.plugins.iter().chain(conditions).flat_map(|plugin| plugin.parameters.values());
        parameters.flat_map(values::referred).collect()
    }

    /// The values that no parameter refers to, the profiles that no step uses, the plugins that none of the others has, and profiles without a name.
    fn unused(&self, steps: &[StepDefinition]) -> impl Iterator<Item = (Path, Warning)> {
        let taken: HashSet<&str> = steps.iter().map(|step| &*step.profile).collect();
        let is_taken = |profile: &ProfileDefinition| taken.contains(&*profile.name);
        let used = self.profiles.iter().filter(|profile| is_taken(profile)).flat_map(uses);
        let used: HashSet<&str> = used.map(|used| used.name).collect();
        let mut warnings = Vec::new();
        for (at, profile) in self.profiles.iter().enumerate() {
            let path = Path::of("profiles").element(at);
            if !is_taken(profile) {
                warnings.push((path.clone(), Warning::UnusedProfile { profile: profile.name.as_str().into() }));
            }
            // Without a workflow it is the step that has no name.
            if profile.name.is_empty() && self.workflow.is_some() {
                warnings.push((path.field("name"), Warning::EmptyName { what: "profile" }));
            }
        }
        let referred = self.referred();
        for value in self.values.keys().filter(|value| !referred.contains(&***value)) {
            let warning = Warning::UnusedValue { value: value.as_str().into() };
            warnings.push((Path::of("values").field(value), warning));
        }
        for (at, plugin) in self.plugins.iter().enumerate().filter(|(_, plugin)| !used.contains(&*plugin.name)) {
            let warning = Warning::UnusedPlugin { plugin: plugin.name.as_str().into() };
            warnings.push((Path::of("plugins").element(at), warning));
        }
        warnings.into_iter()
    }
}

impl<const W: usize> Workflow<W> {
    /// The document that it was built from, if it was built from one.
    #[must_use]
    pub fn document(&self) -> Option<&Document> {
        self.document.as_deref()
    }
}

struct Building<'d, const W: usize> {
    document: &'d Document,
    registry: &'d Registry<W>,
    /// Where each name is defined first.
    plugins: HashMap<&'d str, usize>,
    profiles: HashMap<&'d str, usize>,
    suggestions: Suggestions,
}

impl<'d, const W: usize> Building<'d, W> {
    fn new(document: &'d Document, registry: &'d Registry<W>) -> Self {
        // From the last on, so that the first of a name stays.
        let plugins = document.plugins.iter().enumerate().rev().map(|(at, plugin)| (&*plugin.name, at)).collect();
        let profiles = document.profiles.iter().enumerate().rev().map(|(at, one)| (&*one.name, at)).collect();
        Self { document, registry, plugins, profiles, suggestions: Suggestions::new() }
    }

    /// The workflow, without what does not resolve.
    fn workflow(&self, steps: &[StepDefinition]) -> Result<(Workflow<W>, Sited<Warning>), BuildError> {
        let mut builder = WorkflowBuilder::new();
        for step in steps {
            builder = builder.step(self.step_builder(step));
        }
        let executed = self.document.workflow.as_ref().and_then(|workflow| workflow.executed_in.as_ref());
        if let Some(executed) = executed {
            builder = builder.executed_in(&executed.iter().map(String::as_str).collect::<Vec<_>>());
        }
        builder.assemble()
    }

    fn step_builder(&self, step: &StepDefinition) -> StepBuilder<W> {
        let mut profile = ProfileBuilder::new(&step.profile);
        for used in self.profile(&step.profile).into_iter().flat_map(uses) {
            profile.entries.extend(self.plugin(used.name).and_then(|plugin| self.entry(plugin, &used)));
        }
        let mut builder = StepBuilder::new(&step.name, profile).role(step.role).on_failure(step.on_failure);
        if let Some(ranked) = step.ranked {
            builder = builder.ranked(ranked.get());
        }
        if step.independent {
            builder = builder.independent();
        }
        let condition =
            step.when.as_ref().and_then(|when| self.entry(when, &Use::new(0, &when.name, Stage::Condition)));
        match condition {
            Some(condition) => builder.condition(condition),
            None => builder,
        }
    }

    /// A plugin as it is used; none if that does not resolve.
    fn entry(&self, plugin: &PluginDefinition, used: &Use<'_>) -> Option<Entry<W>> {
        let kind = self.registry.get(&plugin.kind).filter(|kind| kind.stage == used.stage)?;
        let make = (kind.factory)(&*self.parameters(plugin)?)?;
        let (on_empty, weight, at) = (used.on_empty, used.weight, Some(used.at));
        Some(Entry { name: used.name.into(), kind: plugin.kind.as_str().into(), make, on_empty, weight, at })
    }

    /// A plugin's parameters, with values in place of what refers to them; nothing if one refers to none.
    fn parameters<'p>(&self, plugin: &'p PluginDefinition) -> Option<Cow<'p, Given>> {
        values::resolve(&self.document.values, &plugin.parameters)
    }

    fn plugin(&self, name: &str) -> Option<&'d PluginDefinition> {
        self.plugins.get(name).map(|at| &self.document.plugins[*at])
    }

    fn profile(&self, name: &str) -> Option<&'d ProfileDefinition> {
        self.profiles.get(name).map(|at| &self.document.profiles[*at])
    }
}

/// How a profile uses a plugin.
struct Use<'d> {
    /// Its number in its stage.
    at: usize,
    name: &'d str,
    stage: Stage,
    on_empty: OnEmpty,
    weight: f64,
}

impl<'d> Use<'d> {
    fn new(at: usize, name: &'d str, stage: Stage) -> Self {
        Self { at, name, stage, on_empty: OnEmpty::Fail, weight: 1.0 }
    }

    /// Where a profile names it.
    fn place(&self, profile: Path) -> Path {
        let list = profile.field(path::field(self.stage));
        match self.stage {
            Stage::Filter | Stage::Score => list.element(self.at).field("plugin"),
            Stage::Prepare | Stage::Record => list.element(self.at),
            Stage::Pick | Stage::Condition => list,
        }
    }
}

/// Every plugin that a profile names.
fn uses(profile: &ProfileDefinition) -> impl Iterator<Item = Use<'_>> {
    let prepare = profile.prepare.iter().enumerate().map(|(at, name)| Use::new(at, name, Stage::Prepare));
    let filter = profile
        .filter
        .iter()
        .enumerate()
        .map(|(at, filter)| Use { on_empty: filter.on_empty, ..Use::new(at, &filter.plugin, Stage::Filter) });
    let score = profile
        .score
        .iter()
        .enumerate()
        .map(|(at, scorer)| Use { weight: scorer.weight, ..Use::new(at, &scorer.plugin, Stage::Score) });
    let pick = [Use::new(0, &profile.pick, Stage::Pick)];
    let record = profile.record.iter().enumerate().map(|(at, name)| Use::new(at, name, Stage::Record));
    prepare.chain(filter).chain(score).chain(pick).chain(record)
}

/// The steps of which a problem says already that the order of execution misses them: the name that is wrong, and the one
/// that is missing for it.
fn told(problems: &[(Place, Problem)]) -> HashSet<Box<str>> {
    let names = problems.iter().filter_map(|(_, problem)| match problem {
        Problem::UnknownStep { step, suggestion } => Some([Some(step), suggestion.as_ref()]),
        _ => None,
    });
    names.flatten().flatten().cloned().collect()
}

fn is_told(told: &HashSet<Box<str>>, fault: &Fault) -> bool {
    matches!(fault, Fault::ExecutionOrder { step } if told.contains(&**step))
}
