//! Token usage of a response, read as it passes: how many prompt tokens the engine had cached.
//!
//! Nothing is held back and nothing is changed. A key of a JSON object cannot occur inside of a string, where its quotes
//! would be escaped, so the key is searched for in bytes, and only the object behind it is parsed.

use json_edit::{Object, Raw};

use crate::byte_search::find_pair;
use crate::handoff::Api;

/// What an engine's response says of the tokens of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenUsage {
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the prompt that were cached.
    pub cached_tokens: Option<u64>,
    /// Tokens of the answer.
    pub completion_tokens: Option<u64>,
}

impl TokenUsage {
    /// A prompt's tokens, and how many of them were cached.
    #[must_use]
    pub const fn new(prompt_tokens: u64, cached_tokens: u64) -> Self {
        Self { prompt_tokens: Some(prompt_tokens), cached_tokens: Some(cached_tokens), completion_tokens: None }
    }

    /// The usage that an object tells, in any of the engines' spellings; none if it tells nothing.
    fn parse(api: Api, object: &[u8]) -> Option<Self> {
        let names = [
            "prompt_tokens",
            "input_tokens",
            "completion_tokens",
            "output_tokens",
            "prompt_tokens_details",
            "input_tokens_details",
            "cache_read_input_tokens",
            "cached_tokens",
            "cache_creation_input_tokens",
        ];
        let (_, found) = Object::parse_finding(object, names).ok()?;
        let [prompt, input, completion, output, prompt_details, input_details, cache_read, cached, cache_creation] =
            found;
        let first = |values: &[Option<Raw<'_>>]| values.iter().flatten().find_map(|value| value.as_u64());
        let usage = Self {
            prompt_tokens: first(&[prompt, input]),
            cached_tokens: first(&[cached_of(prompt_details), cached_of(input_details), cache_read, cached]),
            completion_tokens: first(&[completion, output]),
        };
        let usage = match api {
            // Anthropic's input is what was neither read from the cache nor written to it.
            Api::Messages => {
                let aside = [usage.cached_tokens, first(&[cache_creation])];
                let aside = aside.into_iter().flatten().fold(0, u64::saturating_add);
                Self { prompt_tokens: usage.prompt_tokens.map(|tokens| tokens.saturating_add(aside)), ..usage }
            }
            _ => usage,
        };
        (usage != Self::default()).then_some(usage)
    }

    /// The same, with what an earlier one told and this one does not.
    fn or(self, earlier: Self) -> Self {
        Self {
            prompt_tokens: self.prompt_tokens.or(earlier.prompt_tokens),
            cached_tokens: self.cached_tokens.or(earlier.cached_tokens),
            completion_tokens: self.completion_tokens.or(earlier.completion_tokens),
        }
    }
}

/// The cached tokens that the details of a prompt's tokens tell.
fn cached_of(details: Option<Raw<'_>>) -> Option<Raw<'_>> {
    details?.object()?.get("cached_tokens")
}

/// Finds the usage in a response that passes in pieces of any size. Of several the last one counts; of Anthropic's, which tell the
/// prompt's at the beginning and the answer's at the end, the last of each figure.
#[derive(Debug, Default)]
pub(crate) struct UsageReader {
    found: Option<TokenUsage>,
    /// How many bytes of the key the last bytes were.
    matched: usize,
    /// The object behind the key, as far as it came.
    object: Option<PartialObject>,
}

impl UsageReader {
    /// Takes the next piece of a response of this API.
    pub(crate) fn pass(&mut self, api: Api, mut bytes: &[u8]) {
        let key: &[u8] = match api {
            Api::Generate => b"\"meta_info\"",
            Api::CountTokens | Api::Other => return,
            _ => b"\"usage\"",
        };
        while !bytes.is_empty() {
            let Some(object) = &mut self.object else {
                bytes = self.search(key, bytes);
                continue;
            };
            let (taken, is_over) = object.take(bytes);
            bytes = bytes.get(taken..).unwrap_or_default();
            if is_over {
                let parsed = TokenUsage::parse(api, &object.text);
                self.found = match (parsed, self.found) {
                    (Some(parsed), Some(earlier)) if api == Api::Messages => Some(parsed.or(earlier)),
                    (parsed, earlier) => parsed.or(earlier),
                };
                self.object = None;
            }
        }
    }

    /// What was found.
    pub(crate) fn found(&self) -> Option<TokenUsage> {
        self.found
    }

    /// Searches for the key; what is behind it or behind what only began like it, or nothing.
    fn search<'b>(&mut self, key: &[u8], mut bytes: &'b [u8]) -> &'b [u8] {
        if let (0, [quote, letter, ..]) = (self.matched, key) {
            // What is behind the last byte is not known yet.
            let next = find_pair(bytes, [*quote, *letter]).unwrap_or(bytes.len().saturating_sub(1));
            bytes = &bytes[next..];
        }
        for (at, byte) in bytes.iter().enumerate() {
            // No beginning of the key but its quote is inside of it again.
            self.matched =
                if key.get(self.matched) == Some(byte) { self.matched + 1 } else { usize::from(*byte == b'"') };
            if self.matched == key.len() {
                (self.matched, self.object) = (0, Some(PartialObject::default()));
                return bytes.get(at + 1..).unwrap_or_default();
            }
            if self.matched == 0 {
                return bytes.get(at + 1..).unwrap_or_default();
            }
        }
        &[]
    }
}

