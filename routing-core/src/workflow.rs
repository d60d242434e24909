//! A workflow: steps that are decided one after the other over one context, proven to fit together before it runs.

use kv_index::DEFAULT_POD_WORDS;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::check;
use crate::declare::Layout;
use crate::fault::{BuildError, Warning};
use crate::held::Held;
use crate::plan::FailurePolicy;
use crate::slot::{At, Brand, SlotInfo};
use crate::step::{Step, StepBuilder};
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
            steps.push(builder.assemble(at, &mut layout, &mut nodes));
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
