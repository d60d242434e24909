//! Circuit breaker filter: leaves out pods whose breaker is open, and has those tried last now and then that fail now and then.

use std::sync::Arc;

use kv_index::{DEFAULT_POD_WORDS, PodSet};
use routing_core::{Declare, Filter, OpenBreakers, PluginError, RoutingContext};

/// Keeps the pods whose circuit breaker is closed, as the executor's breakers are at that moment. Of those it has tried last, by chance, which is the
/// request's seed, who fails more than others: for a share of the requests that
/// [follows from its failures](OpenBreakers::left_out).
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

    fn last_resort(&self, context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Option<PodSet<W>> {
        let withholds = self.open_breakers.withholds();
        withholds.then(|| self.open_breakers.left_out(candidates, context.request().seed))
    }
}

#[cfg(test)]
mod tests {
    use kv_index::PodId;
    use routing_core::Role;

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

    /// It stays a candidate, for when the others fail.
    #[test]
    fn what_is_withheld_is_tried_last() {
        let (setup, open_breakers) = (Setup::<1>::new(3), Arc::new(OpenBreakers::new()));
        open_breakers.open(PodId::new(0));
        open_breakers.withhold(PodId::new(1), 192);
        let is_last = |seed| {
            let open_breakers = Arc::clone(&open_breakers);
            let declare = |declare: &mut Declare<'_>| BreakerFilter::declare(declare, open_breakers);
            let step = setup.traced_in(Role::Both, request().seed(seed), declare);
            let ranked: Vec<_> = step.ranking.iter().map(|pick| pick.pod.index()).collect();
            assert_eq!((step.offered - step.filters[0].removed).len(), 2, "it stays a candidate");
            assert!(step.last_resort.is_empty() || ranked == [2, 1], "{ranked:?}");
            !step.last_resort.is_empty()
        };
        let times = (0..400).filter(|seed| is_last(*seed)).count();
        assert!((270..330).contains(&times), "three quarters of 400, and not {times}");
    }

    #[test]
    fn open_breakers_go_and_come_back() {
        check::<1>();
        check::<4>();
        check::<16>();
    }
}
