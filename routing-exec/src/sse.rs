//! Server-sent events (SSE): event boundaries, error events, and the clean end of a truncated stream.

mod last_event;

use json_edit::Object;

use crate::byte_search::find_either;
use crate::error_body::OF_THE_REQUEST;
use crate::handoff::Api;

pub(crate) use last_event::LastEvent;

/// Where a stream stands: between two events, or inside one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Boundary {
    /// The last bytes that passed, the newest lowest.
    last: u128,
}

impl Boundary {
    /// Takes note of bytes that passed.
    pub(crate) fn pass(&mut self, bytes: &[u8]) {
        self.last = match bytes.last_chunk() {
            Some(tail) => u128::from_be_bytes(*tail),
            None => bytes.iter().fold(self.last, |last, byte| last << 8 | u128::from(*byte)),
        };
    }

    /// Whether nothing passed, or what passed ends in an empty line.
    pub(crate) fn is_between(&self) -> bool {
        let last = self.last.to_be_bytes();
        // A line ends in CR, LF or both, and so does an empty one.
        let ends: [&[u8]; 4] = [b"\n\n", b"\r\r", b"\n\r\n", b"\n\r"];
        self.last == 0 || ends.iter().any(|end| last.ends_with(end))
    }

    /// Whether the last event was the end that OpenAI's completions have.
    pub(crate) fn is_done(&self) -> bool {
        let last = self.last.to_be_bytes();
        let last = last.trim_ascii_end();
        last.ends_with(b"data: [DONE]") || last.ends_with(b"data:[DONE]")
    }

    /// Whether a stream that ends here is whole. Some engines leave the last empty line out.
    pub(crate) fn is_whole(&self) -> bool {
        self.is_between() || self.is_done()
    }
}

/// Where the first event of a stream ends, found as the bytes come. Each is looked at once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FirstEvent {
    /// Where the first line begins whose end has not come.
    line: usize,
    /// Bytes that have no line end before the line's own.
    searched: usize,
    has_data: bool,
}

impl FirstEvent {
    /// Whether the first event is whole in what came so far, which begins as it did in the call before. Comments alone are whole
    /// with their empty line: they keep a client waiting that must not be kept from them.
    pub(crate) fn is_whole(&mut self, first: &[u8]) -> bool {
        loop {
            let from = self.searched.max(self.line);
            let Some(end) = find_either(&first[from..], *b"\n\r").map(|at| from + at) else {
                self.searched = first.len();
                return false;
            };
            let line = &first[self.line..end];
            let next = match &first[end..] {
                [b'\r', b'\n', ..] => end + 2,
                // The other half of the line end may follow; where the line is empty that does not matter.
                [b'\r'] if !line.is_empty() => {
                    self.searched = end;
                    return false;
                }
                _ => end + 1,
            };
            if line.is_empty() && (self.has_data || next == first.len()) {
                return true;
            }
            self.has_data |= line.starts_with(b"data");
            (self.line, self.searched) = (next, next);
        }
    }
}

/// What a stream begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// An event that tells of an error, which is not the request's own.
    Error,
    /// Anything else.
    Fine,
    /// Its first event is not whole, and may be either.
    Unclear,
}

/// What a stream begins with, by its first bytes. Comments alone are fine: they keep a client waiting that must not be kept
/// from them.
pub(crate) fn opening(first: &[u8]) -> Opening {
    let (mut rest, mut is_error) = (first, false);
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
        let line = &rest[..end.unwrap_or(rest.len())];
        if let Some(data) = line.strip_prefix(b"data:") {
            return data_says(data.trim_ascii(), is_error, end.is_some());
        }
        let Some(end) = end else { return Opening::Unclear };
        if let Some(kind) = line.strip_prefix(b"event:") {
            is_error = is_error_kind(kind);
        }
        rest = &rest[end + 1..];
    }
    let mut boundary = Boundary::default();
    boundary.pass(first);
    if boundary.is_between() { Opening::Fine } else { Opening::Unclear }
}

/// What the data of a stream's first event says, as far as it came.
fn data_says(data: &[u8], is_error: bool, is_whole: bool) -> Opening {
    let Some(object) = data.strip_prefix(b"{").map(<[u8]>::trim_ascii_start) else {
        return match (is_error, is_whole || !data.is_empty()) {
            (true, true) => Opening::Error,
            (_, false) => Opening::Unclear,
            _ => Opening::Fine,
        };
    };
    let may_be = object.starts_with(ERROR) || !is_whole && ERROR.starts_with(object);
    match is_error || may_be {
        false => Opening::Fine,
        true if !is_whole => Opening::Unclear,
        true if is_no_failure(data) => Opening::Fine,
        true => Opening::Error,
    }
}

