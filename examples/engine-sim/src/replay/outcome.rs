//! How a run ended, and what it found.

use std::error::Error;
use std::fmt;

use kv_index::{JoinError, PodRetired, Stats};

use crate::replay::check::{Census, Verdict};
use crate::replay::tally::Tally;

/// What a run did and found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Outcome {
    /// What was counted and timed.
    pub tally: Tally,
    /// What the engines hold in the end.
    pub census: Census,
    /// What the index says it holds.
    pub stats: Stats,
    /// Whether the index agrees.
    pub verdict: Verdict,
    /// Whether the time limit cut the run short.
    pub end: End,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// Every turn was answered.
    Complete,
    /// The time was up.
    OutOfTime,
}

impl Outcome {
    /// Whether every comparison held, those on the way included.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.verdict.holds() && self.tally.counts.spot_mismatches == 0 && self.counts_agree()
    }

    /// Whether index and engines count the same blocks and the same holders of them.
    #[must_use]
    pub fn counts_agree(&self) -> bool {
        let Stats { pods, blocks, block_replicas: holders, .. } = self.stats;
        (pods, blocks, holders) == (self.census.pods, self.census.blocks, self.census.holders)
    }
}

/// Why a run could not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReplayError {
    /// A pod could not join.
    Join(JoinError),
    /// A live pod is gone.
    PodRetired(PodRetired),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Join(_) => "a pod could not join the index",
            Self::PodRetired(_) => "the index has lost a pod that is in use",
        })
    }
}

impl Error for ReplayError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(match self {
            Self::Join(cause) => cause,
            Self::PodRetired(cause) => cause,
        })
    }
}

impl From<JoinError> for ReplayError {
    fn from(cause: JoinError) -> Self {
        Self::Join(cause)
    }
}

impl From<PodRetired> for ReplayError {
    fn from(cause: PodRetired) -> Self {
        Self::PodRetired(cause)
    }
}
