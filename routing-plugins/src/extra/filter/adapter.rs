//! LoRA adapter filter: pods with the adapter loaded, or with room for it.

use kv_index::PodSet;
use routing_core::{Declare, Filter, PluginError, PodInfo, RoutingContext};

use crate::filter::Unknown;
use crate::filter::retain::retain;
use crate::parameters::parameters;

parameters! {
    /// What [`AdapterFilter`] takes.
    #[derive(Clone, Copy, Debug)]
    pub struct AdapterParameters {
        /// Whether pods with room to load the adapter stay too; true unless given.
        pub room: bool = true,
        /// What becomes of a pod that does not say how many adapters it has room for: `remove` unless given, since it may be
        /// one that takes none.
        pub unknown_slots: Unknown = Unknown::Remove,
    }
}

/// Keeps the pods that have the request's adapter loaded, or room to load it.
///
/// A pod has room if loaded + waiting adapters < its slots; one where this adapter waits already has its slot. A request
/// without an adapter keeps everybody.
///
/// `OnEmpty::KeepPrevious` is sensible where engines swap adapters: somebody has to. Where they refuse unknown ones,
/// `OnEmpty::Fail` says so sooner.
#[derive(Clone, Copy, Debug)]
pub struct AdapterFilter {
    parameters: AdapterParameters,
}

impl AdapterFilter {
    /// Declares nothing: adapters are the fleet's and the request's.
    pub fn declare(_: &mut Declare<'_>, parameters: AdapterParameters) -> Self {
        Self { parameters }
    }

    fn has_room(&self, info: &PodInfo, adapter: &str) -> bool {
        let taken = info.adapters.len() + info.adapters_waiting.len();
        let is_free = match info.adapter_slots {
            Some(slots) => taken < usize::from(slots),
            None => self.parameters.unknown_slots == Unknown::Keep,
        };
        is_free || info.adapters_waiting.iter().any(|waiting| **waiting == *adapter)
    }
}

impl<const W: usize> Filter<W> for AdapterFilter {
    fn filter(&self, context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        let Some(adapter) = context.request().adapter else { return Ok(candidates) };
        let fleet = context.fleet();
        let loaded = candidates & fleet.with_adapter(adapter);
        if !self.parameters.room {
            return Ok(loaded);
        }
        let with_room = |pod| fleet.pod(pod).is_some_and(|info| self.has_room(info, adapter));
        Ok(loaded | retain(candidates - loaded, with_room))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::testing::{Setup, request};

    fn check<const W: usize>() {
        let setup = Setup::<W>::new(7)
            .pod(0, |pod| pod.adapter("sql").adapter_slots(1))
            .pod(1, |pod| pod.adapter("chat").adapter_slots(2))
            .pod(2, |pod| pod.adapter("chat").adapter_slots(1))
            .pod(3, |pod| pod.adapter("chat").adapter_waiting("law").adapter_slots(2))
            .pod(4, |pod| pod.adapter("chat").adapter_waiting("sql").adapter_slots(2))
            .pod(5, |pod| pod.adapter("sql"));
        let kept = |room, unknown_slots| {
            let parameters = AdapterParameters { room, unknown_slots };
            setup.kept(request().adapter("sql"), move |declare| AdapterFilter::declare(declare, parameters))
        };
        assert_eq!(kept(true, Unknown::Remove), [0, 1, 4, 5]);
        assert_eq!(kept(true, Unknown::Keep), [0, 1, 4, 5, 6]);
        assert_eq!(kept(false, Unknown::Keep), [0, 5]);
        let without = |declare: &mut Declare<'_>| AdapterFilter::declare(declare, AdapterParameters::default());
        assert_eq!(setup.kept(request(), without).len(), 7);
    }

    #[test]
    fn loaded_adapters_and_room_for_them_stay() {
        check::<1>();
        check::<4>();
        check::<16>();
    }

    #[cfg(feature = "serde")]
    #[test]
    fn parameters_have_defaults() {
        let parameters: AdapterParameters = serde_json::from_str("{}").unwrap();
        assert!(parameters.room && parameters.unknown_slots == Unknown::Remove);
        let parameters: AdapterParameters =
            serde_json::from_str(r#"{"room": false, "unknown_slots": "keep"}"#).unwrap();
        assert!(!parameters.room && parameters.unknown_slots == Unknown::Keep);
    }
}
