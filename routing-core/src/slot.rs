//! Typed slots that plugins pass values through, with handles as capabilities.
//!
//! A slot is a type, so two crates cannot mean different things by one slot. A plugin gets a handle by declaring what
//! it does ([`Declare`](crate::Declare)); a handle is an index into the workspace of the workflow it was declared in,
//! and carries the brand of the plugin that declared it there. A workspace opens to the brand of the plugin that runs, so a
//! handle that is passed on, to another workflow or to another plugin of its own, opens nothing.

use std::any::{Any, TypeId};
use std::fmt;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// A place for one value that a request's plugins share.
///
/// # Examples
///
/// ```
/// use routing_core::Slot;
///
/// /// The conversation that a request belongs to.
/// struct SessionKey;
///
/// impl Slot for SessionKey {
///     type Value = String;
///     const NAME: &'static str = "session.key";
/// }
/// ```
pub trait Slot: 'static {
    /// What is in it. The same value is used for request after request.
    type Value: Default + Send + Sync + 'static;

    /// What operators read. No two slots of a workflow may share it.
    const NAME: &'static str;

    /// Whether its writer has it anyway, so that it is no oversight when nobody reads it.
    const INCIDENTAL: bool = false;

    /// Empties the value before it is written, so that nothing of an earlier request shows.
    ///
    /// Where the value has memory of its own, keep it: `value.clear()` instead of a new one.
    fn clear(value: &mut Self::Value) {
        *value = Self::Value::default();
    }
}

macro_rules! handle {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        pub struct $name<S> {
            pub(crate) at: At,
            slot: PhantomData<fn() -> S>,
        }

        impl<S> $name<S> {
            pub(crate) const fn new(at: At) -> Self {
                Self { at, slot: PhantomData }
            }
        }

        impl<S> Clone for $name<S> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<S> Copy for $name<S> {}

        impl<S: Slot> fmt::Debug for $name<S> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($name), S::NAME)
            }
        }
    };
}

handle! {
    /// The right to read a slot that some earlier plugin writes.
    ///
    /// Handles come from [`Declare`](crate::Declare) and from nowhere else:
    ///
    /// ```compile_fail
    /// use routing_core::{Read, Slot};
    ///
    /// struct Key;
    /// impl Slot for Key {
    ///     type Value = u32;
    ///     const NAME: &'static str = "key";
    /// }
    /// let forged: Read<Key> = Read::default();
    /// ```
    Read
}

handle! {
    /// The right to read a slot that perhaps nobody writes.
    TryRead
}

handle! {
    /// The duty to write a slot.
    Write
}

/// Parts of a slot's value, for slots whose writer can leave out what nobody reads.
///
/// Which part is which is the slot's to say. A plugin that declares to read a slot without naming parts reads them all.
///
/// # Examples
///
/// ```
/// use routing_core::Parts;
///
/// const FIRST: Parts = Parts::number(0);
/// const SECOND: Parts = Parts::number(1);
/// assert!((FIRST | SECOND).contains(SECOND) && !FIRST.contains(SECOND));
/// assert!(Parts::ALL.contains(FIRST));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts(u64);

impl Parts {
    /// Every part there is.
    pub const ALL: Self = Self(u64::MAX);

    pub(crate) const NONE: Self = Self(0);

    /// One part, by its number below 64.
    #[must_use]
    pub const fn number(part: u32) -> Self {
        Self(1 << part)
    }

    /// Whether all of these parts are among them.
    #[must_use]
    pub const fn contains(self, parts: Self) -> bool {
        self.0 & parts.0 == parts.0
    }
}

impl std::ops::BitOr for Parts {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A place in the workspaces of one workflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct At {
    pub(crate) brand: Brand,
    pub(crate) index: u16,
}

/// Which build of a workflow handles and workspaces are of, and which of its plugins: one number, so that one comparison
/// tells both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Brand(u64);

impl Brand {
    /// Tells builds apart. It decides nothing: two builds of the same profile still decide alike.
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        // Relaxed: only the numbers matter, and each is handed out once.
        Self(NEXT.fetch_add(1, Ordering::Relaxed) << PLUGIN_BITS)
    }

    /// The brand of a plugin of this build; the build itself is none of them.
    pub(crate) fn of_plugin(self, number: usize) -> Self {
        Self(self.0 + 1 + number as u64 % ((1 << PLUGIN_BITS) - 1))
    }
}

/// Bits for the plugins of a build, 16 million; as many builds as a process makes fit the others.
const PLUGIN_BITS: u32 = 24;

/// Why a handle opened nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SlotError {
    /// The handle is of another plugin, or of another workflow. A plugin's author kept a handle and passed it on; every
    /// plugin has to declare for itself, and anew in every build.
    #[error("the handle of slot `{0}` is none that this plugin got in this workflow: let it declare the slot itself")]
    Foreign(&'static str),
    /// Nothing is in the slot. It is the one that is being written, or its writer has not run: a fault of ours, since
    /// that is checked when a workflow is built.
    #[error("nothing is in slot `{0}`")]
    Empty(&'static str),
}

/// What a workflow knows of a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotInfo {
    pub(crate) id: TypeId,
    pub(crate) name: &'static str,
    pub(crate) type_name: &'static str,
    pub(crate) incidental: bool,
    /// The parts of it that somebody declared to read.
    pub(crate) wanted: Parts,
    pub(crate) make: fn() -> Box<dyn Any + Send + Sync>,
}

