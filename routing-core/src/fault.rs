//! Faults and warnings of validation, each fault with its fix.

use std::fmt;
use std::sync::Arc;

use crate::fleet::Role;
use crate::path::{Path, Site};
use crate::suggest::DidYouMean;

/// A plugin in a workflow: its step and its name there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_structs, reason = "a place in a workflow: complete by nature")]
pub struct PluginName {
    /// The step.
    pub step: Arc<str>,
    /// The plugin's name in it.
    pub plugin: Arc<str>,
}

impl fmt::Display for PluginName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.step, self.plugin)
    }
}

/// One thing that is wrong with how a workflow is put together. The operator who wrote the profile can fix it.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// A slot is read and never written.
    #[error("`{reader}` reads slot `{slot}`, which nothing writes: add a preparer that writes it before `{reader}`")]
    NoWriter {
        /// Who reads.
        reader: PluginName,
        /// What.
        slot: &'static str,
    },
    /// A slot is read before it is written.
    #[error("`{reader}` reads slot `{slot}` before `{writer}` writes it: move `{writer}` before `{reader}`")]
    WriterAfterReader {
        /// Who reads.
        reader: PluginName,
        /// Who writes.
        writer: PluginName,
        /// What.
        slot: &'static str,
    },
    /// A slot is read after a step that may be skipped, and written only in that step.
    #[error(
        "`{reader}` reads slot `{slot}`, which only `{writer}` writes, in a step that may be skipped: move `{writer}` to an unconditional step, or read it optionally"
    )]
    WriterMayBeSkipped {
        /// Who reads.
        reader: PluginName,
        /// Who writes.
        writer: PluginName,
        /// What.
        slot: &'static str,
    },
    /// Two plugins write one slot.
    #[error("slot `{slot}` is written by `{first}` and by `{second}`: remove one of them")]
    TwoWriters {
        /// What.
        slot: &'static str,
        /// The first that writes.
        first: PluginName,
        /// Another one.
        second: PluginName,
    },
    /// A plugin that is no preparer declares to write.
    #[error("`{plugin}` declares to write slot `{slot}` but is no preparer: only preparers write, so let one do it")]
    WriteOutsidePrepare {
        /// Who.
        plugin: PluginName,
        /// What.
        slot: &'static str,
    },
    /// Plugins wait for each other: no order suits them.
    #[error("{} wait for each other: break the circle by removing one of them", Circle(path))]
    Cycle {
        /// Each must run before the next, and the last before the first.
        path: Vec<PluginName>,
    },
    /// A plugin that another one needs is not there.
    #[error("`{plugin}` requires `{requires}`, which is not in its step: add it, or remove `{plugin}`")]
    MissingDependency {
        /// Who needs.
        plugin: PluginName,
        /// Whom.
        requires: Box<str>,
    },
    /// Two plugins that exclude each other.
    #[error("`{plugin}` conflicts with `{other}`: remove one of them")]
    Conflict {
        /// Who excludes.
        plugin: PluginName,
        /// Whom.
        other: PluginName,
    },
    /// Two plugins are in the wrong order.
    #[error(
        "`{first}` must run before `{second}`, as `{declared_by}` declares: swap them, or remove `{declared_by}` where stages forbid that"
    )]
    OrderBroken {
        /// Who must run first.
        first: PluginName,
        /// Who must run after.
        second: PluginName,
        /// Who says so.
        declared_by: PluginName,
    },
    /// Two plugins of a step have one name.
    #[error("two plugins are called `{plugin}`: rename one of them")]
    DuplicatePlugin {
        /// The name.
        plugin: PluginName,
    },
    /// Two steps have one name.
    #[error("two steps are called `{step}`: rename one of them")]
    DuplicateStep {
        /// The name.
        step: Arc<str>,
    },
    /// A workflow without steps.
    #[error("the workflow has no step: add one")]
    NoStep,
    /// A workflow with more steps than it may have.
    #[error("the workflow has {steps} steps, of at most {most}: split it")]
    TooManySteps {
        /// How many there are.
        steps: usize,
        /// How many there may be.
        most: usize,
    },
    /// A step without a picker.
    #[error("step `{step}` has no picker: add one")]
    NoPicker {
        /// The step.
        step: Arc<str>,
    },
    /// A step with two pickers.
    #[error("step `{}` has a second picker, `{}`: remove it", picker.step, picker.plugin)]
    SecondPicker {
        /// The picker that is one too many.
        picker: PluginName,
    },
    /// A weight that is negative, infinite or not a number.
    #[error("the weight of `{scorer}` is {weight}: give it a finite number from 0 on, of at most 3e38")]
    BadWeight {
        /// Whose.
        scorer: PluginName,
        /// What it is.
        weight: f64,
    },
    /// A step whose scorers all have weight 0.
    #[error("all scorers of step `{step}` have weight 0: give one of them some")]
    ZeroWeights {
        /// The step.
        step: Arc<str>,
    },
    /// Two slots of different types have one name.
    #[error("slot name `{slot}` stands for two types, `{first}` and `{second}`: rename one of the slots")]
    SlotNameClash {
        /// The name.
        slot: &'static str,
        /// One type.
        first: &'static str,
        /// The other.
        second: &'static str,
    },
    /// A plugin reads the pick of a step that there is not.
    #[error(
        "`{reader}` reads the pick of step `{step}`, which there is not{}: name a step that is decided before",
        DidYouMean(suggestion.as_deref())
    )]
    UnknownStep {
        /// Who reads.
        reader: PluginName,
        /// The name it gives.
        step: Box<str>,
        /// A step with a name like it.
        suggestion: Option<Arc<str>>,
    },
    /// A plugin reads the pick of a step that is decided with it or after it.
    #[error(
        "`{reader}` reads the pick of step `{step}`, which is not decided by then: decide `{step}` in an earlier step, or do not read it"
    )]
    PickNotYet {
        /// Who reads.
        reader: PluginName,
        /// The step.
        step: Arc<str>,
    },
    /// A plugin relies on the pick of a step that may be skipped.
    #[error("`{reader}` relies on the pick of step `{step}`, which may be skipped: read it optionally")]
    PickMayBeMissing {
        /// Who reads.
        reader: PluginName,
        /// The step.
        step: Arc<str>,
    },
    /// A step that is marked as independent reads another's pick.
    #[error("step `{}` is marked as independent, but `{reader}` reads the pick of `{step}`: remove the mark", reader.step)]
    NotIndependent {
        /// Who reads.
        reader: PluginName,
        /// The step whose pick it reads.
        step: Arc<str>,
    },
    /// The order of execution does not name each step once.
    #[error("the order of execution does not name step `{step}` exactly once: name every step, once")]
    ExecutionOrder {
        /// The step that is missing, repeated or unknown.
        step: Arc<str>,
    },
    /// Something that was hardly meant, in a workflow that is built strictly.
    #[error(transparent)]
    Warning(#[from] Warning),
}

