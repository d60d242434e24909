//! A workflow: steps that are decided one after the other over one context, proven to fit together before it runs.

use kv_index::DEFAULT_POD_WORDS;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::check::{self, Node, NodeStage};
use crate::declare::{Declare, Layout, Make};
use crate::fault::{BuildError, Warning};
use crate::fleet::Role;
use crate::held::Held;
use crate::plan::FailurePolicy;
use crate::plugin::{Condition, Filter, Picker, Preparer, Recorder, Scorer};
use crate::profile::{OnEmpty, ProfileBuilder, Stage};
use crate::slot::{At, Brand, SlotInfo};
use crate::workspace::Workspace;

/// What turns requests into plans: immutable, shared between threads, and known to fit together.
pub struct Workflow<const W: usize = DEFAULT_POD_WORDS> {
    pub(crate) brand: Brand,
    pub(crate) slots: Vec<SlotInfo>,
    /// In the order they are decided.
    pub(crate) steps: Vec<Step<W>>,
    /// Where what pods hold of the prompt is written, if anything writes it.
    pub(crate) held: Option<At>,
    pub(crate) warnings: Vec<Warning>,
    /// What it was built from, if it was a document.
    #[cfg(feature = "serde")]
    pub(crate) document: Option<Arc<crate::document::Document>>,
}

pub(crate) struct Step<const W: usize> {
    pub(crate) name: Arc<str>,
    pub(crate) role: Role,
    pub(crate) condition: Option<Named<Box<dyn Condition<W>>>>,
    pub(crate) preparers: Vec<Named<Prepare<W>>>,
    pub(crate) filters: Vec<Named<(OnEmpty, Box<dyn Filter<W>>)>>,
    pub(crate) scorers: Vec<Named<(f32, Box<dyn Scorer<W>>)>>,
    pub(crate) picker: Option<Named<Box<dyn Picker<W>>>>,
    pub(crate) recorders: Vec<Named<Box<dyn Recorder<W>>>>,
    pub(crate) on_failure: FailurePolicy,
    pub(crate) ranked: usize,
    pub(crate) independent: bool,
    /// When it is executed.
    pub(crate) order: u16,
}

pub(crate) struct Prepare<const W: usize> {
    pub(crate) plugin: Box<dyn Preparer<W>>,
    /// What it declared to write.
    pub(crate) writes: Vec<(u16, &'static str)>,
}

pub(crate) struct Named<P> {
    pub(crate) name: Arc<str>,
    pub(crate) plugin: P,
}

impl<const W: usize> Workflow<W> {
    /// What works, and was hardly meant.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The steps, in the order they are decided.
    pub fn steps(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map(|step| &*step.name)
    }

    /// Buffers for decisions of this workflow. Keep one for each thread, or a pool of them.
    #[must_use]
    pub fn workspace(&self) -> Workspace<W> {
        Workspace::new(self.brand, &self.slots, self.steps.len())
    }
}

impl<const W: usize> fmt::Debug for Workflow<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workflow").field("steps", &self.steps().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}

/// The condition of a step under construction.
struct StepCondition<const W: usize> {
    name: Arc<str>,
    kind: Box<str>,
    make: Make<dyn Condition<W>>,
}

/// A step under construction.
#[must_use]
pub struct StepBuilder<const W: usize = DEFAULT_POD_WORDS> {
    name: Arc<str>,
    role: Role,
    profile: ProfileBuilder<W>,
    condition: Option<StepCondition<W>>,
    on_failure: FailurePolicy,
    ranked: usize,
    independent: bool,
}

impl<const W: usize> StepBuilder<W> {
    /// A step that selects by a profile: any role, always taken, three candidates, the next one on failure.
    pub fn new(name: &str, profile: ProfileBuilder<W>) -> Self {
        Self {
            name: name.into(),
            role: Role::Both,
            profile,
            condition: None,
            on_failure: FailurePolicy::default(),
            ranked: 3,
            independent: false,
        }
    }

    /// The work that the step's pod is to do.
    pub fn role(self, role: Role) -> Self {
        Self { role, ..self }
    }

    /// What to do when the step's pod fails.
    pub fn on_failure(self, on_failure: FailurePolicy) -> Self {
        Self { on_failure, ..self }
    }

