//! Plugins that do exactly what they declare, and the real workflow that is made of them.

use kv_index::PodSet;
use routing_core::{
    BuildError, Condition, Declare, Filter, OnEmpty, Picker, PluginError, PrepareContext, Preparer, ProfileBuilder,
    Ranking, Reads, RoutingContext, Scorer, Scores, Slot, SlotError, StepBuilder, Totals, Workflow, WorkflowBuilder,
};

use crate::data::{Flow, Plugin, Relation, Stage};

/// Slots by number. The one numbered 5 goes by the name of another; number 6 is what it is renamed to.
pub(crate) const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "a", "f"];

pub(crate) struct Numbered<const N: usize>;

impl<const N: usize> Slot for Numbered<N> {
    type Value = u64;
    const NAME: &'static str = NAMES[N];
}

/// Builds the workflow with the real builders.
pub(crate) fn build(flow: &Flow) -> Result<Workflow, BuildError> {
    let mut workflow = WorkflowBuilder::new();
    for (at, step) in flow.steps.iter().enumerate() {
        let profile = step.plugins.iter().fold(ProfileBuilder::new(&step.name), add);
        let mut builder = StepBuilder::new(&step.name, profile);
        if let Some(plugin) = step.condition.clone() {
            let name = plugin.name.clone();
            builder = builder.when(&name, move |declare| If { bit: at, own: Own::declare(declare, &plugin) });
        }
        workflow = workflow.step(if step.independent { builder.independent() } else { builder });
    }
    if let Some(executed) = &flow.executed {
        workflow = workflow.executed_in(&executed.iter().map(String::as_str).collect::<Vec<_>>());
    }
    workflow.build()
}

fn add(profile: ProfileBuilder, plugin: &Plugin) -> ProfileBuilder {
    let (name, data) = (plugin.name.clone(), plugin.clone());
    let declare = move |declare: &mut Declare<'_>| Own::declare(declare, &data);
    let profile = match plugin.stage {
        Stage::Condition => unreachable!("a condition is not in a profile"),
        Stage::Prepare => profile.preparer(&name, declare),
        Stage::Filter => profile.filter(&name, OnEmpty::Fail, declare),
        Stage::Score(weight) => profile.scorer(&name, weight, declare),
        Stage::Pick => profile.picker(&name, declare),
    };
    match &plugin.kind {
        Some(kind) => profile.of_type(kind),
        None => profile,
    }
}

