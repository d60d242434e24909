//! What is wrong with a workflow, read off the definition of each fault, with no regard to how it is checked.

use std::sync::Arc;

use routing_core::{Fault, PluginName};

use crate::data::{Flow, Plugin, Relation, Stage};
use crate::plugins::{NAMES, Numbered};

/// Every fault but circles. Broken orders are listed even where a circle is to blame.
pub(crate) fn faults(flow: &Flow) -> Vec<Fault> {
    let truth = Truth { flow, order: flow.in_order() };
    let mut faults = Vec::new();
    truth.names(&mut faults);
    truth.stages(&mut faults);
    truth.slots(&mut faults);
    truth.neighbours(&mut faults);
    truth.picks(&mut faults);
    truth.execution(&mut faults);
    faults
}

/// Pairs of plugins, by their place in the order, of which the first must run before the second.
pub(crate) fn waits(flow: &Flow) -> Vec<(usize, usize)> {
    let truth = Truth { flow, order: flow.in_order() };
    let declared = truth.declared_orders().into_iter().map(|(first, second, _)| (first, second));
    let mut waits: Vec<_> = declared.collect();
    for (reader, (_, plugin)) in truth.order.iter().enumerate() {
        for slot in plugin.reads.iter().chain(&plugin.tries) {
            waits.extend(truth.writers(*slot).first().map(|writer| (*writer, reader)));
        }
    }
    waits
}

/// How a plugin is called in faults.
pub(crate) fn name(flow: &Flow, (step, plugin): (usize, &Plugin)) -> PluginName {
    PluginName { step: flow.steps[step].name.as_str().into(), plugin: plugin.name.as_str().into() }
}

struct Truth<'f> {
    flow: &'f Flow,
    order: Vec<(usize, &'f Plugin)>,
}

