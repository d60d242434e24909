//! The last event of a stream that ends with one of a certain kind, as Anthropic's and OpenAI's Responses do.

/// Looks for an event of a kind that ends a stream, in pieces of any size: by its line `event:`, or by the type that its data begins
/// with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LastEvent {
    /// The beginning of the line that passes.
    line: [u8; LINE],
    length: usize,
    has_come: bool,
}

impl LastEvent {
    /// Takes note of bytes that passed. Without kinds there is nothing to look for.
    pub(crate) fn pass(&mut self, kinds: &[&[u8]], bytes: &[u8]) {
        if kinds.is_empty() || self.has_come {
            return;
        }
        for piece in bytes.split_inclusive(|byte| is_line_end(*byte)) {
            let (text, is_line) = match piece.split_last() {
                Some((last, text)) if is_line_end(*last) => (text, true),
                _ => (piece, false),
            };
            let taken = text.len().min(LINE - self.length);
            self.line[self.length..self.length + taken].copy_from_slice(&text[..taken]);
            self.length += taken;
            if is_line {
                self.has_come |= names(&self.line[..self.length], kinds);
                self.length = 0;
            }
        }
    }

    /// Whether it passed.
    pub(crate) fn has_come(&self) -> bool {
        self.has_come
    }
}

impl Default for LastEvent {
    fn default() -> Self {
        Self { line: [0; LINE], length: 0, has_come: false }
    }
}

fn is_line_end(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r')
}

/// Whether a line names an event of one of the kinds.
fn names(line: &[u8], kinds: &[&[u8]]) -> bool {
    if let Some(kind) = line.strip_prefix(b"event:") {
        return kinds.contains(&kind.trim_ascii());
    }
    let object = line.strip_prefix(b"data:").and_then(|data| data.trim_ascii().strip_prefix(b"{"));
    let value = object.and_then(|object| object.trim_ascii_start().strip_prefix(b"\"type\""));
    let value = value.and_then(|value| value.trim_ascii_start().strip_prefix(b":")).map(<[u8]>::trim_ascii_start);
    let kind = value.and_then(|value| value.strip_prefix(b"\""));
    kind.is_some_and(|kind| {
        kinds.iter().any(|known| kind.strip_prefix(*known).is_some_and(|rest| rest.starts_with(b"\"")))
    })
}

/// Bytes of a line that are looked at: more than the longest kind needs.
const LINE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handoff::Api;

    fn has_come(api: Api, pieces: &[&str]) -> bool {
        let mut last = LastEvent::default();
        pieces.iter().for_each(|piece| last.pass(api.last_events(), piece.as_bytes()));
        last.has_come()
    }

    #[test]
    fn the_last_event_is_known_by_its_kind_or_by_the_type_of_its_data() {
        let messages = |text: &str| has_come(Api::Messages, &[text]);
        assert!(messages("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"));
        assert!(messages("event:message_stop\r\n") && messages("data: { \"type\" : \"message_stop\" }\n"));
        for other in [
            "event: message_start\n",
            "event: message_stopped\n",
            "data: {\"type\":\"message_stopped\"}\n",
            "data: {\"text\":\"event: message_stop\"}\n",
            "event: message_stop",
            ": message_stop\n",
        ] {
            assert!(!messages(other), "{other}");
        }
        for end in ["response.completed", "response.incomplete", "response.failed"] {
            assert!(has_come(Api::Responses, &["event: ", end, "\ndata: {}\n\n"]), "{end}");
        }
        assert!(!has_come(Api::Responses, &["event: response.created\n", "event: message_stop\n"]));
        assert!(!has_come(Api::Chat, &["event: message_stop\n"]), "chats end otherwise");
    }

    #[test]
    fn pieces_of_any_size_and_long_lines_do_not_matter() {
        let long = format!("data: {}\nevent: message_stop\n", "x".repeat(1000));
        for size in 1..long.len() {
            let mut last = LastEvent::default();
            long.as_bytes().chunks(size).for_each(|piece| last.pass(Api::Messages.last_events(), piece));
            assert!(last.has_come(), "{size}");
        }
    }
}
