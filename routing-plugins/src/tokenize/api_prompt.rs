//! Prompts of other APIs than completions: embeddings, Responses, Anthropic's Messages, as the chat or text that vLLM makes of them.
//!
//! The rule: a prompt is what the engine computes, or a beginning of it. What cannot be known (a picture, a turn that only the
//! pod has) ends what is told, and never the request.

mod conversation;
mod embeddings;
mod messages;
mod responses;
mod tools;

use std::borrow::Cow;

use json_edit::Object;

use self::conversation::Conversation;
use super::{PromptError, PromptTokenizer};

/// The API of a request, for its prompt.
///
/// # Examples
///
/// ```
/// use routing_plugins::tokenize::PromptApi;
///
/// let body = br#"{"model": "m", "system": "Be brief.", "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]}"#;
/// let chat = PromptApi::Messages.chat(body)?;
/// let expected = r#"{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}]}"#;
/// assert_eq!(std::str::from_utf8(&chat), Ok(expected));
/// # Ok::<(), routing_plugins::tokenize::PromptError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PromptApi {
    /// Completions, chats and what else tokenizers read by themselves: the body as it is.
    #[default]
    Completions,
    /// OpenAI's embeddings: `input`, of several the first; or `messages`, without the beginning of an answer.
    Embeddings,
    /// OpenAI's Responses: `instructions` and `input`. Of one with a `previous_response_id` the instructions alone are known.
    Responses,
    /// Anthropic's Messages: `system`, `messages` and `tools`.
    Messages,
}

impl PromptApi {
    /// The body of a chat or completion with the same prompt, as `ModelPrompts` and other tokenizers read it.
    ///
    /// # Errors
    ///
    /// When the body is no JSON object, or has no prompt.
    pub fn chat(self, body: &[u8]) -> Result<Cow<'_, [u8]>, PromptError> {
        if self == Self::Completions {
            return Ok(Cow::Borrowed(body));
        }
        Ok(Cow::Owned(self.read(body)?.whole()))
    }

    /// Appends the tokens of the prompt of a body: all of them, or those of its beginning, where the model's template has no
    /// text for what follows.
    ///
    /// # Errors
    ///
    /// As [`PromptTokenizer::tokenize`], when not even a beginning has tokens.
    pub fn tokenize(self, tokenizer: &dyn PromptTokenizer, body: &[u8], out: &mut Vec<u32>) -> Result<(), PromptError> {
        if self == Self::Completions {
            return tokenizer.tokenize(body, out);
        }
        let prompt = self.read(body)?;
        let before = out.len();
        let Err(error) = tokenizer.tokenize(&prompt.whole(), out) else { return Ok(()) };
        out.truncate(before);
        let beginning = prompt.beginning().ok_or(error)?;
        tokenizer.tokenize(&beginning, out)
    }

    fn read(self, body: &[u8]) -> Result<Prompt<'_>, PromptError> {
        let object = Object::parse(body).map_err(|error| PromptError::Body {
            line: 1,
            column: error.at + 1,
            reason: error.to_string().into(),
        })?;
        match self {
            Self::Completions => None,
            Self::Embeddings => embeddings::read(object),
            Self::Responses => responses::read(object).map(Prompt::Chat),
            Self::Messages => messages::read(object).map(Prompt::Chat),
        }
        .ok_or(PromptError::NoPrompt)
    }
}

/// What a body asks about.
enum Prompt<'b> {
    Chat(Conversation<'b>),
    /// The body of a completion.
    Text(Vec<u8>),
}

impl Prompt<'_> {
    fn whole(&self) -> Vec<u8> {
        match self {
            Self::Chat(chat) => chat.whole(),
            Self::Text(body) => body.clone(),
        }
    }

    fn beginning(&self) -> Option<Vec<u8>> {
        match self {
            Self::Chat(chat) => chat.beginning(),
            Self::Text(_) => None,
        }
    }
}

#[cfg(test)]
mod tests;
