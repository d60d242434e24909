//! Estimated tokens: four bytes of a prompt's text are one, as llm-d's `token-producer` has it without a tokenizer.

use std::sync::Arc;

use routing_plugins::tokenize::{PromptError, PromptTokenizer, Tokenizers};
use serde_json::Value;

/// Takes every four bytes of a prompt's text for a token, for all models.
///
/// Only their number is of use: no engine reports such tokens.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct EstimateTokenizer;

impl Tokenizers for EstimateTokenizer {
    fn tokenizer(&self, _: &str) -> Option<Arc<dyn PromptTokenizer>> {
        Some(Arc::new(Self))
    }
}

impl PromptTokenizer for EstimateTokenizer {
    fn tokenize(&self, body: &[u8], out: &mut Vec<u32>) -> Result<(), PromptError> {
        let mut text = Vec::new();
        if let Ok(body) = serde_json::from_slice::<Value>(body) {
            let prompt = PROMPTS.iter().find_map(|name| body.get(name).filter(|prompt| !prompt.is_null()));
            if let Some(tokens) = prompt.and_then(token_ids) {
                out.extend(tokens);
                return Ok(());
            }
            [body.get("system"), body.get("instructions"), prompt]
                .into_iter()
                .flatten()
                .for_each(|part| collect(part, &mut text));
        } else {
            text.extend_from_slice(body);
        }
        for bytes in text.chunks(BYTES) {
            let mut token = [0; BYTES];
            token[..bytes.len()].copy_from_slice(bytes);
            out.push(u32::from_le_bytes(token));
        }
        Ok(())
    }
}

/// A prompt that comes as tokens.
fn token_ids(prompt: &Value) -> Option<Vec<u32>> {
    let tokens = prompt.as_array().filter(|tokens| !tokens.is_empty())?;
    tokens.iter().map(|token| token.as_u64().and_then(|token| u32::try_from(token).ok())).collect()
}

/// All texts in a part of a body, in order.
fn collect(part: &Value, text: &mut Vec<u8>) {
    match part {
        Value::String(part) => text.extend_from_slice(part.as_bytes()),
        Value::Array(parts) => parts.iter().for_each(|part| collect(part, text)),
        Value::Object(fields) => fields.values().for_each(|part| collect(part, text)),
        _ => {}
    }
}

const BYTES: usize = 4;

const PROMPTS: [&str; 5] = ["messages", "prompt", "input", "text", "input_ids"];

#[cfg(test)]
mod tests {
    use super::*;

    fn count(body: &str) -> usize {
        let mut tokens = Vec::new();
        EstimateTokenizer.tokenize(body.as_bytes(), &mut tokens).unwrap();
        tokens.len()
    }

    #[test]
    fn four_bytes_are_a_token() {
        assert_eq!(count(r#"{"model": "m", "prompt": "12345678", "max_tokens": 5}"#), 2);
        assert_eq!(count(r#"{"prompt": "123456789"}"#), 3);
        assert_eq!(count(r#"{"messages": [{"role": "user", "content": "1234"}]}"#), 2);
        assert_eq!(count(r#"{"prompt": [1, 2, 3]}"#), 3);
        assert_eq!(count("no json at all"), 4);
        assert_eq!(count("{}"), 0);
    }
}
