//! Workflow documents: plugins by type and parameters, profiles of them, and the steps that use the profiles.
//!
//! A document is plain data. [`Registry::read`](crate::Registry::read) reads one and refuses what it does not know;
//! [`Document::build`] proves the whole and makes the workflow. Both list all that is wrong, each with its path, and
//! [`DocumentError::locate`] adds lines and columns; [`Registry::load`](crate::Registry::load) does it all in one call.
//! What is read is kept as it is written, so that a document that is read and written and read again is the same.

mod build;
mod locate;
mod nesting;
mod problem;
mod read;
mod values;
mod words;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;

use serde::Serialize;

pub use locate::DocumentSeed;
pub use nesting::{NestedTooDeep, check_nesting};
pub use problem::{DocumentError, Place, Problem};
pub(crate) use values::REFERENCE;
pub(crate) use words::Word;

use crate::fleet::Role;
use crate::plan::FailurePolicy;
use crate::profile::OnEmpty;
use crate::value::Value;

/// A workflow, its profiles and their plugins, as written by an operator.
///
/// A document with one profile needs no workflow: its one step is called as the profile is.
///
/// # Examples
///
/// ```
/// use routing_core::{NoParameters, Registry};
/// # use routing_core::{
/// #     Condition, PrefixMatches, Picker, PluginError, PrepareContext, Preparer, Ranking, Read, ReadPick, RoutingContext, Totals, Write,
/// # };
/// # struct Search(Write<PrefixMatches>);
/// # impl Preparer for Search {
/// #     fn prepare(&self, context: &mut PrepareContext<'_>) -> Result<(), PluginError> {
/// #         context.write(self.0)?;
/// #         Ok(())
/// #     }
/// # }
/// # #[derive(serde::Deserialize)]
/// # struct Lacking {
/// #     step: String,
/// #     blocks: usize,
/// # }
/// # struct Uncached(Read<PrefixMatches>, ReadPick, usize);
/// # impl Condition for Uncached {
/// #     fn holds(&self, context: &RoutingContext<'_>) -> Result<bool, PluginError> {
/// #         let (held, pick) = (context.read(self.0)?, context.pick(self.1)?);
/// #         Ok(held.blocks() - held.depth(pick) >= self.2)
/// #     }
/// # }
/// # #[derive(serde::Deserialize)]
/// # struct Most {
/// #     most: usize,
/// # }
/// # struct Best(usize);
/// # impl Picker for Best {
/// #     fn pick(&self, _: &RoutingContext<'_>, totals: &Totals<'_>, ranking: &mut Ranking) -> Result<(), PluginError> {
/// #         totals.rank(self.0, ranking);
/// #         Ok(())
/// #     }
/// # }
///
/// let mut registry = <Registry>::new();
/// registry.preparer::<NoParameters, _>("prefix_search", |_, declare| Search(declare.writes()))?;
/// registry.condition::<Lacking, _>("uncached", |parameters, declare| {
///     Uncached(declare.reads(), declare.reads_pick(&parameters.step), parameters.blocks)
/// })?;
/// registry.picker::<Most, _>("best", |parameters, _| Best(parameters.most))?;
///
/// let text = "
/// plugins:
///   - type: prefix_search     # its name, unless given, is its type
///   - name: best_of_three
///     type: best
///     parameters: { most: 3 }
/// profiles:
///   - { name: first, prepare: [prefix_search], pick: best_of_three }
///   - { name: second, pick: best_of_three }
/// workflow:
///   steps:
///     - { name: decode, profile: first, role: decode }
///     - name: prefill
///       profile: second
///       role: prefill
///       when: { type: uncached, parameters: { step: decode, blocks: 16 } }
///       on_failure: skip
///   executed_in: [prefill, decode]
/// ";
/// let document = registry.read(serde_yaml_ng::Deserializer::from_str(text))?;
/// let workflow = document.build(&registry)?;
/// assert_eq!(workflow.steps().collect::<Vec<_>>(), ["decode", "prefill"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// What two plugins must agree on is said once, under `values`:
///
/// ```yaml
/// values:
///   costs: { per_token: 2.0e-5 }
/// plugins:
///   - { type: first_token_scorer, parameters: { cost_model: { $value: costs } } }
///   - { type: prefill_queue_recorder, parameters: { cost_model: { $value: costs } } }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Document {
    /// The version of what documents may say; 1, unless given. No other is known yet.
    #[serde(skip_serializing_if = "is_current")]
    pub version: u32,
    /// Values by name, for what several plugins must agree on. A parameter `{ $value: NAME }` stands for one, and so does one inside of another.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, Value>,
    /// What profiles choose from. Each profile gets a plugin of its own of every definition it names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<PluginDefinition>,
    /// The profiles that steps choose from.
    pub profiles: Vec<ProfileDefinition>,
    /// The steps. Without it there is one profile, and one step of its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowDefinition>,
}

