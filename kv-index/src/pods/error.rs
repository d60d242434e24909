//! Error types, one per operation.

use crate::pods::Pod;

/// Why a pod could not join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// Every id is in use. The host sweeps retired pods, or makes the index wider.
    #[error("no pod id is free: {live} pods are live and {sweeping} retired ones await their sweep")]
    Full {
        /// Pods that are joined.
        live: usize,
        /// Pods that are retired and not yet swept.
        sweeping: usize,
    },
    /// A live pod has this name. The host retires that one first, if the pod came back.
    #[error("a live pod has this name already: {0:?}")]
    NameTaken(Pod),
}

/// The handle's pod is retired; its id may be another pod's by now. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is retired")]
pub struct PodRetired(pub Pod);

/// Why bytes are not a snapshot of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The bytes do not begin with a snapshot's magic number. The host read something else.
    #[error("not a snapshot: the magic number is missing")]
    Magic,
    /// A snapshot of another version of the format.
    #[error("snapshot version {found}, this build reads {known}")]
    Version {
        /// The version in the bytes.
        found: u32,
        /// The version this build reads.
        known: u32,
    },
    /// The bytes end early or go on too long. The file was cut or appended to.
    #[error("snapshot of {expected} bytes, but there are {found}")]
    Length {
        /// Bytes the header announces.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// The checksum differs. The bytes were damaged.
    #[error("snapshot checksum is {found:016x}, the header says {expected:016x}")]
    Checksum {
        /// The header's checksum.
        expected: u64,
        /// The checksum of the bytes.
        found: u64,
    },
    /// The contents contradict themselves at this byte. A writer of another make, or a bug of ours.
    #[error("snapshot contents are malformed at byte {at}")]
    Malformed {
        /// Offset from the start.
        at: usize,
    },
    /// The snapshot has more pods than this index has room for. The host makes the index wider.
    #[error("snapshot of {found} pods, room for {room}")]
    TooManyPods {
        /// Pods in the snapshot.
        found: usize,
        /// Pods this index can have.
        room: usize,
    },
}
