//! What one client will say, turn by turn, whatever it is answered.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::load::body::{Message, chat};

/// One conversation, before it is held.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Script {
    /// The system prompt; none for a request of its own.
    pub system: Option<Arc<str>>,
    /// In order.
    pub turns: Vec<Turn>,
}

/// What is said in a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Turn {
    /// The user's words.
    pub says: String,
    /// The answer's length at most.
    pub max_tokens: usize,
    /// Whether the answer is to come in pieces.
    pub stream: bool,
    /// How long the user thinks before.
    pub think: Duration,
}

impl Script {
    /// The messages before the first turn.
    #[must_use]
    pub fn opening(&self) -> Vec<Message> {
        let message = |system: &Arc<str>| Message { role: "system", content: system.to_string() };
        self.system.iter().map(message).collect()
    }
}

impl Turn {
    /// Adds the user's words to what was said; the body that asks for an answer.
    pub fn begin(&self, model: &str, said: &mut Vec<Message>) -> Bytes {
        said.push(Message { role: "user", content: self.says.clone() });
        chat(model, said, self.max_tokens, self.stream)
    }

    /// Adds the answer, word for word: the next turn's prompt begins with it.
    pub fn end(said: &mut Vec<Message>, answer: String) {
        said.push(Message { role: "assistant", content: answer });
    }
}
