//! Toy tokenizer: a word is a token, for simulated models.
//!
//! A word with the blank before it is a token, and so is every other character; the id is a hash of it. A text that is
//! made of such words comes back as the tokens it was made of, so what a simulated pod wrote is recognized when a client
//! sends it back in the next turn. Pods and gateway use the same rules, as they would the same `tokenizer.json`.

use routing_plugins::tokenize::{
    ChatTemplate, ModelPrompts, PrefixCache, SafeSplit, TemplateError, TokenizeError, Tokenizer,
};

/// The vocabulary.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "there is nothing to configure")]
pub struct Words;

impl Tokenizer for Words {
    fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        let mut rest = text;
        while let Some(length) = first_token(rest) {
            let (token, after) = rest.split_at(length);
            out.push(id(token));
            rest = after;
        }
        Ok(())
    }

    fn safe_splits(&self, text: &str, out: &mut Vec<SafeSplit>) {
        out.extend(text.match_indices(END_OF_TURN).map(|(at, _)| SafeSplit::new(at, at + END_OF_TURN.len())));
    }
}

/// Reads the prompts of requests for a model of this vocabulary, and remembers the beginnings of conversations.
///
/// # Errors
///
/// None in fact: the template is a constant.
pub fn prompts() -> Result<ModelPrompts, TemplateError> {
    let template = ChatTemplate::from_source(TEMPLATE, "{}")?;
    Ok(ModelPrompts::new(PrefixCache::new(Words, REMEMBERED_BYTES)).chat(template))
}

/// The word of an answer, with the blank before it: a token. Every seed has one.
#[must_use]
pub fn word(seed: u64) -> &'static str {
    VOCABULARY[(seed % VOCABULARY.len() as u64) as usize]
}

/// The id of a token.
#[must_use]
pub fn id(token: &str) -> u32 {
    // FNV-1a: tokens are a few bytes long.
    let hash = token
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    ((hash ^ hash >> 32) % IDS) as u32
}

/// What ends every message of a chat.
pub const END_OF_TURN: &str = "<|end|>";

/// Bytes of the text's first token; none at its end.
fn first_token(text: &str) -> Option<usize> {
    for special in SPECIAL {
        if text.starts_with(special) {
            return Some(special.len());
        }
    }
    let first = text.chars().next()?;
    let mark = if first == ' ' { 1 } else { 0 };
    let word = text[mark..].bytes().take_while(|byte| byte.is_ascii_alphanumeric()).count();
    Some(if word > 0 { mark + word } else { first.len_utf8() })
}

const SPECIAL: [&str; 2] = ["<|start|>", END_OF_TURN];

const TEMPLATE: &str = "{% for message in messages %}<|start|>{{ message.role }}\n{{ message.content }}<|end|>\n\
    {% endfor %}{% if add_generation_prompt %}<|start|>assistant\n{% endif %}";

const IDS: u64 = 128_000;

const REMEMBERED_BYTES: usize = 64 << 20;

const VOCABULARY: [&str; 64] = [
    " a", " about", " all", " and", " are", " as", " at", " be", " been", " but", " by", " can", " come", " could",
    " day", " did", " do", " down", " each", " find", " first", " for", " from", " get", " go", " had", " has",
    " have", " he", " her", " him", " his", " how", " if", " in", " into", " is", " it", " like", " long", " look",
    " made", " make", " many", " may", " more", " my", " no", " not", " now", " number", " of", " on", " one", " or",
    " other", " out", " part", " people", " said", " see", " she", " so", " some",
];

#[cfg(test)]
mod tests {
    use routing_plugins::tokenize::PromptTokenizer;

    use super::*;

    fn encode(text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        Words.encode(text, &mut ids).unwrap();
        ids
    }

    #[test]
    fn a_text_of_words_is_its_words() {
        let words: Vec<&str> = (0..200).map(word).collect();
        assert_eq!(encode(&words.concat()), words.iter().map(|word| id(word)).collect::<Vec<_>>());
    }

    #[test]
    fn every_text_has_tokens_and_none_is_empty() {
        for text in ["", " ", "  a", "ä ö", "<|start", "<|end|><|end|>", "a\n\n b"] {
            let mut rest = text;
            while let Some(length) = first_token(rest) {
                assert!(length > 0);
                rest = &rest[length..];
            }
            assert_eq!(rest, "");
        }
        assert_eq!(encode(" a b"), [id(" a"), id(" b")]);
    }

    #[test]
    fn the_next_turn_begins_with_the_last_ones_tokens() {
        let prompts = prompts().unwrap();
        let tokens = |body: &str| {
            let mut tokens = Vec::new();
            prompts.tokenize(body.as_bytes(), &mut tokens).unwrap();
            tokens
        };
        let first = tokens(r#"{"messages":[{"role":"user","content":"hello there"}]}"#);
        let answer = encode(" all is said");
        let next = tokens(
            r#"{"messages":[{"role":"user","content":"hello there"},{"role":"assistant","content":" all is said"},
            {"role":"user","content":"and now"}]}"#,
        );
        assert_eq!(next[..first.len()], first);
        assert_eq!(next[first.len()..first.len() + answer.len()], answer);
    }
}
