//! Profiles, however they are given: a stock one by name, a function over the plugin state, a document.

use std::error::Error;

use routing_core::{BuildError, DEFAULT_POD_WORDS, ProfileBuilder, Selector, Workflow, WorkflowBuilder};
use routing_plugins::PluginState;
use routing_plugins::profiles::{NAMES, StockProfile};

/// How pods are chosen: what [`RouterBuilder::profile`](crate::RouterBuilder::profile) takes.
///
/// Implemented for the names of [stock profiles](routing_plugins::profiles), and for functions that build one over the
/// router's [`PluginState`]: the stock profiles themselves are such functions. A router that learns of another tokenizer or
/// index builds its profile again, so it may be called more than once.
///
/// # Examples
///
/// ```
/// use pointsman::plugins::{PluginState, profiles};
/// use pointsman::{Router, named};
///
/// Router::builder("llama-8b").profile("least_load").build()?;
/// Router::builder("llama-8b").profile(profiles::cache_aware).build()?;
/// Router::builder("llama-8b").profile(|state: &PluginState| profiles::round_robin(state).build()).build()?;
///
/// // A function's profile is called by its steps, unless it is named.
/// let router = Router::builder("llama-8b").profile(named("night", profiles::least_load)).build()?;
/// assert_eq!(&*router.profile(), "night");
///
/// let error = Router::builder("llama-8b").profile("cash_aware").build().unwrap_err();
/// assert!(error.to_string().contains("cache_aware"));
/// # Ok::<(), pointsman::RouterError>(())
/// ```
pub trait Profile<const W: usize = DEFAULT_POD_WORDS>: Send + Sync {
    /// Its name, in metrics and on pages. Empty unless given: it is called by its steps then.
    fn name(&self) -> &str {
        ""
    }

    /// Builds it over what plugins share.
    ///
    /// # Errors
    ///
    /// With every fault there is.
    fn workflow(&self, state: &PluginState<W>) -> Result<Workflow<W>, ProfileError>;
}

/// A profile under a name of one's own: what [`Router::profile`](crate::Router::profile) then tells.
pub fn named<const W: usize>(name: impl Into<String>, profile: impl Profile<W>) -> impl Profile<W> {
    Named { name: name.into(), profile }
}

struct Named<P> {
    name: String,
    profile: P,
}

impl<const W: usize, P: Profile<W>> Profile<W> for Named<P> {
    fn name(&self) -> &str {
        &self.name
    }

    fn workflow(&self, state: &PluginState<W>) -> Result<Workflow<W>, ProfileError> {
        self.profile.workflow(state)
    }
}

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// No stock profile has this name.
    #[error("there is no stock profile `{name}`; {suggestion}", suggestion = suggestion(.name))]
    Unknown {
        /// What was given.
        name: Box<str>,
    },
    /// Its plugins do not fit together.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Whoever makes it failed: its document is wrong, or could not be read.
    #[error(transparent)]
    Other(Box<dyn Error + Send + Sync>),
}

fn suggestion(name: &str) -> String {
    match routing_core::suggest(name, NAMES) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("there are {}", NAMES.join(", ")),
    }
}

impl<const W: usize> Profile<W> for &'static str {
    fn name(&self) -> &str {
        self
    }

    fn workflow(&self, state: &PluginState<W>) -> Result<Workflow<W>, ProfileError> {
        (*self).to_owned().workflow(state)
    }
}

impl<const W: usize> Profile<W> for String {
    fn name(&self) -> &str {
        self
    }

    fn workflow(&self, state: &PluginState<W>) -> Result<Workflow<W>, ProfileError> {
        let stock = StockProfile::find(self).ok_or_else(|| ProfileError::Unknown { name: self.as_str().into() })?;
        Ok((stock.build)(state)?)
    }
}

impl<const W: usize, F, B> Profile<W> for F
where
    F: Fn(&PluginState<W>) -> B + Send + Sync,
    B: IntoWorkflow<W>,
{
    fn workflow(&self, state: &PluginState<W>) -> Result<Workflow<W>, ProfileError> {
        self(state).into_workflow()
    }
}

/// What a function may make a profile of.
pub trait IntoWorkflow<const W: usize = DEFAULT_POD_WORDS> {
    /// The workflow.
    ///
    /// # Errors
    ///
    /// With every fault there is.
    fn into_workflow(self) -> Result<Workflow<W>, ProfileError>;
}

impl<const W: usize> IntoWorkflow<W> for ProfileBuilder<W> {
    fn into_workflow(self) -> Result<Workflow<W>, ProfileError> {
        Ok(self.build()?.into())
    }
}

impl<const W: usize> IntoWorkflow<W> for WorkflowBuilder<W> {
    fn into_workflow(self) -> Result<Workflow<W>, ProfileError> {
        Ok(self.build()?)
    }
}

impl<const W: usize> IntoWorkflow<W> for Workflow<W> {
    fn into_workflow(self) -> Result<Workflow<W>, ProfileError> {
        Ok(self)
    }
}

impl<const W: usize> IntoWorkflow<W> for Selector<W> {
    fn into_workflow(self) -> Result<Workflow<W>, ProfileError> {
        Ok(self.into())
    }
}

impl<const W: usize, B: IntoWorkflow<W>, E: Into<Box<dyn Error + Send + Sync>>> IntoWorkflow<W> for Result<B, E> {
    fn into_workflow(self) -> Result<Workflow<W>, ProfileError> {
        self.map_err(|error| ProfileError::Other(error.into()))?.into_workflow()
    }
}

/// Builds a profile from a document of stock plugins, in whatever format serde reads.
///
/// # Errors
///
/// Every problem of the document.
///
/// # Examples
///
/// ```
/// use pointsman::plugins::PluginState;
/// use pointsman::{Router, document};
///
/// const PROFILE: &str = r#"{"plugins": [{"type": "round_robin_picker"}],
///     "profiles": [{"name": "serve", "pick": "round_robin_picker"}]}"#;
///
/// let json = |state: &PluginState| document(&mut serde_json::Deserializer::from_str(PROFILE), state);
/// Router::builder("llama-8b").profile(json).build()?;
/// # Ok::<(), pointsman::RouterError>(())
/// ```
#[cfg(feature = "serde")]
pub fn document<'de, const W: usize>(
    document: impl serde::Deserializer<'de>,
    state: &PluginState<W>,
) -> Result<Workflow<W>, ProfileError> {
    let other = |error: Box<dyn Error + Send + Sync>| ProfileError::Other(error);
    let mut registry = routing_core::Registry::new();
    routing_plugins::register(&mut registry, state).map_err(|error| other(Box::new(error)))?;
    // An error of the format may be neither `Send` nor `'static`: its text is what counts.
    let document = registry.read(document).map_err(|error| other(error.to_string().into()))?;
    document.build(&registry).map_err(|error| other(error.to_string().into()))
}
