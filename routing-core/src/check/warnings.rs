//! Warnings: what works, and what an operator hardly meant.

use std::any::TypeId;
use std::collections::HashMap;

use super::{Check, Node, Sited};
use crate::fault::Warning;
use crate::fleet::Role;
use crate::memory::Terms;
use crate::path::Site;
use crate::plan::FailurePolicy;
use crate::stage::Stage;

impl<const W: usize> Check<'_, W> {
    pub(super) fn warnings(&self) -> Sited<Warning> {
        let mut warnings = self.unread_slots();
        self.empty_names(&mut warnings);
        self.steps_by_themselves(&mut warnings);
        self.decode_before_prefill(&mut warnings);
        self.memories(&mut warnings);
        warnings
    }

    fn unread_slots(&self) -> Sited<Warning> {
        let mut is_read = vec![false; self.layout.slots.len()];
        for slot in self.nodes.iter().flat_map(|node| node.declared.reads.iter().chain(&node.declared.tries)) {
            is_read[usize::from(*slot)] = true;
        }
        // Plans hint at what pods hold, and say which program a request is of.
        let in_plans = self.layout.prefix_matches.into_iter().chain(self.layout.program);
        in_plans.for_each(|at| is_read[usize::from(at.index)] = true);
        let is_unread = |slot: u16| !is_read[usize::from(slot)] && !self.layout.slots[usize::from(slot)].incidental;
        let nodes = self.nodes.iter().enumerate();
        let writes = nodes.flat_map(|(at, node)| node.declared.writes.iter().map(move |slot| (at, *slot)));
        let unread = writes.filter(|(_, slot)| is_unread(*slot));
        let warning = |at, slot| Warning::UnreadSlot { writer: self.plugin(at), slot: self.slot(slot) };
        unread.map(|(at, slot)| (self.site(at), warning(at, slot))).collect()
    }

    fn empty_names(&self, warnings: &mut Sited<Warning>) {
        for (at, step) in self.steps.iter().enumerate() {
            if step.name.is_empty() {
                warnings.push((Site::Step(at, "name"), Warning::EmptyName { what: "step" }));
            }
        }
        for (at, node) in self.nodes.iter().enumerate() {
            if node.name.is_empty() {
                warnings.push((self.site(at), Warning::EmptyName { what: node.stage.word() }));
            }
        }
    }

    /// What can be said of a step without looking at others.
    fn steps_by_themselves(&self, warnings: &mut Sited<Warning>) {
        for (at, own) in self.by_step() {
            let (step, name) = (&self.steps[at], || self.steps[at].name.clone());
            let declared = || own.iter().map(|node| &node.declared);
            if step.role != Role::Both && !declared().any(|declared| declared.filters_roles.contains(&step.role)) {
                warnings.push((Site::Step(at, "role"), Warning::RoleNotFiltered { step: name(), role: step.role }));
            }
            if !declared().any(|declared| declared.filters_health) {
                warnings.push((Site::Stage(at, Stage::Filter), Warning::NoHealthFilter { step: name() }));
            }
            if step.on_failure == FailurePolicy::Skip && usize::from(step.order) + 1 == self.steps.len() {
                warnings.push((Site::Step(at, "on_failure"), Warning::SkipOnLastStep { step: name() }));
            }
            let scorers = own.iter().filter(|node| node.stage == Stage::Score).count();
            let first = self.nodes.partition_point(|node| node.step < at);
            let picker = own.iter().position(|node| node.stage == Stage::Pick && node.declared.ignores_scores);
            if let Some(picker) = picker.filter(|_| scorers > 0) {
                let picker = self.plugin(first + picker);
                warnings.push((Site::Stage(at, Stage::Score), Warning::ScoresIgnored { picker, scorers }));
            }
        }
    }

    /// Each step with its plugins, which are together.
    fn by_step(&self) -> impl Iterator<Item = (usize, &[Node])> {
        let mut rest = self.nodes;
        (0..self.steps.len()).map(move |at| {
            let (own, others) = rest.split_at(rest.partition_point(|node| node.step <= at));
            rest = others;
            (at, own)
        })
    }

    fn decode_before_prefill(&self, warnings: &mut Sited<Warning>) {
        let of = |role: Role| self.steps.iter().enumerate().filter(move |(_, step)| step.role == role);
        let Some((at, decode)) = of(Role::Decode).min_by_key(|(_, step)| step.order) else { return };
        let Some((_, prefill)) = of(Role::Prefill).max_by_key(|(_, step)| step.order) else { return };
        if decode.order < prefill.order {
            let (decode, prefill) = (decode.name.clone(), prefill.name.clone());
            warnings.push((Site::Step(at, "role"), Warning::DecodeBeforePrefill { decode, prefill }));
        }
    }

    /// Memories that are gone by and not kept, or kept by other terms.
    fn memories(&self, warnings: &mut Sited<Warning>) {
        let mut kept: HashMap<TypeId, Vec<(usize, &Terms)>> = HashMap::new();
        for (at, node) in self.nodes.iter().enumerate() {
            node.declared.records.iter().for_each(|terms| kept.entry(terms.memory).or_default().push((at, terms)));
        }
        for (at, node) in self.nodes.iter().enumerate() {
            for wanted in &node.declared.recalls {
                let (reader, memory) = (|| self.plugin(at), wanted.name);
                match kept.get(&wanted.memory) {
                    None => warnings.push((self.site(at), Warning::NeverRecorded { reader: reader(), memory })),
                    Some(kept) if !kept.iter().any(|(_, terms)| terms.agree(wanted)) => {
                        let recorder = self.plugin(kept[0].0);
                        warnings.push((self.site(at), Warning::OtherTerms { reader: reader(), recorder, memory }));
                    }
                    Some(_) => {}
                }
            }
        }
    }
}
