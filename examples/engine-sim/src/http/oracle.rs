//! Test oracle: the completion that any pod gives, for a client that checks.

use routing_plugins::tokenize::{ModelPrompts, PromptTokenizer};
use serde::Deserialize;

use super::completion::{Completion, OutputLimits};
use pointsman_example_common::words;

/// Knows the answer to every chat, since answers depend on nothing but prompt and limit.
#[derive(Debug)]
pub struct CompletionOracle {
    prompts: ModelPrompts,
}

impl CompletionOracle {
    /// The whole text that a body of a request asks for; empty if it asks for nothing.
    #[must_use]
    pub fn completion(&self, body: &[u8]) -> String {
        let mut prompt = Vec::new();
        let asked: Result<Asked, _> = serde_json::from_slice(body);
        match (self.prompts.tokenize(body, &mut prompt), asked) {
            (Ok(()), Ok(Asked { max_tokens: most })) => {
                Completion::to(&prompt, OutputLimits { most, ..OutputLimits::default() }, usize::MAX).words.concat()
            }
            _ => String::new(),
        }
    }
}

impl Default for CompletionOracle {
    /// The oracle for the model of words.
    fn default() -> Self {
        Self { prompts: words::prompts().expect("the template is a constant") }
    }
}

#[derive(Deserialize)]
struct Asked {
    max_tokens: Option<usize>,
}
