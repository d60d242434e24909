//! Sabotage: what is broken on purpose, so that a check can be seen to fail.

use clap::ValueEnum;

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sabotage {
    /// A block in the index that no pod holds.
    PhantomBlock,
    /// A request that is counted as in flight for ever.
    LeakedSlot,
    /// A gateway that never tries another pod.
    NoRetries,
    /// A pod that died does not come back.
    LostPod,
    /// A pod runs what no client asked for.
    StrayRun,
}
