//! Synthetic batch: questions about shared documents, shuffled.

use std::fmt::Write;

use pointsman_lab::SplitMix64;
use serde_json::json;

use pointsman_engine_sim::MODEL;
use pointsman_example_common::words;

/// An OpenAI batch file of so many requests.
pub(crate) fn synthetic_batch(requests: usize, seed: u64) -> String {
    let mut rng = SplitMix64::new(seed);
    let documents: Vec<String> = (0..requests.div_ceil(PER_DOCUMENT)).map(|_| words(&mut rng, DOCUMENT)).collect();
    let mut file = String::new();
    for nth in 0..requests {
        let document = &documents[rng.below(documents.len())];
        let question = words(&mut rng, QUESTION);
        let messages = json!([{"role": "system", "content": document}, {"role": "user", "content": question}]);
        let body = json!({"model": MODEL, "messages": messages, "max_tokens": rng.between(8, 96)});
        let line = json!({
            "custom_id": format!("request-{nth}"),
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": body,
        });
        _ = writeln!(file, "{line}");
    }
    file
}

fn words(rng: &mut SplitMix64, count: usize) -> String {
    (0..count).map(|_| words::word(rng.next_u64())).collect()
}

/// Requests about the same document, words of a document, words of a question.
const PER_DOCUMENT: usize = 12;
const DOCUMENT: usize = 1_200;
const QUESTION: usize = 24;
