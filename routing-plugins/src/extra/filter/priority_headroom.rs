//! Priority headroom filter: in-flight limits that leave room for higher priorities.

use kv_index::PodSet;
use routing_core::{Declare, Filter, PluginError, Read, RoutingContext};

use super::ceilings::Ceilings;
use crate::filter::retain::retain;
use crate::filter::{Figures, InFlightLimit};
use crate::prepare::Loads;

/// What [`PriorityHeadroomFilter`] takes.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct PriorityHeadroomParameters {
    /// What a pod may have in flight: `requests: 64`, or `tokens: 1000000`.
    pub limit: InFlightLimit,
    /// Which share of it each priority may fill: `priorities: [100, 50, 10]` or `lowest: 0` and `highest: 100`, with
    /// `min` and `max`; `max` is 1 unless given.
    pub ceilings: Ceilings,
    /// Which figures count; `merged` unless given.
    #[cfg_attr(feature = "serde", serde(default))]
    pub figures: Figures,
}

crate::parameters::setters! { PriorityHeadroomParameters {
    figures: Figures,
} }

impl PriorityHeadroomParameters {
    /// A limit and ceilings, on merged figures.
    #[must_use]
    pub const fn new(limit: InFlightLimit, ceilings: Ceilings) -> Self {
        Self { limit, ceilings, figures: Figures::Merged }
    }
}

/// Keeps the pods with room for a request of its [priority](routing_core::Request::priority).
///
/// A pod stays if what it has in flight is below ⌊limit × ceiling of the priority⌋. Requests of lower priorities stop
/// earlier, so a fleet that fills up keeps room for the others; [`Ceilings`] states the formula.
///
/// `OnEmpty::Fail` is sensible: to be turned away first is what a low priority means. The host may queue the request.
#[derive(Clone, Debug)]
pub struct PriorityHeadroomFilter {
    parameters: PriorityHeadroomParameters,
    loads: Read<Loads>,
}

impl PriorityHeadroomFilter {
    /// Declares that it reads loads.
    pub fn declare(declare: &mut Declare<'_>, parameters: PriorityHeadroomParameters) -> Self {
        Self { parameters, loads: declare.reads() }
    }

    /// What requests of a priority may fill of the limit, whole.
    fn below(&self, priority: i32) -> u64 {
        let limit = self.parameters.limit.get();
        let share = limit as f64 * self.parameters.ceilings.of(priority);
        // What a product of doubles lacks to a whole number is their rounding, and not meant; beyond the limit nothing is.
        ((share * (1.0 + 4.0 * f64::EPSILON)) as u64).min(limit)
    }
}

impl<const W: usize> Filter<W> for PriorityHeadroomFilter {
    fn filter(&self, context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        let PriorityHeadroomParameters { limit, figures, .. } = self.parameters;
        let (loads, below) = (context.read(self.loads)?, self.below(context.request().priority));
        Ok(retain(candidates, |pod| limit.of(&loads.of(pod), figures) < below))
    }
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU32, NonZeroU64};

    use super::*;
    use crate::filter::testing::{Setup, request};
    use crate::parameters::Fraction;

    fn ceilings(min: f32) -> Ceilings {
        Ceilings::by_rank(&[0, 1, 2], Fraction::new(min).unwrap(), Fraction::ONE).unwrap()
    }

    fn kept<const W: usize>(setup: &Setup<W>, parameters: &PriorityHeadroomParameters, priority: i32) -> Vec<usize> {
        let parameters = parameters.clone();
        setup.kept(request().priority(priority), move |declare| PriorityHeadroomFilter::declare(declare, parameters))
    }

    fn check<const W: usize>() {
        let setup = (0..12).fold(Setup::<W>::new(12), |setup, at| setup.load(at, |load| load.requests = at as u32));
        let limit = InFlightLimit::Requests(NonZeroU32::new(10).unwrap());
        let parameters = PriorityHeadroomParameters::new(limit, ceilings(0.4));
        let kept = |priority| kept(&setup, &parameters, priority).len();
        assert_eq!([2, 1, 0, -1].map(kept), [10, 7, 4, 4], "the higher the priority, the fuller pods may be");
    }

    #[test]
    fn lower_priorities_stop_earlier() {
        check::<1>();
        check::<4>();
        check::<16>();
    }

    #[test]
    fn seven_tenths_of_ten_are_seven() {
        let setup = (0..12).fold(<Setup>::new(12), |setup, at| setup.load(at, |load| load.requests = at as u32));
        let limit = InFlightLimit::Requests(NonZeroU32::new(10).unwrap());
        assert_eq!(kept(&setup, &PriorityHeadroomParameters::new(limit, ceilings(0.7)), 0).len(), 7);
    }

    #[test]
    fn large_limits_are_kept_to_the_token() {
        for limit in [100_000_000, 10_000_000_000, u64::MAX] {
            let below = limit / 10 * 7;
            let figures = [limit - 1, limit, limit.saturating_add(5), below - 1, below, below + 5];
            let setup = <Setup>::new(6);
            let setup = (0..6).fold(setup, |setup, at| setup.load(at, |load| load.tokens = figures[at]));
            let limit = InFlightLimit::Tokens(NonZeroU64::new(limit).unwrap());
            let kept = |priority| kept(&setup, &PriorityHeadroomParameters::new(limit, ceilings(0.7)), priority);
            assert_eq!(kept(2), [0, 3, 4, 5], "{limit:?}");
            if limit.get() < 1 << 53 {
                assert_eq!(kept(0), [3], "{limit:?}");
            }
        }
    }

    #[test]
    fn a_priority_may_be_left_nothing() {
        let setup = <Setup>::new(1);
        let limit = InFlightLimit::Tokens(NonZeroU64::new(100).unwrap());
        let parameters = PriorityHeadroomParameters::new(limit, ceilings(0.0));
        assert_eq!(kept(&setup, &parameters, 0), [0; 0]);
        assert_eq!(kept(&setup, &parameters, 1), [0]);
    }

    #[test]
    fn own_figures_count_where_asked() {
        let setup = <Setup>::new(2).load(0, |load| load.in_flight.requests = 9).load(1, |load| load.requests = 9);
        let limit = InFlightLimit::Requests(NonZeroU32::new(9).unwrap());
        let parameters = PriorityHeadroomParameters::new(limit, ceilings(0.5));
        assert_eq!(kept(&setup, &parameters, 2), [0]);
        let counted = PriorityHeadroomParameters { figures: Figures::Counted, ..parameters };
        assert_eq!(kept(&setup, &counted, 2), [1]);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn parameters_name_a_limit_and_ceilings() {
        let text = "{limit: {requests: 64}, ceilings: {lowest: 0, highest: 100, min: 0.5}}";
        let parameters: PriorityHeadroomParameters = serde_yaml_ng::from_str(text).unwrap();
        assert_eq!((parameters.limit.get(), parameters.ceilings.of(50)), (64, 0.75));
        assert!(serde_yaml_ng::from_str::<PriorityHeadroomParameters>("{limit: {requests: 64}}").is_err());
    }
}
