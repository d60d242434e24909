//! Server-sent events reader of a streamed completion, which tells a whole answer from a truncated one.
//!
//! A stream is whole if it has a finish reason, a usage and `[DONE]`, in this order, and nothing after. An error event makes it a
//! failure, whatever else is there.

use serde_json::Value;

use crate::load_generator::failure::Failure;

/// Tokens, as the answer counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Of the prompt.
    pub(crate) prompt: usize,
    /// Of those, held already.
    pub(crate) cached: usize,
    /// Of the answer.
    pub(crate) generated: usize,
}

impl Usage {
    /// That of an answer or chunk, if it has one.
    fn of(answer: &Value) -> Option<Self> {
        let tokens = |path: &str| answer.pointer(path).and_then(Value::as_u64).map(|tokens| tokens as usize);
        Some(Self {
            prompt: tokens("/usage/prompt_tokens")?,
            cached: tokens("/usage/prompt_tokens_details/cached_tokens").unwrap_or(0),
            generated: tokens("/usage/completion_tokens").unwrap_or(0),
        })
    }
}

/// The state of a stream.
#[derive(Debug, Default)]
pub(crate) struct SseReader {
    pending: Vec<u8>,
    /// What the event under way is called, if anything.
    event: Option<String>,
    text: String,
    tokens: usize,
    usage: Option<Usage>,
    stage: Stage,
    is_error: bool,
    malformed: Option<&'static str>,
}

impl SseReader {
    /// Takes the next bytes; how many pieces of text were in them.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> usize {
        let before = self.tokens;
        self.pending.extend_from_slice(bytes);
        let mut pending = std::mem::take(&mut self.pending);
        let mut taken = 0;
        while let Some(length) = pending[taken..].iter().position(|&byte| byte == b'\n') {
            self.line(&pending[taken..taken + length]);
            taken += length + 1;
        }
        pending.drain(..taken);
        self.pending = pending;
        self.tokens - before
    }

    /// What was read, now that nothing more comes.
    pub(crate) fn end(self) -> Result<(String, Usage), Failure> {
        if self.is_error {
            return Err(Failure::ErrorEvent);
        }
        if let Some(what) = self.malformed {
            return Err(Failure::Malformed(what));
        }
        match (self.stage, self.usage) {
            (Stage::Done, Some(usage)) if self.pending.is_empty() => Ok((self.text, usage)),
            (Stage::Done, None) => Err(Failure::Malformed("no usage")),
            _ => Err(Failure::Truncated(self.tokens)),
        }
    }

    fn line(&mut self, line: &[u8]) {
        let line = line.trim_ascii_end();
        if line.is_empty() {
            self.event = None;
        } else if let Some(name) = line.strip_prefix(b"event:") {
            self.event = Some(String::from_utf8_lossy(name.trim_ascii()).into_owned());
        } else if let Some(data) = line.strip_prefix(b"data:") {
            self.data(data.trim_ascii());
        }
    }

    fn data(&mut self, data: &[u8]) {
        if self.event.as_deref() == Some("error") {
            self.is_error = true;
        } else if self.stage == Stage::Done {
            self.malformed = Some("something after the end");
        } else if data == b"[DONE]" {
            // After an error the end may come at once.
            match self.stage {
                Stage::Finished => {}
                _ if self.is_error => {}
                _ => self.malformed = Some("an end without a finish reason"),
            }
            self.stage = Stage::Done;
        } else {
            match serde_json::from_slice(data) {
                Ok(chunk) => self.chunk(&chunk),
                Err(_) => self.malformed = Some("an event that is no JSON"),
            }
        }
    }

    fn chunk(&mut self, chunk: &Value) {
        self.is_error |= !chunk["error"].is_null();
        for choice in chunk["choices"].as_array().into_iter().flatten() {
            if let Some(text) = choice["delta"]["content"].as_str().filter(|text| !text.is_empty()) {
                if self.stage == Stage::Finished {
                    self.malformed = Some("text after the finish reason");
                }
                self.text.push_str(text);
                self.tokens += 1;
            }
            if choice["finish_reason"].is_string() {
                self.stage = Stage::Finished;
            }
        }
        self.usage = Usage::of(chunk).or(self.usage);
    }
}