type ByContext = Box<dyn Fn(&RoutingContext<'_>) -> Result<u64, SlotError> + Send + Sync>;
type ByReads = Box<dyn Fn(&Reads<'_>) -> Result<u64, SlotError> + Send + Sync>;
type Writer = Box<dyn Fn(&mut PrepareContext<'_>, &[ByReads], u64) -> Result<(), SlotError> + Send + Sync>;

/// What a plugin got for its declaration.
struct Own {
    inputs: Vec<ByContext>,
    reads: Vec<ByReads>,
    writers: Vec<Writer>,
}

impl Own {
    fn declare(declare: &mut Declare<'_>, plugin: &Plugin) -> Self {
        let mut own = Self { inputs: Vec::new(), reads: Vec::new(), writers: Vec::new() };
        plugin.reads.iter().for_each(|slot| own.numbered(declare, *slot, Use::Read));
        plugin.tries.iter().for_each(|slot| own.numbered(declare, *slot, Use::Try));
        plugin.writes.iter().for_each(|slot| own.numbered(declare, *slot, Use::Write));
        for (step, required) in &plugin.picks {
            if *required {
                let pick = declare.reads_pick(step);
                own.inputs.push(Box::new(move |context| Ok((context.pick(pick)?.index() as u64 + 1) << 8)));
            } else {
                let pick = declare.tries_pick(step);
                let index = move |context: &RoutingContext<'_>| {
                    context.try_pick(pick).map(|pod| pod.map_or(0, |pod| pod.index()))
                };
                own.inputs.push(Box::new(move |context| Ok((index(context)? as u64) << 8)));
            }
        }
        for (relation, whom) in &plugin.relations {
            match relation {
                Relation::Requires => declare.requires(whom),
                Relation::Conflicts => declare.conflicts(whom),
                Relation::After => declare.after(whom),
                Relation::Before => declare.before(whom),
            }
        }
        own
    }

    fn numbered(&mut self, declare: &mut Declare<'_>, slot: usize, how: Use) {
        match slot {
            0 => self.slot::<0>(declare, how),
            1 => self.slot::<1>(declare, how),
            2 => self.slot::<2>(declare, how),
            3 => self.slot::<3>(declare, how),
            4 => self.slot::<4>(declare, how),
            5 => self.slot::<5>(declare, how),
            _ => self.slot::<6>(declare, how),
        }
    }

    fn slot<const N: usize>(&mut self, declare: &mut Declare<'_>, how: Use) {
        match how {
            Use::Read => {
                let handle = declare.reads::<Numbered<N>>();
                self.inputs.push(Box::new(move |context| context.read(handle).copied()));
                self.reads.push(Box::new(move |reads| reads.read(handle).copied()));
            }
            Use::Try => {
                let handle = declare.tries::<Numbered<N>>();
                // A value of this request's, if there is none.
                let none = |context: &RoutingContext<'_>| context.request().seed & 0xff;
                self.inputs.push(Box::new(move |context| {
                    Ok(context.try_read(handle)?.copied().unwrap_or_else(|| none(context)))
                }));
                self.reads.push(Box::new(move |reads| Ok(reads.try_read(handle)?.copied().unwrap_or(0))));
            }
            Use::Write => {
                let handle = declare.writes::<Numbered<N>>();
                self.writers.push(Box::new(move |context, inputs, seed| {
                    let (reads, value) = context.write(handle)?;
                    let sum = inputs.iter().try_fold(1_u64, |sum, read| Ok(sum.wrapping_add(read(&reads)? >> 8)))?;
                    *value = sum << 8 | seed;
                    Ok(())
                }));
            }
        }
    }

    /// Reads everything that was declared to be read; no value may be an earlier request's.
    fn gather(&self, context: &RoutingContext<'_>) -> Result<u64, PluginError> {
        let mut sum = 0_u64;
        for input in &self.inputs {
            let value = input(context)?;
            if value & 0xff != context.request().seed & 0xff && value & 0xff != 0 {
                return Err(PluginError::failed("an earlier request's value"));
            }
            sum = sum.wrapping_mul(31).wrapping_add(value >> 8);
        }
        Ok(sum)
    }
}

#[derive(Clone, Copy)]
enum Use {
    Read,
    Try,
    Write,
}

impl Preparer for Own {
    fn prepare(&self, context: &mut PrepareContext<'_>) -> Result<(), PluginError> {
        self.gather(&context.view())?;
        let seed = context.request().seed & 0xff;
        self.writers.iter().try_for_each(|write| write(context, &self.reads, seed))?;
        Ok(())
    }
}

impl Filter for Own {
    fn filter(&self, context: &RoutingContext<'_>, candidates: PodSet) -> Result<PodSet, PluginError> {
        let drop = self.gather(context)? as usize % (candidates.len() + 1);
        let kept: PodSet = candidates.iter().enumerate().filter(|(at, _)| *at != drop).map(|(_, pod)| pod).collect();
        Ok(if kept.is_empty() { candidates } else { kept })
    }
}

impl Scorer for Own {
    fn score(&self, context: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        let sum = self.gather(context)?;
        scores.fill(|pod| (sum.wrapping_add(pod.index() as u64 * 7) % 11) as f32 / 10.0);
        Ok(())
    }
}

impl Picker for Own {
    fn pick(
        &self,
        context: &RoutingContext<'_>,
        totals: &Totals<'_>,
        ranking: &mut Ranking,
    ) -> Result<(), PluginError> {
        self.gather(context)?;
        totals.rank(2, ranking);
        Ok(())
    }
}

/// Holds where the request's seed says so.
struct If {
    bit: usize,
    own: Own,
}

impl Condition for If {
    fn holds(&self, context: &RoutingContext<'_>) -> Result<bool, PluginError> {
        self.own.gather(context)?;
        Ok(context.request().seed >> self.bit & 1 == 1)
    }
}