/// Something that works, and that an operator hardly meant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Warning {
    /// A slot is written and never read.
    #[error("`{writer}` writes slot `{slot}`, which nothing reads")]
    UnreadSlot {
        /// Who writes.
        writer: PluginName,
        /// What.
        slot: &'static str,
    },
    /// A step has a role, and no filter leaves out pods of other roles.
    #[error("step `{step}` is to {}, and no filter leaves out pods that do not: add a role filter", verb(*role))]
    RoleNotFiltered {
        /// The step.
        step: Arc<str>,
        /// Its role.
        role: Role,
    },
    /// A step may be decided for a pod that is known to be ill.
    #[error("step `{step}` has no filter for health: add one, or requests go to pods that are known to be ill")]
    NoHealthFilter {
        /// The step.
        step: Arc<str>,
    },
    /// What is decoded is not prefilled by then.
    #[error("step `{decode}` decodes before step `{prefill}` prefills: execute `{prefill}` first")]
    DecodeBeforePrefill {
        /// The step that is executed too soon.
        decode: Arc<str>,
        /// The one that should be before it.
        prefill: Arc<str>,
    },
    /// The step that is executed last cannot be done without.
    #[error(
        "step `{step}` is to be skipped when it fails, but is executed last, and nothing is answered without it: choose another failure policy"
    )]
    SkipOnLastStep {
        /// The step.
        step: Arc<str>,
    },
    /// A picker that does not look at scores has scorers beside it.
    #[error(
        "`{picker}` does not look at scores, and its step has {scorers} scorer{}: remove {}, or take another picker",
        if *scorers == 1 { "" } else { "s" },
        if *scorers == 1 { "it" } else { "them" }
    )]
    ScoresIgnored {
        /// The picker.
        picker: PluginName,
        /// How many scorers are in its step.
        scorers: usize,
    },
    /// A plugin goes by what nobody keeps.
    #[error("`{reader}` goes by the {memory}, which nothing records: add a recorder of it")]
    NeverRecorded {
        /// Who goes by it.
        reader: PluginName,
        /// What.
        memory: &'static str,
    },
    /// A plugin goes by what another one keeps by other terms, such as another cost model or another table.
    #[error(
        "`{reader}` goes by the {memory}, which `{recorder}` records by other terms: give both the same parameters"
    )]
    OtherTerms {
        /// Who goes by it.
        reader: PluginName,
        /// Who keeps it.
        recorder: PluginName,
        /// What.
        memory: &'static str,
    },
    /// Something has no name to be told by.
    #[error("the name of a {what} is empty: give it one")]
    EmptyName {
        /// What kind of thing it is.
        what: &'static str,
    },
    /// A profile is defined, and no step selects by it. It is not proven either.
    #[error("profile `{profile}` is defined, and no step uses it")]
    UnusedProfile {
        /// Its name.
        profile: Box<str>,
    },
    /// A value of a document is defined, and no parameter refers to it.
    #[error("value `{value}` is defined, and no parameter refers to it")]
    UnusedValue {
        /// Its name.
        value: Box<str>,
    },
    /// A plugin is defined, and no profile that is used has it.
    #[error("plugin `{plugin}` is defined, and no stage uses it")]
    UnusedPlugin {
        /// Its name.
        plugin: Box<str>,
    },
}

