//! A conversation of the workload: a system prompt and user turns, fixed ahead of the answers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::load_generator::chat_request::{Message, chat};

/// One conversation, before it is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Conversation {
    /// The system prompt; none for a request of its own.
    pub(crate) system: Option<Arc<str>>,
    /// In order.
    pub(crate) turns: Vec<Turn>,
}

/// What is said in a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Turn {
    /// The user's words.
    pub(crate) says: String,
    /// The answer's length at most.
    pub(crate) max_tokens: usize,
    /// Whether the answer is to come in pieces.
    pub(crate) stream: bool,
    /// How long the user thinks before.
    pub(crate) think: Duration,
}

impl Conversation {
    /// The messages before the first turn.
    pub(crate) fn opening(&self) -> Vec<Message> {
        let message = |system: &Arc<str>| Message { role: "system", content: system.to_string() };
        self.system.iter().map(message).collect()
    }
}

impl Turn {
    /// Adds the user's words to what was said; the body that asks for an answer.
    pub(crate) fn begin(&self, model: &str, said: &mut Vec<Message>) -> Bytes {
        said.push(Message { role: "user", content: self.says.clone() });
        chat(model, said, self.max_tokens, self.stream)
    }

    /// Adds the answer, word for word: the next turn's prompt begins with it.
    pub(crate) fn end(said: &mut Vec<Message>, answer: String) {
        said.push(Message { role: "assistant", content: answer });
    }
}
