//! Enum values as words of a document, and serialization of definitions.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use super::{PluginDefinition, Problem};
use crate::fleet::Role;
use crate::plan::FailurePolicy;
use crate::profile::OnEmpty;
use crate::suggest::suggest;
use crate::value::Value;

/// A value that documents write as a word; the first of the words is the one that need not be written.
pub(crate) trait Word: Copy + PartialEq + 'static {
    const WHAT: &'static str;
    const WORDS: &'static [(&'static str, Self)];
}

impl Word for Role {
    const WHAT: &'static str = "role";
    const WORDS: &'static [(&'static str, Self)] =
        &[("both", Self::Both), ("prefill", Self::Prefill), ("decode", Self::Decode), ("encode", Self::Encode)];
}

impl Word for FailurePolicy {
    const WHAT: &'static str = "failure policy";
    const WORDS: &'static [(&'static str, Self)] = &[
        ("next_candidate", Self::NextCandidate),
        ("skip", Self::Skip),
        ("replan", Self::Replan),
        ("fail", Self::Fail),
    ];
}

impl Word for OnEmpty {
    const WHAT: &'static str = "choice for a filter that leaves nobody";
    const WORDS: &'static [(&'static str, Self)] = &[("fail", Self::Fail), ("keep_previous", Self::KeepPrevious)];
}

/// Reads a word.
pub(super) fn read<T: Word>(given: &str) -> Result<T, Problem> {
    let known = T::WORDS.iter().find(|(word, _)| *word == given);
    known.map(|(_, value)| *value).ok_or_else(|| {
        let suggestion = suggest(given, T::WORDS.iter().map(|(word, _)| *word)).map(Into::into);
        Problem::UnknownWord { what: T::WHAT, given: given.into(), suggestion }
    })
}

/// Writes a word.
pub(super) fn write<T: Word, S: Serializer>(value: &T, serializer: S) -> Result<S::Ok, S::Error> {
    let known = T::WORDS.iter().find(|(_, known)| known == value);
    known.map_or_else(
        || Err(serde::ser::Error::custom(format_args!("a {} without a word for it", T::WHAT))),
        |(word, _)| serializer.serialize_str(word),
    )
}

pub(super) fn is_default<T: Word>(value: &T) -> bool {
    T::WORDS.first().is_some_and(|(_, first)| first == value)
}

/// A plugin as it is written: without a name that is only its type.
#[derive(Serialize)]
pub(super) struct WrittenPlugin {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    r#type: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    parameters: BTreeMap<String, Value>,
}

impl From<PluginDefinition> for WrittenPlugin {
    fn from(plugin: PluginDefinition) -> Self {
        let PluginDefinition { name, kind, parameters } = plugin;
        Self { name: (name != kind).then_some(name), r#type: kind, parameters }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_one_word() {
        // A value that is added is added here, and then in its words.
        let role = |role| match role {
            Role::Prefill | Role::Decode | Role::Encode | Role::Both => 4,
        };
        let policy = |policy| match policy {
            FailurePolicy::NextCandidate | FailurePolicy::Skip | FailurePolicy::Replan | FailurePolicy::Fail => 4,
        };
        let on_empty = |on_empty| match on_empty {
            OnEmpty::Fail | OnEmpty::KeepPrevious => 2,
        };
        assert_eq!(Role::WORDS.len(), role(Role::default()));
        assert_eq!(FailurePolicy::WORDS.len(), policy(FailurePolicy::default()));
        assert_eq!(OnEmpty::WORDS.len(), on_empty(OnEmpty::Fail));
    }

    #[test]
    fn what_need_not_be_written_is_what_steps_are_without_it() {
        assert!(is_default(&Role::default()) && is_default(&FailurePolicy::default()) && is_default(&OnEmpty::Fail));
    }
}
