//! Load imbalance filter: the least loaded pods where loads are far apart.

use kv_index::PodSet;
use routing_core::{Declare, Filter, PluginError, Read, RoutingContext};

use super::metric::Metric;
use super::retain::retain;
use crate::parameters::{Amount, Positive, parameters};
use crate::prepare::Loads;

parameters! {
    /// What [`ImbalanceFilter`] takes.
    #[derive(Clone, Copy, Debug)]
    pub struct ImbalanceParameters {
        /// What is compared; requests, unless given.
        pub by: Metric = Metric::Requests,
        /// By how much the most loaded candidate must exceed the least loaded; 64, unless given.
        pub difference: Amount = const { Amount::constant(64.0) },
        /// How many times as much it must have; 1.5, unless given.
        pub ratio: Positive = const { Positive::constant(1.5) },
    }
}

/// Keeps the least loaded candidates if `most − least > difference` and `most > ratio · least`; else everybody.
///
/// It is a gate for plugins after it that do not look at loads, or too little: one pod that has come to be far above the
/// others takes the choice from all of them, whatever they hold. Both conditions must hold: a difference alone is nothing on
/// a busy fleet, and a ratio alone is nothing on an idle one. A load that is not known is 0.
///
/// Somebody always stays, so `OnEmpty` does not matter.
#[derive(Clone, Copy, Debug)]
pub struct ImbalanceFilter {
    parameters: ImbalanceParameters,
    loads: Read<Loads>,
}

impl ImbalanceFilter {
    /// Declares that it reads loads.
    pub fn declare(declare: &mut Declare<'_>, parameters: ImbalanceParameters) -> Self {
        Self { parameters, loads: declare.reads() }
    }
}

impl<const W: usize> Filter<W> for ImbalanceFilter {
    fn filter(&self, context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        let ImbalanceParameters { by, difference, ratio } = self.parameters;
        let loads = context.read(self.loads)?;
        let load = |pod| by.of(&loads.of(pod));
        let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
        for pod in candidates {
            let load = load(pod);
            (least, most) = (least.min(load), most.max(load));
        }
        let apart = most - least > difference.get() && most > ratio.get() * least;
        Ok(if apart { retain(candidates, |pod| load(pod) == least) } else { candidates })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::filter::testing::{Setup, request};

    fn kept<const W: usize>(setup: &Setup<W>, parameters: ImbalanceParameters) -> Vec<usize> {
        setup.kept(request(), move |declare| ImbalanceFilter::declare(declare, parameters))
    }

    fn check<const W: usize>() {
        let setup = Setup::<W>::full();
        let last = setup.last();
        let busy = (0..last).fold(setup, |setup, at| setup.load(at, |load| load.requests = 100));
        let all: Vec<usize> = (0..=last).collect();
        let with = |least: u32| busy.clone().load(last, |load| load.requests = least);
        assert_eq!(kept(&with(35), ImbalanceParameters::default()), [last]);
        assert_eq!(kept(&with(36), ImbalanceParameters::default()), all, "64 is not more than 64");
        let near = ImbalanceParameters { difference: Amount::ZERO, ..ImbalanceParameters::default() };
        assert_eq!(kept(&with(66), near), [last]);
        assert_eq!(kept(&with(67), near), all, "100 is less than 1.5 times as much");
    }

    #[test]
    fn the_least_loaded_stay_where_both_limits_are_exceeded() {
        check::<1>();
        check::<4>();
        check::<16>();
    }

    #[cfg(feature = "serde")]
    #[test]
    fn parameters_are_read_by_name() {
        let read = |text| serde_json::from_str::<ImbalanceParameters>(text);
        let given = read(r#"{"by": "uncached_tokens", "difference": 0, "ratio": 1}"#).unwrap();
        assert_eq!((given.by, given.difference, given.ratio.get()), (Metric::UncachedTokens, Amount::ZERO, 1.0));
        assert!(read(r#"{"ratio": 0}"#).is_err() && read(r#"{"difference": -1}"#).is_err());
    }

    proptest! {
        /// The rule, in whole numbers; and somebody stays.
        #[test]
        fn it_is_the_rule(loads in prop::collection::vec(0..200u32, 1..8), difference in 0..100u32, halves in 1..6u32) {
            let setup = loads.iter().enumerate().fold(<Setup>::new(loads.len()), |setup, (at, requests)| {
                setup.load(at, |load| load.requests = *requests)
            });
            let (least, most) = (*loads.iter().min().unwrap(), *loads.iter().max().unwrap());
            let apart = most - least > difference && 2 * most > halves * least;
            let expected: Vec<usize> = (0..loads.len()).filter(|at| !apart || loads[*at] == least).collect();
            let parameters = ImbalanceParameters {
                difference: Amount::new(difference.into()).unwrap(),
                ratio: Positive::new(f64::from(halves) / 2.0).unwrap(),
                ..ImbalanceParameters::default()
            };
            prop_assert_eq!(kept(&setup, parameters), expected);
        }
    }
}
