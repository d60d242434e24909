//! Circuit breaker filter: leaves out pods whose breaker is open.

use std::sync::Arc;

use kv_index::{DEFAULT_POD_WORDS, PodSet};
use routing_core::{Declare, Filter, OpenBreakers, PluginError, RoutingContext};

/// Keeps the pods whose circuit breaker is closed, as the executor's breakers are at that moment.
///
/// `OnEmpty::KeepPrevious` is sensible: if every breaker is open, the fault is hardly the pods', and refusing everything
/// keeps anybody from finding out.
#[derive(Clone, Debug)]
pub struct BreakerFilter<const W: usize = DEFAULT_POD_WORDS> {
    open_breakers: Arc<OpenBreakers<W>>,
}

impl<const W: usize> BreakerFilter<W> {
    /// Declares nothing: the breakers are the host's.
    pub fn declare(_: &mut Declare<'_>, open_breakers: Arc<OpenBreakers<W>>) -> Self {
        Self { open_breakers }
    }
}

impl<const W: usize> Filter<W> for BreakerFilter<W> {
    fn filter(&self, _: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        Ok(candidates - self.open_breakers.opened())
    }
}

#[cfg(test)]
mod tests {
    use kv_index::PodId;

    use super::*;
    use crate::filter::testing::{Setup, request};

    fn check<const W: usize>() {
        let setup = Setup::<W>::full();
        let open_breakers = Arc::new(OpenBreakers::new());
        open_breakers.open(PodId::new(0));
        open_breakers.open(PodId::new(setup.last() as u16));
        let kept = |open_breakers| setup.kept(request(), move |declare| BreakerFilter::declare(declare, open_breakers));
        assert_eq!(kept(Arc::clone(&open_breakers)), (1..setup.last()).collect::<Vec<_>>());
        open_breakers.close(PodId::new(0));
        assert_eq!(kept(open_breakers), (0..setup.last()).collect::<Vec<_>>());
    }

    #[test]
    fn open_breakers_go_and_come_back() {
        check::<1>();
        check::<4>();
        check::<16>();
    }
}