/// Why a workflow does not build: everything that is wrong with it.
#[derive(Clone, Debug, PartialEq)]
pub struct BuildError {
    faults: Vec<Fault>,
    /// As many as faults.
    sites: Vec<Site>,
}

impl BuildError {
    pub(crate) fn new(faults: Vec<(Site, Fault)>) -> Self {
        let (sites, faults) = faults.into_iter().unzip();
        Self { faults, sites }
    }

    /// Every fault; never empty.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// Every fault with where it is, such as `steps[0].score[1].weight`.
    pub fn placed(&self) -> impl Iterator<Item = (Path, &Fault)> {
        self.sites.iter().map(|site| site.path()).zip(&self.faults)
    }

    /// The faults and what each is about.
    #[cfg(feature = "serde")]
    pub(crate) fn into_sited(self) -> impl Iterator<Item = (Site, Fault)> {
        self.sites.into_iter().zip(self.faults)
    }
}

impl std::error::Error for BuildError {}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} fault{}", self.faults.len(), if self.faults.len() == 1 { "" } else { "s" })?;
        self.placed().try_for_each(|(path, fault)| write!(f, "\n  - {path}: {fault}"))
    }
}

/// What a role is to do.
fn verb(role: Role) -> &'static str {
    match role {
        Role::Prefill => "prefill",
        Role::Decode => "decode",
        Role::Encode => "encode",
        Role::Both => "prefill and decode",
    }
}

struct Circle<'f>(&'f [PluginName]);

impl fmt::Display for Circle<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|plugin| write!(f, "`{plugin}` → "))?;
        self.0.first().map_or(Ok(()), |first| write!(f, "`{first}`"))
    }
}
