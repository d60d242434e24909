//! Chat completion request bodies, serialized deterministically.

use bytes::Bytes;
use serde::Serialize;

/// A message of a chat.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Message {
    /// `system`, `user` or `assistant`.
    pub(crate) role: &'static str,
    /// What is said.
    pub(crate) content: String,
}

/// The body that asks for an answer of at most `max_tokens` tokens. A streamed one ends with its usage.
pub(crate) fn chat(model: &str, messages: &[Message], max_tokens: usize, stream: bool) -> Bytes {
    let stream_options = stream.then_some(StreamOptions { include_usage: true });
    let body = Body { model, messages, max_tokens, stream, stream_options };
    serde_json::to_vec(&body).expect("text and numbers can always be written").into()
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: &'a [Message],
    max_tokens: usize,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_what_the_api_wants() {
        let messages = [Message { role: "user", content: " a day".to_owned() }];
        let text = |stream| String::from_utf8(chat("sim", &messages, 5, stream).to_vec()).unwrap();
        assert_eq!(
            text(false),
            r#"{"model":"sim","messages":[{"role":"user","content":" a day"}],"max_tokens":5,"stream":false}"#
        );
        assert!(text(true).ends_with(r#""stream":true,"stream_options":{"include_usage":true}}"#));
    }
}
