//! Which plugin types there are, and how each is made of its parameters.
//!
//! A type is registered in one line, with a type of its own for its parameters. Whatever can be wrong with parameters
//! is for that type to refuse when it is deserialized (`#[serde(try_from)]` lets it look at the whole), so that a
//! plugin is only ever made of parameters that are sound.

mod schema;

use kv_index::DEFAULT_POD_WORDS;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};

use crate::condition::UnlessHeld;
use crate::declare::{Declare, Make};
use crate::document::{Document, PluginStage, Vocabulary};
use crate::nearest::nearest;
use crate::parameters::{Given, ParameterError, ParameterType, parse};
use crate::plugin::{Condition, Filter, Picker, Preparer, Recorder, Scorer};

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
/// assert!(error.to_string().starts_with("plugin `region`: unknown parameter `regoin` (is `region` meant?)"));
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
    pub stage: PluginStage,
}

/// How a plugin type is made, and of what.
pub(crate) struct PluginType<const W: usize> {
    pub(crate) parameters: ParameterType,
    pub(crate) factory: Factory<W>,
}

/// Makes a plugin of parameters.
pub(crate) enum Factory<const W: usize> {
    Preparer(MakeOf<dyn Preparer<W>>),
    Filter(MakeOf<dyn Filter<W>>),
    Scorer(MakeOf<dyn Scorer<W>>),
    Picker(MakeOf<dyn Picker<W>>),
    Recorder(MakeOf<dyn Recorder<W>>),
    Condition(MakeOf<dyn Condition<W>>),
}

pub(crate) type MakeOf<T> = Box<dyn Fn(&Given) -> Result<Make<T>, ParameterError> + Send + Sync>;

