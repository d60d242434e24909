//! Concurrency limit: pods with few enough requests or tokens in flight.

use kv_index::PodSet;
use routing_core::{Declare, Filter, PluginError, Read, RoutingContext};

use super::in_flight::{Figures, InFlightLimit};
use super::retain::retain;
use crate::parameters::Amount;
use crate::prepare::Loads;

/// What [`ConcurrencyFilter`] takes.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct ConcurrencyParameters {
    /// What a pod may have in flight: `requests: 64`, or `tokens: 1000000`.
    pub limit: InFlightLimit,
    /// How far beyond the limit bursts may go, as a share of it; 0 unless given.
    #[cfg_attr(feature = "serde", serde(default))]
    pub headroom: Amount,
    /// Which figures count; `merged` unless given.
    #[cfg_attr(feature = "serde", serde(default))]
    pub figures: Figures,
}

crate::parameters::setters! { ConcurrencyParameters {
    headroom: Amount,
    figures: Figures,
} }

impl ConcurrencyParameters {
    /// A limit without headroom, on merged figures.
    #[must_use]
    pub const fn new(limit: InFlightLimit) -> Self {
        Self { limit, headroom: Amount::ZERO, figures: Figures::Merged }
    }
}

/// Keeps the pods that have less in flight than a limit.
///
/// A pod stays if what it has is below ⌊limit × (1 + headroom)⌋. Two limits are two filters.
///
/// `OnEmpty::Fail` is sensible where the host queues or sheds what finds no room: a limit that gives way is none.
#[derive(Clone, Copy, Debug)]
pub struct ConcurrencyFilter {
    limit: InFlightLimit,
    figures: Figures,
    below: u64,
    loads: Read<Loads>,
}

impl ConcurrencyFilter {
    /// Declares that it reads loads.
    pub fn declare(declare: &mut Declare<'_>, parameters: ConcurrencyParameters) -> Self {
        let ConcurrencyParameters { limit, headroom, figures } = parameters;
        // The cast cuts off, as the formula does, and ends at the largest number.
        let below = (limit.get() as f64 * (1.0 + headroom.get())) as u64;
        Self { limit, figures, below, loads: declare.reads() }
    }
}

impl<const W: usize> Filter<W> for ConcurrencyFilter {
    fn filter(&self, context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        let loads = context.read(self.loads)?;
        Ok(retain(candidates, |pod| self.limit.of(&loads.of(pod), self.figures) < self.below))
    }
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU32, NonZeroU64};

    use super::*;
    use crate::filter::testing::{Setup, request};

    const TEN: InFlightLimit = InFlightLimit::Requests(NonZeroU32::new(10).unwrap());

    fn kept<const W: usize>(setup: &Setup<W>, parameters: ConcurrencyParameters) -> Vec<usize> {
        setup.kept(request(), move |declare| ConcurrencyFilter::declare(declare, parameters))
    }

    fn check<const W: usize>() {
        let setup = Setup::<W>::full();
        let last = setup.last();
        let setup = setup.load(0, |load| load.requests = 10).load(last, |load| load.requests = 9);
        assert_eq!(kept(&setup, ConcurrencyParameters::new(TEN)), (1..=last).collect::<Vec<_>>());
    }

    #[test]
    fn pods_at_the_limit_go() {
        check::<1>();
        check::<4>();
        check::<16>();
    }

    #[test]
    fn headroom_is_on_top_and_rounded_down() {
        let setup = (0..14).fold(<Setup>::new(14), |setup, at| setup.load(at, |load| load.requests = at as u32));
        let with = |headroom| ConcurrencyParameters {
            headroom: Amount::new(headroom).unwrap(),
            ..ConcurrencyParameters::new(TEN)
        };
        assert_eq!(kept(&setup, with(0.0)).len(), 10);
        assert_eq!(kept(&setup, with(0.2)).len(), 12);
        assert_eq!(kept(&setup, with(0.25)).len(), 12, "12.5 is 12");
        assert_eq!(kept(&setup, with(1e300)).len(), 14);
    }

    #[test]
    fn tokens_and_own_figures_count_where_asked() {
        let setup =
            <Setup>::new(2).load(0, |load| load.in_flight.prompt_tokens = 100).load(1, |load| load.tokens = 100);
        let limit = InFlightLimit::Tokens(NonZeroU64::new(100).unwrap());
        let parameters = ConcurrencyParameters::new(limit);
        assert_eq!(kept(&setup, parameters), [0]);
        assert_eq!(kept(&setup, ConcurrencyParameters { figures: Figures::Counted, ..parameters }), [1]);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn parameters_name_one_limit() {
        let read = |text| serde_json::from_str::<ConcurrencyParameters>(text);
        let parameters = read(r#"{"limit": {"tokens": 1000}, "headroom": 0.5, "figures": "counted"}"#).unwrap();
        assert_eq!(parameters.limit.get(), 1000);
        assert_eq!(parameters.figures, Figures::Counted);
        assert!(read("{}").is_err());
        assert!(read(r#"{"limit": {"requests": 0}}"#).is_err());
        assert!(read(r#"{"limit": {"requests": 1}, "headroom": -1}"#).is_err());
    }
}