/// What comes behind a key: a colon, and an object of which some came.
#[derive(Debug, Default)]
struct PartialObject {
    has_colon: bool,
    text: Vec<u8>,
    depth: u32,
    in_string: bool,
    is_escaped: bool,
}

impl PartialObject {
    /// Takes bytes until the object is whole, or is found to be none or too long: how many, and whether it is over.
    fn take(&mut self, bytes: &[u8]) -> (usize, bool) {
        // Where in this piece the object begins. What is its own is kept at once, not byte for byte.
        let mut begin = 0;
        for (at, byte) in bytes.iter().enumerate() {
            if self.depth == 0 {
                match byte {
                    b':' if !self.has_colon => self.has_colon = true,
                    b'{' if self.has_colon => (self.depth, begin) = (1, at),
                    byte if byte.is_ascii_whitespace() => {}
                    // Not consumed: it may begin the key.
                    _ => return (at, true),
                }
                continue;
            }
            self.step(*byte);
            if self.depth == 0 || self.text.len() + at + 1 - begin == MAX_BYTES {
                self.text.extend_from_slice(&bytes[begin..=at]);
                return (at + 1, true);
            }
        }
        if self.depth > 0 {
            self.text.extend_from_slice(&bytes[begin..]);
        }
        (bytes.len(), false)
    }

    fn step(&mut self, byte: u8) {
        match byte {
            _ if std::mem::take(&mut self.is_escaped) => {}
            b'\\' if self.in_string => self.is_escaped = true,
            b'"' => self.in_string = !self.in_string,
            b'{' if !self.in_string => self.depth += 1,
            b'}' if !self.in_string => self.depth -= 1,
            _ => {}
        }
    }
}

