//! OpenAI batch output files: one result a line, errors in a file of their own.

use std::io::{self, Write};

use routing_exec::batch::BatchResult;
use serde_json::{Value, json};

use crate::input::{Batch, InvalidLine};

/// The output file and the error file.
#[derive(Debug)]
pub(crate) struct Output<O, E> {
    pub(crate) good: O,
    pub(crate) errors: E,
}

impl<O: Write, E: Write> Output<O, E> {
    /// Writes a request's result.
    pub(crate) fn result(&mut self, batch: &Batch, result: &BatchResult) -> io::Result<()> {
        let custom_id = &batch.lines[result.index as usize].custom_id;
        let (response, error) = match &result.outcome {
            Ok(answer) => {
                // What is no JSON is a text.
                let text = || Value::String(String::from_utf8_lossy(&answer.body).into_owned());
                let body: Value = serde_json::from_slice(&answer.body).unwrap_or_else(|_| text());
                let id = request_id(result.index);
                (json!({"status_code": answer.status, "request_id": id, "body": body}), Value::Null)
            }
            Err(failure) => (Value::Null, json!({"code": failure.code, "message": failure.message})),
        };
        let id = format!("batch_req_{}", result.index);
        let line = json!({"id": id, "custom_id": custom_id, "response": response, "error": error});
        if result.is_success() { writeln!(self.good, "{line}") } else { writeln!(self.errors, "{line}") }
    }

    /// Writes the error of an invalid line.
    pub(crate) fn invalid(&mut self, invalid: &InvalidLine) -> io::Result<()> {
        let error = json!({"code": invalid.code, "message": invalid.message, "line": invalid.line});
        let id = format!("batch_line_{}", invalid.line);
        writeln!(self.errors, "{}", json!({"id": id, "custom_id": invalid.custom_id, "response": null, "error": error}))
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.good.flush()?;
        self.errors.flush()
    }
}

/// What pods call a request.
pub(crate) fn request_id(index: u32) -> String {
    format!("batch-{index}")
}
