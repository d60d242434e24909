//! Validation of the plugin graph: every fault of a selector or workflow, found before it runs.
//!
//! Plugins are looked at in the order they will run. What must hold is then simple to say: a slot has one writer, the
//! writer runs before every reader, and nothing that is relied on can be skipped.

mod cycle;
mod warnings;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use self::cycle::Cycles;

use crate::declare::{Declared, Layout};
use crate::fault::{BuildError, Fault, PluginName, Warning};
use crate::path::Site;
use crate::plan::FailurePolicy;
use crate::prefix_matches::PrefixMatches;
use crate::program::Program;
use crate::stage::Stage;
use crate::step::Step;
use crate::suggest::Suggestions;

/// A plugin as it is checked.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) step: usize,
    pub(crate) name: Arc<str>,
    pub(crate) kind: Box<str>,
    pub(crate) stage: Stage,
    /// Its number among those of its stage, as they were added.
    pub(crate) at: usize,
    /// Of scorers.
    pub(crate) weight: f64,
    pub(crate) declared: Declared,
}

/// Faults with what each is about.
pub(crate) type Sited<T> = Vec<(Site, T)>;

/// Proves that the steps fit together, and completes their layout; what works and was hardly meant.
///
/// `known` are faults found already. `nodes` are in the order they run.
pub(crate) fn validate<const W: usize>(
    layout: &mut Layout,
    steps: &[Step<W>],
    nodes: &[Node],
    known: Sited<Fault>,
) -> Result<Sited<Warning>, BuildError> {
    let mut faults = faults(layout, steps, nodes);
    faults.extend(known);
    if !faults.is_empty() {
        return Err(BuildError::new(faults));
    }
    layout.prefix_matches = layout.find::<PrefixMatches<W>>();
    layout.program = layout.find::<Program>();
    Ok(Check::new(layout, steps, nodes).warnings())
}

/// Everything that is wrong. `nodes` are in the order they run.
fn faults<const W: usize>(layout: &Layout, steps: &[Step<W>], nodes: &[Node]) -> Sited<Fault> {
    let check = Check::new(layout, steps, nodes);
    let mut faults = Vec::new();
    check.names(&mut faults);
    check.slot_names(&mut faults);
    check.pickers_and_weights(&mut faults);
    check.writers(&mut faults);
    let orders = check.declared_orders();
    let cycles = Cycles::find(nodes.len(), &check.constraints(&orders));
    check.readers(&cycles, &mut faults);
    check.orders(&orders, &cycles, &mut faults);
    for cycle in &cycles.paths {
        let path = cycle.iter().map(|&at| check.plugin(at)).collect();
        faults.push((check.site(cycle[0]), Fault::Cycle { path }));
    }
    check.neighbours(&mut faults);
    check.picks(&mut faults);
    faults
}

/// Whether the order of execution names every step once.
pub(crate) fn execution_order(steps: &[Arc<str>], executed: &[Arc<str>]) -> Sited<Fault> {
    // How often it is a step, how often it is executed, and where last.
    let mut named: BTreeMap<&Arc<str>, (usize, usize, Option<usize>)> = BTreeMap::new();
    steps.iter().for_each(|step| named.entry(step).or_default().0 += 1);
    for (at, step) in executed.iter().enumerate() {
        let (_, times, last) = named.entry(step).or_default();
        *times += 1;
        *last = Some(at);
    }
    // Two steps of one name are a fault of their own.
    let odd = named.into_iter().filter(|(_, (steps, times, _))| *steps < 2 && (*times != 1 || *steps == 0));
    odd.map(|(step, (.., last))| (Site::Executed(last), Fault::ExecutionOrder { step: Arc::clone(step) })).collect()
}

struct Check<'c, const W: usize> {
    layout: &'c Layout,
    steps: &'c [Step<W>],
    nodes: &'c [Node],
    /// Who writes each slot, in the order they run.
    writers: Vec<Vec<usize>>,
    /// Who is called so in a step, by name or type.
    called: HashMap<(usize, &'c str), Vec<usize>>,
    suggestions: Suggestions,
}

/// One plugin that must run before another, and whose word that is.
#[derive(Clone, Copy, Debug)]
struct Constraint {
    first: usize,
    second: usize,
    declared_by: usize,
}

impl<'c, const W: usize> Check<'c, W> {
    fn new(layout: &'c Layout, steps: &'c [Step<W>], nodes: &'c [Node]) -> Self {
        let mut writers = vec![Vec::new(); layout.slots.len()];
        let mut called: HashMap<(usize, &str), Vec<usize>> = HashMap::new();
        for (at, node) in nodes.iter().enumerate() {
            for slot in &node.declared.writes {
                let writers: &mut Vec<usize> = &mut writers[usize::from(*slot)];
                if writers.last() != Some(&at) {
                    writers.push(at);
                }
            }
            called.entry((node.step, &node.name)).or_default().push(at);
            if *node.kind != *node.name {
                called.entry((node.step, &node.kind)).or_default().push(at);
            }
        }
        Self { layout, steps, nodes, writers, called, suggestions: Suggestions::new() }
    }

