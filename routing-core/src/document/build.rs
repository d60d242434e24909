//! Building a workflow from a document: name resolution, then validation.
//!
//! Everything that is wrong is reported at once. Where names do not resolve, the workflow is proven without what they
//! stand for, and faults that the missing plugin might cure are held back: one typing error is one problem.

mod left_out;
mod names;

use std::sync::Arc;

use super::{Document, DocumentError, PluginDefinition, Problem, ProfileDefinition, StepDefinition};
use crate::fault::{BuildError, Fault, Warning};
use crate::profile::{Entry, OnEmpty, ProfileBuilder};
use crate::registry::Registry;
use crate::stage::Stage;
use crate::step::StepBuilder;
use crate::workflow::{Workflow, WorkflowBuilder};

impl Document {
    /// Makes the workflow that the document describes.
    ///
    /// A profile that no step uses and a plugin that none of the used profiles has are no errors:
    /// [`Workflow::warnings`] names them.
    ///
    /// # Errors
    ///
    /// With everything that is wrong.
    pub fn build<const W: usize>(&self, registry: &Registry<W>) -> Result<Workflow<W>, DocumentError> {
        let building = Building { document: self, registry };
        let mut error = DocumentError::new();
        for (path, problem) in building.problems() {
            error.push(Some(path), problem);
        }
        let Some(steps) = self.steps() else {
            error.push(None, Problem::NoWorkflow { profiles: self.profiles.len() });
            return Err(error);
        };
        match building.workflow(&steps) {
            Ok(mut workflow) if error.problems().is_empty() => {
                workflow.warnings.extend(self.unused(&steps));
                workflow.document = Some(Arc::new(self.clone()));
                Ok(workflow)
            }
            Ok(_) => Err(error),
            Err(BuildError { faults }) => {
                let left_out = building.left_out(&steps);
                for fault in faults {
                    if !left_out.might_cure(&fault) && !is_told(error.problems(), &fault) {
                        error.push(None, Problem::Fault(fault));
                    }
                }
                Err(error)
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

    /// The profiles that no step uses, and the plugins that none of the others has.
    fn unused(&self, steps: &[StepDefinition]) -> Vec<Warning> {
        let is_taken = |profile: &&ProfileDefinition| steps.iter().any(|step| step.profile == profile.name);
        let (taken, left): (Vec<_>, Vec<_>) = self.profiles.iter().partition(is_taken);
        let is_used = |name: &str| taken.iter().flat_map(|profile| uses(profile)).any(|used| used.name == name);
        let profiles = left.iter().map(|profile| Warning::UnusedProfile { profile: profile.name.as_str().into() });
        let plugins = self.plugins.iter().map(|plugin| &*plugin.name).filter(|name| !is_used(name));
        profiles.chain(plugins.map(|plugin| Warning::UnusedPlugin { plugin: plugin.into() })).collect()
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
}

impl<const W: usize> Building<'_, W> {
    /// The workflow, without what does not resolve.
    fn workflow(&self, steps: &[StepDefinition]) -> Result<Workflow<W>, BuildError> {
        let mut builder = WorkflowBuilder::new();
        for step in steps {
            builder = builder.step(self.step_builder(step));
        }
        let executed = self.document.workflow.as_ref().and_then(|workflow| workflow.executed_in.as_ref());
        if let Some(executed) = executed {
            builder = builder.executed_in(&executed.iter().map(String::as_str).collect::<Vec<_>>());
        }
        builder.build()
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
        let condition = step
            .when
            .as_ref()
            .and_then(|when| self.entry(when, &Use::new(String::new(), &when.name, Stage::Condition)));
        match condition {
            Some(condition) => builder.condition(condition),
            None => builder,
        }
    }

    /// A plugin as it is used; none if that does not resolve.
    fn entry(&self, plugin: &PluginDefinition, used: &Use<'_>) -> Option<Entry<W>> {
        let kind = self.registry.of_type(&plugin.kind).ok().filter(|kind| kind.stage == used.stage)?;
        let make = (kind.factory)(&plugin.parameters).ok()?;
        let (on_empty, weight) = (used.on_empty, used.weight);
        Some(Entry { name: used.name.into(), kind: plugin.kind.as_str().into(), make, on_empty, weight })
    }

    fn plugin(&self, name: &str) -> Option<&PluginDefinition> {
        self.document.plugins.iter().find(|plugin| plugin.name == name)
    }

    fn profile(&self, name: &str) -> Option<&ProfileDefinition> {
        self.document.profiles.iter().find(|profile| profile.name == name)
    }
}

/// How a profile uses a plugin.
struct Use<'d> {
    /// Where the profile names it.
    field: String,
    name: &'d str,
    stage: Stage,
    on_empty: OnEmpty,
    weight: f64,
}

impl<'d> Use<'d> {
    fn new(field: String, name: &'d str, stage: Stage) -> Self {
        Self { field, name, stage, on_empty: OnEmpty::Fail, weight: 1.0 }
    }
}

/// Every plugin that a profile names.
fn uses(profile: &ProfileDefinition) -> impl Iterator<Item = Use<'_>> {
    let prepare = profile.prepare.iter().enumerate();
    let prepare = prepare.map(|(at, name)| Use::new(format!("prepare[{at}]"), name, Stage::Prepare));
    let filter = profile.filter.iter().enumerate().map(|(at, filter)| Use {
        on_empty: filter.on_empty,
        ..Use::new(format!("filter[{at}].plugin"), &filter.plugin, Stage::Filter)
    });
    let score = profile.score.iter().enumerate().map(|(at, scorer)| Use {
        weight: scorer.weight,
        ..Use::new(format!("score[{at}].plugin"), &scorer.plugin, Stage::Score)
    });
    let pick = [Use::new("pick".to_owned(), &profile.pick, Stage::Pick)];
    let record = profile.record.iter().enumerate();
    let record = record.map(|(at, name)| Use::new(format!("record[{at}]"), name, Stage::Record));
    prepare.chain(filter).chain(score).chain(pick).chain(record)
}

/// Whether a problem says the same already, and more: the name that is wrong, or the one that is missing for it.
fn is_told(problems: &[Problem], fault: &Fault) -> bool {
    let Fault::ExecutionOrder { step: odd } = fault else { return false };
    let tells = |problem: &Problem| match problem {
        Problem::UnknownStep { step, suggestion } => **step == **odd || suggestion.as_deref() == Some(&**odd),
        _ => false,
    };
    problems.iter().any(tells)
}
