//! Leaves out pods whose circuit is open.

use std::sync::Arc;

use kv_index::{DEFAULT_POD_WORDS, PodSet};
use routing_core::{Declare, Filter, OpenBreakers, PluginError, RoutingContext};

/// Keeps the pods whose circuit is closed, by what the executor's breakers say at that moment.
///
/// `OnEmpty::KeepPrevious` is sensible: if every circuit is open, the fault is hardly the pods', and refusing everything
/// keeps anybody from finding out.
#[derive(Clone, Debug)]
pub struct CircuitFilter<const W: usize = DEFAULT_POD_WORDS> {
    circuits: Arc<OpenBreakers<W>>,
}

impl<const W: usize> CircuitFilter<W> {
    /// Declares nothing: the circuits are the host's.
    pub fn declare(_: &mut Declare<'_>, circuits: Arc<OpenBreakers<W>>) -> Self {
        Self { circuits }
    }
}

impl<const W: usize> Filter<W> for CircuitFilter<W> {
    fn filter(&self, _: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        Ok(candidates - self.circuits.opened())
    }
}

#[cfg(test)]
mod tests {
    use kv_index::PodId;

    use super::*;
    use crate::filter::testing::{Setup, request};

    fn check<const W: usize>() {
        let setup = Setup::<W>::full();
        let circuits = Arc::new(OpenBreakers::new());
        circuits.open(PodId::new(0));
        circuits.open(PodId::new(setup.last() as u16));
        let kept = |circuits| setup.kept(request(), move |declare| CircuitFilter::declare(declare, circuits));
        assert_eq!(kept(Arc::clone(&circuits)), (1..setup.last()).collect::<Vec<_>>());
        circuits.close(PodId::new(0));
        assert_eq!(kept(circuits), (0..setup.last()).collect::<Vec<_>>());
    }

    #[test]
    fn open_circuits_go_and_come_back() {
        check::<1>();
        check::<4>();
        check::<16>();
    }
}
