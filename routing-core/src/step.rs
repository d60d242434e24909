//! One step of a workflow: a selector's stages, and what an executor is to do with the pod they select.

use std::fmt;
use std::sync::Arc;

use kv_index::DEFAULT_POD_WORDS;

use crate::check::Node;
use crate::declare::{Declare, Layout};
use crate::fleet::Role;
use crate::plan::FailurePolicy;
use crate::plugin::{Condition, Filter, Picker, Preparer, Recorder, Scorer};
use crate::profile::{Entry, OnEmpty, ProfileBuilder};
use crate::slot::Brand;
use crate::stage::{MakePlugin, Stage};

/// A step that is built.
pub(crate) struct Step<const W: usize> {
    pub(crate) name: Arc<str>,
    pub(crate) role: Role,
    pub(crate) condition: Option<Named<Box<dyn Condition<W>>>>,
    pub(crate) stages: Stages<W>,
    pub(crate) on_failure: FailurePolicy,
    pub(crate) ranked: usize,
    pub(crate) independent: bool,
    /// When it is executed.
    pub(crate) order: u16,
}

/// The plugins of one pass Prepare → Filter → Score → Pick, and the recorders of its outcome.
#[derive(Default)]
pub(crate) struct Stages<const W: usize> {
    pub(crate) preparers: Vec<Named<Prepare<W>>>,
    pub(crate) filters: Vec<Named<(OnEmpty, Box<dyn Filter<W>>)>>,
    pub(crate) scorers: Vec<Named<(f32, Box<dyn Scorer<W>>)>>,
    pub(crate) picker: Option<Named<Box<dyn Picker<W>>>>,
    pub(crate) recorders: Vec<Named<Box<dyn Recorder<W>>>>,
}

pub(crate) struct Prepare<const W: usize> {
    pub(crate) plugin: Box<dyn Preparer<W>>,
    /// What it declared to write.
    pub(crate) writes: Vec<(u16, &'static str)>,
}

pub(crate) struct Named<P> {
    pub(crate) name: Arc<str>,
    /// What its handles open by.
    pub(crate) brand: Brand,
    pub(crate) plugin: P,
}

impl<const W: usize> Step<W> {
    /// The plugin of a brand, if it is one of this step.
    pub(crate) fn plugin(&self, brand: Brand) -> Option<&Arc<str>> {
        let Stages { preparers, filters, scorers, picker, recorders } = &self.stages;
        let mut named = (self.condition.iter().map(|named| (named.brand, &named.name)))
            .chain(preparers.iter().map(|named| (named.brand, &named.name)))
            .chain(filters.iter().map(|named| (named.brand, &named.name)))
            .chain(scorers.iter().map(|named| (named.brand, &named.name)))
            .chain(picker.iter().map(|named| (named.brand, &named.name)))
            .chain(recorders.iter().map(|named| (named.brand, &named.name)));
        named.find(|(own, _)| *own == brand).map(|(_, name)| name)
    }
}

/// A step under construction.
#[must_use]
pub struct StepBuilder<const W: usize = DEFAULT_POD_WORDS> {
    pub(crate) name: Arc<str>,
    role: Role,
    profile: ProfileBuilder<W>,
    condition: Option<Entry<W>>,
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
        self.condition(Entry::new(name, MakePlugin::Condition(Box::new(|d| Box::new(declare(d))))))
    }

    pub(crate) fn condition(self, condition: Entry<W>) -> Self {
        Self { condition: Some(condition), ..self }
    }

    /// Marks the step as independent of the others' picks: an executor need not wait for them. Its plugins must not read a
    /// pick; what reaches them through slots is theirs to answer for.
    pub fn independent(self) -> Self {
        Self { independent: true, ..self }
    }

    /// Makes the step's plugins, each with what it declares. `nodes` gets them in the order they run.
    pub(crate) fn assemble(self, at: usize, layout: &mut Layout, nodes: &mut Vec<Node>) -> Step<W> {
        let mut condition = None;
        let mut stages = Stages::default();
        let mut weights = Vec::new();
        let first = nodes.len();
        let mut counts = [0; 6];
        for Entry { name, kind, make, on_empty, weight, at: number } in
            self.condition.into_iter().chain(self.profile.entries)
        {
            let shared = Arc::clone(&name);
            let brand = layout.brand.of_plugin(nodes.len());
            let (stage, declared) = match make {
                MakePlugin::Condition(make) => {
                    let (plugin, declared) = layout.declare(brand, make);
                    condition = Some(Named { name, brand, plugin });
                    (Stage::Condition, declared)
                }
                MakePlugin::Prepare(make) => {
                    let (plugin, declared) = layout.declare(brand, make);
                    let slot = |slot: &u16| (*slot, layout.slots[usize::from(*slot)].name);
                    let writes = declared.writes.iter().map(slot).collect();
                    stages.preparers.push(Named { name, brand, plugin: Prepare { plugin, writes } });
                    (Stage::Prepare, declared)
                }
                MakePlugin::Filter(make) => {
                    let (plugin, declared) = layout.declare(brand, make);
                    stages.filters.push(Named { name, brand, plugin: (on_empty, plugin) });
                    (Stage::Filter, declared)
                }
                MakePlugin::Score(make) => {
                    let (plugin, declared) = layout.declare(brand, make);
                    weights.push(weight);
                    stages.scorers.push(Named { name, brand, plugin: (0.0, plugin) });
                    (Stage::Score, declared)
                }
                MakePlugin::Pick(make) => {
                    let (plugin, declared) = layout.declare(brand, make);
                    stages.picker.get_or_insert(Named { name, brand, plugin });
                    (Stage::Pick, declared)
                }
                MakePlugin::Record(make) => {
                    let (plugin, declared) = layout.declare(brand, make);
                    stages.recorders.push(Named { name, brand, plugin });
                    (Stage::Record, declared)
                }
            };
            let count = &mut counts[stage as usize];
            let number = number.unwrap_or(*count);
            *count += 1;
            nodes.push(Node { step: at, name: shared, kind, stage, at: number, weight, declared });
        }
        // Stages run one after the other, whatever the order in which their plugins were added.
        nodes[first..].sort_by_key(|node| node.stage);
        // In doubles: singles neither hold the sum of the largest weights nor the smallest weight.
        let sum: f64 = weights.iter().sum();
        stages.scorers.iter_mut().zip(weights).for_each(|(scorer, weight)| scorer.plugin.0 = (weight / sum) as f32);
        Step {
            name: self.name,
            role: self.role,
            condition,
            stages,
            on_failure: self.on_failure,
            ranked: self.ranked,
            independent: self.independent,
            order: 0,
        }
    }
}

impl<const W: usize> fmt::Debug for StepBuilder<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepBuilder").field("name", &self.name).field("profile", &self.profile).finish_non_exhaustive()
    }
}
