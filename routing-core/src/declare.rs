//! Declarations: the slots, picks and neighbours that a plugin depends on, in exchange for handles.

use std::collections::HashMap;
use std::sync::Arc;

use crate::fleet::Role;
use crate::memory::{Memory, Terms};
use crate::slot::{At, Brand, Parts, Read, Slot, SlotInfo, TryRead, Write};

/// Where a plugin declares what it reads and writes, and what it needs around it.
///
/// Every call adds to what the build is checked against. Nothing can be declared later.
#[derive(Debug)]
pub struct Declare<'b> {
    pub(crate) layout: &'b mut Layout,
    pub(crate) declared: Declared,
    /// The plugin's own.
    pub(crate) brand: Brand,
}

impl Declare<'_> {
    /// The plugin reads a slot, which a plugin before it must write.
    pub fn reads<S: Slot>(&mut self) -> Read<S> {
        self.reads_parts(Parts::ALL)
    }

    /// The plugin reads parts of a slot, which a plugin before it must write. The writer may leave out parts that nobody reads.
    pub fn reads_parts<S: Slot>(&mut self, parts: Parts) -> Read<S> {
        let at = self.layout.place::<S>(self.brand);
        self.layout.want(at, parts);
        self.declared.reads.push(at.index);
        Read::new(at)
    }

    /// The plugin reads a slot if something is in it.
    pub fn tries<S: Slot>(&mut self) -> TryRead<S> {
        let at = self.layout.place::<S>(self.brand);
        self.layout.want(at, Parts::ALL);
        self.declared.tries.push(at.index);
        TryRead::new(at)
    }

    /// The plugin writes a slot on every request. Only preparers can.
    pub fn writes<S: Slot>(&mut self) -> Write<S> {
        let at = self.layout.place::<S>(self.brand);
        self.declared.writes.push(at.index);
        Write::new(at)
    }

    /// The plugin reads what an earlier step picked; a recorder, what any step did.
    pub fn reads_pick(&mut self, step: &str) -> ReadPick {
        self.pick(step, true)
    }

    /// The plugin reads what an earlier step picked, if that step was not skipped; a recorder, what any step did.
    pub fn tries_pick(&mut self, step: &str) -> TryReadPick {
        TryReadPick(self.pick(step, false))
    }

    /// The plugin does nothing useful without another one, named by its name or type, somewhere in its step.
    pub fn requires(&mut self, plugin: &str) {
        self.declared.requires.push(plugin.into());
    }

    /// The plugin must not be in one step with another one, named by its name or type.
    pub fn conflicts(&mut self, plugin: &str) {
        self.declared.conflicts.push(plugin.into());
    }

    /// The plugin must run after another one of its step, if that is there.
    pub fn after(&mut self, plugin: &str) {
        self.declared.after.push(plugin.into());
    }

    /// The plugin must run before another one of its step, if that is there.
    pub fn before(&mut self, plugin: &str) {
        self.declared.before.push(plugin.into());
    }

    /// The filter leaves only pods that do the work of a role. A step of a role without such a filter is warned of.
    pub fn filters_role(&mut self, role: Role) {
        self.declared.filters_roles.push(role);
    }

    /// The filter leaves out pods that are known to be ill. A step without such a filter is warned of.
    pub fn filters_health(&mut self) {
        self.declared.filters_health = true;
    }

    /// The picker does not look at scores. Scorers beside it are warned of.
    pub fn ignores_scores(&mut self) {
        self.declared.ignores_scores = true;
    }

    /// The plugin keeps a memory of what was decided, by these terms.
    pub fn records<M: Memory>(&mut self, terms: M::Terms) {
        self.declared.records.push(Terms::of::<M>(terms));
    }

    /// The plugin goes by a memory of what was decided before, which some plugin of the workflow should keep by the same
    /// terms. A workflow where none does is warned of.
    pub fn recalls<M: Memory>(&mut self, terms: M::Terms) {
        self.declared.recalls.push(Terms::of::<M>(terms));
    }

    fn pick(&mut self, step: &str, required: bool) -> ReadPick {
        let index = self.layout.steps.get(step).copied();
        self.declared.picks.push(PickUse { step: step.into(), index, required });
        ReadPick(At { brand: self.brand, index: index.map_or(u16::MAX, |index| index as u16) })
    }
}

