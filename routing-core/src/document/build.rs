//! From a document to a workflow: first every name is resolved, then the workflow proves itself.
//!
//! Everything that is wrong is reported at once. Where names do not resolve, the workflow is proven without what they
//! stand for, and faults that the missing plugin might cure are held back: one typing error is one problem.

use std::sync::Arc;

use super::{Document, DocumentError, PluginDefinition, PluginStage, Problem, ProfileDefinition, StepDefinition};
use crate::fault::{BuildError, Fault, Warning};
use crate::nearest::nearest;
use crate::profile::{OnEmpty, ProfileBuilder, Stage};
use crate::registry::{Factory, PluginType, Registry};
use crate::workflow::{StepBuilder, Workflow, WorkflowBuilder};

impl Document {
    /// Makes the workflow that the document describes.
    ///
    /// A plugin that no profile uses is no error: [`Workflow::warnings`] names it.
    ///
    /// # Errors
    ///
    /// With everything that is wrong.
    pub fn build<const W: usize>(&self, registry: &Registry<W>) -> Result<Workflow<W>, DocumentError> {
        let building = Building { document: self, registry };
        let mut problems = building.problems();
        let Some(steps) = self.steps() else {
            problems.push(Problem::NoWorkflow { profiles: self.profiles.len() });
            return Err(DocumentError { problems });
        };
        match building.workflow(&steps) {
            Ok(mut workflow) if problems.is_empty() => {
                workflow.warnings.extend(self.unused().map(|plugin| Warning::UnusedPlugin { plugin: plugin.into() }));
                workflow.document = Some(Arc::new(self.clone()));
                Ok(workflow)
            }
            Ok(_) => Err(DocumentError { problems }),
            Err(BuildError { faults }) => {
                let is_sound = problems.is_empty();
                let faults = faults.into_iter().filter(|fault| is_sound || !might_be_cured(fault));
                let faults = faults.filter(|fault| !is_told(&problems, fault)).map(Problem::Fault).collect::<Vec<_>>();
                problems.extend(faults);
                Err(DocumentError { problems })
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

    /// The plugins that no profile uses.
    fn unused(&self) -> impl Iterator<Item = &str> {
        let is_used = |name: &str| self.profiles.iter().flat_map(uses).any(|(used, _)| used == name);
        self.plugins.iter().map(|plugin| &*plugin.name).filter(move |name| !is_used(name))
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
    /// Every name that does not resolve and every parameter that is refused.
    fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (at, plugin) in self.document.plugins.iter().enumerate() {
            problems.extend(self.definition(plugin));
            if self.document.plugins[..at].iter().any(|other| other.name == plugin.name) {
                problems.push(Problem::DuplicatePlugin { plugin: plugin.name.as_str().into() });
            }
        }
        for (at, profile) in self.document.profiles.iter().enumerate() {
            problems.extend(uses(profile).filter_map(|(name, used_as)| self.plugin_use(profile, name, used_as)));
            if self.document.profiles[..at].iter().any(|other| other.name == profile.name) {
                problems.push(Problem::DuplicateProfile { profile: profile.name.as_str().into() });
            }
        }
        let Some(workflow) = &self.document.workflow else { return problems };
        for step in &workflow.steps {
            problems.extend(self.step(step));
        }
        let steps = || workflow.steps.iter().map(|step| &*step.name);
        let executed = workflow.executed_in.iter().flatten().filter(|name| steps().all(|step| step != **name));
        problems.extend(executed.map(|name| Problem::UnknownStep {
            step: name.as_str().into(),
            nearest: nearest(name, steps()).map(Into::into),
        }));
        problems
    }

    fn definition(&self, plugin: &PluginDefinition) -> Vec<Problem> {
        let kind = match self.registry.of_type(&plugin.kind) {
            Ok(kind) => kind,
            Err(nearest) => {
                let nearest = nearest.map(Into::into);
                return vec![Problem::UnknownType { kind: plugin.kind.as_str().into(), nearest }];
            }
        };
        let errors = kind.parameters.problems(&plugin.parameters).into_iter();
        errors.map(|error| Problem::Parameter { plugin: plugin.name.as_str().into(), error }).collect()
    }

    fn plugin_use(&self, profile: &ProfileDefinition, name: &str, used_as: PluginStage) -> Option<Problem> {
        let Some(plugin) = self.plugin(name) else {
            let names = self.document.plugins.iter().map(|plugin| &*plugin.name);
            let nearest = nearest(name, names).map(Into::into);
            return Some(Problem::UnknownPlugin {
                profile: profile.name.as_str().into(),
                plugin: name.into(),
                nearest,
            });
        };
        self.wrong_stage(&profile.name, plugin, used_as)
    }

    fn wrong_stage(&self, user: &str, plugin: &PluginDefinition, used_as: PluginStage) -> Option<Problem> {
        let is = self.registry.of_type(&plugin.kind).ok()?.factory.stage();
        let wrong = || Problem::WrongStage { user: user.into(), plugin: plugin.name.as_str().into(), is, used_as };
        (is != used_as).then(wrong)
    }

    fn step(&self, step: &StepDefinition) -> Vec<Problem> {
        let mut problems = Vec::new();
        if let Some(condition) = &step.when {
            problems.extend(self.definition(condition));
            problems.extend(self.wrong_stage(&step.name, condition, PluginStage::Condition));
        }
        if self.profile(&step.profile).is_none() {
            let names = self.document.profiles.iter().map(|profile| &*profile.name);
            let nearest = nearest(&step.profile, names).map(Into::into);
            let (step, profile) = (step.name.as_str().into(), step.profile.as_str().into());
            problems.push(Problem::UnknownProfile { step, profile, nearest });
        }
        problems
    }

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
                builder = builder.when(&when.name, make);
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
        builder
    }

    fn make(&self, plugin: &PluginDefinition, used_as: Use) -> Option<Stage<W>> {
        let given = &plugin.parameters;
        match (self.factory(plugin)?, used_as) {
            (Factory::Preparer(make), Use::Prepare) => Some(Stage::Prepare(make(given).ok()?)),
            (Factory::Filter(make), Use::Filter(on_empty)) => Some(Stage::Filter(on_empty, make(given).ok()?)),
            (Factory::Scorer(make), Use::Score(weight)) => Some(Stage::Score(weight, make(given).ok()?)),
            (Factory::Picker(make), Use::Pick) => Some(Stage::Pick(make(given).ok()?)),
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
}

/// Every plugin that a profile names, and as what.
fn uses(profile: &ProfileDefinition) -> impl Iterator<Item = (&str, PluginStage)> {
    let prepare = profile.prepare.iter().map(|name| (&**name, PluginStage::Preparer));
    let filter = profile.filter.iter().map(|filter| (&*filter.plugin, PluginStage::Filter));
    let score = profile.score.iter().map(|scorer| (&*scorer.plugin, PluginStage::Scorer));
    prepare.chain(filter).chain(score).chain([(&*profile.pick, PluginStage::Picker)])
}

/// Whether a plugin that does not resolve may be all that is missing.
fn might_be_cured(fault: &Fault) -> bool {
    let absent = matches!(fault, Fault::NoWriter { .. } | Fault::MissingDependency { .. } | Fault::NoPicker { .. });
    absent || matches!(fault, Fault::ZeroWeights { .. })
}

/// Whether a problem says the same already, and more.
fn is_told(problems: &[Problem], fault: &Fault) -> bool {
    let Fault::ExecutionOrder { step: odd } = fault else { return false };
    problems.iter().any(|problem| matches!(problem, Problem::UnknownStep { step, .. } if **step == **odd))
}
