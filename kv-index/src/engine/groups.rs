//! KV-cache groups of hybrid models: which group carries the prefix.
//!
//! A model with several kinds of attention keeps a cache for each. Only full attention keeps every block of a
//! prefix; windows and states keep what they still need, so their blocks say nothing about how much of a prompt
//! is held. Evictions name the group but not its kind, so the kinds are remembered.

use smallvec::SmallVec;

use crate::index::snapshot::bytes::{Reader, put_u32, put_u64};
use crate::pods::SnapshotError;

use super::drop_reason::DropReason;
use super::event::{EngineRemoved, EngineStored};

/// What a stream has told about its groups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Groups {
    /// The group that stands for the prefix.
    prefix: Option<Key>,
    /// Groups that do not, and why.
    others: SmallVec<[(Key, DropReason); 2]>,
}

/// How an event names its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Key {
    /// By number, or not at all where there is only one.
    Group(Option<u32>),
    /// By the attention window, as TensorRT-LLM does. The largest is full attention.
    Window(u32),
}

impl Key {
    fn of(stored: &EngineStored<'_>) -> Self {
        match (stored.kind.as_deref(), stored.window) {
            (None, Some(window)) => Self::Window(window),
            _ => Self::Group(stored.group),
        }
    }
}

/// What a group's events are to the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// They carry the prefix.
    Prefix,
    /// They do, and what was taken for the prefix before does not.
    PrefixAnew,
    /// They do not.
    Left(DropReason),
}

impl Key {
    fn write(self, out: &mut Vec<u8>) {
        let (kind, number) = match self {
            Self::Group(None) => (0, 0),
            Self::Group(Some(group)) => (1, group),
            Self::Window(window) => (2, window),
        };
        out.push(kind);
        put_u32(out, number);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, SnapshotError> {
        match (reader.u8()?, reader.u32()?) {
            (0, _) => Ok(Self::Group(None)),
            (1, group) => Ok(Self::Group(Some(group))),
            (2, window) => Ok(Self::Window(window)),
            _ => Err(reader.malformed()),
        }
    }
}

impl Groups {
    /// For a snapshot.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.prefix.is_some()));
        self.prefix.into_iter().for_each(|key| key.write(out));
        put_u64(out, self.others.len() as u64);
        for (key, reason) in &self.others {
            key.write(out);
            out.push(DropReason::ALL.iter().position(|other| other == reason).unwrap_or(0) as u8);
        }
    }

    /// From a snapshot.
    pub(super) fn read(reader: &mut Reader<'_>) -> Result<Self, SnapshotError> {
        let prefix = if reader.u8()? == 0 { None } else { Some(Key::read(reader)?) };
        let mut others = SmallVec::new();
        for _ in 0..reader.count(6)? {
            let key = Key::read(reader)?;
            let reason = reader.u8()? as usize;
            others.push((key, *DropReason::ALL.get(reason).ok_or(reader.malformed())?));
        }
        Ok(Self { prefix, others })
    }

    /// Learns from a store; what it is to the index.
    pub(super) fn stored(&mut self, stored: &EngineStored<'_>) -> Standing {
        let key = Key::of(stored);
        if let Some(&(_, reason)) = self.others.iter().find(|(other, _)| *other == key) {
            return Standing::Left(reason);
        }
        if !carries_prefix(stored.kind.as_deref()) {
            return Standing::Left(self.leave(key, DropReason::NotPrefixGroup));
        }
        match self.prefix {
            None => {
                self.prefix = Some(key);
                Standing::Prefix
            }
            Some(prefix) if prefix == key => Standing::Prefix,
            Some(Key::Window(largest)) => match key {
                Key::Window(window) if window > largest => self.widen(window),
                _ => Standing::Left(self.leave(key, DropReason::NotPrefixGroup)),
            },
            Some(Key::Group(_)) => Standing::Left(self.leave(key, DropReason::SecondGroup)),
        }
    }

    /// What a group is to the index, by its number alone.
    pub(super) fn numbered(&self, group: Option<u32>) -> Standing {
        self.standing(Key::Group(group))
    }

    /// What an eviction is to the index.
    pub(super) fn removed(&self, removed: &EngineRemoved<'_>) -> Standing {
        self.standing(removed.window.map_or(Key::Group(removed.group), Key::Window))
    }

    /// What a move of a block between tiers is to the index.
    pub(super) fn moved(&self, window: Option<u32>) -> Standing {
        self.standing(window.map_or(Key::Group(None), Key::Window))
    }

    /// Learns that layers with this window have a pool.
    pub(super) fn created(&mut self, window: u32) -> Standing {
        match self.prefix {
            None => {
                self.prefix = Some(Key::Window(window));
                Standing::Prefix
            }
            Some(Key::Window(largest)) if window > largest => self.widen(window),
            Some(_) => Standing::Prefix,
        }
    }