/// The errors that a piece of a stream tells of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ToldErrors {
    /// Any error, the request's own too.
    pub(crate) any: bool,
    /// One that is not the request's own.
    pub(crate) of_the_pod: bool,
}

impl ToldErrors {
    fn and(self, other: Self) -> Self {
        Self { any: self.any | other.any, of_the_pod: self.of_the_pod | other.of_the_pod }
    }
}

/// Looks for what a stream tells of errors, whatever pieces it comes in.
#[derive(Clone, Debug, Default)]
pub(crate) struct ErrorScan {
    /// The line that is not whole yet, if it may tell of an error.
    line: Vec<u8>,
    /// Whether it does not, and what is left of it is passed over.
    skips: bool,
}

impl ErrorScan {
    /// Takes the next piece: what the lines tell that it ends.
    pub(crate) fn pass(&mut self, piece: &[u8]) -> ToldErrors {
        let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        // Mostly its last byte.
        let Some(last) = piece.iter().rposition(is_end) else { return self.keep(piece) };
        let (mut lines, rest) = piece.split_at(last + 1);
        let mut told = ToldErrors::default();
        if self.skips || !self.line.is_empty() {
            let first = lines.iter().position(is_end).map_or(0, |end| end + 1);
            told = self.keep(&lines[..first]).and(told_errors(&self.line));
            self.line.clear();
            (self.skips, lines) = (false, &lines[first..]);
        }
        told.and(told_errors(lines)).and(self.keep(rest))
    }

    /// Keeps a part of a line that is not whole; what that tells, if it is too long to be kept until it is.
    fn keep(&mut self, part: &[u8]) -> ToldErrors {
        if self.skips {
            return ToldErrors::default();
        }
        self.line.extend_from_slice(part);
        let is_error = is_error_data(&self.line);
        let most = if is_error { MOST_OF_AN_ERROR } else { MOST_OF_A_LINE };
        self.skips = self.line.len() > most || !may_tell(&self.line);
        if self.skips {
            self.line.clear();
        }
        // One as long as that repeats what a client sent.
        ToldErrors { any: self.skips && is_error, of_the_pod: false }
    }
}

/// Whether a line is data whose first member tells of an error, as far as it came.
fn is_error_data(line: &[u8]) -> bool {
    let object = line.strip_prefix(b"data:").and_then(|data| data.trim_ascii_start().strip_prefix(b"{"));
    object.is_some_and(|object| object.trim_ascii_start().starts_with(ERROR))
}

/// Whether a line that begins like this may tell of an error.
fn may_tell(line: &[u8]) -> bool {
    let begins = |whole: &[u8], line: &[u8]| line.starts_with(whole) || whole.starts_with(line);
    let Some(data) = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii_start) else {
        return begins(b"event:", line) || b"data:".starts_with(line);
    };
    data.strip_prefix(b"{").map_or(data.is_empty(), |object| begins(ERROR, object.trim_ascii_start()))
}

/// Bytes of a line that are kept until it is whole: of one that may yet turn out to be an error's, and of one that is.
const MOST_OF_A_LINE: usize = 16 << 10;
const MOST_OF_AN_ERROR: usize = 256 << 10;

/// The errors that whole lines tell of: by an event of that kind, or by data whose first member says so.
fn told_errors(mut piece: &[u8]) -> ToldErrors {
    let mut told = ToldErrors::default();
    while !piece.is_empty() {
        let end = find_either(piece, *b"\n\r").unwrap_or(piece.len());
        let line = &piece[..end];
        if let Some(kind) = line.strip_prefix(b"event:") {
            let is_error = is_error_kind(kind);
            told = ToldErrors { any: told.any | is_error, of_the_pod: told.of_the_pod | is_error };
        } else if let Some(data) = line.strip_prefix(b"data:").map(<[u8]>::trim_ascii) {
            let object = data.strip_prefix(b"{").map(<[u8]>::trim_ascii_start);
            if object.is_some_and(|object| object.starts_with(ERROR)) {
                told = ToldErrors { any: true, of_the_pod: told.of_the_pod || !is_no_failure(data) };
            }
        }
        piece = piece.get(end + 1..).unwrap_or_default();
    }
    told
}

/// Whether an event tells of an error by its kind. OpenAI's Responses have a kind of their own.
fn is_error_kind(kind: &[u8]) -> bool {
    matches!(kind.trim_ascii(), b"error" | b"response.failed")
}

