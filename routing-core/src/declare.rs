//! Declarations: the slots, picks and neighbours that a plugin depends on, in exchange for handles.

use std::sync::Arc;

use crate::slot::{At, Brand, Parts, Read, Slot, SlotInfo, TryRead, Write};

/// Where a plugin declares what it reads and writes, and what it needs around it.
///
/// Every call adds to what the build is checked against. Nothing can be declared later.
#[derive(Debug)]
pub struct Declare<'b> {
    pub(crate) layout: &'b mut Layout,
    pub(crate) declared: Declared,
}

impl Declare<'_> {
    /// The plugin reads a slot, which a plugin before it must write.
    pub fn reads<S: Slot>(&mut self) -> Read<S> {
        self.reads_parts(Parts::ALL)
    }

    /// The plugin reads parts of a slot, which a plugin before it must write. The writer may leave out parts that nobody reads.
    pub fn reads_parts<S: Slot>(&mut self, parts: Parts) -> Read<S> {
        let at = self.layout.place::<S>();
        self.layout.want(at, parts);
        self.declared.reads.push(at.index);
        Read::new(at)
    }

    /// The plugin reads a slot if something is in it.
    pub fn tries<S: Slot>(&mut self) -> TryRead<S> {
        let at = self.layout.place::<S>();
        self.layout.want(at, Parts::ALL);
        self.declared.tries.push(at.index);
        TryRead::new(at)
    }

    /// The plugin writes a slot on every request. Only preparers can.
    pub fn writes<S: Slot>(&mut self) -> Write<S> {
        let at = self.layout.place::<S>();
        self.declared.writes.push(at.index);
        Write::new(at)
    }

    /// The plugin reads what an earlier step picked.
    pub fn reads_pick(&mut self, step: &str) -> ReadPick {
        self.pick(step, true)
    }

    /// The plugin reads what an earlier step picked, if that step was not skipped.
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

    fn pick(&mut self, step: &str, required: bool) -> ReadPick {
        let index = self.layout.steps.iter().position(|name| **name == *step);
        self.declared.picks.push(PickUse { step: step.into(), index, required });
        ReadPick(At { brand: self.layout.brand, index: index.map_or(u16::MAX, |index| index as u16) })
    }
}

/// The right to read which pod an earlier step picked.
#[derive(Clone, Copy, Debug)]
pub struct ReadPick(pub(crate) At);

/// The right to read which pod an earlier step picked, if it was not skipped.
#[derive(Clone, Copy, Debug)]
pub struct TryReadPick(pub(crate) ReadPick);

/// What one plugin declared.
#[derive(Clone, Debug, Default)]
pub(crate) struct Declared {
    pub(crate) reads: Vec<u16>,
    pub(crate) tries: Vec<u16>,
    pub(crate) writes: Vec<u16>,
    pub(crate) picks: Vec<PickUse>,
    pub(crate) requires: Vec<Box<str>>,
    pub(crate) conflicts: Vec<Box<str>>,
    pub(crate) after: Vec<Box<str>>,
    pub(crate) before: Vec<Box<str>>,
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
    pub(crate) steps: Vec<Arc<str>>,
    /// The slot of prefix matches, if it is used.
    pub(crate) prefix_matches: Option<At>,
}

impl Layout {
    pub(crate) fn new(steps: Vec<Arc<str>>) -> Self {
        Self { brand: Brand::next(), slots: Vec::new(), steps, prefix_matches: None }
    }

    fn place<S: Slot>(&mut self) -> At {
        let info = SlotInfo::of::<S>();
        let index = self.slots.iter().position(|slot| slot.id == info.id).unwrap_or_else(|| {
            self.slots.push(info);
            self.slots.len() - 1
        });
        At { brand: self.brand, index: index as u16 }
    }

    fn want(&mut self, at: At, parts: Parts) {
        let slot = &mut self.slots[usize::from(at.index)];
        slot.wanted = slot.wanted | parts;
    }

    /// Runs a plugin's declaration; the plugin, and what it declared.
    pub(crate) fn declare<P: ?Sized>(&mut self, make: Make<P>) -> (Box<P>, Declared) {
        let mut declare = Declare { layout: self, declared: Declared::default() };
        let plugin = make(&mut declare);
        (plugin, declare.declared)
    }
}

/// Makes a plugin, once its declaration can be taken down.
pub(crate) type Make<P> = Box<dyn FnOnce(&mut Declare<'_>) -> Box<P> + Send>;
