//! Utilization filter: pods with a short queue and KV cache to spare.

use kv_index::PodSet;
use routing_core::{Declare, Filter, PluginError, Read, RoutingContext};

#[cfg(feature = "serde")]
use crate::filter::checks;
use crate::filter::retain::retain;
use crate::filter::{Metric, Unreported};
use crate::parameters::{Amount, Positive, parameters};
use crate::prepare::Loads;

parameters! {
    /// What [`UtilizationFilter`] takes.
    #[derive(Clone, Copy, Debug)]
    pub struct UtilizationParameters {
        /// Waiting requests that make a pod full; 5 unless given.
        pub waiting: Positive = const { Positive::constant(5.0) },
        /// The share of the KV cache in use that makes a pod full, at most 1; 0.8 unless given.
        #[cfg_attr(feature = "serde", serde(deserialize_with = "checks::share"))]
        pub kv_used: Positive = const { Positive::constant(0.8) },
        /// How far beyond both a pod may be, as a share of them; 0 unless given.
        pub headroom: Amount = Amount::ZERO,
        /// What is made of figures of no known age, or too high a one; `trust` unless given.
        pub unreported: Unreported = Unreported::Trust,
    }
}

/// Keeps the pods whose engines report a short queue and KV cache to spare.
///
/// A pod stays if waiting < `waiting` × (1 + headroom) and KV use < `kv_used` × (1 + headroom). How full the fleet is by
/// the same two figures is told by [`saturation::by_utilization`](crate::filter::saturation::by_utilization).
///
/// `OnEmpty::KeepPrevious` is sensible: engines queue what they cannot run at once, and a report is some time behind.
#[derive(Clone, Copy, Debug)]
pub struct UtilizationFilter {
    waiting: f64,
    kv_used: f64,
    unreported: Unreported,
    loads: Read<Loads>,
}

impl UtilizationFilter {
    /// Declares that it reads loads.
    pub fn declare(declare: &mut Declare<'_>, parameters: UtilizationParameters) -> Self {
        let UtilizationParameters { waiting, kv_used, headroom, unreported } = parameters;
        let with_headroom = |limit: Positive| limit.get() * (1.0 + headroom.get());
        let kv_used = Metric::KvUsed.precise(with_headroom(kv_used));
        Self { waiting: with_headroom(waiting), kv_used, unreported, loads: declare.reads() }
    }
}

impl<const W: usize> Filter<W> for UtilizationFilter {
    fn filter(&self, context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        let loads = context.read(self.loads)?;
        Ok(retain(candidates, |pod| {
            let load = loads.of(pod);
            let has_room = f64::from(load.waiting) < self.waiting && Metric::KvUsed.of(&load) < self.kv_used;
            self.unreported.verdict(&load).unwrap_or(has_room)
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::filter::testing::{Setup, request};

    fn kept<const W: usize>(setup: &Setup<W>, parameters: UtilizationParameters) -> Vec<usize> {
        setup.kept(request(), move |declare| UtilizationFilter::declare(declare, parameters))
    }

    fn check<const W: usize>() {
        let setup = Setup::<W>::new(6)
            .load(0, |load| (load.waiting, load.kv_used) = (4, 0.79))
            .load(1, |load| (load.waiting, load.kv_used) = (5, 0.0))
            .load(2, |load| (load.waiting, load.kv_used) = (0, 0.8))
            .load(3, |load| (load.waiting, load.kv_used) = (5, 0.95))
            .load(4, |load| (load.waiting, load.kv_used) = (0, 0.96));
        assert_eq!(kept(&setup, UtilizationParameters::default()), [0, 5]);
        let headroom = Amount::new(0.2).unwrap();
        let with_headroom = UtilizationParameters { headroom, ..UtilizationParameters::default() };
        assert_eq!(kept(&setup, with_headroom), [0, 1, 2, 3, 5], "below 6 and 0.96");
    }

    #[test]
    fn full_pods_go() {
        check::<1>();
        check::<4>();
        check::<16>();
    }

    #[test]
    fn what_is_not_reported_is_believed_kept_or_removed() {
        let setup = <Setup>::new(4)
            .load(0, |load| load.waiting = 9)
            .load(1, |load| (load.waiting, load.age) = (9, Some(Duration::ZERO)))
            .load(2, |load| load.age = Some(Duration::ZERO))
            .load(3, |load| (load.age, load.stale) = (Some(Duration::ZERO), true));
        let with = |unreported| kept(&setup, UtilizationParameters { unreported, ..UtilizationParameters::default() });
        assert_eq!(with(Unreported::Trust), [2, 3]);
        assert_eq!(with(Unreported::Keep), [0, 2, 3]);
        assert_eq!(with(Unreported::Remove), [2], "a report that is too old is none");
    }

    #[cfg(feature = "serde")]
    #[test]
    fn parameters_have_defaults_and_limits() {
        let read = |text| serde_json::from_str::<UtilizationParameters>(text);
        let parameters = read(r#"{"waiting": 8, "unreported": "remove"}"#).unwrap();
        assert_eq!((parameters.waiting.get(), parameters.kv_used.get()), (8.0, 0.8));
        assert!(read(r#"{"kv_used": 0}"#).is_err() && read(r#"{"kv_used": 9}"#).is_err());
        assert_eq!(read(r#"{"kv_used": 1}"#).unwrap().kv_used.get(), 1.0);
    }
}