impl Truth<'_> {
    fn name(&self, at: usize) -> PluginName {
        name(self.flow, self.order[at])
    }

    fn step(&self, at: usize) -> Arc<str> {
        self.flow.steps[at].name.as_str().into()
    }

    /// Who writes a slot, in the order they run.
    fn writers(&self, slot: usize) -> Vec<usize> {
        (0..self.order.len()).filter(|at| self.order[*at].1.writes.contains(&slot)).collect()
    }

    fn names(&self, faults: &mut Vec<Fault>) {
        if self.flow.steps.is_empty() {
            faults.push(Fault::NoStep);
        }
        for (a, first) in self.flow.steps.iter().enumerate() {
            if self.flow.steps[a + 1..].iter().any(|second| first.name == second.name) {
                faults.push(Fault::DuplicateStep { step: self.step(a) });
            }
        }
        for (a, (step, first)) in self.order.iter().enumerate() {
            if self.order[a + 1..].iter().any(|(other, second)| step == other && first.name == second.name) {
                faults.push(Fault::DuplicatePlugin { plugin: self.name(a) });
            }
        }
        let used =
            |slot| self.order.iter().any(|(_, p)| [&p.reads, &p.tries, &p.writes].iter().any(|l| l.contains(&slot)));
        if used(0) && used(5) {
            let (first, second) = (std::any::type_name::<Numbered<0>>(), std::any::type_name::<Numbered<5>>());
            faults.push(Fault::SlotNameClash { slot: "a", first, second });
        }
    }

    fn stages(&self, faults: &mut Vec<Fault>) {
        for (at, step) in self.flow.steps.iter().enumerate() {
            let pickers: Vec<_> = step.plugins.iter().filter(|plugin| plugin.stage == Stage::Pick).collect();
            if pickers.is_empty() {
                faults.push(Fault::NoPicker { step: self.step(at) });
            }
            for picker in pickers.iter().skip(1) {
                faults.push(Fault::SecondPicker { picker: name(self.flow, (at, picker)) });
            }
            let mut weights = Vec::new();
            for plugin in &step.plugins {
                if let Stage::Score(weight) = plugin.stage {
                    weights.push(weight);
                    if weight.is_nan() || weight < 0.0 || weight > f64::from(f32::MAX) {
                        faults.push(Fault::BadWeight { scorer: name(self.flow, (at, plugin)), weight });
                    }
                }
            }
            if !weights.is_empty() && weights.iter().all(|weight| *weight == 0.0) {
                faults.push(Fault::ZeroWeights { step: self.step(at) });
            }
        }
    }

    fn slots(&self, faults: &mut Vec<Fault>) {
        for (slot, slot_name) in NAMES.into_iter().enumerate() {
            let writers = self.writers(slot);
            for second in writers.iter().skip(1) {
                let (first, second) = (self.name(writers[0]), self.name(*second));
                faults.push(Fault::TwoWriters { slot: slot_name, first, second });
            }
            for writer in writers.iter().filter(|writer| self.order[**writer].1.stage != Stage::Prepare) {
                faults.push(Fault::WriteOutsidePrepare { plugin: self.name(*writer), slot: slot_name });
            }
            for (at, (_, plugin)) in self.order.iter().enumerate() {
                if plugin.reads.contains(&slot) || plugin.tries.contains(&slot) {
                    faults.extend(self.unserved(at, slot, &writers));
                }
            }
        }
    }

    /// What is wrong with a plugin's reading a slot.
    fn unserved(&self, at: usize, slot: usize, writers: &[usize]) -> Option<Fault> {
        let (step, plugin) = self.order[at];
        let (reader, relies, slot) = (self.name(at), plugin.reads.contains(&slot), NAMES[slot]);
        let Some(&first) = writers.first() else { return relies.then_some(Fault::NoWriter { reader, slot }) };
        let writer = self.name(first);
        let earlier: Vec<_> = writers.iter().filter(|writer| **writer < at).collect();
        if earlier.is_empty() {
            return Some(Fault::WriterAfterReader { reader, writer, slot });
        }
        let sure =
            |writer: usize| self.order[writer].0 == step || self.flow.steps[self.order[writer].0].condition.is_none();
        let skipped = relies && !earlier.into_iter().any(|writer| sure(*writer));
        skipped.then_some(Fault::WriterMayBeSkipped { reader, writer, slot })
    }

    fn neighbours(&self, faults: &mut Vec<Fault>) {
        for (at, (step, plugin)) in self.order.iter().enumerate() {
            let called = |whom: &str| -> Vec<usize> {
                let is = |other: &usize| self.order[*other].0 == *step && self.order[*other].1.is_called(whom);
                (0..self.order.len()).filter(is).collect()
            };
            for (relation, whom) in &plugin.relations {
                if *relation == Relation::Requires && called(whom).into_iter().all(|other| other == at) {
                    faults.push(Fault::MissingDependency { plugin: self.name(at), requires: whom.as_str().into() });
                }
                if *relation == Relation::Conflicts {
                    let others = called(whom).into_iter().filter(|other| *other != at);
                    faults
                        .extend(others.map(|other| Fault::Conflict { plugin: self.name(at), other: self.name(other) }));
                }
            }
        }
        for (first, second, by) in self.declared_orders().into_iter().filter(|(first, second, _)| first > second) {
            let (first, second, declared_by) = (self.name(first), self.name(second), self.name(by));
            faults.push(Fault::OrderBroken { first, second, declared_by });
        }
    }

    /// Who must run before whom, and who says so.
    fn declared_orders(&self) -> Vec<(usize, usize, usize)> {
        let mut orders = Vec::new();
        for (at, (step, plugin)) in self.order.iter().enumerate() {
            for (other, (others, neighbour)) in self.order.iter().enumerate() {
                for (relation, whom) in &plugin.relations {
                    match relation {
                        _ if other == at || others != step || !neighbour.is_called(whom) => {}
                        Relation::After => orders.push((other, at, at)),
                        Relation::Before => orders.push((at, other, at)),
                        Relation::Requires | Relation::Conflicts => {}
                    }
                }
            }
        }
        orders
    }

    fn picks(&self, faults: &mut Vec<Fault>) {
        for (at, (own, plugin)) in self.order.iter().enumerate() {
            for (wanted, relies) in &plugin.picks {
                let reader = self.name(at);
                let Some(step) = self.flow.steps.iter().position(|step| step.name == *wanted) else {
                    faults.push(Fault::UnknownStep { reader, step: wanted.as_str().into(), suggestion: None });
                    continue;
                };
                if step >= *own {
                    faults.push(Fault::PickNotYet { reader: reader.clone(), step: self.step(step) });
                } else if *relies && self.flow.steps[step].condition.is_some() {
                    faults.push(Fault::PickMayBeMissing { reader: reader.clone(), step: self.step(step) });
                }
                if self.flow.steps[*own].independent && step != *own {
                    faults.push(Fault::NotIndependent { reader, step: self.step(step) });
                }
            }
        }
    }

    fn execution(&self, faults: &mut Vec<Fault>) {
        let Some(executed) = &self.flow.executed else { return };
        let named = |name: &str| executed.iter().filter(|other| *other == name).count();
        let there = |name: &str| self.flow.steps.iter().filter(|step| step.name == name).count();
        // Of two steps with one name nobody can say which is meant: that is a fault of its own.
        let odd = |name: &str| there(name) == 0 || (there(name) == 1 && named(name) != 1);
        let all = executed.iter().chain(self.flow.steps.iter().map(|step| &step.name));
        faults.extend(all.filter(|name| odd(name)).map(|name| Fault::ExecutionOrder { step: name.as_str().into() }));
    }
}
