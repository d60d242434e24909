//! Role filter: pods that prefill, decode or do both, as the step needs.

use kv_index::PodSet;
use routing_core::{Declare, Filter, PluginError, Role, RoutingContext};

/// What [`RoleFilter`] takes.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(try_from = "Raw"))]
#[non_exhaustive]
pub struct RoleParameters {
    /// The work: `prefill`, `decode`, `encode`, or `both` for pods that do prefill and decode.
    pub role: Role,
    /// The label that says what a pod does; none for the roles that the host gave.
    pub label: Option<Box<str>>,
    /// What a pod without that label does; `both`, unless given. Only with a label.
    pub unlabelled: Unlabelled,
}

/// Parameters as documents give them.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(with = "RoleWord")]
    role: Role,
    label: Option<Box<str>>,
    unlabelled: Option<Unlabelled>,
}

#[cfg(feature = "serde")]
impl TryFrom<Raw> for RoleParameters {
    type Error = &'static str;

    fn try_from(Raw { role, label, unlabelled }: Raw) -> Result<Self, &'static str> {
        match (&label, unlabelled) {
            (Some(label), _) if label.is_empty() => Err("`label` is empty"),
            (None, Some(_)) => Err("`unlabelled` is for pods without the `label`, and there is none"),
            _ => Ok(Self { role, label, unlabelled: unlabelled.unwrap_or_default() }),
        }
    }
}

impl RoleParameters {
    /// By the roles that the host gave.
    #[must_use]
    pub const fn new(role: Role) -> Self {
        Self { role, label: None, unlabelled: Unlabelled::Both }
    }

    /// The same by a label.
    #[must_use]
    pub fn label(self, key: &str) -> Self {
        Self { label: Some(key.into()), ..self }
    }

    /// The same where pods without the label do this.
    #[must_use]
    pub fn unlabelled(self, unlabelled: Unlabelled) -> Self {
        Self { unlabelled, ..self }
    }
}

/// What a pod without a role label does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[expect(clippy::exhaustive_enums, reason = "something or nothing: complete by nature")]
pub enum Unlabelled {
    /// Prefill and decode.
    #[default]
    Both,
    /// Nothing.
    None,
}

/// The words for roles.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
#[serde(remote = "Role", rename_all = "snake_case")]
enum RoleWord {
    Prefill,
    Decode,
    Encode,
    Both,
}

/// Keeps the pods that do some work.
///
/// By the roles of the fleet, that is [`Fleet::serving`](routing_core::Fleet::serving): a pod without a role does prefill
/// and decode. By a label, its value names the work: `prefill`, `decode`, `encode`, or several of them, as
/// `prefill-decode` (`both` is the same), `encode-prefill` and `encode-prefill-decode`. A pod with another value does
/// nothing.
///
/// `OnEmpty::Fail` is sensible: a pod of another role may not even be able to do the work.
#[derive(Clone, Debug)]
pub struct RoleFilter {
    parameters: RoleParameters,
}

impl RoleFilter {
    /// Declares which role it filters for; roles and labels themselves are the fleet's.
    pub fn declare(declare: &mut Declare<'_>, parameters: RoleParameters) -> Self {
        declare.filters_role(parameters.role);
        Self { parameters }
    }

    fn labelled<const W: usize>(&self, context: &RoutingContext<'_, W>, label: &str) -> PodSet<W> {
        let RoleParameters { role, unlabelled, .. } = self.parameters;
        let fleet = context.fleet();
        let with_value = |pods, value: &&str| pods | fleet.labelled(label, value);
        let serving = values(role).iter().fold(PodSet::EMPTY, with_value);
        if unlabelled == Unlabelled::Both && role != Role::Encode {
            serving | (fleet.pods() - fleet.with_label(label))
        } else {
            serving
        }
    }
}

impl<const W: usize> Filter<W> for RoleFilter {
    fn filter(&self, context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        Ok(candidates
            & match &self.parameters.label {
                None => context.fleet().serving(self.parameters.role),
                Some(label) => self.labelled(context, label),
            })
    }
}

/// The values of a label that stand for some work.
const fn values(role: Role) -> &'static [&'static str] {
    match role {
        Role::Prefill => &["prefill", "prefill-decode", "both", "encode-prefill", "encode-prefill-decode"],
        Role::Decode => &["decode", "prefill-decode", "both", "encode-prefill-decode"],
        Role::Encode => &["encode", "encode-prefill", "encode-prefill-decode"],
        Role::Both => &["prefill-decode", "both", "encode-prefill-decode"],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::testing::{Setup, request};

    fn kept<const W: usize>(setup: &Setup<W>, parameters: RoleParameters) -> Vec<usize> {
        setup.kept_in(parameters.role, request(), |declare| RoleFilter::declare(declare, parameters))
    }

    fn typed<const W: usize>() {
        let setup = Setup::<W>::new(5)
            .pod(0, |pod| pod.role(Role::Prefill))
            .pod(1, |pod| pod.role(Role::Decode))
            .pod(2, |pod| pod.role(Role::Encode))
            .pod(3, |pod| pod.role(Role::Both));
        let kept = |role| kept(&setup, RoleParameters::new(role));
        assert_eq!(kept(Role::Prefill), [0, 3, 4], "no role is both");
        assert_eq!(kept(Role::Decode), [1, 3, 4]);
        assert_eq!(kept(Role::Encode), [2]);
        assert_eq!(kept(Role::Both), [3, 4]);
    }

    #[test]
    fn roles_of_the_fleet_count() {
        typed::<1>();
        typed::<4>();
        typed::<16>();
    }

    #[test]
    fn a_label_names_the_work() {
        let words =
            ["decode", "prefill", "encode", "prefill-decode", "both", "encode-prefill", "encode-prefill-decode"];
        let mut setup = <Setup>::new(9).pod(7, |pod| pod.label("role", "drain").role(Role::Prefill));
        for (at, word) in words.iter().enumerate() {
            setup = setup.pod(at, |pod| pod.label("role", word));
        }
        let by = |role, unlabelled| kept(&setup, RoleParameters::new(role).label("role").unlabelled(unlabelled));
        assert_eq!(by(Role::Prefill, Unlabelled::Both), [1, 3, 4, 5, 6, 8]);
        assert_eq!(by(Role::Prefill, Unlabelled::None), [1, 3, 4, 5, 6]);
        assert_eq!(by(Role::Decode, Unlabelled::Both), [0, 3, 4, 6, 8]);
        assert_eq!(by(Role::Decode, Unlabelled::None), [0, 3, 4, 6]);
        assert_eq!(by(Role::Encode, Unlabelled::Both), [2, 5, 6], "both is prefill and decode");
        assert_eq!(by(Role::Encode, Unlabelled::None), [2, 5, 6]);
        assert_eq!(by(Role::Both, Unlabelled::Both), [3, 4, 6, 8]);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn parameters_are_words() {
        let read = |text| serde_json::from_str::<RoleParameters>(text);
        let parameters = read(r#"{"role": "encode", "label": "role", "unlabelled": "none"}"#).unwrap();
        assert_eq!((parameters.role, parameters.unlabelled), (Role::Encode, Unlabelled::None));
        assert_eq!(read(r#"{"role": "decode"}"#).unwrap().unlabelled, Unlabelled::Both);
        assert!(read("{}").is_err(), "a filter without a role filters nothing");
        assert!(read(r#"{"role": "pre-fill"}"#).is_err());
        assert!(read(r#"{"role": "decode", "unlabelled": "none"}"#).is_err(), "without which label?");
        assert!(read(r#"{"role": "decode", "label": ""}"#).is_err());
    }
}
