//! Errors of the simulator.

use std::io;
use std::path::PathBuf;

/// Why a simulation cannot run; the operator can act.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SimulateError {
    /// A flag has a value that makes no sense.
    #[error("--{flag}: {wrong}")]
    Flag {
        /// Its name, without dashes.
        flag: &'static str,
        /// What is wrong with it.
        wrong: String,
    },
    /// A fleet without pods, or pods without blocks.
    #[error("a fleet needs at least one pod, and its blocks at least one token")]
    NoPods,
    /// More pods than the index has room for.
    #[error(transparent)]
    Pods(#[from] kv_index::JoinError),
    /// The traffic cannot fill the fleet, so that nothing can be said about how much that takes.
    #[error(
        "{requests} requests cannot keep {pods} pods busy, however fast they come, so there is no capacity to tell: \
         raise --requests, lower --pods, or name a --rate"
    )]
    TooFew {
        /// Requests of the traffic, with all copies of it that were tried.
        requests: usize,
        /// Pods of the fleet.
        pods: usize,
    },
    /// No policy has this name.
    #[error(
        "there is no policy `{0}`; did you mean `{1}`? `--list` names all, and a path with an extension is read as a document"
    )]
    UnknownPolicy(String, &'static str),
    /// A policy's document does not build.
    #[error("policy `{0}`: {1}")]
    Policy(String, String),
    /// A trace that cannot be read.
    #[error("--trace {0}: {1}")]
    Trace(String, #[source] pointsman_lab::trace::read::TraceError),
    /// Measured costs that cannot be read.
    #[error("--costs {0}: {1}")]
    Costs(String, #[source] serde_json::Error),
    /// Measured costs that give no model.
    #[error("--costs {0}: {1}")]
    Fit(String, #[source] routing_plugins::FitError),
    /// A sweep that says nothing.
    #[error("--sweep {0}: {1}; it is POLICY:SCORER=1,2,4 for a weight, or POLICY:PLUGIN.PARAMETER=1,2,4")]
    SweepResult(String, String),
    /// A file could not be read or written.
    #[error("{0}: {1}")]
    File(String, #[source] io::Error),
    /// A batch that cannot be planned.
    #[error("the batch has no plan: {0}")]
    Plan(#[from] routing_core::batch::BatchError),
    /// The report's folder could not be made.
    #[error("--out: folder `{}` could not be made", .0.display())]
    Folder(PathBuf, #[source] io::Error),
    /// A file of the report could not be written.
    #[error("--out: file `{}` could not be written", .0.display())]
    ReportFile(PathBuf, #[source] io::Error),
}

impl SimulateError {
    /// A flag with a wrong value.
    pub(crate) fn flag(flag: &'static str, wrong: impl Into<String>) -> Self {
        Self::Flag { flag, wrong: wrong.into() }
    }
}
