//! The fields of each part of a document.

use serde::de::{Error, MapAccess};

use super::parameters::{Kind, Parameters};
use super::references::Part;
use super::{Field, Object, Vocabulary};
use crate::document::{
    Document, FilterUse, PluginDefinition, Problem, ProfileDefinition, ScorerUse, StepDefinition, WorkflowDefinition,
};
use crate::profile::OnEmpty;

impl Object for Document {
    const WHAT: &'static str = "document";
    const FIELDS: &'static [&'static str] = &["plugins", "profiles", "workflow"];
    const REQUIRED: &'static [&'static str] = &["profiles"];

    fn empty() -> Self {
        Self::default()
    }

    fn field<'de, A: MapAccess<'de>>(&mut self, at: &mut Field<'_, A>) -> Result<(), A::Error> {
        match at.name {
            "plugins" => {
                self.plugins = at.objects()?;
                let names = self.plugins.iter().map(|plugin| plugin.name.clone()).collect();
                at.known.define(Part::Plugin, names);
            }
            "profiles" => {
                self.profiles = at.objects()?;
                let names = self.profiles.iter().map(|profile| profile.name.clone()).collect();
                at.known.define(Part::Profile, names);
            }
            _ => self.workflow = Some(at.object()?),
        }
        Ok(())
    }
}

impl Object for PluginDefinition {
    const WHAT: &'static str = "plugin";
    const FIELDS: &'static [&'static str] = &["name", "type", "parameters"];
    const REQUIRED: &'static [&'static str] = &["type"];

    fn empty() -> Self {
        Self::default()
    }

    fn field<'de, A: MapAccess<'de>>(&mut self, at: &mut Field<'_, A>) -> Result<(), A::Error> {
        match at.name {
            "name" => {
                self.name = at.value()?;
                if self.name.is_empty() {
                    return Err(A::Error::custom("the name of a plugin is empty: leave it out to call it as its type"));
                }
            }
            "type" => self.kind = at.map.next_value_seed(Kind(at.known))?,
            _ => {
                let parameters = at.known.parameters(&self.kind).ok().flatten();
                let plugin = if self.name.is_empty() { &self.kind } else { &self.name };
                self.parameters = at.map.next_value_seed(Parameters { plugin, parameters })?;
            }
        }
        Ok(())
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
}

impl Object for ProfileDefinition {
    const WHAT: &'static str = "profile";
    const FIELDS: &'static [&'static str] = &["name", "prepare", "filter", "score", "pick", "record"];
    const REQUIRED: &'static [&'static str] = &["name", "pick"];

    fn empty() -> Self {
        Self::default()
    }

    fn field<'de, A: MapAccess<'de>>(&mut self, at: &mut Field<'_, A>) -> Result<(), A::Error> {
        match at.name {
            "name" => self.name = at.value()?,
            "prepare" => self.prepare = at.references(Part::Plugin)?,
            "filter" => self.filter = at.objects()?,
            "score" => self.score = at.objects()?,
            "pick" => self.pick = at.reference(Part::Plugin)?,
            _ => self.record = at.references(Part::Plugin)?,
        }
        Ok(())
    }
}

impl Object for FilterUse {
    const WHAT: &'static str = "filter of a profile";
    const FIELDS: &'static [&'static str] = &["plugin", "on_empty"];
    const REQUIRED: &'static [&'static str] = &["plugin"];

    fn empty() -> Self {
        Self::new("", OnEmpty::Fail)
    }

    fn field<'de, A: MapAccess<'de>>(&mut self, at: &mut Field<'_, A>) -> Result<(), A::Error> {
        match at.name {
            "plugin" => self.plugin = at.reference(Part::Plugin)?,
            _ => self.on_empty = at.word()?,
        }
        Ok(())
    }
}

impl Object for ScorerUse {
    const WHAT: &'static str = "scorer of a profile";
    const FIELDS: &'static [&'static str] = &["plugin", "weight"];
    const REQUIRED: &'static [&'static str] = &["plugin", "weight"];

    fn empty() -> Self {
        Self::default()
    }

    fn field<'de, A: MapAccess<'de>>(&mut self, at: &mut Field<'_, A>) -> Result<(), A::Error> {
        match at.name {
            "plugin" => self.plugin = at.reference(Part::Plugin)?,
            _ => self.weight = at.value()?,
        }
        Ok(())
    }
}

impl Object for WorkflowDefinition {
    const WHAT: &'static str = "workflow";
    const FIELDS: &'static [&'static str] = &["steps", "executed_in"];
    const REQUIRED: &'static [&'static str] = &["steps"];

    fn empty() -> Self {
        Self::default()
    }

    fn field<'de, A: MapAccess<'de>>(&mut self, at: &mut Field<'_, A>) -> Result<(), A::Error> {
        match at.name {
            "steps" => {
                self.steps = at.objects()?;
                at.known.define(Part::Step, self.steps.iter().map(|step| step.name.clone()).collect());
            }
            _ => self.executed_in = Some(at.references(Part::Step)?),
        }
        Ok(())
    }
}

impl Object for StepDefinition {
    const WHAT: &'static str = "step";
    const FIELDS: &'static [&'static str] = &["name", "profile", "role", "when", "on_failure", "ranked", "independent"];
    const REQUIRED: &'static [&'static str] = &["name", "profile"];

    fn empty() -> Self {
        Self::default()
    }

    fn field<'de, A: MapAccess<'de>>(&mut self, at: &mut Field<'_, A>) -> Result<(), A::Error> {
        match at.name {
            "name" => self.name = at.value()?,
            "profile" => self.profile = at.reference(Part::Profile)?,
            "role" => self.role = at.word()?,
            "when" => self.when = Some(at.object()?),
            "on_failure" => self.on_failure = at.word()?,
            "ranked" => self.ranked = Some(at.value()?),
            _ => self.independent = at.value()?,
        }
        Ok(())
    }
}
