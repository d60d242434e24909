//! Validation of the plugin graph: every fault of a selector or workflow, found before it runs.
//!
//! Plugins are looked at in the order they will run. What must hold is then simple to say: a slot has one writer, the
//! writer runs before every reader, and nothing that is relied on can be skipped.

mod cycle;

use std::any::TypeId;
use std::sync::Arc;

use crate::declare::{Declared, Layout};
use crate::fault::{BuildError, Fault, PluginName, Warning};
use crate::plan::FailurePolicy;
use crate::prefix_matches::PrefixMatches;
use crate::slot::At;
use crate::stage::Stage;
use crate::step::Step;
use crate::suggest::suggest;

/// A plugin as it is checked.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) step: usize,
    pub(crate) name: Arc<str>,
    pub(crate) kind: Box<str>,
    pub(crate) stage: Stage,
    /// Of scorers.
    pub(crate) weight: f64,
    pub(crate) declared: Declared,
}

/// Proves that the steps fit together, and completes their layout; what works and was hardly meant.
///
/// `known` are faults found already. `nodes` are in the order they run.
pub(crate) fn validate<const W: usize>(
    layout: &mut Layout,
    steps: &[Step<W>],
    nodes: &[Node],
    known: Vec<Fault>,
) -> Result<Vec<Warning>, BuildError> {
    let mut faults = faults(layout, steps, nodes);
    faults.extend(known);
    if !faults.is_empty() {
        return Err(BuildError { faults });
    }
    let held = layout.slots.iter().position(|slot| slot.id == TypeId::of::<PrefixMatches<W>>());
    layout.prefix_matches = held.map(|index| At { brand: layout.brand, index: index as u16 });
    Ok(Check { layout, steps, nodes }.unread_slots())
}

/// Everything that is wrong. `nodes` are in the order they run.
fn faults<const W: usize>(layout: &Layout, steps: &[Step<W>], nodes: &[Node]) -> Vec<Fault> {
    let check = Check { layout, steps, nodes };
    let mut faults = Vec::new();
    check.names(&mut faults);
    check.slot_names(&mut faults);
    check.pickers_and_weights(&mut faults);
    check.writers(&mut faults);
    let cycles = cycle::find(nodes, &check.constraints());
    check.readers(&cycles, &mut faults);
    check.orders(&cycles, &mut faults);
    let path = |cycle: &Vec<usize>| Fault::Cycle { path: cycle.iter().map(|&at| check.plugin(at)).collect() };
    faults.extend(cycles.iter().map(path));
    check.neighbours(&mut faults);
    check.picks(&mut faults);
    faults
}

/// Whether the order of execution names every step once.
pub(crate) fn execution_order(steps: &[Arc<str>], executed: &[Arc<str>]) -> Vec<Fault> {
    let mut named: Vec<&Arc<str>> = steps.iter().chain(executed).collect();
    named.sort();
    named.dedup();
    let count = |list: &[Arc<str>], step: &Arc<str>| list.iter().filter(|name| *name == step).count();
    let odd = named.into_iter().filter(|step| count(executed, step) != 1 || count(steps, step) == 0);
    // Two steps of one name are a fault of their own.
    odd.filter(|step| count(steps, step) < 2).map(|step| Fault::ExecutionOrder { step: Arc::clone(step) }).collect()
}

struct Check<'c, const W: usize> {
    layout: &'c Layout,
    steps: &'c [Step<W>],
    nodes: &'c [Node],
}

/// One plugin that must run before another, and whose word that is.
#[derive(Clone, Copy, Debug)]
struct Constraint {
    first: usize,
    second: usize,
    declared_by: usize,
}