/// Registers a type: parses its parameters now, and makes the plugin once it can declare.
macro_rules! register {
    ($self:ident, $kind:ident, $name:ident, $make:ident) => {{
        let make = std::sync::Arc::new($make);
        let factory = Factory::$kind(Box::new(move |given| {
            let (parameters, make) = (parse::<P>(given)?, std::sync::Arc::clone(&make));
            Ok(Box::new(move |declare: &mut Declare<'_>| Box::new(make(parameters, declare)) as _))
        }));
        $self.register::<P>($name, factory)
    }};
}

impl<const W: usize> Registry<W> {
    /// A registry of what is in this crate: the condition `unless_held`.
    #[must_use]
    pub fn new() -> Self {
        let mut registry = Self { types: BTreeMap::new() };
        let unless_held = registry.condition::<UnlessHeldParameters, _>("unless_held", |parameters, declare| {
            UnlessHeld::<W>::declare(declare, &parameters.step, parameters.lacking)
        });
        debug_assert_eq!(unless_held, Ok(()), "an empty registry has no name taken");
        registry
    }

    /// Registers a type of preparer. `make` makes one, and declares on the way what it reads and writes.
    ///
    /// # Errors
    ///
    /// When the name is taken, here and below.
    pub fn preparer<P, T>(
        &mut self,
        name: &str,
        make: impl Fn(P, &mut Declare<'_>) -> T + Send + Sync + 'static,
    ) -> Result<(), TypeTaken>
    where
        P: DeserializeOwned + Send + 'static,
        T: Preparer<W> + 'static,
    {
        register!(self, Preparer, name, make)
    }

    /// Registers a type of filter.
    ///
    /// # Errors
    ///
    /// When the name is taken.
    pub fn filter<P, T>(
        &mut self,
        name: &str,
        make: impl Fn(P, &mut Declare<'_>) -> T + Send + Sync + 'static,
    ) -> Result<(), TypeTaken>
    where
        P: DeserializeOwned + Send + 'static,
        T: Filter<W> + 'static,
    {
        register!(self, Filter, name, make)
    }

    /// Registers a type of scorer.
    ///
    /// # Errors
    ///
    /// When the name is taken.
    pub fn scorer<P, T>(
        &mut self,
        name: &str,
        make: impl Fn(P, &mut Declare<'_>) -> T + Send + Sync + 'static,
    ) -> Result<(), TypeTaken>
    where
        P: DeserializeOwned + Send + 'static,
        T: Scorer<W> + 'static,
    {
        register!(self, Scorer, name, make)
    }

    /// Registers a type of picker.
    ///
    /// # Errors
    ///
    /// When the name is taken.
    pub fn picker<P, T>(
        &mut self,
        name: &str,
        make: impl Fn(P, &mut Declare<'_>) -> T + Send + Sync + 'static,
    ) -> Result<(), TypeTaken>
    where
        P: DeserializeOwned + Send + 'static,
        T: Picker<W> + 'static,
    {
        register!(self, Picker, name, make)
    }

    /// Registers a type of recorder.
    ///
    /// # Errors
    ///
    /// When the name is taken.
    pub fn recorder<P, T>(
        &mut self,
        name: &str,
        make: impl Fn(P, &mut Declare<'_>) -> T + Send + Sync + 'static,
    ) -> Result<(), TypeTaken>
    where
        P: DeserializeOwned + Send + 'static,
        T: Recorder<W> + 'static,
    {
        register!(self, Recorder, name, make)
    }

    /// Registers a type of condition, for the steps of a workflow.
    ///
    /// # Errors
    ///
    /// When the name is taken.
    pub fn condition<P, T>(
        &mut self,
        name: &str,
        make: impl Fn(P, &mut Declare<'_>) -> T + Send + Sync + 'static,
    ) -> Result<(), TypeTaken>
    where
        P: DeserializeOwned + Send + 'static,
        T: Condition<W> + 'static,
    {
        register!(self, Condition, name, make)
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
        self.types.get(kind).ok_or_else(|| nearest(kind, self.types.keys().map(|known| &**known)))
    }

    fn register<P: DeserializeOwned>(&mut self, name: &str, factory: Factory<W>) -> Result<(), TypeTaken> {
        if let Some(taken) = self.types.get(name) {
            return Err(TypeTaken { name: name.into(), stage: taken.factory.stage() });
        }
        self.types.insert(name.into(), PluginType { parameters: ParameterType::of::<P>(), factory });
        Ok(())
    }
}

impl<const W: usize> Default for Registry<W> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const W: usize> std::fmt::Debug for Registry<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.types.iter().map(|(name, kind)| (name, kind.factory.stage()))).finish()
    }
}

impl<const W: usize> Vocabulary for Registry<W> {
    fn parameters(&self, kind: &str) -> Result<Option<&ParameterType>, Option<&str>> {
        self.of_type(kind).map(|kind| Some(&kind.parameters))
    }
}

impl<const W: usize> Factory<W> {
    pub(crate) fn stage(&self) -> PluginStage {
        match self {
            Self::Preparer(_) => PluginStage::Preparer,
            Self::Filter(_) => PluginStage::Filter,
            Self::Scorer(_) => PluginStage::Scorer,
            Self::Picker(_) => PluginStage::Picker,
            Self::Recorder(_) => PluginStage::Recorder,
            Self::Condition(_) => PluginStage::Condition,
        }
    }
}

/// What `unless_held` takes.
#[derive(Deserialize)]
struct UnlessHeldParameters {
    /// The step whose pick is looked at.
    step: String,
    /// So many blocks it must lack.
    lacking: usize,
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
        let taken = TypeTaken { name: "unless_held".into(), stage: PluginStage::Condition };
        assert_eq!(registry.condition::<NoParameters, _>("unless_held", |_, _| Always), Err(taken.clone()));
        assert_eq!(registry.condition::<NoParameters, _>("always", |_, _| Always), Ok(()));
        assert_eq!(taken.to_string(), "plugin type `unless_held` is registered already, as a condition");
        assert_eq!(format!("{registry:?}"), r#"{"always": Condition, "unless_held": Condition}"#);
    }

    #[test]
    fn a_registry_is_shared_between_threads() {
        fn shared<T: Send + Sync>() {}
        shared::<Registry>();
    }
}