/// The right to read which pod an earlier step picked.
#[derive(Clone, Copy, Debug)]
pub struct ReadPick(pub(crate) At);

/// The right to read which pod an earlier step picked, if it was not skipped.
#[derive(Clone, Copy, Debug)]
pub struct TryReadPick(pub(crate) ReadPick);

/// What one plugin declared.
#[derive(Debug, Default)]
pub(crate) struct Declared {
    pub(crate) reads: Vec<u16>,
    pub(crate) tries: Vec<u16>,
    pub(crate) writes: Vec<u16>,
    pub(crate) picks: Vec<PickUse>,
    pub(crate) requires: Vec<Box<str>>,
    pub(crate) conflicts: Vec<Box<str>>,
    pub(crate) after: Vec<Box<str>>,
    pub(crate) before: Vec<Box<str>>,
    pub(crate) filters_roles: Vec<Role>,
    pub(crate) filters_health: bool,
    pub(crate) ignores_scores: bool,
    pub(crate) records: Vec<Terms>,
    pub(crate) recalls: Vec<Terms>,
}

impl Declared {
    /// Whether a slot is read or written.
    pub(crate) fn uses(&self, slot: u16) -> bool {
        [&self.reads, &self.tries, &self.writes].iter().any(|list| list.contains(&slot))
    }
}

/// A step whose pick is read.
#[derive(Clone, Debug)]
pub(crate) struct PickUse {
    pub(crate) step: Box<str>,
    /// None if there is no such step.
    pub(crate) index: Option<usize>,
    pub(crate) required: bool,
}

/// The slots and steps of a selector or workflow, once it is built or while it is.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) brand: Brand,
    pub(crate) slots: Vec<SlotInfo>,
    /// The number of each step; of the first, where several have one name.
    pub(crate) steps: HashMap<Arc<str>, usize>,
    /// The slot of prefix matches, if it is used.
    pub(crate) prefix_matches: Option<At>,
    /// The slot of programs, if it is used.
    pub(crate) program: Option<At>,
}

impl Layout {
    pub(crate) fn new(names: &[Arc<str>]) -> Self {
        // From the last on, so that the first of a name stays.
        let steps = names.iter().cloned().enumerate().rev().map(|(at, name)| (name, at)).collect();
        Self { brand: Brand::next(), slots: Vec::new(), steps, prefix_matches: None, program: None }
    }

    fn place<S: Slot>(&mut self, brand: Brand) -> At {
        let info = SlotInfo::of::<S>();
        let index = self.slots.iter().position(|slot| slot.id == info.id).unwrap_or_else(|| {
            self.slots.push(info);
            self.slots.len() - 1
        });
        At { brand, index: index as u16 }
    }

    /// Where a slot is, if it is used.
    pub(crate) fn find<S: Slot>(&self) -> Option<At> {
        let index = self.slots.iter().position(|slot| slot.id == SlotInfo::of::<S>().id)?;
        Some(At { brand: self.brand, index: index as u16 })
    }

    fn want(&mut self, at: At, parts: Parts) {
        let slot = &mut self.slots[usize::from(at.index)];
        slot.wanted = slot.wanted | parts;
    }

    /// Runs the declaration of a plugin of this brand; the plugin, and what it declared.
    pub(crate) fn declare<P: ?Sized>(&mut self, brand: Brand, make: Make<P>) -> (Box<P>, Declared) {
        let mut declare = Declare { layout: self, declared: Declared::default(), brand };
        let plugin = make(&mut declare);
        (plugin, declare.declared)
    }
}

/// Makes a plugin, once its declaration can be taken down.
pub(crate) type Make<P> = Box<dyn FnOnce(&mut Declare<'_>) -> Box<P> + Send>;
