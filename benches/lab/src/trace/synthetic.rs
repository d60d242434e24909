//! Synthetic traffic generators: traces from a seed.
//!
//! | kind | what it is like | loop |
//! |---|---|---|
//! | [`conversation`] | Mooncake's production chat | open |
//! | [`chat`] | turns of a chat under a handful of system prompts | closed |
//! | [`rag`] | popular documents, each time with another question | open |
//! | [`agents`] | coding agents, and teams of agents | closed |
//! | [`mixed`] | long cold prompts with short answers among short warm ones with long answers | open |
//! | [`shared_prompts`] | groups that share a system prompt each, as llm-d's benchmark has them | open |
//! | [`documents`] | long documents by popularity, all of which fit the fleet | open |
//! | [`fan_out`] | sixteen requests at once on a context that nobody has seen | open |
//! | [`coding_agents`] | contexts that grow to 100,000 tokens, with pauses for tools | closed |
//! | [`bursts`] | crowds of requests, and nearly nothing between them | open |
//!
//! The rule: a kind, a number and a seed make one trace, the same on every machine of one kind.

pub mod agents;
pub mod bursts;
pub mod chat;
pub mod coding_agents;
pub mod conversation;
mod distribution;
pub mod documents;
pub mod fan_out;
pub mod mixed;
pub mod rag;
pub mod shared_prompts;
mod text;

use std::fmt;
use std::str::FromStr;
use text::BLOCK;

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
    /// [`shared_prompts::trace`]
    SharedPrompts,
    /// [`documents::trace`]
    Documents,
    /// [`fan_out::trace`]
    FanOut,
    /// [`coding_agents::trace`]
    CodingAgents,
    /// [`bursts::trace`]
    Bursts,
}

impl Synthetic {
    /// One of each kind.
    pub const ALL: [Self; 10] = [
        Self::Conversation,
        Self::Chat,
        Self::Rag,
        Self::Agents,
        Self::Mixed(0.5),
        Self::SharedPrompts,
        Self::Documents,
        Self::FanOut,
        Self::CodingAgents,
        Self::Bursts,
    ];

    /// Makes so many requests.
    #[must_use]
    pub fn trace(self, requests: usize, seed: u64) -> Trace {
        match self {
            Self::Conversation => conversation::trace(requests, seed),
            Self::Chat => chat::trace(requests, seed, BLOCK),
            Self::Rag => rag::trace(requests, seed),
            Self::Agents => agents::trace(requests, seed, BLOCK),
            Self::Mixed(cold) => mixed::trace(requests, cold, seed),
            Self::SharedPrompts => shared_prompts::trace(requests, seed),
            Self::Documents => documents::trace(requests, seed),
            Self::FanOut => fan_out::trace(requests, seed),
            Self::CodingAgents => coding_agents::trace(requests, seed),
            Self::Bursts => bursts::trace(requests, seed),
        }
    }

    /// The same in blocks of 16 tokens, as engines have them by themselves, where the kind is made in such.
    #[must_use]
    pub fn trace_of_small_blocks(self, requests: usize, seed: u64) -> Option<Trace> {
        match self {
            Self::Chat => Some(chat::trace(requests, seed, SMALL_BLOCK)),
            Self::Agents => Some(agents::trace(requests, seed, SMALL_BLOCK)),
            _ => None,
        }
    }
}

/// Tokens of a block of vLLM's, unless it is told otherwise.
const SMALL_BLOCK: usize = 16;

impl fmt::Display for Synthetic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Conversation => f.write_str("conversation"),
            Self::Chat => f.write_str("chat"),
            Self::Rag => f.write_str("rag"),
            Self::Agents => f.write_str("agents"),
            Self::Mixed(cold) => write!(f, "mixed:{cold}"),
            Self::SharedPrompts => f.write_str("shared_prompts"),
            Self::Documents => f.write_str("documents"),
            Self::FanOut => f.write_str("fan_out"),
            Self::CodingAgents => f.write_str("coding_agents"),
            Self::Bursts => f.write_str("bursts"),
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
#[error(
    "expected conversation, chat, rag, agents, shared_prompts, documents, fan_out, coding_agents, bursts, \
     or mixed:SHARE with a share of cold prompts from 0 to 1"
)]
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
