//! Drain filter: pods that take new requests.

use kv_index::PodSet;
use routing_core::{Declare, Filter, PluginError, RoutingContext};

/// Keeps the pods that take something new.
///
/// `OnEmpty::Fail` is sensible where another fleet takes over. With `OnEmpty::KeepPrevious`, the last pods of a fleet
/// serve until they are gone.
#[derive(Clone, Copy, Debug)]
pub struct DrainFilter;

impl DrainFilter {
    /// Declares nothing: who is drained is the fleet's.
    pub fn declare(_: &mut Declare<'_>) -> Self {
        Self
    }
}

impl<const W: usize> Filter<W> for DrainFilter {
    fn filter(&self, context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        Ok(candidates - context.fleet().draining())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::testing::{Setup, request};

    fn check<const W: usize>() {
        let setup = Setup::<W>::full();
        let last = setup.last();
        let setup = setup.pod(0, |pod| pod.draining()).pod(last, |pod| pod.draining());
        assert_eq!(setup.kept(request(), DrainFilter::declare), (1..last).collect::<Vec<_>>());
    }

    #[test]
    fn draining_pods_go() {
        check::<1>();
        check::<4>();
        check::<16>();
    }
}
