//! From a document to a workflow: first every name is resolved, then the workflow proves itself.
//!
//! Everything that is wrong is reported at once. Where names do not resolve, the workflow is proven without what they
//! stand for, and faults that the missing plugin might cure are held back: one typing error is one problem.

mod left_out;
mod names;

use std::sync::Arc;

use super::{Document, DocumentError, PluginDefinition, PluginStage, Problem, ProfileDefinition, StepDefinition};
use crate::fault::{BuildError, Fault, Warning};
use crate::profile::{OnEmpty, ProfileBuilder, Stage};
use crate::registry::{Factory, PluginType, Registry};
use crate::workflow::{StepBuilder, Workflow, WorkflowBuilder};

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
        let is_used = |name: &str| taken.iter().flat_map(|profile| uses(profile)).any(|(_, used, _)| used == name);
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
        if let Some(definition) = self.profile(&step.profile) {
            profile = self.profile_builder(profile, definition);
        }
        let mut builder = StepBuilder::new(&step.name, profile).role(step.role).on_failure(step.on_failure);
        if let Some(ranked) = step.ranked {
            builder = builder.ranked(ranked.get());
        }
        if step.independent {
            builder = builder.independent();
        }
        let condition = step.when.as_ref().and_then(|when| Some((when, self.factory(when)?)));
        if let Some((when, Factory::Condition(make))) = condition {
            if let Ok(make) = make(&when.parameters) {
                builder = builder.when(&when.name, make).condition_type(&when.kind);
            }
        }
        builder
    }

    fn profile_builder(&self, mut builder: ProfileBuilder<W>, profile: &ProfileDefinition) -> ProfileBuilder<W> {
        let mut add = |name: &str, used_as: Use| {
            let made = self.plugin(name).and_then(|plugin| Some((plugin, self.make(plugin, used_as)?)));
            if let Some((plugin, make)) = made {
                // The builder is taken and given back.
                let taken = std::mem::replace(&mut builder, ProfileBuilder::new(""));
                builder = taken.entry(name, make).of_type(&plugin.kind);
            }
        };
        profile.prepare.iter().for_each(|name| add(name, Use::Prepare));
        profile.filter.iter().for_each(|filter| add(&filter.plugin, Use::Filter(filter.on_empty)));
        profile.score.iter().for_each(|scorer| add(&scorer.plugin, Use::Score(scorer.weight)));
        add(&profile.pick, Use::Pick);
        profile.record.iter().for_each(|name| add(name, Use::Record));
        builder
    }

    fn make(&self, plugin: &PluginDefinition, used_as: Use) -> Option<Stage<W>> {
        let given = &plugin.parameters;
        match (self.factory(plugin)?, used_as) {
            (Factory::Preparer(make), Use::Prepare) => Some(Stage::Prepare(make(given).ok()?)),
            (Factory::Filter(make), Use::Filter(on_empty)) => Some(Stage::Filter(on_empty, make(given).ok()?)),
            (Factory::Scorer(make), Use::Score(weight)) => Some(Stage::Score(weight, make(given).ok()?)),
            (Factory::Picker(make), Use::Pick) => Some(Stage::Pick(make(given).ok()?)),
            (Factory::Recorder(make), Use::Record) => Some(Stage::Record(make(given).ok()?)),
            _ => None,
        }
    }

    fn factory(&self, plugin: &PluginDefinition) -> Option<&Factory<W>> {
        let kind: &PluginType<W> = self.registry.of_type(&plugin.kind).ok()?;
        Some(&kind.factory)
    }

    fn plugin(&self, name: &str) -> Option<&PluginDefinition> {
        self.document.plugins.iter().find(|plugin| plugin.name == name)
    }

    fn profile(&self, name: &str) -> Option<&ProfileDefinition> {
        self.document.profiles.iter().find(|profile| profile.name == name)
    }
}

/// How a profile uses a plugin.
#[derive(Clone, Copy)]
enum Use {
    Prepare,
    Filter(OnEmpty),
    Score(f64),
    Pick,
    Record,
}

/// Every plugin that a profile names: in which field, its name, and as what.
fn uses(profile: &ProfileDefinition) -> impl Iterator<Item = (String, &str, PluginStage)> {
    let prepare = profile.prepare.iter().enumerate();
    let prepare = prepare.map(|(at, name)| (format!("prepare[{at}]"), &**name, PluginStage::Preparer));
    let filter = profile.filter.iter().enumerate();
    let filter = filter.map(|(at, filter)| (format!("filter[{at}].plugin"), &*filter.plugin, PluginStage::Filter));
    let score = profile.score.iter().enumerate();
    let score = score.map(|(at, scorer)| (format!("score[{at}].plugin"), &*scorer.plugin, PluginStage::Scorer));
    let pick = [("pick".to_owned(), &*profile.pick, PluginStage::Picker)];
    let record = profile.record.iter().enumerate();
    let record = record.map(|(at, name)| (format!("record[{at}]"), &**name, PluginStage::Recorder));
    prepare.chain(filter).chain(score).chain(pick).chain(record)
}

/// Whether a problem says the same already, and more: the name that is wrong, or the one that is missing for it.
fn is_told(problems: &[Problem], fault: &Fault) -> bool {
    let Fault::ExecutionOrder { step: odd } = fault else { return false };
    let tells = |problem: &Problem| match problem {
        Problem::UnknownStep { step, nearest } => **step == **odd || nearest.as_deref() == Some(&**odd),
        _ => false,
    };
    problems.iter().any(tells)
}