    /// Learns that a group leaves blocks out; whether it was taken for the prefix.
    pub(super) fn found_sparse(&mut self, stored: &EngineStored<'_>) -> bool {
        let key = Key::of(stored);
        let was_prefix = self.prefix == Some(key);
        if was_prefix {
            self.prefix = None;
        }
        self.leave(key, DropReason::Sparse);
        was_prefix
    }

    fn standing(&self, key: Key) -> Standing {
        if self.prefix == Some(key) {
            return Standing::Prefix;
        }
        let known = self.others.iter().find(|(other, _)| *other == key);
        Standing::Left(known.map_or(DropReason::UnknownGroup, |&(_, reason)| reason))
    }

    fn widen(&mut self, window: u32) -> Standing {
        if let Some(narrower) = self.prefix.replace(Key::Window(window)) {
            self.leave(narrower, DropReason::NotPrefixGroup);
        }
        Standing::PrefixAnew
    }

    /// A group is entered once, and a stream that names ever new ones is not remembered for ever.
    fn leave(&mut self, key: Key, reason: DropReason) -> DropReason {
        if self.others.len() < MOST_GROUPS {
            self.others.push((key, reason));
        }
        reason
    }
}

/// Whether attention of this kind keeps every block of a prefix. Releases that name no kind have only such.
pub(super) fn carries_prefix(kind: Option<&str>) -> bool {
    kind.is_none_or(|kind| PREFIX_KINDS.contains(&kind))
}

/// The kinds of attention that keep every block of a prefix.
const PREFIX_KINDS: [&str; 3] = ["full_attention", "mla_attention", "sink_full_attention"];

/// More groups than any model has.
const MOST_GROUPS: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(group: Option<u32>, kind: Option<&'static str>) -> EngineStored<'static> {
        EngineStored { group, kind: kind.map(Into::into), ..EngineStored::default() }
    }

    fn removed(group: Option<u32>) -> EngineRemoved<'static> {
        EngineRemoved { group, ..EngineRemoved::default() }
    }

    #[test]
    fn only_full_attention_carries_the_prefix() {
        for kind in ["full_attention", "mla_attention", "sink_full_attention"] {
            assert_eq!(Groups::default().stored(&stored(Some(1), Some(kind))), Standing::Prefix, "{kind}");
        }
        assert_eq!(Groups::default().stored(&stored(None, None)), Standing::Prefix);
        for kind in [
            "sliding_window",
            "sliding_window_mla",
            "chunked_local_attention",
            "mamba",
            "encoder_only_attention",
            "cross_attention",
            "unknown",
            "of_next_year",
        ] {
            let standing = Groups::default().stored(&stored(Some(1), Some(kind)));
            assert_eq!(standing, Standing::Left(DropReason::NotPrefixGroup), "{kind}");
        }
    }

    #[test]
    fn evictions_are_judged_by_what_stores_told() {
        let mut groups = Groups::default();
        assert_eq!(groups.removed(&removed(Some(0))), Standing::Left(DropReason::UnknownGroup));
        groups.stored(&stored(Some(0), Some("full_attention")));
        groups.stored(&stored(Some(1), Some("sliding_window")));
        groups.stored(&stored(Some(2), Some("full_attention")));
        assert_eq!(groups.removed(&removed(Some(0))), Standing::Prefix);
        assert_eq!(groups.removed(&removed(Some(1))), Standing::Left(DropReason::NotPrefixGroup));
        assert_eq!(groups.removed(&removed(Some(2))), Standing::Left(DropReason::SecondGroup));
        assert_eq!(groups.removed(&removed(None)), Standing::Left(DropReason::UnknownGroup));
    }

    #[test]
    fn the_largest_window_is_full_attention() {
        let window = |window| EngineStored { window: Some(window), ..EngineStored::default() };
        let mut groups = Groups::default();
        assert_eq!(groups.stored(&window(1024)), Standing::Prefix);
        assert_eq!(groups.stored(&window(512)), Standing::Left(DropReason::NotPrefixGroup));
        assert_eq!(groups.stored(&window(32_768)), Standing::PrefixAnew);
        assert_eq!(groups.stored(&window(1024)), Standing::Left(DropReason::NotPrefixGroup));
        assert_eq!(groups.moved(Some(32_768)), Standing::Prefix);

        let mut announced = Groups::default();
        assert_eq!(announced.created(1024), Standing::Prefix);
        assert_eq!(announced.created(32_768), Standing::PrefixAnew);
        assert_eq!(announced.created(4096), Standing::Prefix);
        assert_eq!(announced.stored(&window(4096)), Standing::Left(DropReason::NotPrefixGroup));
        assert_eq!(announced.stored(&window(32_768)), Standing::Prefix);
    }
}
