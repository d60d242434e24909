//! Why there is no simulation.

use std::io;

/// Why there is no simulation. The operator's to mend.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulateError {
    /// A fleet without pods, or pods without blocks.
    #[error("a fleet needs at least one pod, and its blocks at least one token")]
    NoPods,
    /// More pods than the index has room for.
    #[error(transparent)]
    Pods(#[from] kv_index::JoinError),
    /// No policy has this name.
    #[error("there is no policy `{0}`; `--list` names them, and a path with an extension is read as a document")]
    UnknownPolicy(String),
    /// A policy's document does not build.
    #[error("policy `{0}`: {1}")]
    Policy(String, String),
    /// A trace that cannot be read.
    #[error("{0}: {1}")]
    Trace(String, #[source] pointsman_lab::trace::read::TraceError),
    /// Costs that cannot be read.
    #[error("{0}: {1}")]
    Costs(String, #[source] crate::sim::cost::CostError),
    /// A sweep that says nothing.
    #[error(
        "a sweep is POLICY:SCORER=1,2,4 or POLICY:PLUGIN.PARAMETER=1,2,4, with a scorer or plugin that the policy has; `{0}` is not"
    )]
    Sweep(String),
    /// A file could not be read or written.
    #[error("{0}: {1}")]
    File(String, #[source] io::Error),
}