/// Parses an answer without streaming.
pub(crate) fn parse_response(body: &[u8]) -> Result<(String, Usage), Failure> {
    let body: Value = serde_json::from_slice(body).map_err(|_| Failure::Malformed("a body that is no JSON"))?;
    let usage = Usage::of(&body).ok_or(Failure::Malformed("no usage"))?;
    let choice = &body["choices"][0];
    match (choice["message"]["content"].as_str(), choice["finish_reason"].as_str()) {
        (Some(text), Some(_)) => Ok((text.to_owned(), usage)),
        _ => Err(Failure::Malformed("a choice without text or finish reason")),
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Open,
    Finished,
    Done,
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINISH: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n";
    const USAGE: &str = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2,\
        \"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n";
    const DONE: &str = "data: [DONE]\n\n";
    const ERROR: &str = "event: error\ndata: {\"error\":{\"message\":\"gone\"}}\n\n";

    fn says(text: &str) -> String {
        format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n")
    }

    fn read(stream: &str, step: usize) -> Result<(String, Usage), Failure> {
        let mut commentary = SseReader::default();
        for piece in stream.as_bytes().chunks(step) {
            commentary.push(piece);
        }
        commentary.end()
    }

    #[test]
    fn a_whole_answer_is_read_however_it_is_cut_into_packets() {
        let stream = [&says(" a"), ": a comment\r\n\r\n", &says(" day"), FINISH, USAGE, DONE].concat();
        for step in 1..stream.len() {
            let usage = Usage { prompt: 9, cached: 4, generated: 2 };
            assert_eq!(read(&stream, step), Ok((" a day".to_owned(), usage)), "{step}");
        }
    }

    #[test]
    fn whatever_is_cut_off_is_no_answer() {
        let stream = [&says(" a"), &says(" day"), FINISH, USAGE, DONE].concat();
        // The last line's end may be missing one line feed: the end was said.
        for end in 0..stream.len() - 2 {
            assert!(read(&stream[..end], 7).is_err(), "{end}");
        }
    }

    #[test]
    fn an_error_event_wins_over_all_else() {
        for stream in [
            [ERROR, "", ""].concat(),
            [&says(" a"), ERROR, DONE].concat(),
            ["data: {\"choi", "\n\n", ERROR, DONE].concat(),
            ["data: {\"error\":{\"code\":500}}\n\n", DONE].concat(),
        ] {
            assert_eq!(read(&stream, 5), Err(Failure::ErrorEvent), "{stream}");
        }
    }

    #[test]
    fn odd_streams_are_malformed() {
        for (stream, what) in [
            ([&says(" a"), DONE, ""].concat(), "an end without a finish reason"),
            ([FINISH, &says(" a"), USAGE, DONE].concat(), "text after the finish reason"),
            ([FINISH, USAGE, DONE, DONE].concat(), "something after the end"),
            ([FINISH, DONE].concat(), "no usage"),
            (["data: {\n\n", FINISH, USAGE, DONE].concat(), "an event that is no JSON"),
        ] {
            assert_eq!(read(&stream, 9), Err(Failure::Malformed(what)));
        }
    }

    #[test]
    fn an_answer_in_one_piece_needs_text_a_reason_and_usage() {
        let body = |choice: &str, usage: &str| format!("{{\"choices\":[{choice}]{usage}}}");
        let choice = r#"{"message":{"content":" a"},"finish_reason":"stop"}"#;
        let usage = r#","usage":{"prompt_tokens":3,"completion_tokens":1}"#;
        let read = parse_response(body(choice, usage).as_bytes());
        assert_eq!(read, Ok((" a".to_owned(), Usage { prompt: 3, cached: 0, generated: 1 })));
        let unfinished = r#"{"message":{"content":" a"},"finish_reason":null}"#;
        for body in [body(choice, ""), body("", usage), body(unfinished, usage), "{".to_owned()] {
            assert!(parse_response(body.as_bytes()).is_err(), "{body}");
        }
    }
}
