//! Pods: their ids, sets of them, and who is there.

mod atomic_pod_set;
mod error;
mod pod;
mod podset;
pub(crate) mod registry;

pub(crate) use atomic_pod_set::AtomicPodSet;
pub use error::{JoinError, PodRetired, SnapshotError};
pub use pod::{Pod, PodId};
pub use podset::{DEFAULT_POD_WORDS, PodSet, PodSetIter};
