//! Memory bounds of received messages.

/// What a peer may make a connection hold.
///
/// A frame that announces more is refused before anything is allocated for it, and memory grows with what arrives, not with what is
/// announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of one message, all its frames together: 64 MiB.
    pub max_message_bytes: usize,
    /// Frames of one message: 16. Engines send at most four.
    pub max_frames: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_message_bytes: 64 << 20, max_frames: 16 }
    }
}

/// Bytes of one command: a READY with many properties has some hundred.
pub(super) const MAX_COMMAND_BYTES: usize = 8 << 10;
