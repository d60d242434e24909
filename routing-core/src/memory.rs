//! Memories: what recorders keep of decisions for the plugins of later ones, declared so that the two are found together.
//!
//! A memory itself is the host's; plugins reach it through what they were made over. What is declared here is only that one
//! plugin goes by what another one keeps, and by which terms.

use std::any::{Any, TypeId};
use std::fmt;

/// Something that decisions leave for later ones: a queue of prefills, sessions and their pods.
///
/// A plugin that keeps it declares [`records`](crate::Declare::records), and one that goes by it
/// [`recalls`](crate::Declare::recalls). A workflow that only recalls is warned of.
///
/// # Examples
///
/// ```
/// use routing_core::{Declare, Memory};
///
/// /// Seconds of work that were sent to each pod, by so many seconds a token.
/// struct SentWork;
///
/// impl Memory for SentWork {
///     type Terms = f64;
///     const NAME: &'static str = "sent work";
/// }
///
/// fn declare_scorer(declare: &mut Declare<'_>, seconds_per_token: f64) {
///     declare.recalls::<SentWork>(seconds_per_token);
/// }
/// ```
pub trait Memory: 'static {
    /// What both sides must agree on for the one to understand the other: a cost model, the table that is meant. `()` if
    /// there is nothing.
    type Terms: PartialEq + Send + Sync + 'static;

    /// What operators read.
    const NAME: &'static str;
}

/// A memory that a plugin declared, and its terms.
pub(crate) struct Terms {
    pub(crate) memory: TypeId,
    pub(crate) name: &'static str,
    terms: Box<dyn Any + Send + Sync>,
    agree: fn(&dyn Any, &dyn Any) -> bool,
}

impl Terms {
    pub(crate) fn of<M: Memory>(terms: M::Terms) -> Self {
        let agree = |a: &dyn Any, b: &dyn Any| {
            let (a, b) = (a.downcast_ref::<M::Terms>(), b.downcast_ref::<M::Terms>());
            a.is_some() && a == b
        };
        Self { memory: TypeId::of::<M>(), name: M::NAME, terms: Box::new(terms), agree }
    }

    /// Whether they are the same terms of the same memory.
    pub(crate) fn agree(&self, other: &Self) -> bool {
        self.memory == other.memory && (self.agree)(&*self.terms, &*other.terms)
    }
}

impl fmt::Debug for Terms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Terms").field(&self.name).finish()
    }
}