/// The longest object that is parsed; one of usage has a few hundred bytes, SGLang's `meta_info` more.
const MAX_BYTES: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(api: Api, pieces: &[&[u8]]) -> Option<TokenUsage> {
        let mut reader = UsageReader::default();
        pieces.iter().for_each(|piece| reader.pass(api, piece));
        reader.found()
    }

    fn cached(api: Api, text: &str) -> Option<u64> {
        read(api, &[text.as_bytes()])?.cached_tokens
    }

    const ANSWERS: [(Api, &str); 6] = [
        (
            Api::Completions,
            r#"{"id":"\"usage\":{","usage" : {"prompt_tokens":9,"prompt_tokens_details":{"cached_tokens":7}},"x":[]}"#,
        ),
        (
            Api::Chat,
            "data: {\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"a\":\"}\\\"\",\"prompt_tokens_details\":{\"cached_tokens\":7}}}\n\ndata: [DONE]\n\n",
        ),
        (
            Api::Responses,
            r#"data: {"response":{"usage":{"input_tokens":9,"input_tokens_details":{"cached_tokens":7}}}}"#,
        ),
        (Api::Messages, r#"{"usage":{"input_tokens":2,"cache_read_input_tokens":7}}"#),
        (Api::Generate, r#"{"text":"usage","meta_info":{"prompt_tokens":9,"cached_tokens":7}}"#),
        (
            Api::Chat,
            r#"{"usage":"usage","usage":{"prompt_tokens_details":{"cached_tokens":1}}} {"usage":{"prompt_tokens_details":{"cached_tokens":7}}}"#,
        ),
    ];

    #[test]
    fn every_engines_spelling_is_read() {
        for (api, text) in ANSWERS {
            assert_eq!(cached(api, text), Some(7), "{text}");
        }
    }

    #[test]
    fn what_tells_nothing_is_nothing() {
        for text in
            ["", "{}", r#"{"usage":null}"#, r#"{"usage":{}}"#, r#"{"usage":7}"#, r#"{"usage":{"prompt_tokens":"#]
        {
            assert_eq!(read(Api::Chat, &[text.as_bytes()]), None, "{text}");
        }
        let details = r#"{"usage":{"prompt_tokens":3,"prompt_tokens_details":null}}"#;
        let usage = read(Api::Chat, &[details.as_bytes()]).expect("usage");
        assert_eq!((usage.prompt_tokens, usage.cached_tokens), (Some(3), None));
    }

    #[test]
    fn anthropics_figures_come_in_parts_and_the_input_is_without_what_was_cached() {
        let whole = r#"{"usage":{"input_tokens":2,"cache_read_input_tokens":7,"cache_creation_input_tokens":1,"output_tokens":3}}"#;
        let expected = TokenUsage { completion_tokens: Some(3), ..TokenUsage::new(10, 7) };
        assert_eq!(read(Api::Messages, &[whole.as_bytes()]), Some(expected));
        let streamed = concat!(
            "event: message_start\ndata: {\"message\":{\"usage\":{\"input_tokens\":3,\"cache_read_input_tokens\":7,\"output_tokens\":0}}}\n\n",
            "event: message_delta\ndata: {\"usage\":{\"output_tokens\":3}}\n\n",
        );
        assert_eq!(read(Api::Messages, &[streamed.as_bytes()]), Some(expected));
        let embedded = r#"{"object":"list","usage":{"prompt_tokens":5,"total_tokens":5}}"#;
        assert_eq!(read(Api::Embeddings, &[embedded.as_bytes()]).and_then(|usage| usage.prompt_tokens), Some(5));
    }

    #[test]
    fn an_object_without_end_is_not_kept() {
        let mut reader = UsageReader::default();
        reader.pass(Api::Chat, br#"{"usage":{"a":""#);
        (0..100).for_each(|_| reader.pass(Api::Chat, &[b'x'; 1024]));
        assert!(reader.object.is_none() && reader.found().is_none());
        reader.pass(Api::Chat, br#"{"usage":{"prompt_tokens":1}}"#);
        assert!(reader.found().is_some());
    }

    proptest! {
        #[test]
        fn cuts_do_not_matter(at in 0..ANSWERS.len(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..9)) {
            let (api, text) = ANSWERS[at];
            let mut places: Vec<usize> = cuts.iter().map(|cut| cut.index(text.len())).chain([0, text.len()]).collect();
            places.sort_unstable();
            let pieces: Vec<&[u8]> = places.windows(2).map(|ends| &text.as_bytes()[ends[0]..ends[1]]).collect();
            prop_assert_eq!(read(api, &pieces), read(api, &[text.as_bytes()]));
        }

        #[test]
        fn any_bytes_are_read(pieces in prop::collection::vec("[\"usage:{}\\\\ ]{0,20}", 0..9)) {
            let pieces: Vec<&[u8]> = pieces.iter().map(|piece| piece.as_bytes()).collect();
            let _ = read(Api::Chat, &pieces);
        }
    }
}
