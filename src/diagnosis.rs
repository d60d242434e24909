//! Diagnosis: what is probably wrong, in words and as data.
//!
//! The mistakes that routing survives are the dangerous ones: it goes on, and no prompt is ever found. What can be told from
//! outside is told here, and where a cause can be proven by trying it, it is tried.

mod addresses;
mod matching;
mod pods;

use std::fmt;
use std::time::Duration;

use crate::pod_registry::RegisteredPod;
use crate::router::Router;
use addresses::addresses;

/// Something that is probably wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct Finding {
    /// What it is.
    pub kind: FindingKind,
    /// The pod that it concerns, if it is one.
    pub pod: Option<String>,
    /// What was seen, and what to do about it.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.pod {
            Some(pod) => write!(f, "pod `{pod}`: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum FindingKind {
    /// Blocks have another size at the engine.
    BlockSize,
    /// The engine hashes by another seed, algorithm or release.
    EngineHashes,
    /// Blocks are in the index under another model's name.
    ModelName,
    /// Events come, prompts are looked up, and none was ever found; none of the usual causes explains it.
    NothingMatches,
    /// One pod's events never match the prompts that were sent to it, while other pods' do.
    OddPod,
    /// Requests bring hashes, and the index is fed in token mode, by others.
    TokenModeFeed,
    /// Requests bring hashes alone, and the router hashes their tokens.
    HashesIgnored,
    /// Requests bring tokens alone, and the router was told that they bring hashes.
    HashesMissing,
    /// A profile goes by tokens, and requests have none.
    NoTokens,
    /// The engine counts other tokens than the tokenizer makes.
    Tokenizer,
    /// A profile goes by what pods hold, and a pod does not say.
    NoEvents,
    /// A pod's events have not been up to date for long: disconnected, in a gap, replaying in vain.
    FeedBehind,
    /// A pod fails whatever it is sent: its circuit breaker opens again and again.
    FailingPod,
    /// A pod's address has no port.
    NoPort,
    /// Two pods have one address.
    SharedAddress,
    /// Pods wait for their first health check, and nobody checks.
    NoHealthChecks,
    /// Engines have less cached than they said.
    UnconfirmedCache,
    /// A pod's load was reported, and is not any more.
    StaleLoad,
    /// The time of requests is not the clock's.
    StaleClock,
    /// Nobody ticks.
    NoHousekeeping,
}

impl FindingKind {
    /// Its name in metrics and logs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BlockSize => "block_size",
            Self::EngineHashes => "engine_hashes",
            Self::ModelName => "model_name",
            Self::NothingMatches => "nothing_matches",
            Self::OddPod => "odd_pod",
            Self::TokenModeFeed => "token_mode_feed",
            Self::HashesIgnored => "hashes_ignored",
            Self::HashesMissing => "hashes_missing",
            Self::NoTokens => "no_tokens",
            Self::Tokenizer => "tokenizer",
            Self::NoEvents => "no_events",
            Self::FeedBehind => "feed_behind",
            Self::FailingPod => "failing_pod",
            Self::NoPort => "no_port",
            Self::SharedAddress => "shared_address",
            Self::NoHealthChecks => "no_health_checks",
            Self::UnconfirmedCache => "unconfirmed_cache",
            Self::StaleLoad => "stale_load",
            Self::StaleClock => "stale_clock",
            Self::NoHousekeeping => "no_housekeeping",
        }
    }
}

impl<const W: usize> Router<W> {
    /// What is probably wrong, most telling first; nothing where all is well or too little was seen. Cheap enough for a page
    /// that is read every second, and not for every request.
    ///
    /// It needs traffic: about 30 s of it, and twenty requests at least. What can be told at once, such as a block size that
    /// an engine's events contradict, is told at once; nothing is said of a pod in its first 30 s. [`Self::tick`] must be called.
    #[must_use]
    pub fn diagnosis(&self) -> Vec<Finding> {
        let (now, pods, mut found) = (self.now(), self.pods(), Vec::new());
        let mut tell = |kind, pod: Option<&RegisteredPod>, message: String| {
            found.push(Finding { kind, pod: pod.map(|pod| pod.spec.name.clone()), message });
        };
        let is_told = self.stream_problems(&pods, &mut tell);
        if !is_told {
            self.unmatched(&pods, &mut tell);
        }
        self.odd_pods(&pods, &mut tell);
        self.hashes_and_tokens(&mut tell);
        self.reported_tokens(&pods, &mut tell);
        self.lagging_feeds(&pods, now, &mut tell);
        self.silent_pods(&pods, now, &mut tell);
        self.failing_pods(&pods, now, &mut tell);
        addresses(&pods, &mut tell);
        self.unchecked_pods(&pods, now, &mut tell);
        self.clocks(&pods, now, &mut tell);
        found
    }
}

type Tell<'t> = &'t mut dyn FnMut(FindingKind, Option<&RegisteredPod>, String);

/// Requests before anything is said of them.
const ENOUGH: u64 = 20;
/// How long a new pod may be silent or unchecked, a feed behind, and a pod failing.
const LONG: Duration = Duration::from_secs(30);
/// How old a report, a request's time or a tick may be.
const STALE: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
