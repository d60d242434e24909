//! Label filter: pods by label selector, or by a label that the client names.

use std::collections::BTreeMap;

use kv_index::PodSet;
use routing_core::{Declare, Filter, PluginError, RoutingContext};

use super::label_selector::LabelSelector;
use crate::filter::Unknown;
use crate::parameters::parameters;

parameters! {
    /// What [`LabelFilter`] takes.
    #[derive(Clone, Debug)]
    #[cfg_attr(feature = "serde", serde(try_from = "Raw"))]
    pub struct LabelParameters {
        /// The labels that pods must have, such as `zone in (a, b), !gpu, tier=fast`; any, unless given.
        pub selector: LabelSelector = LabelSelector::default(),
        /// Labels of pods that must be as a label of the client: the pods' label, and the client's.
        pub same_as_client: BTreeMap<Box<str>, Box<str>> = BTreeMap::new(),
        /// What is done where the client has no such label: `keep` asks nothing of pods, and is the default; `remove` leaves
        /// nobody.
        pub clients_without: Unknown = Unknown::Keep,
    }
}

/// Parameters as documents give them.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    selector: LabelSelector,
    #[serde(default)]
    same_as_client: BTreeMap<Box<str>, Box<str>>,
    clients_without: Option<Unknown>,
}

#[cfg(feature = "serde")]
impl TryFrom<Raw> for LabelParameters {
    type Error = &'static str;

    fn try_from(Raw { selector, same_as_client, clients_without }: Raw) -> Result<Self, &'static str> {
        if selector == LabelSelector::default() && same_as_client.is_empty() {
            return Err("give `selector` or `same_as_client`: without them nobody is left out");
        }
        if same_as_client.iter().any(|(label, clients)| label.is_empty() || clients.is_empty()) {
            return Err("a label of `same_as_client` is empty");
        }
        if same_as_client.is_empty() && clients_without.is_some() {
            return Err("`clients_without` goes with `same_as_client`");
        }
        Ok(Self { selector, same_as_client, clients_without: clients_without.unwrap_or(Unknown::Keep) })
    }
}

impl LabelParameters {
    /// Pods that a selector selects.
    #[must_use]
    pub fn new(selector: LabelSelector) -> Self {
        Self { selector, ..Self::default() }
    }

    /// The same, and a label of the pods is as one of the client.
    #[must_use]
    pub fn same_label_as_client(mut self, label: &str, clients: &str) -> Self {
        self.same_as_client.insert(label.into(), clients.into());
        self
    }
}

/// Keeps the pods whose labels a [`LabelSelector`] selects, and whose labels are the client's where that is asked.
///
/// `OnEmpty::Fail` is sensible for what must be, such as a tenant's own pods or a country; `OnEmpty::KeepPrevious` for
/// what is only better, such as the client's zone.
#[derive(Clone, Debug)]
pub struct LabelFilter {
    parameters: LabelParameters,
}

impl LabelFilter {
    /// Declares nothing: labels are the fleet's and the request's.
    pub fn declare(_: &mut Declare<'_>, parameters: LabelParameters) -> Self {
        Self { parameters }
    }
}

impl<const W: usize> Filter<W> for LabelFilter {
    fn filter(&self, context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        let LabelParameters { selector, same_as_client, clients_without } = &self.parameters;
        let (fleet, request) = (context.fleet(), context.request());
        let mut kept = candidates & selector.select(fleet);
        for (label, clients) in same_as_client {
            match request.label(clients) {
                Some(value) => kept = kept & fleet.labelled(label, value),
                None if *clients_without == Unknown::Keep => {}
                None => return Ok(PodSet::EMPTY),
            }
        }
        Ok(kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::testing::{Setup, request};

    fn setup<const W: usize>() -> Setup<W> {
        Setup::new(3)
            .pod(0, |pod| pod.label("zone", "a").label("tier", "fast"))
            .pod(1, |pod| pod.label("zone", "b").label("tier", "fast"))
    }

    fn check<const W: usize>() {
        let kept = |selector: &str, labels: &'static [(&str, &str)]| {
            let parameters = LabelParameters::new(selector.parse().unwrap()).same_label_as_client("zone", "home");
            setup::<W>().kept(request().labels(labels), move |declare| LabelFilter::declare(declare, parameters))
        };
        assert_eq!(kept("", &[]), [0, 1, 2]);
        assert_eq!(kept("tier=fast", &[]), [0, 1]);
        assert_eq!(kept("", &[("home", "b")]), [1]);
        assert_eq!(kept("zone!=b", &[("home", "b")]), [0; 0]);
        assert_eq!(kept("", &[("zone", "b")]), [0, 1, 2], "another label of the client");
        assert_eq!(kept("", &[("home", "c")]), [0; 0]);
    }

    #[test]
    fn selectors_and_clients_labels_both_count() {
        check::<1>();
        check::<4>();
        check::<16>();
    }

    #[test]
    fn clients_without_the_label_may_be_refused() {
        let strict = LabelParameters { clients_without: Unknown::Remove, ..LabelParameters::default() };
        let strict = strict.same_label_as_client("zone", "zone");
        let kept = |labels: &'static [(&str, &str)]| {
            let parameters = strict.clone();
            setup::<4>().kept(request().labels(labels), |declare| LabelFilter::declare(declare, parameters))
        };
        assert_eq!(kept(&[]), [0; 0]);
        assert_eq!(kept(&[("zone", "a")]), [0]);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn parameters_are_a_selector_and_a_map() {
        let text = "{selector: 'zone in (a,b),!gpu', same_as_client: {zone: zone}}";
        let parameters: LabelParameters = serde_yaml_ng::from_str(text).unwrap();
        assert_eq!(parameters.selector, LabelSelector::default().within("zone", &["a", "b"]).absent("gpu"));
        assert_eq!(parameters.clients_without, Unknown::Keep);
        let error = serde_yaml_ng::from_str::<LabelParameters>("{selector: 'zone in a'}").unwrap_err();
        assert!(error.to_string().contains("expected `(` after `zone in`"), "{error}");
        for nothing in ["{}", "{selector: ''}", "{selector: a, clients_without: keep}", "{same_as_client: {zone: ''}}"]
        {
            assert!(serde_yaml_ng::from_str::<LabelParameters>(nothing).is_err(), "{nothing}");
        }
    }
}
