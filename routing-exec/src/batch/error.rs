//! Why a batch ended before its requests did.

/// Why a batch ended before all of its requests had results. What has one is in the journal, if there is one: the same
/// batch can be resumed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BatchError {
    /// No pod lived for as long as there was patience. An operator's to mend.
    #[error("no pod lives, and {left} requests are left")]
    NoPods {
        /// Requests without a result.
        left: usize,
    },
    /// The host had no new plan for pods that live.
    #[error("there is no new plan for {left} requests")]
    NoPlan {
        /// Requests without a result.
        left: usize,
    },
    /// The journal could not be written; an operator's to mend. The result that was to be written is lost.
    #[error("the journal cannot be written: {0}")]
    Journal(std::io::ErrorKind),
}
