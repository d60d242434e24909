//! What an operator does who reads a fault: the fix that its text names.

use routing_core::{Fault, PluginName};

use crate::data::{Flow, Plugin, Stage, Step};
use crate::plugins::NAMES;

/// Fixes one fault as it says.
pub(crate) fn fix(flow: &mut Flow, fault: &Fault) {
    match fault {
        Fault::NoWriter { reader, slot } => add_writer(flow, reader, number(flow, slot)),
        Fault::WriterAfterReader { reader, writer, slot } => move_writer(flow, reader, writer, slot),
        Fault::WriterMayBeSkipped { reader, slot, .. } => {
            edit(flow, reader, |plugin| {
                let (gone, kept) = plugin.reads.drain(..).partition(|read| NAMES[*read] == *slot);
                plugin.reads = kept;
                plugin.tries.extend::<Vec<usize>>(gone);
            });
        }
        Fault::TwoWriters { slot, second, .. } => remove_second_writer(flow, second, slot),
        Fault::WriteOutsidePrepare { plugin, slot } => {
            edit(flow, plugin, |plugin| {
                if plugin.stage != Stage::Prepare {
                    plugin.writes.retain(|write| NAMES[*write] != *slot);
                }
            });
        }
        Fault::Cycle { path } => remove(flow, path.last().expect("a circle is of somebody")),
        Fault::MissingDependency { plugin, .. } => remove(flow, plugin),
        Fault::Conflict { other, .. } => remove_last(flow, other),
        Fault::OrderBroken { first, second, declared_by } => swap(flow, first, second, declared_by),
        Fault::DuplicatePlugin { plugin } => {
            let name = flow.fresh("p");
            for step in flow.steps.iter_mut().filter(|step| *step.name == *plugin.step) {
                let all = step.condition.iter_mut().chain(&mut step.plugins);
                if let Some(twin) = all.filter(|other| *other.name == *plugin.plugin).nth(1) {
                    twin.name = name;
                    return;
                }
            }
        }
        Fault::DuplicateStep { step } => {
            let name = flow.fresh("s");
            let mut twins = flow.steps.iter_mut().filter(|other| *other.name == **step);
            twins.next();
            twins.next().expect("two of one name").name = name;
        }
        Fault::NoStep => flow.steps.push(Step { name: "s0".into(), ..Step::default() }),
        Fault::NoPicker { step } => {
            let picker = Plugin::new(&flow.fresh("pick"), Stage::Pick);
            let lacks = |other: &&mut Step| other.plugins.iter().all(|plugin| plugin.stage != Stage::Pick);
            let lacking = flow.steps.iter_mut().filter(|other| *other.name == **step).find(lacks);
            lacking.expect("a step without").plugins.push(picker);
        }
        Fault::SecondPicker { picker } => {
            for step in flow.steps.iter_mut().filter(|step| *step.name == *picker.step) {
                let pickers = step.plugins.iter().enumerate().filter(|(_, plugin)| plugin.stage == Stage::Pick);
                let second = pickers.skip(1).find(|(_, plugin)| *plugin.name == *picker.plugin).map(|(at, _)| at);
                if let Some(at) = second {
                    step.plugins.remove(at);
                    return;
                }
            }
        }
        Fault::BadWeight { scorer, .. } => {
            edit(flow, scorer, |plugin| {
                if matches!(plugin.stage, Stage::Score(weight) if !(0.0..=f64::from(f32::MAX)).contains(&weight)) {
                    plugin.stage = Stage::Score(1.0);
                }
            });
        }
        Fault::ZeroWeights { step } => {
            for step in flow.steps.iter_mut().filter(|other| *other.name == **step) {
                let first = step.plugins.iter_mut().find(|plugin| matches!(plugin.stage, Stage::Score(0.0)));
                first.into_iter().for_each(|plugin| plugin.stage = Stage::Score(2.0));
            }
        }
        Fault::SlotNameClash { .. } => rename_slot(flow),
        Fault::UnknownStep { reader, step, .. } => {
            let known = |flow: &Flow| flow.steps.iter().position(|step| *step.name == *reader.step);
            // A step that is decided before; where there is none, there is nothing to name.
            let earlier = known(flow).filter(|at| *at > 0).map(|_| flow.steps[0].name.clone());
            edit(flow, reader, |plugin| match &earlier {
                Some(name) => {
                    plugin.picks.iter_mut().filter(|pick| *pick.0 == **step).for_each(|pick| pick.0.clone_from(name))
                }
                None => plugin.picks.retain(|pick| *pick.0 != **step),
            });
        }
        Fault::PickNotYet { reader, step } => {
            let at = |name: &str| flow.steps.iter().position(|step| step.name == name).expect("it is there");
            let (own, wanted) = (at(&reader.step), at(step));
            if own < wanted {
                let step = flow.steps.remove(wanted);
                flow.steps.insert(own, step);
            } else {
                edit(flow, reader, |plugin| plugin.picks.retain(|pick| *pick.0 != **step));
            }
        }
        Fault::PickMayBeMissing { reader, step } => {
            edit(flow, reader, |plugin| {
                plugin.picks.iter_mut().filter(|pick| *pick.0 == **step).for_each(|pick| pick.1 = false);
            });
        }
        Fault::NotIndependent { reader, .. } => {
            flow.steps.iter_mut().filter(|step| *step.name == *reader.step).for_each(|step| step.independent = false);
        }
        Fault::ExecutionOrder { step } => {
            let there = flow.steps.iter().any(|other| *other.name == **step);
            let order = flow.executed.get_or_insert_default();
            order.retain(|other| **other != **step);
            order.extend(there.then(|| step.to_string()));
        }
        other => panic!("how is this fixed? {other}"),
    }
}