    /// How many candidates the plan keeps, at least one.
    pub fn ranked(self, most: usize) -> Self {
        Self { ranked: most.max(1), ..self }
    }

    /// Takes the step only where a condition holds.
    pub fn when<C>(self, name: &str, declare: impl FnOnce(&mut Declare<'_>) -> C + Send + 'static) -> Self
    where
        C: Condition<W> + 'static,
    {
        let make: Make<dyn Condition<W>> = Box::new(|d| Box::new(declare(d)));
        Self { condition: Some(StepCondition { name: name.into(), kind: name.into(), make }), ..self }
    }

    /// Says of which type the condition is, where it is not called as its type.
    #[cfg(feature = "serde")]
    pub(crate) fn condition_type(mut self, kind: &str) -> Self {
        if let Some(condition) = &mut self.condition {
            condition.kind = kind.into();
        }
        self
    }

    /// Marks the step as independent of the others' picks: an executor need not wait for them. Its plugins must not read a
    /// pick; what reaches them through slots is theirs to answer for.
    pub fn independent(self) -> Self {
        Self { independent: true, ..self }
    }
}

impl<const W: usize> fmt::Debug for StepBuilder<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepBuilder").field("name", &self.name).field("profile", &self.profile).finish_non_exhaustive()
    }
}

/// A workflow under construction.
///
/// # Examples
///
/// Decode is decided first; prefill is executed first, and skipped where the decode pod holds enough.
///
/// ```
/// use routing_core::{
///     RoutingContext, Declare, PluginError, Picker, ProfileBuilder, Ranking, Role, StepBuilder, Totals, WorkflowBuilder,
/// };
///
/// struct Best;
/// impl Picker for Best {
///     fn pick(&self, _: &RoutingContext<'_>, totals: &Totals<'_>, ranking: &mut Ranking) -> Result<(), PluginError> {
///         totals.rank(3, ranking);
///         Ok(())
///     }
/// }
///
/// let profile = |name| ProfileBuilder::new(name).picker("best", |_: &mut Declare<'_>| Best);
/// let workflow = <WorkflowBuilder>::new()
///     .step(StepBuilder::new("decode", profile("decode")).role(Role::Decode))
///     .step(StepBuilder::new("prefill", profile("prefill")).role(Role::Prefill))
///     .executed_in(&["prefill", "decode"])
///     .build()?;
/// assert_eq!(workflow.steps().collect::<Vec<_>>(), ["decode", "prefill"]);
/// # Ok::<(), routing_core::BuildError>(())
/// ```
#[derive(Debug, Default)]
#[must_use]
pub struct WorkflowBuilder<const W: usize = DEFAULT_POD_WORDS> {
    steps: Vec<StepBuilder<W>>,
    executed: Option<Vec<Arc<str>>>,
}

impl<const W: usize> WorkflowBuilder<W> {
    /// A workflow without steps.
    pub fn new() -> Self {
        Self { steps: Vec::new(), executed: None }
    }

    /// Adds a step, decided after those that are there.
    pub fn step(mut self, step: StepBuilder<W>) -> Self {
        self.steps.push(step);
        self
    }

    /// The order in which the steps are executed, if it is not the one in which they are decided.
    pub fn executed_in(self, steps: &[&str]) -> Self {
        Self { executed: Some(steps.iter().map(|name| Arc::from(*name)).collect()), ..self }
    }

    /// Makes every plugin and checks them together.
    ///
    /// # Errors
    ///
    /// With every fault there is.
    pub fn build(self) -> Result<Workflow<W>, BuildError> {
        let names: Vec<Arc<str>> = self.steps.iter().map(|step| Arc::clone(&step.name)).collect();
        let mut layout = Layout::new(next_brand(), names.clone());
        let mut nodes = Vec::new();
        let mut steps: Vec<Step<W>> = Vec::new();
        for (at, builder) in self.steps.into_iter().enumerate() {
            steps.push(assemble(at, builder, &mut layout, &mut nodes));
        }
        let mut faults = check::faults(&layout, &steps_of(&steps), &nodes);
        let executed = self.executed.unwrap_or_else(|| names.clone());
        faults.extend(check::execution_order(&names, &executed));
        if !faults.is_empty() {
            return Err(BuildError { faults });
        }
        for step in &mut steps {
            let order = executed.iter().position(|name| *name == step.name);
            step.order = order.unwrap_or_default() as u16;
        }
        let held = layout.slots.iter().position(|slot| slot.id == std::any::TypeId::of::<Held<W>>());
        let held = held.map(|index| At { brand: layout.brand, index: index as u16 });
        let warnings = check::warnings(&layout, &nodes, held.map(|at| at.index));
        Ok(Workflow {
            brand: layout.brand,
            slots: layout.slots,
            steps,
            held,
            warnings,
            #[cfg(feature = "serde")]
            document: None,
        })
    }
}

