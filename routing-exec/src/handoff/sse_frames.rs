//! Server-sent events (SSE): frames and their data, in bytes.

use std::ops::Range;

/// Finds where events end, behind their empty lines, in bytes that come in pieces of any size.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FrameEnds {
    line: Line,
}

/// What there is of the line so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Line {
    #[default]
    Nothing,
    Return,
    Text,
}

impl FrameEnds {
    /// Where the event ends in the next bytes; none if they all belong to it. Bytes behind the end are not looked at.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            at += 1;
            self.line = match (byte, self.line) {
                (b'\n', Line::Text) => Line::Nothing,
                (b'\n', _) => {
                    self.line = Line::Nothing;
                    return Some(at);
                }
                (b'\r', Line::Nothing) => Line::Return,
                _ => {
                    // To the end of the line at once.
                    let rest = bytes.get(at..).unwrap_or_default();
                    at += rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
                    Line::Text
                }
            };
        }
        None
    }
}

/// The whole events in some bytes.
pub(super) fn frames(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (frame, rest) = bytes.split_at_checked(FrameEnds::default().next(bytes)?)?;
        bytes = rest;
        Some(frame)
    })
}

/// An event's data, if it is one line.
pub(super) fn data(frame: &[u8]) -> Option<&[u8]> {
    frame.get(place_of_data(frame)?)
}

/// Where an event's data is, if it is one line.
pub(super) fn place_of_data(frame: &[u8]) -> Option<Range<usize>> {
    let mut found = None;
    let mut start = 0;
    for line in frame.split_inclusive(|byte| *byte == b'\n') {
        let text = line.trim_ascii_end();
        if let Some(data) = text.strip_prefix(b"data:") {
            if found.is_some() {
                return None;
            }
            let data = data.trim_ascii_start();
            found = Some(start + text.len() - data.len()..start + text.len());
        }
        start += line.len();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_end_at_empty_lines() {
        let bytes = b"data: a\n\n\nevent: b\r\ndata: c\r\n\r\n: d\n\ndata: e\n";
        let found: Vec<_> = frames(bytes).collect();
        assert_eq!(found, [&b"data: a\n\n"[..], b"\n", b"event: b\r\ndata: c\r\n\r\n", b": d\n\n"]);
    }

    #[test]
    fn data_is_one_line_or_none() {
        let cases: [(&[u8], Option<&[u8]>); 6] = [
            (b"data: {}\n\n", Some(b"{}")),
            (b"event: x\r\ndata:{} \r\n\r\n", Some(b"{}")),
            (b"data: a\ndata: b\n\n", None),
            (b": data: a\n\n", None),
            (b"data\n\n", None),
            (b"data: a", Some(b"a")),
        ];
        for (frame, expected) in cases {
            assert_eq!(data(frame), expected, "{:?}", String::from_utf8_lossy(frame));
        }
    }
}
