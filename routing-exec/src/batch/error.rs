//! Batch errors: why a batch ended before all its requests had results.

/// Why a batch ended before all its requests had results. Results are in the journal, if there is one: the same batch can be
/// resumed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// No pod was up within the timeout. The operator can act.
    #[error("no pod is up, and {remaining} requests remain")]
    NoPods {
        /// Requests without a result.
        remaining: usize,
    },
    /// The source had no new plan for the pods that are up.
    #[error("no plan for the {remaining} requests that remain")]
    NoPlan {
        /// Requests without a result.
        remaining: usize,
    },
    /// The journal could not be written; the operator can act. The result that was to be written is lost.
    #[error("the journal cannot be written: {0}")]
    Journal(std::io::ErrorKind),
}
