//! Name resolution: every unresolved name and refused parameter of a document, each with its path.

use super::{Building, Use, uses};
use crate::document::{PluginDefinition, Problem, ProfileDefinition, StepDefinition};
use crate::parameters::ParameterError;
use crate::stage::Stage;
use crate::suggest::suggest;

/// A problem and the path to it: fields by name, elements by number from 0.
pub(super) type Placed = (Box<str>, Problem);

impl<const W: usize> Building<'_, W> {
    pub(super) fn problems(&self) -> Vec<Placed> {
        let mut problems = Vec::new();
        for (at, plugin) in self.document.plugins.iter().enumerate() {
            let path = format!("plugins[{at}]");
            problems.extend(self.definition(&path, plugin));
            if self.document.plugins[..at].iter().any(|other| other.name == plugin.name) {
                problems.push((path.into(), Problem::DuplicatePlugin { plugin: plugin.name.as_str().into() }));
            }
        }
        for (at, profile) in self.document.profiles.iter().enumerate() {
            let path = format!("profiles[{at}]");
            problems.extend(self.profile_uses(&path, profile));
            if self.document.profiles[..at].iter().any(|other| other.name == profile.name) {
                problems.push((path.into(), Problem::DuplicateProfile { profile: profile.name.as_str().into() }));
            }
        }
        problems.extend(self.workflow_names());
        problems
    }

    fn definition(&self, path: &str, plugin: &PluginDefinition) -> Vec<Placed> {
        let kind = match self.registry.of_type(&plugin.kind) {
            Ok(kind) => kind,
            Err(suggestion) => {
                let (kind, suggestion) = (plugin.kind.as_str().into(), suggestion.map(Into::into));
                return vec![(format!("{path}.type").into(), Problem::UnknownType { kind, suggestion })];
            }
        };
        let placed = |error: ParameterError| {
            let path = match error.given() {
                Some(name) => format!("{path}.parameters.{name}"),
                None => format!("{path}.parameters"),
            };
            (path.into(), Problem::Parameter { plugin: plugin.name.as_str().into(), error })
        };
        kind.parameters.problems(&plugin.parameters).into_iter().map(placed).collect()
    }

    fn profile_uses(&self, path: &str, profile: &ProfileDefinition) -> Vec<Placed> {
        let problem = |used: Use<'_>| {
            Some((format!("{path}.{}", used.field).into(), self.plugin_use(profile, used.name, used.stage)?))
        };
        uses(profile).filter_map(problem).collect()
    }

    fn plugin_use(&self, profile: &ProfileDefinition, name: &str, used_as: Stage) -> Option<Problem> {
        let Some(plugin) = self.plugin(name) else {
            let names = self.document.plugins.iter().map(|plugin| &*plugin.name);
            let suggestion = suggest(name, names).map(Into::into);
            return Some(Problem::UnknownPlugin {
                profile: profile.name.as_str().into(),
                plugin: name.into(),
                suggestion,
            });
        };
        self.wrong_stage(&profile.name, plugin, used_as)
    }

    fn wrong_stage(&self, user: &str, plugin: &PluginDefinition, used_as: Stage) -> Option<Problem> {
        let is = self.registry.of_type(&plugin.kind).ok()?.stage;
        let wrong = || Problem::WrongStage { user: user.into(), plugin: plugin.name.as_str().into(), is, used_as };
        (is != used_as).then(wrong)
    }

    fn workflow_names(&self) -> Vec<Placed> {
        let Some(workflow) = &self.document.workflow else { return Vec::new() };
        let numbered = workflow.steps.iter().enumerate();
        let mut problems: Vec<_> =
            numbered.flat_map(|(at, step)| self.step(&format!("workflow.steps[{at}]"), step)).collect();
        let steps = || workflow.steps.iter().map(|step| &*step.name);
        let executed = workflow.executed_in.iter().flatten().enumerate();
        let unknown = executed.filter(|(_, name)| steps().all(|step| step != **name));
        problems.extend(unknown.map(|(at, name)| {
            let suggestion = suggest(name, steps()).map(Into::into);
            (
                format!("workflow.executed_in[{at}]").into(),
                Problem::UnknownStep { step: name.as_str().into(), suggestion },
            )
        }));
        problems
    }

    fn step(&self, path: &str, step: &StepDefinition) -> Vec<Placed> {
        let mut problems = Vec::new();
        if let Some(condition) = &step.when {
            problems.extend(self.definition(&format!("{path}.when"), condition));
            let wrong = self.wrong_stage(&step.name, condition, Stage::Condition);
            problems.extend(wrong.map(|problem| (format!("{path}.when.type").into(), problem)));
        }
        if self.profile(&step.profile).is_none() {
            let names = self.document.profiles.iter().map(|profile| &*profile.name);
            let suggestion = suggest(&step.profile, names).map(Into::into);
            let (step, profile) = (step.name.as_str().into(), step.profile.as_str().into());
            problems.push((format!("{path}.profile").into(), Problem::UnknownProfile { step, profile, suggestion }));
        }
        problems
    }
}
