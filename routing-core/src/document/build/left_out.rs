//! Error recovery: unresolved parts that validation goes on without, and the faults that come of that alone.

use std::collections::HashSet;

use super::{Building, uses};
use crate::document::{PluginDefinition, StepDefinition};
use crate::fault::Fault;
use crate::stage::Stage;

/// What is left out of the steps of a workflow.
#[derive(Default)]
pub(super) struct LeftOut<'d> {
    /// By step, and as what it is used there.
    uses: HashSet<(&'d str, Stage)>,
    /// The steps that lack something.
    steps: HashSet<&'d str>,
    /// Whether some of it may write slots.
    may_write: bool,
}

impl<'d> LeftOut<'d> {
    fn lack(&mut self, step: &'d StepDefinition, stage: Stage) {
        self.uses.insert((&step.name, stage));
        self.steps.insert(&step.name);
    }

    /// Whether what is left out may be all that is missing.
    pub(super) fn might_cure(&self, fault: &Fault) -> bool {
        let lacks = |name: &str, stage| self.uses.contains(&(name, stage));
        match fault {
            Fault::NoWriter { .. } => self.may_write,
            Fault::NoPicker { step } => lacks(step, Stage::Pick),
            Fault::ZeroWeights { step } => lacks(step, Stage::Score),
            Fault::MissingDependency { plugin, .. } => self.steps.contains(&*plugin.step),
            _ => false,
        }
    }
}

impl<'d, const W: usize> Building<'d, W> {
    pub(super) fn left_out(&self, steps: &'d [StepDefinition]) -> LeftOut<'d> {
        let mut left_out = LeftOut::default();
        for step in steps {
            let Some(profile) = self.profile(&step.profile) else {
                STAGES.into_iter().for_each(|stage| left_out.lack(step, stage));
                left_out.may_write = true;
                continue;
            };
            for used in uses(profile) {
                if let Some(is) = self.lacks(self.plugin(used.name), used.stage) {
                    left_out.lack(step, used.stage);
                    // What does not resolve might be anything.
                    left_out.may_write |= [Some(used.stage), is].contains(&Some(Stage::Prepare)) || is.is_none();
                }
            }
            if step.when.is_some() && self.lacks(step.when.as_ref(), Stage::Condition).is_some() {
                left_out.lack(step, Stage::Condition);
            }
        }
        left_out
    }

    /// What a plugin is that is left out, as far as that is known; nothing if it is not left out.
    #[expect(clippy::option_option, reason = "whether it is left out, and then what it is")]
    fn lacks(&self, plugin: Option<&PluginDefinition>, used_as: Stage) -> Option<Option<Stage>> {
        let Some(plugin) = plugin else { return Some(None) };
        let Some(kind) = self.registry.get(&plugin.kind) else { return Some(None) };
        let is = kind.stage;
        let suits = self.parameters(plugin).is_some_and(|parameters| kind.parameters.suit(&parameters));
        (is != used_as || !suits).then_some(Some(is))
    }
}

/// What a profile may have.
const STAGES: [Stage; 5] = [Stage::Prepare, Stage::Filter, Stage::Score, Stage::Pick, Stage::Record];
