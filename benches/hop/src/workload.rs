//! What is sent through a hop: whole answers, short and after a long prompt, and streams, back to back and paced.

use std::time::Duration;

use bytes::Bytes;

/// A kind of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[non_exhaustive]
pub enum Workload {
    /// A prompt of 1 KB, answered whole.
    Whole,
    /// A prompt of 32 KB, answered whole.
    LongPrompt,
    /// A stream whose chunks come as fast as they can be written.
    Burst,
    /// A stream with a chunk every 5 ms.
    Paced,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Whole, Self::LongPrompt, Self::Burst, Self::Paced];

    /// Its name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Whole => "1 KB, whole",
            Self::LongPrompt => "32 KB prompt, whole",
            Self::Burst => "50 chunks, back to back",
            Self::Paced => "50 chunks, 5 ms apart",
        }
    }

    /// How the pod is told, in the field `user`, which everybody passes on.
    #[must_use]
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Whole | Self::LongPrompt => "hop-whole",
            Self::Burst => "hop-burst",
            Self::Paced => "hop-paced",
        }
    }

    /// Whether the answer is a stream.
    #[must_use]
    pub const fn streams(self) -> bool {
        matches!(self, Self::Burst | Self::Paced)
    }

    /// Connections that are in use at once.
    #[must_use]
    pub const fn connections(self) -> usize {
        if matches!(self, Self::Paced) { 64 } else { 8 }
    }

    /// Requests of a lap in which processor time is counted.
    #[must_use]
    pub const fn requests(self) -> usize {
        match self {
            Self::Whole => 6_000,
            Self::LongPrompt => 3_000,
            Self::Burst => 2_000,
            Self::Paced => 640,
        }
    }

    /// The body of a request, the `number`-th: no two prompts are alike from their first words on.
    #[must_use]
    pub fn body(self, number: usize) -> Bytes {
        let bytes = if self == Self::LongPrompt { 32 << 10 } else { 1 << 10 };
        let mut text = format!("Request {number} asks:");
        while text.len() < bytes {
            text.push_str(" what does a hop between a client and a pod cost, and who is late?");
        }
        text.truncate(bytes);
        let (mark, stream) = (self.mark(), self.streams());
        Bytes::from(format!(
            r#"{{"model":"m","user":"{mark}","stream":{stream},"max_tokens":50,"messages":[{{"role":"user","content":"{text}"}}]}}"#
        ))
    }
}

/// Chunks of a stream, before `[DONE]`.
pub(crate) const CHUNKS: usize = 50;
/// Between two chunks of a paced stream.
pub(crate) const PACE: Duration = Duration::from_millis(5);
