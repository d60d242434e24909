//! The plugin registry: types by name, and factories from typed parameters.
//!
//! A type is registered in one line, with a type of its own for its parameters. Whatever can be wrong with parameters
//! is for that type to refuse when it is deserialized (`#[serde(try_from)]` lets it look at the whole), so that a
//! plugin is only ever made of parameters that are sound.

mod schema;

use std::collections::BTreeMap;
use std::sync::Arc;

use kv_index::DEFAULT_POD_WORDS;
use serde::de::DeserializeOwned;

use crate::declare::Declare;
use crate::parameters::{Given, ParameterType, parse};
use crate::plugin::{Condition, Filter, Picker, Preparer, Recorder, Scorer};
use crate::stage::{MakePlugin, Stage};

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
/// let workflow = document.build(&registry)?;
/// assert_eq!(workflow.warnings()[0].to_string().split(':').next(), Some("step `serve` has no filter for health"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// What is wrong is said where it stands, with the name that was probably meant.
///
/// ```
/// use routing_core::{RoutingContext, PluginError, Registry, Scorer, Scores};
/// use serde::de::DeserializeSeed;
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
/// let error = registry.load(|seed| seed.deserialize(&mut serde_json::Deserializer::from_str(text))).unwrap_err();
/// let (place, problem) = error.placed().next().expect("there is a problem");
/// assert_eq!((place.path().to_string().as_str(), place.line()), ("plugins[0].parameters.regoin", Some(2)));
/// assert_eq!(problem.to_string(), "plugin `region`: unknown parameter `regoin` (did you mean `region`?)");
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

/// Makes a plugin of parameters, unless they are refused.
type Factory<const W: usize> = Box<dyn Fn(&Given) -> Option<MakePlugin<W>> + Send + Sync>;

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
                let (parameters, make) = (parse::<P>(given).ok()?, Arc::clone(&make));
                Some(MakePlugin::$stage(Box::new(move |declare| Box::new(make(parameters, declare)))))
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

    /// The type of a name.
    pub(crate) fn get(&self, kind: &str) -> Option<&PluginType<W>> {
        self.types.get(kind)
    }

    /// The names of all types.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.types.keys().map(|name| &**name)
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
