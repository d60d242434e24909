//! A workflow: selectors composed into steps over one context, validated together before it runs.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use kv_index::DEFAULT_POD_WORDS;

use crate::check::{self, Sited};
use crate::declare::Layout;
use crate::fault::{BuildError, Fault, Warning};
use crate::fleet::Role;
use crate::path::Path;
use crate::selector::Selector;
use crate::step::{Step, StepBuilder};
use crate::workspace::Workspace;

/// One or more selectors over one context, each a step of the plan: immutable, shared between threads, validated as a whole.
pub struct Workflow<const W: usize = DEFAULT_POD_WORDS> {
    pub(crate) layout: Layout,
    /// In the order they are decided.
    pub(crate) steps: Vec<Step<W>>,
    pub(crate) warnings: Vec<Warning>,
    /// As many as warnings.
    pub(crate) warned: Vec<Path>,
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

    /// The same, each with where it is: in the document, if it was built from one, such as `workflow.steps[0].role`.
    pub fn placed_warnings(&self) -> impl Iterator<Item = (&Path, &Warning)> {
        self.warned.iter().zip(&self.warnings)
    }

    /// The steps, in the order they are decided.
    pub fn steps(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().map(|step| &*step.name)
    }

    /// The steps with their roles, in the same order: for executors to check that they can carry them out.
    pub fn roles(&self) -> impl Iterator<Item = (&str, Role)> {
        self.steps.iter().map(|step| (&*step.name, step.role))
    }

    /// Buffers for decisions of this workflow. Keep one for each thread, or a pool of them.
    #[must_use]
    pub fn workspace(&self) -> Workspace<W> {
        Workspace::new(&self.layout)
    }
}

impl<const W: usize> From<Selector<W>> for Workflow<W> {
    /// A workflow of one step, called as the selector is.
    fn from(selector: Selector<W>) -> Self {
        selector.0
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
        let (mut workflow, warnings) = self.assemble()?;
        for (site, warning) in warnings {
            workflow.warned.push(site.path());
            workflow.warnings.push(warning);
        }
        Ok(workflow)
    }

    /// As [`build`](Self::build), and what works but was hardly meant is a fault too.
    ///
    /// # Errors
    ///
    /// With every fault there is, or else with every warning.
    pub fn build_strict(self) -> Result<Workflow<W>, BuildError> {
        let (workflow, warnings) = self.assemble()?;
        if warnings.is_empty() {
            return Ok(workflow);
        }
        Err(BuildError::new(warnings.into_iter().map(|(site, warning)| (site, Fault::Warning(warning))).collect()))
    }

    /// The workflow, and what it is to be warned of.
    pub(crate) fn assemble(self) -> Result<(Workflow<W>, Sited<Warning>), BuildError> {
        let names: Vec<Arc<str>> = self.steps.iter().map(|step| Arc::clone(&step.name)).collect();
        let executed = self.executed.unwrap_or_else(|| names.clone());
        let out_of_order = check::execution_order(&names, &executed);
        let (mut layout, mut nodes) = (Layout::new(&names), Vec::new());
        let steps = self.steps.into_iter().enumerate();
        let mut steps: Vec<_> = steps.map(|(at, step)| step.assemble(at, &mut layout, &mut nodes)).collect();
        let orders: HashMap<&Arc<str>, usize> = executed.iter().enumerate().map(|(at, name)| (name, at)).collect();
        for step in &mut steps {
            step.order = orders.get(&step.name).copied().unwrap_or_default() as u16;
        }
        let warnings = check::validate(&mut layout, &steps, &nodes, out_of_order)?;
        let workflow = Workflow {
            layout,
            steps,
            warnings: Vec::new(),
            warned: Vec::new(),
            #[cfg(feature = "serde")]
            document: None,
        };
        Ok((workflow, warnings))
    }
}
