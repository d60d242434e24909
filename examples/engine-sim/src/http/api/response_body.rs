//! Completion objects, whole and in chunks.

use serde_json::{Value, json};

use super::named_events;
use crate::http::completion::FinishReason;

/// Which of the APIs was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Chat,
    Completion,
    Responses,
    Messages,
}

impl Kind {
    /// Whether the events of its streams have names.
    pub(super) fn is_named(self) -> bool {
        matches!(self, Self::Responses | Self::Messages)
    }
}

/// What all parts of an answer have in common.
#[derive(Clone, Debug)]
pub(super) struct Reply {
    pub(super) kind: Kind,
    pub(super) id: String,
    pub(super) model: String,
    /// Seconds since 1970.
    pub(super) created: u64,
}

/// Tokens, for whoever pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) prompt: usize,
    pub(super) cached: usize,
    pub(super) completion: usize,
}

impl Usage {
    fn json(self) -> Value {
        json!({
            "prompt_tokens": self.prompt,
            "completion_tokens": self.completion,
            "total_tokens": self.prompt + self.completion,
            "prompt_tokens_details": {"cached_tokens": self.cached},
        })
    }
}

impl Reply {
    /// The whole answer.
    pub(super) fn whole(&self, text: &str, finish: FinishReason, usage: Usage) -> Value {
        if self.kind.is_named() {
            return named_events::whole(self, text, finish, usage);
        }
        let is_chat = self.kind == Kind::Chat;
        let choice = match is_chat {
            true => json!({"message": {"role": "assistant", "content": text}}),
            false => json!({ "text": text }),
        };
        let object = if is_chat { "chat.completion" } else { "text_completion" };
        let mut whole = self.around(object, vec![ended(choice, Some(finish))]);
        whole["usage"] = usage.json();
        whole
    }

    /// What a chat's stream begins with.
    pub(super) fn opening(&self) -> Option<Value> {
        let choice = json!({"delta": {"role": "assistant", "content": ""}});
        (self.kind == Kind::Chat).then(|| self.chunk(vec![ended(choice, None)]))
    }

    /// Some more of the answer.
    pub(super) fn part(&self, text: &str, finish: Option<FinishReason>) -> Value {
        let is_chat = self.kind == Kind::Chat;
        let choice = if is_chat { json!({"delta": {"content": text}}) } else { json!({ "text": text }) };
        self.chunk(vec![ended(choice, finish)])
    }

    /// The last chunk, for clients that ask for it.
    pub(super) fn usage(&self, usage: Usage) -> Value {
        let mut chunk = self.chunk(Vec::new());
        chunk["usage"] = usage.json();
        chunk
    }

    fn chunk(&self, choices: Vec<Value>) -> Value {
        let object = if self.kind == Kind::Chat { "chat.completion.chunk" } else { "text_completion" };
        self.around(object, choices)
    }

    fn around(&self, object: &str, choices: Vec<Value>) -> Value {
        json!({"id": self.id, "object": object, "created": self.created, "model": self.model, "choices": choices})
    }
}

fn ended(mut choice: Value, finish: Option<FinishReason>) -> Value {
    choice["index"] = json!(0);
    choice["logprobs"] = Value::Null;
    choice["finish_reason"] = json!(finish);
    choice
}