/// What is left where fixes get into each other's way: two steps that read each other's picks, say.
pub(crate) fn give_up_on(flow: &mut Flow, fault: &Fault) {
    match fault {
        Fault::PickNotYet { reader, step } => {
            edit(flow, reader, |plugin| plugin.picks.retain(|pick| *pick.0 != **step));
        }
        Fault::WriterAfterReader { reader, .. } => remove(flow, reader),
        fault => fix(flow, fault),
    }
}

fn plugins<'f>(flow: &'f mut Flow, name: &'f PluginName) -> impl Iterator<Item = &'f mut Plugin> + 'f {
    let steps = flow.steps.iter_mut().filter(|step| *step.name == *name.step);
    let all = steps.flat_map(|step| step.condition.iter_mut().chain(&mut step.plugins));
    all.filter(|plugin| *plugin.name == *name.plugin)
}

fn edit(flow: &mut Flow, name: &PluginName, change: impl FnMut(&mut Plugin)) {
    plugins(flow, name).for_each(change);
}

/// A slot's number by its name; of two types with one name the one that is used.
fn number(flow: &Flow, slot: &str) -> usize {
    let used =
        |at: &usize| flow.in_order().iter().any(|(_, plugin)| plugin.reads.contains(at) || plugin.writes.contains(at));
    let named = || (0..NAMES.len()).filter(|at| NAMES[*at] == slot);
    named().find(used).or_else(|| named().next()).expect("a name of ours")
}

/// Where a preparer goes that is to run before a plugin: a step and a place in it.
fn before(flow: &mut Flow, name: &PluginName) -> (usize, usize) {
    let named = |step: &Step| *step.name == *name.step;
    let has = |step: &Step| step.plugins.iter().position(|plugin| *plugin.name == *name.plugin);
    if let Some(at) = flow.steps.iter().position(|step| named(step) && has(step).is_some()) {
        return (at, has(&flow.steps[at]).expect("just found"));
    }
    // A condition: nothing of its step runs before it, so another step must.
    let at = flow.steps.iter().position(named).expect("it is there");
    let step = Step { name: flow.fresh("s"), ..Step::default() };
    flow.steps.insert(at, step);
    (at, 0)
}

fn add_writer(flow: &mut Flow, reader: &PluginName, slot: usize) {
    let (step, at) = before(flow, reader);
    let writer = Plugin { writes: vec![slot], ..Plugin::new(&flow.fresh("w"), Stage::Prepare) };
    flow.steps[step].plugins.insert(at, writer);
}

fn move_writer(flow: &mut Flow, reader: &PluginName, writer: &PluginName, slot: &str) {
    let mut found = None;
    for step in flow.steps.iter_mut().filter(|step| *step.name == *writer.step) {
        let writes =
            |plugin: &Plugin| *plugin.name == *writer.plugin && plugin.writes.iter().any(|at| NAMES[*at] == slot);
        let preparer = step.plugins.iter().position(|plugin| plugin.stage == Stage::Prepare && writes(plugin));
        found = found.or_else(|| preparer.map(|at| step.plugins.remove(at)));
    }
    match found {
        Some(writer) => {
            let (step, at) = before(flow, reader);
            flow.steps[step].plugins.insert(at, writer);
        }
        None => {
            // It is no preparer, so one has to do it.
            let number = number(flow, slot);
            edit(flow, writer, |plugin| plugin.writes.retain(|write| NAMES[*write] != slot));
            add_writer(flow, reader, number);
        }
    }
}

fn remove_second_writer(flow: &mut Flow, writer: &PluginName, slot: &str) {
    let last = plugins(flow, writer).filter(|plugin| plugin.writes.iter().any(|write| NAMES[*write] == slot)).last();
    last.expect("it writes").writes.retain(|write| NAMES[*write] != slot);
}

fn remove(flow: &mut Flow, name: &PluginName) {
    for step in flow.steps.iter_mut().filter(|step| *step.name == *name.step) {
        step.plugins.retain(|plugin| *plugin.name != *name.plugin);
        step.condition = step.condition.take().filter(|plugin| *plugin.name != *name.plugin);
    }
}

fn remove_last(flow: &mut Flow, name: &PluginName) {
    for step in flow.steps.iter_mut().filter(|step| *step.name == *name.step) {
        if let Some(at) = step.plugins.iter().rposition(|plugin| *plugin.name == *name.plugin) {
            step.plugins.remove(at);
        }
    }
}

fn swap(flow: &mut Flow, first: &PluginName, second: &PluginName, declared_by: &PluginName) {
    let stage = |stage: Stage| std::mem::discriminant(&stage);
    for step in flow.steps.iter_mut().filter(|step| *step.name == *first.step) {
        let at = |name: &PluginName| step.plugins.iter().position(|plugin| *plugin.name == *name.plugin);
        let (Some(early), Some(late)) = (at(second), at(first)) else { continue };
        if stage(step.plugins[early].stage) == stage(step.plugins[late].stage) {
            let plugin = step.plugins.remove(late);
            step.plugins.insert(early, plugin);
            return;
        }
    }
    // Their stages forbid it.
    remove(flow, declared_by);
}

/// Gives the slot that goes by another's name a name of its own.
fn rename_slot(flow: &mut Flow) {
    for step in &mut flow.steps {
        for plugin in step.condition.iter_mut().chain(&mut step.plugins) {
            let slots = plugin.reads.iter_mut().chain(&mut plugin.tries).chain(&mut plugin.writes);
            slots.filter(|slot| **slot == 5).for_each(|slot| *slot = 6);
        }
    }
}