impl Document {
    /// The version that is read and built.
    pub const VERSION: u32 = 1;
}

impl Default for Document {
    /// An empty one, of the version that is built.
    fn default() -> Self {
        let (values, plugins, profiles) = Default::default();
        Self { version: Self::VERSION, values, plugins, profiles, workflow: None }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde wants it")]
fn is_current(version: &u32) -> bool {
    *version == Document::VERSION
}

/// A plugin or a condition: its type and parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(into = "words::WrittenPlugin")]
#[non_exhaustive]
pub struct PluginDefinition {
    /// What profiles call it; its type, unless given.
    pub name: String,
    /// Its type in the registry; `type` in a document.
    pub kind: String,
    /// What its type takes; `{ $value: NAME }` is one of the document's [values](Document::values).
    pub parameters: BTreeMap<String, Value>,
}

impl PluginDefinition {
    /// A plugin called as its type is, without parameters.
    #[must_use]
    pub fn new(kind: &str) -> Self {
        Self { name: kind.to_owned(), kind: kind.to_owned(), parameters: BTreeMap::new() }
    }
}

/// A profile: plugins by name, in the order they run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ProfileDefinition {
    /// What steps call it.
    pub name: String,
    /// Preparers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prepare: Vec<String>,
    /// Filters, each with what happens when it leaves nobody.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filter: Vec<FilterUse>,
    /// Scorers, each with its weight.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub score: Vec<ScorerUse>,
    /// The picker.
    pub pick: String,
    /// Recorders.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub record: Vec<String>,
}

impl ProfileDefinition {
    /// A profile that only picks.
    #[must_use]
    pub fn new(name: &str, pick: &str) -> Self {
        Self { name: name.to_owned(), pick: pick.to_owned(), ..Self::default() }
    }
}

/// A filter in a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FilterUse {
    /// The plugin's name.
    pub plugin: String,
    /// What happens when it leaves nobody; `fail`, unless given.
    #[serde(serialize_with = "words::write", skip_serializing_if = "words::is_default")]
    pub on_empty: OnEmpty,
}

impl FilterUse {
    /// A filter, and what happens when it leaves nobody.
    #[must_use]
    pub fn new(plugin: &str, on_empty: OnEmpty) -> Self {
        Self { plugin: plugin.to_owned(), on_empty }
    }
}

/// A scorer in a profile.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ScorerUse {
    /// The plugin's name.
    pub plugin: String,
    /// Its share in the total, in proportion to the sum of all weights.
    pub weight: f64,
}

impl ScorerUse {
    /// A scorer with its weight.
    #[must_use]
    pub fn new(plugin: &str, weight: f64) -> Self {
        Self { plugin: plugin.to_owned(), weight }
    }
}

/// The steps of a workflow, in the order they are decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WorkflowDefinition {
    /// The steps.
    pub steps: Vec<StepDefinition>,
    /// The order in which the steps are executed, if it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub executed_in: Option<Vec<String>>,
}

/// A step of a workflow.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StepDefinition {
    /// What other steps and plans call it.
    pub name: String,
    /// The profile that decides it.
    pub profile: String,
    /// The work that its pod is to do; `both`, unless given.
    #[serde(serialize_with = "words::write", skip_serializing_if = "words::is_default")]
    pub role: Role,
    /// The condition under which it is taken; always, unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<PluginDefinition>,
    /// What to do when its pod fails; `next_candidate`, unless given.
    #[serde(serialize_with = "words::write", skip_serializing_if = "words::is_default")]
    pub on_failure: FailurePolicy,
    /// How many candidates the plan keeps; three, unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ranked: Option<NonZeroUsize>,
    /// Whether an executor need not wait for the other steps.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub independent: bool,
}

impl StepDefinition {
    /// A step that selects by a profile: any role, always taken, three candidates, the next one on failure.
    #[must_use]
    pub fn new(name: &str, profile: &str) -> Self {
        Self { name: name.to_owned(), profile: profile.to_owned(), ..Self::default() }
    }
}
