//! Synthetic traffic generators: traces from a seed.
//!
//! | kind | what it is like | loop |
//! |---|---|---|
//! | [`conversation`] | Mooncake's production chat | open |
//! | [`chat`] | turns of a chat under a handful of system prompts | closed |
//! | [`rag`] | popular documents, each time with another question | open |
//! | [`agents`] | coding agents, and teams of agents | closed |
//! | [`mixed`] | long cold prompts with short answers among short warm ones with long answers | open |
//!
//! The rule: a kind, a number and a seed make one trace, the same on every machine of one kind.

pub mod agents;
pub mod chat;
pub mod conversation;
mod distribution;
pub mod mixed;
pub mod rag;
mod text;

use std::fmt;
use std::str::FromStr;

use super::Trace;

/// Kinds of traffic.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Synthetic {
    /// [`conversation::trace`]
    Conversation,
    /// [`chat::trace`]
    Chat,
    /// [`rag::trace`]
    Rag,
    /// [`agents::trace`]
    Agents,
    /// [`mixed::trace`] with this share of cold prompts, from 0 to 1.
    Mixed(f64),
}

impl Synthetic {
    /// One of each kind.
    pub const ALL: [Self; 5] = [Self::Conversation, Self::Chat, Self::Rag, Self::Agents, Self::Mixed(0.5)];

    /// Makes so many requests.
    #[must_use]
    pub fn trace(self, requests: usize, seed: u64) -> Trace {
        match self {
            Self::Conversation => conversation::trace(requests, seed),
            Self::Chat => chat::trace(requests, seed),
            Self::Rag => rag::trace(requests, seed),
            Self::Agents => agents::trace(requests, seed),
            Self::Mixed(cold) => mixed::trace(requests, cold, seed),
        }
    }
}

impl fmt::Display for Synthetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conversation => f.write_str("conversation"),
            Self::Chat => f.write_str("chat"),
            Self::Rag => f.write_str("rag"),
            Self::Agents => f.write_str("agents"),
            Self::Mixed(cold) => write!(f, "mixed:{cold}"),
        }
    }
}

impl FromStr for Synthetic {
    type Err = UnknownTrafficError;

    fn from_str(text: &str) -> Result<Self, UnknownTrafficError> {
        let mixed = |cold: &str| cold.parse().ok().filter(|cold| (0.0..=1.0).contains(cold)).map(Self::Mixed);
        let named = Self::ALL.into_iter().find(|kind| kind.to_string() == text);
        let share = if text == "mixed" { Some("0.5") } else { text.strip_prefix("mixed:") };
        named.or_else(|| share.and_then(mixed)).ok_or(UnknownTrafficError)
    }
}

/// There is no such traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected conversation, chat, rag, agents, or mixed:SHARE with a share of cold prompts from 0 to 1")]
#[non_exhaustive]
pub struct UnknownTrafficError;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for kind in Synthetic::ALL.into_iter().chain([Synthetic::Mixed(0.125)]) {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!("mixed".parse(), Ok(Synthetic::Mixed(0.5)));
        for wrong in ["", "Chat", "mixed:", "mixed:1.1", "mixed:nan"] {
            assert_eq!(wrong.parse::<Synthetic>(), Err(UnknownTrafficError), "{wrong}");
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_trace() {
        for kind in Synthetic::ALL {
            let (one, two, other) = (kind.trace(500, 3), kind.trace(500, 3), kind.trace(500, 4));
            assert_eq!(one, two);
            assert_ne!(one, other);
            assert_eq!(one.requests.len(), 500);
            assert_eq!(kind.trace(0, 3).requests, []);
        }
    }
}