    fn plugin(&self, at: usize) -> PluginName {
        let node = &self.nodes[at];
        PluginName { step: Arc::clone(&self.steps[node.step].name), plugin: Arc::clone(&node.name) }
    }

    fn site(&self, at: usize) -> Site {
        let node = &self.nodes[at];
        Site::Plugin(node.step, node.stage, node.at)
    }

    /// Whether a step may be left out: by its condition, or for want of pods although that holds.
    fn may_be_skipped(&self, step: &Step<W>) -> bool {
        step.condition.is_some() || step.on_failure == FailurePolicy::Skip && self.steps.len() > 1
    }

    fn slot(&self, slot: u16) -> &'static str {
        self.layout.slots[usize::from(slot)].name
    }

    fn writer(&self, slot: u16) -> Option<usize> {
        self.writers[usize::from(slot)].first().copied()
    }

    fn names(&self, faults: &mut Sited<Fault>) {
        if self.steps.is_empty() {
            faults.push((Site::Steps, Fault::NoStep));
        }
        if self.steps.len() > MOST_STEPS {
            faults.push((Site::Steps, Fault::TooManySteps { steps: self.steps.len(), most: MOST_STEPS }));
        }
        let mut seen = HashSet::new();
        for (at, step) in self.steps.iter().enumerate() {
            if !seen.insert(&step.name) {
                faults.push((Site::Step(at, "name"), Fault::DuplicateStep { step: Arc::clone(&step.name) }));
            }
        }
        let mut seen = HashSet::new();
        for (at, node) in self.nodes.iter().enumerate() {
            if !seen.insert((node.step, &node.name)) {
                faults.push((self.site(at), Fault::DuplicatePlugin { plugin: self.plugin(at) }));
            }
        }
    }

    fn slot_names(&self, faults: &mut Sited<Fault>) {
        let mut known = HashMap::new();
        for (at, slot) in self.layout.slots.iter().enumerate() {
            let Some(other) = known.insert(slot.name, slot.type_name) else { continue };
            // The first of the types stands for the name.
            known.insert(slot.name, other);
            let user = self.nodes.iter().position(|node| node.declared.uses(at as u16));
            let (first, second) = (other, slot.type_name);
            let site = user.map_or(Site::Steps, |user| self.site(user));
            faults.push((site, Fault::SlotNameClash { slot: slot.name, first, second }));
        }
    }

    fn pickers_and_weights(&self, faults: &mut Sited<Fault>) {
        let mut from = 0;
        for (step, info) in self.steps.iter().enumerate() {
            // The nodes of a step are together.
            let length = self.nodes[from..].iter().take_while(|node| node.step == step).count();
            let own = || (from..from + length).map(|at| (at, &self.nodes[at]));
            let mut pickers = own().filter(|(_, node)| node.stage == Stage::Pick);
            if pickers.next().is_none() {
                faults.push((Site::Stage(step, Stage::Pick), Fault::NoPicker { step: Arc::clone(&info.name) }));
            }
            faults.extend(pickers.map(|(at, _)| (self.site(at), Fault::SecondPicker { picker: self.plugin(at) })));
            let scorers = own().filter(|(_, node)| node.stage == Stage::Score);
            let (mut sum, mut bad, mut any) = (0.0, false, false);
            for (at, &Node { weight, at: number, .. }) in scorers {
                any = true;
                sum += weight;
                // What a single cannot hold is no weight either.
                if !(weight as f32).is_finite() || weight < 0.0 {
                    bad = true;
                    faults.push((Site::Weight(step, number), Fault::BadWeight { scorer: self.plugin(at), weight }));
                }
            }
            if any && !bad && sum <= 0.0 {
                faults.push((Site::Stage(step, Stage::Score), Fault::ZeroWeights { step: Arc::clone(&info.name) }));
            }
            from += length;
        }
    }

    fn writers(&self, faults: &mut Sited<Fault>) {
        for (slot, writers) in self.writers.iter().enumerate() {
            let [first, others @ ..] = &writers[..] else { continue };
            for second in others {
                let (site, slot) = (self.site(*second), self.slot(slot as u16));
                let (first, second) = (self.plugin(*first), self.plugin(*second));
                faults.push((site, Fault::TwoWriters { slot, first, second }));
            }
        }
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.stage != Stage::Prepare) {
            for slot in &node.declared.writes {
                let (plugin, slot) = (self.plugin(at), self.slot(*slot));
                faults.push((self.site(at), Fault::WriteOutsidePrepare { plugin, slot }));
            }
        }
    }

    fn readers(&self, cycles: &Cycles, faults: &mut Sited<Fault>) {
        for (at, node) in self.nodes.iter().enumerate() {
            let required = node.declared.reads.iter().map(|slot| (*slot, true));
            for (slot, required) in required.chain(node.declared.tries.iter().map(|slot| (*slot, false))) {
                let (name, reader) = (self.slot(slot), || self.plugin(at));
                let Some(writer) = self.writer(slot) else {
                    if required {
                        faults.push((self.site(at), Fault::NoWriter { reader: reader(), slot: name }));
                    }
                    continue;
                };
                if writer >= at {
                    if !cycles.join(writer, at) {
                        let (reader, writer) = (reader(), self.plugin(writer));
                        faults.push((self.site(at), Fault::WriterAfterReader { reader, writer, slot: name }));
                    }
                } else if required && !self.is_surely_written(slot, at) {
                    let (reader, writer) = (reader(), self.plugin(writer));
                    faults.push((self.site(at), Fault::WriterMayBeSkipped { reader, writer, slot: name }));
                }
            }
        }
    }

    /// Whether a plugin that runs before the reader writes the slot whenever the reader runs.
    fn is_surely_written(&self, slot: u16, reader: usize) -> bool {
        let surely = |step: usize| step == self.nodes[reader].step || self.steps[step].condition.is_none();
        let before = self.writers[usize::from(slot)].iter().take_while(|writer| **writer < reader);
        before.into_iter().any(|writer| surely(self.nodes[*writer].step))
    }

    /// Declared orders, by name or type, among plugins of one step.
    fn orders(&self, orders: &[Constraint], cycles: &Cycles, faults: &mut Sited<Fault>) {
        for &Constraint { first, second, declared_by } in orders {
            if first > second && !cycles.join(first, second) {
                let (first, second) = (self.plugin(first), self.plugin(second));
                let broken = Fault::OrderBroken { first, second, declared_by: self.plugin(declared_by) };
                faults.push((self.site(declared_by), broken));
            }
        }
    }

    fn neighbours(&self, faults: &mut Sited<Fault>) {
        for (at, node) in self.nodes.iter().enumerate() {
            for requires in &node.declared.requires {
                if self.called(node.step, requires).all(|other| other == at) {
                    let requires = requires.clone();
                    faults.push((self.site(at), Fault::MissingDependency { plugin: self.plugin(at), requires }));
                }
            }
            for conflicts in &node.declared.conflicts {
                for other in self.called(node.step, conflicts).filter(|other| *other != at) {
                    let (plugin, other) = (self.plugin(at), self.plugin(other));
                    faults.push((self.site(at), Fault::Conflict { plugin, other }));
                }
            }
        }
    }

    fn picks(&self, faults: &mut Sited<Fault>) {
        for (at, node) in self.nodes.iter().enumerate() {
            for pick in &node.declared.picks {
                let (reader, site) = (self.plugin(at), self.site(at));
                let Some(index) = pick.index else {
                    let names = self.steps.iter().map(|step| &*step.name);
                    let suggestion = self.suggestions.nearest(&pick.step, names).map(Arc::from);
                    faults.push((site, Fault::UnknownStep { reader, step: pick.step.clone(), suggestion }));
                    continue;
                };
                let step = Arc::clone(&self.steps[index].name);
                if self.steps[node.step].independent && index != node.step {
                    let fault = Fault::NotIndependent { reader: reader.clone(), step: Arc::clone(&step) };
                    faults.push((Site::Step(node.step, "independent"), fault));
                }
                // Recorders run when all steps are decided.
                if index >= node.step && node.stage != Stage::Record {
                    faults.push((site, Fault::PickNotYet { reader, step }));
                } else if pick.required && self.may_be_skipped(&self.steps[index]) {
                    faults.push((site, Fault::PickMayBeMissing { reader, step }));
                }
            }
        }
    }

    /// The plugins of a step that are called so, by name or type.
    fn called<'n>(&'n self, step: usize, name: &'n str) -> impl Iterator<Item = usize> + 'n {
        self.called.get(&(step, name)).into_iter().flatten().copied()
    }

    fn declared_orders(&self) -> Vec<Constraint> {
        let mut orders = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let others = |names: &[Box<str>]| {
                let called = names.iter().flat_map(|name| self.called(node.step, name));
                called.filter(|other| *other != at).collect::<Vec<_>>()
            };
            let order = |first, second| Constraint { first, second, declared_by: at };
            orders.extend(others(&node.declared.after).into_iter().map(|first| order(first, at)));
            orders.extend(others(&node.declared.before).into_iter().map(|second| order(at, second)));
        }
        orders
    }

    /// Everything that must run before something else.
    fn constraints(&self, orders: &[Constraint]) -> Vec<Constraint> {
        let mut constraints = orders.to_vec();
        for (reader, node) in self.nodes.iter().enumerate() {
            for slot in node.declared.reads.iter().chain(&node.declared.tries) {
                let writer = self.writer(*slot);
                constraints.extend(writer.map(|first| Constraint { first, second: reader, declared_by: reader }));
            }
        }
        constraints
    }
}

/// More than any request takes.
const MOST_STEPS: usize = 1024;
