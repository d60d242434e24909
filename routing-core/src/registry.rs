//! The plugin registry: types by name, and factories from typed parameters.
//!
//! A type is registered in one line, with a type of its own for its parameters. Whatever can be wrong with parameters
//! is for that type to refuse when it is deserialized (`#[serde(try_from)]` lets it look at the whole), so that a
//! plugin is only ever made of parameters that are sound.

mod schema;

use std::collections::BTreeMap;
use std::sync::Arc;

use kv_index::DEFAULT_POD_WORDS;
use serde::de::{DeserializeOwned, Deserializer};

use crate::declare::Declare;
use crate::document::{Document, Vocabulary};
use crate::parameters::{Given, ParameterError, ParameterType, parse};
use crate::plugin::{Condition, Filter, Picker, Preparer, Recorder, Scorer};
use crate::stage::{MakePlugin, Stage};
use crate::suggest::suggest;

/// The plugin types that documents may name.
///
/// # Examples
///
/// A behaviour is added in four steps: implement it, register its type, name it in a profile, weigh it.
///
/// ```
/// use routing_core::{RoutingContext, NoParameters, Picker, PluginError, Ranking, Registry, Scorer, Scores, Totals};
///
/// /// Prefers pods that share a label with the client: 1 for those, 0 for all others.
/// #[derive(serde::Deserialize)]
/// struct Near {
///     label: String,
/// }
///
/// impl Scorer for Near {
///     fn score(&self, context: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
///         let home = context.request().label(&self.label).unwrap_or_default();
///         scores.set_all(context.fleet().labelled(&self.label, home), 1.0);
///         Ok(())
///     }
/// }
/// # struct Best;
/// # impl Picker for Best {
/// #     fn pick(&self, _: &RoutingContext<'_>, totals: &Totals<'_>, ranking: &mut Ranking) -> Result<(), PluginError> {
/// #         totals.rank(3, ranking);
/// #         Ok(())
/// #     }
/// # }
///
/// let mut registry = <Registry>::new();
/// registry.scorer::<Near, _>("near", |near, _| near)?;
/// # registry.picker::<NoParameters, _>("best", |_, _| Best)?;
/// let profile = r#"{
///   "plugins": [{"type": "near", "parameters": {"label": "region"}}, {"type": "best"}],
///   "profiles": [{"name": "serve", "score": [{"plugin": "near", "weight": 2}], "pick": "best"}]
/// }"#;
/// let document = registry.read(&mut serde_json::Deserializer::from_str(profile))?;
/// assert!(document.build(&registry)?.warnings().is_empty());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// What is wrong is said where it stands, with the name that was probably meant.
///
/// ```
/// use routing_core::{RoutingContext, PluginError, Registry, Scorer, Scores};
///
/// /// Scores pods of one region 1 and all others `elsewhere`.
/// struct Region(Parameters);
///
/// #[derive(serde::Deserialize)]
/// struct Parameters {
///     region: String,
///     #[serde(default)]
///     elsewhere: f32,
/// }
///
/// impl Scorer for Region {
///     fn score(&self, context: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
///         scores.fill(|_| self.0.elsewhere);
///         scores.set_all(context.fleet().labelled("region", &self.0.region), 1.0);
///         Ok(())
///     }
/// }
///
/// let mut registry = <Registry>::new();
/// registry.scorer::<Parameters, _>("region", |parameters, _| Region(parameters))?;
///
/// let text = r#"{
///   "plugins": [{"type": "region", "parameters": {"regoin": "eu"}}],
///   "profiles": []
/// }"#;
/// let error = registry.read(&mut serde_json::Deserializer::from_str(text)).unwrap_err();
/// assert_eq!(error.line(), 2);
/// assert!(error.to_string().starts_with("plugin `region`: unknown parameter `regoin` (did you mean `region`?)"));
/// # Ok::<(), routing_core::TypeTaken>(())
/// ```
pub struct Registry<const W: usize = DEFAULT_POD_WORDS> {
    types: BTreeMap<Box<str>, PluginType<W>>,
}

/// A name for a plugin type that another type has already. A fault of the host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("plugin type `{name}` is registered already, as a {stage}")]
#[non_exhaustive]
pub struct TypeTaken {
    /// The name.
    pub name: Box<str>,
    /// What has it.
    pub stage: Stage,
}

/// How a plugin type is made, and of what.
pub(crate) struct PluginType<const W: usize> {
    pub(crate) stage: Stage,
    pub(crate) parameters: ParameterType,
    pub(crate) factory: Factory<W>,
}

/// Makes a plugin of parameters.
type Factory<const W: usize> = Box<dyn Fn(&Given) -> Result<MakePlugin<W>, ParameterError> + Send + Sync>;

