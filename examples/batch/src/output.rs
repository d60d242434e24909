//! Results as OpenAI writes them: a line each, those of success and the others apart.

use std::io::{self, Write};

use routing_exec::batch::BatchResult;
use serde_json::{Value, json};

use crate::{BadLine, Batch};

/// Where lines go.
#[derive(Debug)]
pub(super) struct Output<O, E> {
    pub(super) good: O,
    pub(super) errors: E,
}

impl<O: Write, E: Write> Output<O, E> {
    /// Writes a request's result.
    pub(super) fn result(&mut self, batch: &Batch, result: &BatchResult) -> io::Result<()> {
        let custom_id = &batch.lines[result.place as usize].custom_id;
        let (response, error) = match &result.outcome {
            Ok(answer) => {
                // What is no JSON is a text.
                let text = || Value::String(String::from_utf8_lossy(&answer.body).into_owned());
                let body: Value = serde_json::from_slice(&answer.body).unwrap_or_else(|_| text());
                let id = request_id(result.place);
                (json!({"status_code": answer.status, "request_id": id, "body": body}), Value::Null)
            }
            Err(failure) => (Value::Null, json!({"code": failure.code, "message": failure.message})),
        };
        let id = format!("batch_req_{}", result.place);
        let line = json!({"id": id, "custom_id": custom_id, "response": response, "error": error});
        if result.is_success() { writeln!(self.good, "{line}") } else { writeln!(self.errors, "{line}") }
    }

    /// Writes what is wrong with a line.
    pub(super) fn bad(&mut self, bad: &BadLine) -> io::Result<()> {
        let error = json!({"code": bad.code, "message": bad.message, "line": bad.line});
        let id = format!("batch_line_{}", bad.line);
        writeln!(self.errors, "{}", json!({"id": id, "custom_id": bad.custom_id, "response": null, "error": error}))
    }

    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.good.flush()?;
        self.errors.flush()
    }
}

/// What pods call a request.
pub(super) fn request_id(place: u32) -> String {
    format!("batch-{place}")
}
