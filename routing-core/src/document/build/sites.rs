//! Sites of a workflow as paths of the document that it is built from.

use super::{Building, Use};
use crate::document::StepDefinition;
use crate::path::{Path, Site, field};
use crate::stage::Stage;

impl<const W: usize> Building<'_, W> {
    pub(super) fn place(&self, steps: &[StepDefinition], site: Site) -> Path {
        match site {
            Site::Steps => Path::of("workflow.steps"),
            Site::Executed(None) => Path::of("workflow.executed_in"),
            Site::Executed(Some(at)) => Path::of("workflow.executed_in").element(at),
            Site::Step(at, name) => self.step_place(at, name),
            Site::Stage(at, Stage::Condition) | Site::Plugin(at, Stage::Condition, _) => self.step_place(at, "when"),
            Site::Stage(at, stage) => self.profile_place(steps, at).field(field(stage)),
            Site::Plugin(at, stage, number) => Use::new(number, "", stage).place(self.profile_place(steps, at)),
            Site::Weight(at, number) => self.profile_place(steps, at).field("score").element(number).field("weight"),
        }
    }

    /// Without a workflow there is one profile, and its step has nothing but a name.
    fn step_place(&self, at: usize, name: &str) -> Path {
        match self.document.workflow {
            Some(_) => Path::of("workflow.steps").element(at).field(name),
            None => Path::of("profiles").element(0).field("name"),
        }
    }

    fn profile_place(&self, steps: &[StepDefinition], at: usize) -> Path {
        let profile = steps.get(at).and_then(|step| self.profiles.get(&*step.profile));
        profile.map_or_else(|| self.step_place(at, "profile"), |profile| Path::of("profiles").element(*profile))
    }
}
