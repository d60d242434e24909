//! The requests of a batch, a line of JSON each, and what is wrong with lines that are none.

use std::collections::HashMap;
use std::io::{self, BufRead};

use bytes::Bytes;
use json_edit::{Kind, Object};
use routing_exec::batch::journal::BatchDigest;

/// The requests of a batch, in the order of their lines.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Batch {
    /// Those that can be sent.
    pub lines: Vec<Line>,
    /// Those that cannot.
    pub bad: Vec<BadLine>,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Line {
    /// What its result is found by.
    pub custom_id: String,
    /// The path it is posted to.
    pub url: String,
    /// As it was written.
    pub body: Bytes,
}

/// A line that is no request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BadLine {
    /// Its number, from 1.
    pub line: usize,
    /// Its id, if it says one.
    pub custom_id: Option<String>,
    /// A short name for what is wrong.
    pub code: &'static str,
    /// What is wrong, for people.
    pub message: String,
}

impl Batch {
    /// Reads a batch. Empty lines are none.
    ///
    /// # Errors
    ///
    /// When the input cannot be read. A line that is wrong is among the bad ones.
    pub fn read(mut input: impl BufRead) -> io::Result<Self> {
        let (mut batch, mut seen) = (Self::default(), HashMap::new());
        let (mut text, mut number) = (Vec::new(), 0);
        loop {
            text.clear();
            if input.read_until(b'\n', &mut text)? == 0 {
                return Ok(batch);
            }
            number += 1;
            let text = text.trim_ascii();
            if text.is_empty() {
                continue;
            }
            match Line::read(text) {
                Ok(line) => match seen.entry(line.custom_id.clone()) {
                    std::collections::hash_map::Entry::Occupied(first) => {
                        let message = format!("the custom_id `{}` is that of line {}", line.custom_id, first.get());
                        let custom_id = Some(line.custom_id);
                        batch.bad.push(BadLine { line: number, custom_id, code: "duplicate_custom_id", message });
                    }
                    std::collections::hash_map::Entry::Vacant(free) => {
                        free.insert(number);
                        batch.lines.push(line);
                    }
                },
                Err(wrong) => batch.bad.push(BadLine {
                    line: number,
                    custom_id: wrong.custom_id,
                    code: wrong.code,
                    message: wrong.message,
                }),
            }
        }
    }

    /// Tells it from other batches.
    #[must_use]
    pub fn digest(&self) -> BatchDigest {
        let parts = self.lines.iter().flat_map(|line| [line.custom_id.as_bytes(), line.url.as_bytes(), &line.body]);
        parts.fold(BatchDigest::default(), |digest, part| digest.with(part))
    }
}

struct Wrong {
    custom_id: Option<String>,
    code: &'static str,
    message: String,
}

impl Line {
    fn read(text: &[u8]) -> Result<Self, Wrong> {
        let wrong = |custom_id: Option<&str>, code, message: &str| Wrong {
            custom_id: custom_id.map(str::to_owned),
            code,
            message: message.to_owned(),
        };
        let object = Object::parse(text).map_err(|error| wrong(None, "invalid_json_line", &error.to_string()))?;
        let string = |name: &str| object.get(name).and_then(|value| value.as_str());
        let id = string("custom_id").filter(|id| !id.is_empty());
        let Some(id) = id.as_deref() else {
            return Err(wrong(None, "missing_required_parameter", "there is no `custom_id`, or it is no text"));
        };
        let method = string("method");
        if method.as_deref() != Some("POST") {
            return Err(wrong(Some(id), "invalid_method", "`method` is not `POST`"));
        }
        let url = string("url");
        let Some(url) = url.as_deref().filter(|url| URLS.contains(url)) else {
            let message = format!("`url` is neither of {}", URLS.join(", "));
            return Err(wrong(Some(id), "invalid_url", &message));
        };
        let Some(body) = object.get("body").filter(|body| body.kind() == Kind::Object) else {
            return Err(wrong(Some(id), "invalid_request", "there is no `body`, or it is no object"));
        };
        let streams = body.object().and_then(|body| body.get("stream")).and_then(|stream| stream.as_bool());
        if streams == Some(true) {
            return Err(wrong(Some(id), "invalid_request", "a batch has no streams: `stream` must not be set"));
        }
        let body = Bytes::copy_from_slice(body.as_bytes());
        Ok(Self { custom_id: id.to_owned(), url: url.to_owned(), body })
    }
}

const URLS: [&str; 2] = ["/v1/chat/completions", "/v1/completions"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_requests_or_named_with_what_is_wrong() {
        let good = |id: &str| {
            format!(r#"{{"custom_id":"{id}","method":"POST","url":"/v1/completions","body":{{"prompt": "x"}}}}"#)
        };
        let lines = [
            good("a"),
            "{".to_owned(),
            String::new(),
            good("b"),
            good("a"),
            good("c").replace("POST", "GET"),
            good("d").replace("/v1/", "http://evil/"),
            good("e").replace(r#"{"prompt": "x"}"#, "3"),
            good("f").replace(r#""prompt": "x""#, r#""stream": true"#),
            good("").replace("custom_id", "id"),
        ];
        let batch = Batch::read(lines.join("\n").as_bytes()).unwrap();
        let ids: Vec<&str> = batch.lines.iter().map(|line| &*line.custom_id).collect();
        assert_eq!(ids, ["a", "b"]);
        assert_eq!(batch.lines[0].body, r#"{"prompt": "x"}"#, "as it was written");
        let bad: Vec<_> = batch.bad.iter().map(|bad| (bad.line, bad.custom_id.as_deref(), bad.code)).collect();
        let expected = [
            (2, None, "invalid_json_line"),
            (5, Some("a"), "duplicate_custom_id"),
            (6, Some("c"), "invalid_method"),
            (7, Some("d"), "invalid_url"),
            (8, Some("e"), "invalid_request"),
            (9, Some("f"), "invalid_request"),
            (10, None, "missing_required_parameter"),
        ];
        assert_eq!(bad, expected);
        assert!(batch.bad[1].message.contains("line 1"));
        assert_ne!(batch.digest(), Batch::read(good("a").as_bytes()).unwrap().digest());
    }
}
