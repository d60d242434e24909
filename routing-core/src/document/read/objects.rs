//! The fields of each part of a document.

use serde::de::{Error, MapAccess};

use super::parameters::{Parameters, kind};
use super::references::Part;
use super::{Field, Need, Object, Vocabulary};
use crate::document::{
    Document, FilterUse, PluginDefinition, Problem, ProfileDefinition, ScorerUse, StepDefinition, WorkflowDefinition,
};

/// An object, what errors call it, and how each of its fields is read; methods that it overrides may follow.
macro_rules! object {
    ($object:ident, $what:literal, |$self:ident, $at:ident| {
        $($need:ident $name:literal => $read:expr,)*
    } $($methods:tt)*) => {
        impl Object for $object {
            const WHAT: &'static str = $what;
            const FIELDS: &'static [(&'static str, Need)] = &[$(($name, Need::$need)),*];

            fn field<'de, A: MapAccess<'de>>(&mut self, $at: &mut Field<'_, A>) -> Result<(), A::Error> {
                let $self = self;
                match $at.name {
                    $($name => $read,)*
                    _ => {}
                }
                Ok(())
            }

            $($methods)*
        }
    };
}

object!(Document, "document", |document, at| {
    Optional "plugins" => {
        document.plugins = at.objects()?;
        at.known.define(Part::Plugin, document.plugins.iter().map(|plugin| plugin.name.clone()).collect());
    },
    Required "profiles" => {
        document.profiles = at.objects()?;
        at.known.define(Part::Profile, document.profiles.iter().map(|profile| profile.name.clone()).collect());
    },
    Optional "workflow" => document.workflow = Some(at.object()?),
});

object!(PluginDefinition, "plugin", |plugin, at| {
    Optional "name" => {
        plugin.name = at.value()?;
        if plugin.name.is_empty() {
            return Err(A::Error::custom("the name of a plugin is empty: leave it out to call it as its type"));
        }
    },
    Required "type" => plugin.kind = at.map.next_value_seed(kind(at.known))?,
    Optional "parameters" => {
        let parameters = at.known.parameters(&plugin.kind).ok().flatten();
        let name = if plugin.name.is_empty() { &plugin.kind } else { &plugin.name };
        plugin.parameters = at.map.next_value_seed(Parameters { plugin: name, parameters })?;
    },
}
    fn finish<E: Error>(&mut self, known: &dyn Vocabulary) -> Result<(), E> {
        if self.name.is_empty() {
            self.name.clone_from(&self.kind);
        }
        // What came before its type, or did not come at all, is still to be checked; the rest passes again.
        let problems = known.parameters(&self.kind).ok().flatten().map(|known| known.problems(&self.parameters));
        let first = problems.into_iter().flatten().next();
        first.map_or(Ok(()), |error| Err(E::custom(Problem::Parameter { plugin: self.name.as_str().into(), error })))
    }
);

object!(ProfileDefinition, "profile", |profile, at| {
    Required "name" => profile.name = at.value()?,
    Optional "prepare" => profile.prepare = at.references(Part::Plugin)?,
    Optional "filter" => profile.filter = at.objects()?,
    Optional "score" => profile.score = at.objects()?,
    Required "pick" => profile.pick = at.reference(Part::Plugin)?,
    Optional "record" => profile.record = at.references(Part::Plugin)?,
});

object!(FilterUse, "filter of a profile", |filter, at| {
    Required "plugin" => filter.plugin = at.reference(Part::Plugin)?,
    Optional "on_empty" => filter.on_empty = at.word()?,
});

object!(ScorerUse, "scorer of a profile", |scorer, at| {
    Required "plugin" => scorer.plugin = at.reference(Part::Plugin)?,
    Required "weight" => scorer.weight = at.value()?,
});

object!(WorkflowDefinition, "workflow", |workflow, at| {
    Required "steps" => {
        workflow.steps = at.objects()?;
        at.known.define(Part::Step, workflow.steps.iter().map(|step| step.name.clone()).collect());
    },
    Optional "executed_in" => workflow.executed_in = Some(at.references(Part::Step)?),
});

object!(StepDefinition, "step", |step, at| {
    Required "name" => step.name = at.value()?,
    Required "profile" => step.profile = at.reference(Part::Profile)?,
    Optional "role" => step.role = at.word()?,
    Optional "when" => step.when = Some(at.object()?),
    Optional "on_failure" => step.on_failure = at.word()?,
    Optional "ranked" => step.ranked = Some(at.value()?),
    Optional "independent" => step.independent = at.value()?,
});
