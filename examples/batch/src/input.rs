//! OpenAI batch input files: one JSON request a line, parsed and validated.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::{self, BufRead};

use bytes::Bytes;
use json_edit::{Kind, Object};
use routing_exec::batch::journal::BatchDigest;

/// The requests of a batch, in the order of their lines.
#[derive(Clone, Debug, Default)]
pub(crate) struct Batch {
    /// The valid requests.
    pub(crate) lines: Vec<Line>,
    /// The invalid lines.
    pub(crate) invalid: Vec<InvalidLine>,
}

/// One request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Identifies its result.
    pub(crate) custom_id: String,
    /// The path it is posted to.
    pub(crate) url: String,
    /// As it was written.
    pub(crate) body: Bytes,
}

/// A line that is not a valid request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InvalidLine {
    /// Its number, from 1.
    pub(crate) line: usize,
    /// Its id, if it has one.
    pub(crate) custom_id: Option<String>,
    /// An error code as OpenAI names them.
    pub(crate) code: &'static str,
    /// The error message.
    pub(crate) message: String,
}

impl Batch {
    /// Reads a batch. Empty lines are none.
    pub(crate) fn read(mut input: impl BufRead) -> io::Result<Self> {
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
            match Line::parse(number, text) {
                Ok(line) => match seen.entry(line.custom_id.clone()) {
                    Entry::Occupied(first) => {
                        let message = format!("the custom_id `{}` is that of line {}", line.custom_id, first.get());
                        let (code, custom_id) = ("duplicate_custom_id", Some(line.custom_id));
                        batch.invalid.push(InvalidLine { line: number, custom_id, code, message });
                    }
                    Entry::Vacant(free) => {
                        free.insert(number);
                        batch.lines.push(line);
                    }
                },
                Err(invalid) => batch.invalid.push(invalid),
            }
        }
    }

    /// Identifies the batch in a journal.
    pub(crate) fn digest(&self) -> BatchDigest {
        let parts = self.lines.iter().flat_map(|line| [line.custom_id.as_bytes(), line.url.as_bytes(), &line.body]);
        parts.fold(BatchDigest::default(), |digest, part| digest.with(part))
    }
}

impl Line {
    fn parse(number: usize, text: &[u8]) -> Result<Self, InvalidLine> {
        let invalid = |custom_id: Option<&str>, code, message: &str| InvalidLine {
            line: number,
            custom_id: custom_id.map(str::to_owned),
            code,
            message: message.to_owned(),
        };
        let object = Object::parse(text).map_err(|error| invalid(None, "invalid_json_line", &error.to_string()))?;
        let string = |name: &str| object.get(name).and_then(|value| value.as_str());
        let id = string("custom_id").filter(|id| !id.is_empty());
        let Some(id) = id.as_deref() else {
            return Err(invalid(None, "missing_required_parameter", "there is no `custom_id`, or it is no text"));
        };
        let method = string("method");
        if method.as_deref() != Some("POST") {
            return Err(invalid(Some(id), "invalid_method", "`method` is not `POST`"));
        }
        let url = string("url");
        let Some(url) = url.as_deref().filter(|url| URLS.contains(url)) else {
            let message = format!("`url` is neither of {}", URLS.join(", "));
            return Err(invalid(Some(id), "invalid_url", &message));
        };
        let Some(body) = object.get("body").filter(|body| body.kind() == Kind::Object) else {
            return Err(invalid(Some(id), "invalid_request", "there is no `body`, or it is no object"));
        };
        let streams = body.object().and_then(|body| body.get("stream")).and_then(|stream| stream.as_bool());
        if streams == Some(true) {
            return Err(invalid(Some(id), "invalid_request", "a batch has no streams: `stream` must not be set"));
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
    fn lines_are_requests_or_have_an_error_code() {
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
        let invalid: Vec<_> =
            batch.invalid.iter().map(|invalid| (invalid.line, invalid.custom_id.as_deref(), invalid.code)).collect();
        let expected = [
            (2, None, "invalid_json_line"),
            (5, Some("a"), "duplicate_custom_id"),
            (6, Some("c"), "invalid_method"),
            (7, Some("d"), "invalid_url"),
            (8, Some("e"), "invalid_request"),
            (9, Some("f"), "invalid_request"),
            (10, None, "missing_required_parameter"),
        ];
        assert_eq!(invalid, expected);
        assert!(batch.invalid[1].message.contains("line 1"));
        assert_ne!(batch.digest(), Batch::read(good("a").as_bytes()).unwrap().digest());
    }
}
