//! Name resolution: every unresolved name and refused parameter of a document, each with its path.

use std::collections::HashSet;

use super::{Building, Use, uses};
use crate::document::{PluginDefinition, Problem, ProfileDefinition, StepDefinition, values};
use crate::parameters::ParameterError;
use crate::path::{Path, Segment};
use crate::stage::Stage;

/// A problem and the path to it.
pub(super) type Placed = (Path, Problem);

impl<const W: usize> Building<'_, W> {
    pub(super) fn problems(&self) -> Vec<Placed> {
        let mut problems = Vec::new();
        for (name, _) in self.document.values.iter().filter(|(_, value)| values::refers(value)) {
            let problem = Problem::ValueOfValue { value: name.as_str().into() };
            problems.push((Path::of("values").field(name), problem));
        }
        for (at, plugin) in self.document.plugins.iter().enumerate() {
            let path = Path::of("plugins").element(at);
            problems.extend(self.definition(&path, plugin));
            if self.plugins.get(&*plugin.name) != Some(&at) {
                let problem = Problem::DuplicatePlugin { plugin: plugin.name.as_str().into() };
                problems.push((path.field("name"), problem));
            }
        }
        for (at, profile) in self.document.profiles.iter().enumerate() {
            let path = Path::of("profiles").element(at);
            problems.extend(self.profile_uses(&path, profile));
            if self.profiles.get(&*profile.name) != Some(&at) {
                let problem = Problem::DuplicateProfile { profile: profile.name.as_str().into() };
                problems.push((path.field("name"), problem));
            }
        }
        problems.extend(self.workflow_names());
        // What is wrong with a value is told once, and not for every plugin that refers to it.
        let mut told = HashSet::new();
        problems.retain(|(path, _)| !path.is_in("values") || told.insert(path.clone()));
        problems
    }

    fn definition(&self, path: &Path, plugin: &PluginDefinition) -> Vec<Placed> {
        let kind = match self.registry.get(&plugin.kind) {
            Some(kind) => kind,
            None => {
                let suggestion = self.suggestions.nearest(&plugin.kind, self.registry.names()).map(Into::into);
                let kind = plugin.kind.as_str().into();
                return vec![(path.clone().field("type"), Problem::UnknownType { kind, suggestion })];
            }
        };
        let Some(parameters) = self.parameters(plugin) else {
            let unresolved = values::problems(&self.document.values, plugin, &self.suggestions);
            let path = path.clone().field("parameters");
            return unresolved.into_iter().map(|(inside, problem)| (path.clone().then(&inside), problem)).collect();
        };
        let placed = |(inside, error): (Vec<Segment>, ParameterError)| {
            let path = values::written_at(path, &plugin.parameters, &inside);
            (path, Problem::Parameter { plugin: plugin.name.as_str().into(), error })
        };
        kind.parameters.problems(&parameters).into_iter().map(placed).collect()
    }

    fn profile_uses(&self, path: &Path, profile: &ProfileDefinition) -> Vec<Placed> {
        let problem =
            |used: Use<'_>| Some((used.place(path.clone()), self.plugin_use(profile, used.name, used.stage)?));
        uses(profile).filter_map(problem).collect()
    }

    fn plugin_use(&self, profile: &ProfileDefinition, name: &str, used_as: Stage) -> Option<Problem> {
        let Some(plugin) = self.plugin(name) else {
            let names = self.document.plugins.iter().map(|plugin| &*plugin.name);
            let suggestion = self.suggestions.nearest(name, names).map(Into::into);
            return Some(Problem::UnknownPlugin {
                profile: profile.name.as_str().into(),
                plugin: name.into(),
                suggestion,
            });
        };
        self.wrong_stage(&profile.name, plugin, used_as)
    }

    fn wrong_stage(&self, user: &str, plugin: &PluginDefinition, used_as: Stage) -> Option<Problem> {
        let is = self.registry.get(&plugin.kind)?.stage;
        let wrong = || Problem::WrongStage { user: user.into(), plugin: plugin.name.as_str().into(), is, used_as };
        (is != used_as).then(wrong)
    }

    fn workflow_names(&self) -> Vec<Placed> {
        let Some(workflow) = &self.document.workflow else { return Vec::new() };
        let numbered = workflow.steps.iter().enumerate();
        let path = |at| Path::of("workflow.steps").element(at);
        let mut problems: Vec<_> = numbered.flat_map(|(at, step)| self.step(&path(at), step)).collect();
        let steps: HashSet<&str> = workflow.steps.iter().map(|step| &*step.name).collect();
        let executed = workflow.executed_in.iter().flatten().enumerate();
        for (at, name) in executed.filter(|(_, name)| !steps.contains(&***name)) {
            let names = workflow.steps.iter().map(|step| &*step.name);
            let suggestion = self.suggestions.nearest(name, names).map(Into::into);
            let problem = Problem::UnknownStep { step: name.as_str().into(), suggestion };
            problems.push((Path::of("workflow.executed_in").element(at), problem));
        }
        problems
    }

    fn step(&self, path: &Path, step: &StepDefinition) -> Vec<Placed> {
        let mut problems = Vec::new();
        if let Some(condition) = &step.when {
            let path = path.clone().field("when");
            problems.extend(self.definition(&path, condition));
            let wrong = self.wrong_stage(&step.name, condition, Stage::Condition);
            problems.extend(wrong.map(|problem| (path.field("type"), problem)));
        }
        if self.profile(&step.profile).is_none() {
            let names = self.document.profiles.iter().map(|profile| &*profile.name);
            let suggestion = self.suggestions.nearest(&step.profile, names).map(Into::into);
            let (step, profile) = (step.name.as_str().into(), step.profile.as_str().into());
            problems.push((path.clone().field("profile"), Problem::UnknownProfile { step, profile, suggestion }));
        }
        problems
    }
}