impl SlotInfo {
    pub(crate) fn of<S: Slot>() -> Self {
        Self {
            id: TypeId::of::<S>(),
            name: S::NAME,
            type_name: std::any::type_name::<S>(),
            incidental: S::INCIDENTAL,
            wanted: Parts::NONE,
            make: || Box::new(S::Value::default()),
        }
    }
}

/// The values of one workspace.
#[derive(Debug)]
pub(crate) struct Slots {
    pub(crate) brand: Brand,
    /// The plugin that runs, to whose handles they open.
    pub(crate) running: Brand,
    values: Vec<Value>,
}

#[derive(Debug)]
struct Value {
    content: Box<dyn Any + Send + Sync>,
    written: bool,
    wanted: Parts,
}

impl Slots {
    pub(crate) fn new(brand: Brand, infos: &[SlotInfo]) -> Self {
        let value = |info: &SlotInfo| Value { content: (info.make)(), written: false, wanted: info.wanted };
        let values = infos.iter().map(value).collect();
        Self { brand, running: brand, values }
    }

    /// Begins a request: nothing is written. The values stay, for their memory.
    pub(crate) fn begin(&mut self) {
        self.running = self.brand;
        self.values.iter_mut().for_each(|value| value.written = false);
    }

    pub(crate) fn is_written(&self, index: u16) -> bool {
        self.values.get(usize::from(index)).is_some_and(|value| value.written)
    }

    /// The parts of a slot that somebody declared to read.
    pub(crate) fn wanted<S: Slot>(&self, at: At) -> Result<Parts, SlotError> {
        let value = self.values.get(usize::from(at.index)).filter(|_| at.brand == self.running);
        value.map(|value| value.wanted).ok_or(SlotError::Foreign(S::NAME))
    }

    #[inline]
    pub(crate) fn read<S: Slot>(&self, at: At) -> Result<Option<&S::Value>, SlotError> {
        Reads { brand: self.running, before: &self.values, after: &[] }.get::<S>(at)
    }

    /// What is in a slot, for the framework itself: no plugin can pass its place on.
    pub(crate) fn of_workflow<S: Slot>(&self, at: At) -> Option<&S::Value> {
        Reads { brand: self.brand, before: &self.values, after: &[] }.get::<S>(at).ok().flatten()
    }

    /// A slot to write, and everything else to read.
    #[inline]
    pub(crate) fn write<S: Slot>(&mut self, at: At) -> Result<(Reads<'_>, &mut S::Value), SlotError> {
        let foreign = SlotError::Foreign(S::NAME);
        let index = usize::from(at.index);
        if at.brand != self.running || index >= self.values.len() {
            return Err(foreign);
        }
        let (before, rest) = self.values.split_at_mut(index);
        let (value, after) = rest.split_first_mut().ok_or(foreign)?;
        let content = value.content.downcast_mut::<S::Value>().ok_or(foreign)?;
        if !std::mem::replace(&mut value.written, true) {
            S::clear(content);
        }
        Ok((Reads { brand: self.running, before, after }, content))
    }
}

/// The slots that can be read while one is being written.
#[derive(Clone, Copy, Debug)]
pub struct Reads<'d> {
    brand: Brand,
    before: &'d [Value],
    after: &'d [Value],
}

impl<'d> Reads<'d> {
    /// What an earlier plugin wrote.
    ///
    /// # Errors
    ///
    /// When the handle is of another plugin or workflow, or of the slot that is being written.
    pub fn read<S: Slot>(&self, handle: Read<S>) -> Result<&'d S::Value, SlotError> {
        self.get::<S>(handle.at)?.ok_or(SlotError::Empty(S::NAME))
    }

    /// What an earlier plugin wrote, if one did.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn try_read<S: Slot>(&self, handle: TryRead<S>) -> Result<Option<&'d S::Value>, SlotError> {
        self.get::<S>(handle.at)
    }

    #[inline]
    fn get<S: Slot>(&self, at: At) -> Result<Option<&'d S::Value>, SlotError> {
        let foreign = SlotError::Foreign(S::NAME);
        let index = usize::from(at.index);
        if at.brand != self.brand {
            return Err(foreign);
        }
        let value = match index.checked_sub(self.before.len()) {
            None => &self.before[index],
            // The slot between the two is the one being written.
            Some(0) => return Err(SlotError::Empty(S::NAME)),
            Some(beyond) => self.after.get(beyond - 1).ok_or(foreign)?,
        };
        let content = value.content.downcast_ref::<S::Value>().ok_or(foreign)?;
        Ok(value.written.then_some(content))
    }
}