/// Whether an error is none of the pod's: it says by its code that the request is at fault, as any pod would, or it is null.
fn is_no_failure(data: &[u8]) -> bool {
    let object = Object::parse(data).ok();
    if object.and_then(|object| object.get("error")).is_some_and(|error| error.is_null()) {
        return true;
    }
    // As a gateway like this one says it; its codes are words.
    let kind = object.and_then(|object| object.get_path(&["error", "type"]));
    if kind.and_then(|kind| kind.as_str()).is_some_and(|kind| kind == OF_THE_REQUEST) {
        return true;
    }
    let code = object.and_then(|object| object.get_path(&["error", "code"]).or_else(|| object.get("code")));
    if code.and_then(|code| code.as_u64()).is_some_and(|code| (400..500).contains(&code) && code != 429) {
        return true;
    }
    // Anthropic's errors have no code.
    let kind = object.and_then(|object| object.get_path(&["error", "type"])).and_then(|kind| kind.as_str());
    kind.is_some_and(|kind| matches!(&*kind, "invalid_request_error" | "BadRequestError" | "not_found_error"))
}

const ERROR: &[u8] = b"\"error\"";

/// Ends a stream that cannot go on: with one event that says why, on its own, and the end that clients wait for.
pub(crate) fn write_error(at: &Boundary, api: Api, error: &[u8], out: &mut Vec<u8>) {
    if !at.is_between() {
        out.extend_from_slice(b"\n\n");
    }
    out.extend_from_slice(b"event: error\ndata: ");
    out.extend_from_slice(error);
    out.extend_from_slice(b"\n\n");
    if api.ends_with_done() {
        out.extend_from_slice(b"data: [DONE]\n\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn between(pieces: &[&str]) -> bool {
        let mut boundary = Boundary::default();
        pieces.iter().for_each(|piece| boundary.pass(piece.as_bytes()));
        boundary.is_between()
    }

    #[test]
    fn an_empty_line_is_found_across_pieces() {
        assert!(between(&[]));
        assert!(between(&["data: a\n\n"]) && between(&["data: a\n", "\n"]) && between(&["data: a\r\n\r", "\n"]));
        assert!(between(&["data: a\r", "\r"]));
        assert!(!between(&["data: a\n"]) && !between(&["data: a\n\n", "d"]) && between(&["data: a\n\r\n"]));
    }

    #[test]
    fn a_first_event_is_whole_with_its_empty_line_however_it_is_cut() {
        let whole_at = |text: &str, piece: usize| {
            let mut first = FirstEvent::default();
            let mut ends: Vec<_> = (piece..text.len()).step_by(piece).collect();
            ends.push(text.len());
            ends.into_iter().find(|end| first.is_whole(&text.as_bytes()[..*end]))
        };
        for (text, event) in [
            ("data: a\n\ndata: b\n\n", "data: a\n\n"),
            ("event: x\r\ndata: a\r\n\r\ndata: b", "event: x\r\ndata: a\r\n\r"),
            ("data: a\r\rdata", "data: a\r\r"),
            ("data: a\ndata: b\n\n", "data: a\ndata: b\n\n"),
            ("\n\n", "\n"),
            (": ping\n\n", ": ping\n\n"),
        ] {
            assert_eq!(whole_at(text, 1), Some(event.len()), "{text:?}");
            for piece in 2..=text.len() {
                let at = whole_at(text, piece).unwrap_or_default();
                assert!((event.len()..=(event.len() + piece)).contains(&at), "{text:?} by {piece}");
            }
        }
        for half in ["data: a", "data: a\n", "data: a\r\n", "data: {\"a\":1}\r", "event: x\n", ": ping\n", "", "da"] {
            for piece in 1..=half.len() {
                assert_eq!(whole_at(half, piece), None, "{half:?} by {piece}");
            }
        }
        let mut first = FirstEvent::default();
        assert!(
            !first.is_whole(b": ping\n\ndata: {") && first.is_whole(b": ping\n\ndata: {}\n\n"),
            "a ping is no event"
        );
    }

    #[test]
    fn an_error_is_known_by_its_kind_or_its_first_member() {
        let is_error = |first: &[u8]| opening(first) == Opening::Error;
        assert!(is_error(b"data: {\"error\": {\"message\": \"x\"}}\n\n") && is_error(b"event: error\ndata: {}\n\n"));
        assert!(is_error(b": ping\n\ndata:{ \"error\":1}\n") && is_error(b"event: error\r\ndata: gone\r\n\r\n"));
        for fine in ["data: {\"id\": \"error\"}\n\n", "data: error\n\n", ": ping\n\n", "data: {\"errors\":1}\n\n"] {
            assert_eq!(opening(fine.as_bytes()), Opening::Fine, "{fine}");
        }
    }

    #[test]
    fn an_error_of_the_requests_own_is_no_failure_of_the_pod() {
        let with = |code: &str| opening(format!("data: {{\"error\": {{\"code\": {code}}}}}\n\n").as_bytes());
        assert_eq!((with("400"), with("422")), (Opening::Fine, Opening::Fine));
        let of_a_gateway = b"data: {\"error\":{\"type\":\"invalid_request_error\",\"code\":\"x\"}}\n\n";
        assert_eq!(opening(of_a_gateway), Opening::Fine);
        assert_eq!((with("500"), with("429"), with("null")), (Opening::Error, Opening::Error, Opening::Error));
    }

    #[test]
    fn an_error_in_the_midst_of_a_stream_is_found_at_the_beginning_of_a_line() {
        for error in
            ["data: a\n\ndata: {\"error\":{\"code\":500}}\n\n", "event: error\r\ndata: x\r\n", "data:{ \"error\": 1}"]
        {
            assert_eq!(told_errors(error.as_bytes()), ToldErrors { any: true, of_the_pod: true }, "{error}");
        }
        let of_the_request = "event: x\ndata: {\"error\":{\"code\":400}}\n\n";
        for fine in
            [of_the_request, "data: {\"error\":null}\n\n", "data: {\"a\":{\"error\":1}}\n", "data: event: error\n", ""]
        {
            assert!(!told_errors(fine.as_bytes()).of_the_pod, "{fine}");
        }
        assert!(told_errors(of_the_request.as_bytes()).any && !told_errors(b"data: {}\n\n").any);
    }

    #[test]
    fn errors_are_found_whatever_pieces_they_come_in() {
        let long = format!("data: {{\"a\":\"{}\"}}\n\n", "x".repeat(3 * MOST_OF_A_LINE));
        let error = |length: usize, code: u32| {
            format!(
                "data: {{\"error\":{{\"message\":\"{}\",\"code\":{code}}}}}\n\ndata: [DONE]\n\n",
                "x".repeat(length)
            )
        };
        for (stream, any, of_the_pod) in [
            ("data: a\n\ndata: {\"error\":{\"code\":500}}\n\ndata: [DONE]\n\n", true, true),
            ("event: error\r\ndata: x\r\n\r\n", true, true),
            ("data:{ \"error\": {\"code\":400}}\n\ndata: {}\n\n", true, false),
            ("data: {\"a\":{\"error\":1}}\ndata: event: error\n", false, false),
            (&*format!("{long}event: error\n"), true, true),
            (&*error(3 * MOST_OF_A_LINE, 500), true, true),
            (&*error(3 * MOST_OF_A_LINE, 400), true, false),
        ] {
            for size in (1..40).chain([1_000, MOST_OF_A_LINE + 1]) {
                let mut scan = ErrorScan::default();
                let told: Vec<_> = stream.as_bytes().chunks(size).map(|piece| scan.pass(piece)).collect();
                let found = (told.iter().any(|told| told.any), told.iter().any(|told| told.of_the_pod));
                assert_eq!(found, (any, of_the_pod), "pieces of {size}: {stream:.80}");
                assert!(scan.line.len() <= MOST_OF_A_LINE);
            }
        }
        // One that is longer than is kept is an error, and nobody's.
        let (mut scan, endless) = (ErrorScan::default(), error(2 * MOST_OF_AN_ERROR, 500));
        let told: Vec<_> =
            endless.as_bytes().chunks(1 << 14).map(|piece| scan.pass(piece)).filter(|told| told.any).collect();
        assert_eq!(told, [ToldErrors { any: true, of_the_pod: false }]);
    }

    #[test]
    fn a_first_event_in_pieces_is_unclear_until_it_can_be_told() {
        let error = b"event: error\ndata: {\"error\": 1}\n\n";
        let whole = error.len() - 2;
        (0..whole).for_each(|end| {
            let expected = if end == 0 { Opening::Fine } else { Opening::Unclear };
            assert_eq!(opening(&error[..end]), expected, "{end}");
        });
        assert_eq!(opening(error), Opening::Error);
        assert_eq!(opening(b"data: {\"id\""), Opening::Fine, "told by its first member");
        assert_eq!(opening(b"data: {\"err"), Opening::Unclear);
    }

    #[test]
    fn a_last_event_without_its_empty_line_is_whole_if_it_is_the_end() {
        let whole = |text: &str| {
            let mut boundary = Boundary::default();
            boundary.pass(text.as_bytes());
            boundary.is_whole()
        };
        assert!(whole("data: x\n\ndata: [DONE]") && whole("data: x\n\ndata: [DONE]\n") && whole("data:[DONE]\r\n"));
        assert!(!whole("data: x\n") && !whole("data: [DONE"));
    }
}