impl<const W: usize> Check<'_, W> {
    fn plugin(&self, at: usize) -> PluginName {
        let node = &self.nodes[at];
        PluginName { step: Arc::clone(&self.steps[node.step].name), plugin: Arc::clone(&node.name) }
    }

    /// Whether a step may be left out: by its condition, or for want of pods although that holds.
    fn may_be_skipped(&self, step: &Step<W>) -> bool {
        step.condition.is_some() || step.on_failure == FailurePolicy::Skip && self.steps.len() > 1
    }

    fn slot(&self, slot: u16) -> &'static str {
        self.layout.slots[usize::from(slot)].name
    }

    fn writer(&self, slot: u16) -> Option<usize> {
        self.nodes.iter().position(|node| node.declared.writes.contains(&slot))
    }

    fn names(&self, faults: &mut Vec<Fault>) {
        if self.steps.is_empty() {
            faults.push(Fault::NoStep);
        }
        if self.steps.len() > MOST_STEPS {
            faults.push(Fault::TooManySteps { steps: self.steps.len(), most: MOST_STEPS });
        }
        for (at, step) in self.steps.iter().enumerate() {
            if self.steps[..at].iter().any(|other| other.name == step.name) {
                faults.push(Fault::DuplicateStep { step: Arc::clone(&step.name) });
            }
        }
        for (at, node) in self.nodes.iter().enumerate() {
            if self.nodes[..at].iter().any(|other| other.step == node.step && other.name == node.name) {
                faults.push(Fault::DuplicatePlugin { plugin: self.plugin(at) });
            }
        }
    }

    fn slot_names(&self, faults: &mut Vec<Fault>) {
        let slots = &self.layout.slots;
        for (at, slot) in slots.iter().enumerate() {
            if let Some(other) = slots[..at].iter().find(|other| other.name == slot.name) {
                let (first, second) = (other.type_name, slot.type_name);
                faults.push(Fault::SlotNameClash { slot: slot.name, first, second });
            }
        }
    }

    fn pickers_and_weights(&self, faults: &mut Vec<Fault>) {
        for (step, info) in self.steps.iter().enumerate() {
            let own = || self.nodes.iter().enumerate().filter(move |(_, node)| node.step == step);
            let mut pickers = own().filter(|(_, node)| node.stage == Stage::Pick);
            if pickers.next().is_none() {
                faults.push(Fault::NoPicker { step: Arc::clone(&info.name) });
            }
            faults.extend(pickers.map(|(at, _)| Fault::SecondPicker { picker: self.plugin(at) }));
            let scorers = own().filter(|(_, node)| node.stage == Stage::Score);
            let (mut sum, mut bad, mut any) = (0.0, false, false);
            for (at, &Node { weight, .. }) in scorers {
                any = true;
                sum += weight;
                // What a single cannot hold is no weight either.
                if !(weight as f32).is_finite() || weight < 0.0 {
                    bad = true;
                    faults.push(Fault::BadWeight { scorer: self.plugin(at), weight });
                }
            }
            if any && !bad && sum <= 0.0 {
                faults.push(Fault::ZeroWeights { step: Arc::clone(&info.name) });
            }
        }
    }

    fn writers(&self, faults: &mut Vec<Fault>) {
        for slot in 0..self.layout.slots.len() as u16 {
            let mut writers = (0..self.nodes.len()).filter(|at| self.nodes[*at].declared.writes.contains(&slot));
            let Some(first) = writers.next() else { continue };
            for second in writers {
                let (first, second) = (self.plugin(first), self.plugin(second));
                faults.push(Fault::TwoWriters { slot: self.slot(slot), first, second });
            }
        }
        for (at, node) in self.nodes.iter().enumerate().filter(|(_, node)| node.stage != Stage::Prepare) {
            for slot in &node.declared.writes {
                faults.push(Fault::WriteOutsidePrepare { plugin: self.plugin(at), slot: self.slot(*slot) });
            }
        }
    }

    fn readers(&self, cycles: &[Vec<usize>], faults: &mut Vec<Fault>) {
        for (reader, node) in self.nodes.iter().enumerate() {
            let required = node.declared.reads.iter().map(|slot| (*slot, true));
            for (slot, required) in required.chain(node.declared.tries.iter().map(|slot| (*slot, false))) {
                let name = self.slot(slot);
                let Some(writer) = self.writer(slot) else {
                    if required {
                        faults.push(Fault::NoWriter { reader: self.plugin(reader), slot: name });
                    }
                    continue;
                };
                if writer >= reader {
                    if !in_one_cycle(cycles, writer, reader) {
                        let (reader, writer) = (self.plugin(reader), self.plugin(writer));
                        faults.push(Fault::WriterAfterReader { reader, writer, slot: name });
                    }
                } else if required && !self.is_surely_written(slot, reader) {
                    let (reader, writer) = (self.plugin(reader), self.plugin(writer));
                    faults.push(Fault::WriterMayBeSkipped { reader, writer, slot: name });
                }
            }
        }
    }

    /// Whether a plugin that runs before the reader writes the slot whenever the reader runs.
    fn is_surely_written(&self, slot: u16, reader: usize) -> bool {
        let surely = |step: usize| step == self.nodes[reader].step || self.steps[step].condition.is_none();
        self.nodes[..reader].iter().any(|node| node.declared.writes.contains(&slot) && surely(node.step))
    }

    /// Declared orders, by name or type, among plugins of one step.
    fn orders(&self, cycles: &[Vec<usize>], faults: &mut Vec<Fault>) {
        for Constraint { first, second, declared_by } in self.declared_orders() {
            if first > second && !in_one_cycle(cycles, first, second) {
                let (first, second) = (self.plugin(first), self.plugin(second));
                faults.push(Fault::OrderBroken { first, second, declared_by: self.plugin(declared_by) });
            }
        }
    }

    fn neighbours(&self, faults: &mut Vec<Fault>) {
        for (at, node) in self.nodes.iter().enumerate() {
            for requires in &node.declared.requires {
                if self.called(node.step, requires).all(|other| other == at) {
                    let requires = requires.clone();
                    faults.push(Fault::MissingDependency { plugin: self.plugin(at), requires });
                }
            }
            for conflicts in &node.declared.conflicts {
                for other in self.called(node.step, conflicts).filter(|other| *other != at) {
                    faults.push(Fault::Conflict { plugin: self.plugin(at), other: self.plugin(other) });
                }
            }
        }
    }

    fn picks(&self, faults: &mut Vec<Fault>) {
        for (at, node) in self.nodes.iter().enumerate() {
            for pick in &node.declared.picks {
                let reader = self.plugin(at);
                let Some(index) = pick.index else {
                    let names = self.steps.iter().map(|step| &*step.name);
                    let suggestion = suggest(&pick.step, names).map(Arc::from);
                    faults.push(Fault::UnknownStep { reader, step: pick.step.clone(), suggestion });
                    continue;
                };
                let step = Arc::clone(&self.steps[index].name);
                if self.steps[node.step].independent && index != node.step {
                    faults.push(Fault::NotIndependent { reader: reader.clone(), step: Arc::clone(&step) });
                }
                if index >= node.step {
                    faults.push(Fault::PickNotYet { reader, step });
                } else if pick.required && self.may_be_skipped(&self.steps[index]) {
                    faults.push(Fault::PickMayBeMissing { reader, step });
                }
            }
        }
    }

    /// What works, and was hardly meant.
    fn unread_slots(&self) -> Vec<Warning> {
        let framework = self.layout.prefix_matches.map(|at| at.index);
        let is_read = |slot: u16| {
            let used = |node: &Node| node.declared.reads.contains(&slot) || node.declared.tries.contains(&slot);
            framework == Some(slot) || self.layout.slots[usize::from(slot)].incidental || self.nodes.iter().any(used)
        };
        let nodes = self.nodes.iter().enumerate();
        let writes = nodes.flat_map(|(at, node)| node.declared.writes.iter().map(move |slot| (at, *slot)));
        let unread = writes.filter(|(_, slot)| !is_read(*slot));
        unread.map(|(at, slot)| Warning::UnreadSlot { writer: self.plugin(at), slot: self.slot(slot) }).collect()
    }

    /// The plugins of a step that are called so, by name or type.
    fn called<'n>(&'n self, step: usize, name: &'n str) -> impl Iterator<Item = usize> + 'n {
        let is_called = move |node: &Node| node.step == step && (*node.name == *name || *node.kind == *name);
        (0..self.nodes.len()).filter(move |at| is_called(&self.nodes[*at]))
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
    fn constraints(&self) -> Vec<Constraint> {
        let mut constraints = self.declared_orders();
        for (reader, node) in self.nodes.iter().enumerate() {
            for slot in node.declared.reads.iter().chain(&node.declared.tries) {
                let writer = self.writer(*slot);
                constraints.extend(writer.map(|first| Constraint { first, second: reader, declared_by: reader }));
            }
        }
        constraints
    }
}

fn in_one_cycle(cycles: &[Vec<usize>], a: usize, b: usize) -> bool {
    cycles.iter().any(|cycle| cycle.contains(&a) && cycle.contains(&b))
}

/// More than any request takes.
const MOST_STEPS: usize = 1024;
