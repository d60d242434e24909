//! What any pod would answer: known to a client that checks.

use routing_plugins::tokenize::{ModelPrompts, PromptTokenizer};
use serde::Deserialize;

use super::answer::{Answer, Limits};
use crate::text;

/// Knows the answer to every chat, since answers depend on nothing but prompt and limit.
#[derive(Debug)]
pub struct Oracle {
    prompts: ModelPrompts,
}

impl Oracle {
    /// An oracle for the model of words.
    #[must_use]
    pub fn new() -> Self {
        Self { prompts: text::prompts().expect("the template is a constant") }
    }

    /// The whole text that a body of a request asks for; empty if it asks for nothing.
    #[must_use]
    pub fn answer(&self, body: &[u8]) -> String {
        let mut prompt = Vec::new();
        let asked: Result<Asked, _> = serde_json::from_slice(body);
        match (self.prompts.tokenize(body, &mut prompt), asked) {
            (Ok(()), Ok(Asked { max_tokens: most })) => {
                Answer::to(&prompt, Limits { most, ..Limits::default() }, usize::MAX).words.concat()
            }
            _ => String::new(),
        }
    }
}

impl Default for Oracle {
    fn default() -> Self {
        Self::new()
    }
}

#[derive(Deserialize)]
struct Asked {
    max_tokens: Option<usize>,
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::load::{Client, Ledger, Message, chat};
    use crate::sim::{PodConfig, SimPod};

    #[tokio::test]
    async fn a_pod_answers_what_the_oracle_says() {
        let pod = SimPod::start(PodConfig { speed: 1_000.0, ..PodConfig::new("a", "sim") }, Vec::new()).await.unwrap();
        let client = Client::new(&format!("http://{}", pod.address()), Duration::from_secs(10));
        let (oracle, ledger) = (Oracle::new(), Ledger::default());
        for (says, tokens, stream) in [(" a day", 7, true), (" a day", 12, false), (" by and by", 500, true)] {
            let body = chat("sim", &[Message { role: "user", content: says.to_owned() }], tokens, stream);
            let answer = client.ask(ledger.begin(), body.clone()).await.unwrap();
            assert_eq!(answer.text, oracle.answer(&body));
        }
        assert_eq!(oracle.answer(b"{}"), "");
        pod.stop().await;
    }
}
