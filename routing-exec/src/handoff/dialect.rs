//! Handoff dialects by name: the one list of them.

use std::str::FromStr;
use std::sync::Arc;

use super::{Handoff, Mooncake, MooncakeEngines, Nixl, Plain, SglangBootstrap, SharedStorage};

/// A dialect of prefill/decode handoffs, by its name in configurations.
///
/// # Examples
///
/// ```
/// use routing_exec::handoff::Dialect;
///
/// assert_eq!("shared_storage".parse(), Ok(Dialect::SharedStorage));
/// assert!("carrier_pigeon".parse::<Dialect>().is_err());
/// assert!(Dialect::ALL.iter().all(|dialect| dialect.name().parse() == Ok(*dialect)));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Dialect {
    /// vLLM's NIXL connector: [`Nixl`].
    #[default]
    Nixl,
    /// SGLang's bootstrap server: [`SglangBootstrap`].
    Sglang,
    /// vLLM's Mooncake connector: [`Mooncake`].
    Mooncake,
    /// A store that pods share: [`SharedStorage`].
    SharedStorage,
    /// No handoff: [`Plain`].
    Plain,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Nixl, Self::Sglang, Self::Mooncake, Self::SharedStorage, Self::Plain];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nixl => "nixl",
            Self::Sglang => "sglang",
            Self::Mooncake => "mooncake",
            Self::SharedStorage => "shared_storage",
            Self::Plain => "plain",
        }
    }

    /// The dialect with its default settings. `engines` is for Mooncake; with `()` none is known, and prefill is not handed off.
    #[must_use]
    pub fn handoff(self, engines: Arc<dyn MooncakeEngines>) -> Arc<dyn Handoff> {
        match self {
            Self::Nixl => Arc::new(Nixl::default()),
            Self::Sglang => Arc::new(SglangBootstrap::default()),
            Self::Mooncake => Arc::new(Mooncake::new(engines)),
            Self::SharedStorage => Arc::new(SharedStorage::default()),
            Self::Plain => Arc::new(Plain::default()),
        }
    }
}

impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(name: &str) -> Result<Self, UnknownDialect> {
        Self::ALL.into_iter().find(|dialect| dialect.name() == name).ok_or_else(|| UnknownDialect(name.into()))
    }
}

/// There is no dialect of this name. The operator can act.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown handoff dialect `{0}`, expected one of {names}", names = Dialect::ALL.map(Dialect::name).join(", "))]
#[non_exhaustive]
pub struct UnknownDialect(pub Box<str>);