/// The method that registers types of a stage.
macro_rules! register {
    ($(#[$doc:meta])* $method:ident, $plugin:ident, $stage:ident) => {
        $(#[$doc])*
        ///
        /// # Errors
        ///
        /// When the name is taken.
        pub fn $method<P, T>(
            &mut self,
            name: &str,
            make: impl Fn(P, &mut Declare<'_>) -> T + Send + Sync + 'static,
        ) -> Result<(), TypeTaken>
        where
            P: DeserializeOwned + Send + 'static,
            T: $plugin<W> + 'static,
        {
            let make = Arc::new(make);
            // Parameters are parsed now, and the plugin is made once it can declare.
            let factory: Factory<W> = Box::new(move |given| {
                let (parameters, make) = (parse::<P>(given)?, Arc::clone(&make));
                Ok(MakePlugin::$stage(Box::new(move |declare| Box::new(make(parameters, declare)))))
            });
            if let Some(taken) = self.types.get(name) {
                return Err(TypeTaken { name: name.into(), stage: taken.stage });
            }
            let parameters = ParameterType::of::<P>();
            self.types.insert(name.into(), PluginType { stage: Stage::$stage, parameters, factory });
            Ok(())
        }
    };
}

impl<const W: usize> Registry<W> {
    /// A registry without plugin types.
    #[must_use]
    pub fn new() -> Self {
        Self { types: BTreeMap::new() }
    }

    register! {
        /// Registers a type of preparer. `make` makes one, and declares on the way what it reads and writes.
        preparer, Preparer, Prepare
    }

    register! {
        /// Registers a type of filter.
        filter, Filter, Filter
    }

    register! {
        /// Registers a type of scorer.
        scorer, Scorer, Score
    }

    register! {
        /// Registers a type of picker.
        picker, Picker, Pick
    }

    register! {
        /// Registers a type of recorder.
        recorder, Recorder, Record
    }

    register! {
        /// Registers a type of condition, for the steps of a workflow.
        condition, Condition, Condition
    }

    /// Reads a document, and refuses at its place what this registry does not know.
    ///
    /// It ends at the first thing that is wrong, with the format's own error: YAML and JSON tell its line and column,
    /// TOML its span. A format that sorts keys, as TOML does unless told to preserve their order, hands over parameters
    /// before their type; what is wrong with them is then refused at the plugin. Names that refer to plugins, profiles and
    /// steps are refused where they stand if what they refer to stands in front, as it usually does; otherwise by
    /// [`Document::build`], which reports everything at once.
    ///
    /// # Errors
    ///
    /// As the format says; on unknown fields, types, parameters and names, with the nearest known one. Which parameters there
    /// are is known of derived structs; with a flattened field or a tag, they take what they do not refuse themselves.
    pub fn read<'de, D: Deserializer<'de>>(&self, deserializer: D) -> Result<Document, D::Error> {
        Document::read(self, deserializer)
    }

    /// A type; or the nearest that there is.
    pub(crate) fn of_type(&self, kind: &str) -> Result<&PluginType<W>, Option<&str>> {
        self.types.get(kind).ok_or_else(|| suggest(kind, self.types.keys().map(|known| &**known)))
    }
}

impl<const W: usize> Default for Registry<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const W: usize> std::fmt::Debug for Registry<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.types.iter().map(|(name, kind)| (name, kind.stage))).finish()
    }
}

impl<const W: usize> Vocabulary for Registry<W> {
    fn parameters(&self, kind: &str) -> Result<Option<&ParameterType>, Option<&str>> {
        self.of_type(kind).map(|kind| Some(&kind.parameters))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parameters::NoParameters;
    use crate::{PluginError, RoutingContext};

    struct Always;

    impl Condition for Always {
        fn holds(&self, _: &RoutingContext<'_>) -> Result<bool, PluginError> {
            Ok(true)
        }
    }

    #[test]
    fn a_name_is_registered_once() {
        let mut registry = <Registry>::new();
        let taken = TypeTaken { name: "always".into(), stage: Stage::Condition };
        assert_eq!(registry.condition::<NoParameters, _>("always", |_, _| Always), Ok(()));
        assert_eq!(registry.condition::<NoParameters, _>("always", |_, _| Always), Err(taken.clone()));
        assert_eq!(registry.condition::<NoParameters, _>("ever", |_, _| Always), Ok(()));
        assert_eq!(taken.to_string(), "plugin type `always` is registered already, as a condition");
        assert_eq!(format!("{registry:?}"), r#"{"always": Condition, "ever": Condition}"#);
    }

    #[test]
    fn a_registry_is_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Registry>();
    }
}