/// Makes a step's plugins, taking down what each declares.
fn assemble<const W: usize>(at: usize, builder: StepBuilder<W>, layout: &mut Layout, nodes: &mut Vec<Node>) -> Step<W> {
    let mut step = Step {
        name: builder.name,
        role: builder.role,
        condition: None,
        preparers: Vec::new(),
        filters: Vec::new(),
        scorers: Vec::new(),
        picker: None,
        recorders: Vec::new(),
        on_failure: builder.on_failure,
        ranked: builder.ranked,
        independent: builder.independent,
        order: 0,
    };
    let mut weights = Vec::new();
    let mut own = Vec::new();
    let mut note = |name: &Arc<str>, kind: &str, stage, declared| {
        own.push(Node { step: at, name: Arc::clone(name), kind: kind.into(), stage, declared });
    };
    if let Some(StepCondition { name, kind, make }) = builder.condition {
        let (plugin, declared) = layout.declare(make);
        note(&name, &kind, NodeStage::Condition, declared);
        step.condition = Some(Named { name, plugin });
    }
    for entry in builder.profile.entries {
        let (name, kind) = (entry.name, entry.kind);
        match entry.make {
            Stage::Prepare(make) => {
                let (plugin, declared) = layout.declare(make);
                let writes =
                    declared.writes.iter().map(|slot| (*slot, layout.slots[usize::from(*slot)].name)).collect();
                note(&name, &kind, NodeStage::Prepare, declared);
                step.preparers.push(Named { name, plugin: Prepare { plugin, writes } });
            }
            Stage::Filter(on_empty, make) => {
                let (plugin, declared) = layout.declare(make);
                note(&name, &kind, NodeStage::Filter, declared);
                step.filters.push(Named { name, plugin: (on_empty, plugin) });
            }
            Stage::Score(weight, make) => {
                let (plugin, declared) = layout.declare(make);
                note(&name, &kind, NodeStage::Score(weight), declared);
                weights.push(weight);
                step.scorers.push(Named { name, plugin: (0.0, plugin) });
            }
            Stage::Pick(make) => {
                let (plugin, declared) = layout.declare(make);
                note(&name, &kind, NodeStage::Pick, declared);
                step.picker.get_or_insert(Named { name, plugin });
            }
            Stage::Record(make) => {
                let (plugin, declared) = layout.declare(make);
                note(&name, &kind, NodeStage::Record, declared);
                step.recorders.push(Named { name, plugin });
            }
        }
    }
    // Stages run one after the other, whatever the order in which their plugins were added.
    own.sort_by_key(|node| node.stage.rank());
    nodes.append(&mut own);
    // In doubles: singles neither hold the sum of the largest weights nor the smallest weight.
    let sum: f64 = weights.iter().sum();
    step.scorers.iter_mut().zip(weights).for_each(|(scorer, weight)| scorer.plugin.0 = (weight / sum) as f32);
    step
}

fn steps_of<const W: usize>(steps: &[Step<W>]) -> Vec<check::StepInfo> {
    let info = |step: &Step<W>| check::StepInfo {
        name: Arc::clone(&step.name),
        conditional: step.condition.is_some(),
        skippable: step.on_failure == FailurePolicy::Skip && steps.len() > 1,
        independent: step.independent,
    };
    steps.iter().map(info).collect()
}

/// Tells builds apart. It decides nothing: two builds of the same profile still decide alike.
fn next_brand() -> Brand {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // Relaxed: only the numbers matter, and each is handed out once.
    Brand(NEXT.fetch_add(1, Ordering::Relaxed))
}
