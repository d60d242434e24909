//! The routing context: a request, one version of the fleet, and typed slots, as plugins see them.

use kv_index::{DEFAULT_POD_WORDS, PodId, PodSet};

use crate::declare::{ReadPick, TryReadPick};
use crate::fleet::Fleet;
use crate::request::Request;
use crate::slot::{Parts, Read, Reads, Slot, SlotError, Slots, TryRead, Write};

/// What filters, scorers and pickers see.
///
/// A slot is read through a handle, and through the right kind of one:
///
/// ```compile_fail
/// use routing_core::{RoutingContext, PluginError, Slot};
///
/// struct Key;
/// impl Slot for Key {
///     type Value = u32;
///     const NAME: &'static str = "key";
/// }
/// fn peek(context: &RoutingContext<'_>) -> Result<u32, PluginError> {
///     Ok(*context.read::<Key>()?) // no handle, no reading
/// }
/// ```
///
/// A handle of one slot does not open another, nor one of a workflow for more pods one for fewer:
///
/// ```compile_fail
/// use routing_core::{RoutingContext, PrefixMatches, PluginError, Read};
///
/// fn peek(context: &RoutingContext<'_, 4>, held: Read<PrefixMatches<16>>) -> Result<usize, PluginError> {
///     let matches: &kv_index::Matches<4> = context.read(held)?;
///     Ok(matches.blocks())
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RoutingContext<'d, const W: usize = DEFAULT_POD_WORDS> {
    pub(crate) request: &'d Request<'d>,
    pub(crate) fleet: &'d Fleet<W>,
    pub(crate) excluded: &'d PodSet<W>,
    pub(crate) slots: &'d Slots,
    pub(crate) picks: &'d [Option<PodId>],
}

impl<'d, const W: usize> RoutingContext<'d, W> {
    /// The request.
    #[must_use]
    pub fn request(&self) -> &'d Request<'d> {
        self.request
    }

    /// The fleet, in one version from the start of the decision to its end.
    #[must_use]
    pub fn fleet(&self) -> &'d Fleet<W> {
        self.fleet
    }

    /// Pods that the request may not go to in any step: those that failed it, or that its client is not allowed. They are offered to no filter.
    #[must_use]
    pub fn excluded(&self) -> PodSet<W> {
        *self.excluded
    }

    /// What an earlier plugin wrote.
    ///
    /// # Errors
    ///
    /// When the handle is of another plugin or workflow.
    #[inline]
    pub fn read<S: Slot>(&self, handle: Read<S>) -> Result<&'d S::Value, SlotError> {
        self.slots.read::<S>(handle.at)?.ok_or(SlotError::Empty(S::NAME))
    }

    /// What an earlier plugin wrote, if one did.
    ///
    /// # Errors
    ///
    /// When the handle is of another plugin or workflow.
    #[inline]
    pub fn try_read<S: Slot>(&self, handle: TryRead<S>) -> Result<Option<&'d S::Value>, SlotError> {
        self.slots.read::<S>(handle.at)
    }

    /// The pod that an earlier step picked.
    ///
    /// # Errors
    ///
    /// When the handle is of another plugin or workflow.
    pub fn pick(&self, handle: ReadPick) -> Result<PodId, SlotError> {
        self.picked(handle)?.ok_or(SlotError::Empty(PICK))
    }

    /// The pod that an earlier step picked, if it was not skipped.
    ///
    /// # Errors
    ///
    /// When the handle is of another plugin or workflow.
    pub fn try_pick(&self, handle: TryReadPick) -> Result<Option<PodId>, SlotError> {
        self.picked(handle.0)
    }

    fn picked(&self, ReadPick(at): ReadPick) -> Result<Option<PodId>, SlotError> {
        if at.brand != self.slots.running {
            return Err(SlotError::Foreign(PICK));
        }
        self.picks.get(usize::from(at.index)).copied().ok_or(SlotError::Foreign(PICK))
    }
}

/// What operators read for a step's pick, which is no slot of anybody's.
const PICK: &str = "pick of a step";

/// What preparers see: the same, and the slots they write.
///
/// A slot is written through a write handle:
///
/// ```compile_fail
/// use routing_core::{PluginError, PrepareContext, Read, Slot};
///
/// struct Key;
/// impl Slot for Key {
///     type Value = u32;
///     const NAME: &'static str = "key";
/// }
/// fn overwrite(context: &mut PrepareContext<'_>, key: Read<Key>) -> Result<(), PluginError> {
///     *context.write(key)?.1 = 7; // a read handle does not write
///     Ok(())
/// }
/// ```
///
/// Filters and scorers have no such context, so they cannot write at all:
///
/// ```compile_fail
/// use routing_core::{RoutingContext, PluginError, Slot, Write};
///
/// struct Key;
/// impl Slot for Key {
///     type Value = u32;
///     const NAME: &'static str = "key";
/// }
/// fn write(context: &RoutingContext<'_>, key: Write<Key>) -> Result<(), PluginError> {
///     *context.write(key)?.1 = 7;
///     Ok(())
/// }
/// ```
#[derive(Debug)]
pub struct PrepareContext<'d, const W: usize = DEFAULT_POD_WORDS> {
    pub(crate) request: &'d Request<'d>,
    pub(crate) fleet: &'d Fleet<W>,
    pub(crate) excluded: &'d PodSet<W>,
    pub(crate) slots: &'d mut Slots,
    pub(crate) picks: &'d [Option<PodId>],
}

impl<'d, const W: usize> PrepareContext<'d, W> {
    /// The request.
    #[must_use]
    pub fn request(&self) -> &'d Request<'d> {
        self.request
    }

    /// The fleet.
    #[must_use]
    pub fn fleet(&self) -> &'d Fleet<W> {
        self.fleet
    }

    /// Everything that can be read, as the later stages see it.
    #[must_use]
    pub fn view(&self) -> RoutingContext<'_, W> {
        let Self { request, fleet, excluded, picks, .. } = *self;
        RoutingContext { request, fleet, excluded, slots: self.slots, picks }
    }

    /// The parts of a slot that plugins of this workflow read. What they do not, its writer may leave out.
    ///
    /// # Errors
    ///
    /// When the handle is of another plugin or workflow.
    pub fn wanted<S: Slot>(&self, handle: Write<S>) -> Result<Parts, SlotError> {
        self.slots.wanted::<S>(handle.at)
    }

    /// A slot to write, empty when it is first written for a request, and everything else to read meanwhile.
    ///
    /// # Errors
    ///
    /// When the handle is of another plugin or workflow.
    #[inline]
    pub fn write<S: Slot>(&mut self, handle: Write<S>) -> Result<(Reads<'_>, &mut S::Value), SlotError> {
        self.slots.write::<S>(handle.at)
    }

    /// Puts a value in a slot.
    ///
    /// # Errors
    ///
    /// When the handle is of another plugin or workflow.
    pub fn put<S: Slot>(&mut self, handle: Write<S>, value: S::Value) -> Result<(), SlotError> {
        *self.slots.write::<S>(handle.at)?.1 = value;
        Ok(())
    }
}
