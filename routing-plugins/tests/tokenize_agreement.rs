//! The pinned pre-release gives the ids that the stable release gives, on the tiny vocabulary and on real ones.
//!
//! With one known difference: the pinned release knows a newer version of Unicode. Characters that were added since may
//! be letters to one and not to the other, and marks be ordered otherwise, so those are left out of the comparison.

mod vocabularies;

use std::ops::RangeInclusive;
use std::sync::LazyLock;

use proptest::prelude::*;
use routing_plugins::tokenize::{LoadError, Tokenizer, Vocabulary};
use serde_json::{Value, json};
use vocabularies::{real, special_of, text, tiny};

struct Pair {
    ours: Vocabulary,
    stable: tokenizers_stable::Tokenizer,
}

impl Pair {
    fn new(json: &Value) -> Self {
        let json = json.to_string();
        let mut stable: tokenizers_stable::Tokenizer = json.parse().expect("the stable one reads it");
        stable.with_truncation(None).expect("none is fine");
        Self { ours: Vocabulary::from_json(&json).expect("ours reads it"), stable }
    }

    fn check(&self, text: &str) -> Result<(), TestCaseError> {
        let text: &str = &text.chars().filter(|char| SETTLED.iter().any(|set| set.contains(char))).collect::<String>();
        let mut ids = Vec::new();
        self.ours.encode(text, &mut ids).expect("byte level encodes everything");
        let expected = self.stable.encode(text, false).expect("byte level encodes everything");
        prop_assert_eq!(&ids, expected.get_ids(), "{:?}", text);
        let frame = self.ours.frame();
        let framed = [frame.before, &ids, frame.after].concat();
        let expected = self.stable.encode(text, true).expect("byte level encodes everything");
        prop_assert_eq!(&framed, expected.get_ids(), "framed {:?}", text);
        Ok(())
    }
}

static TINY: LazyLock<Value> = LazyLock::new(tiny);
static TINY_PAIR: LazyLock<Pair> = LazyLock::new(|| Pair::new(&TINY));

proptest! {
    /// Whatever the text, both releases give the same ids.
    #[test]
    fn the_tiny_vocabulary_gives_the_ids_of_the_stable_release(text in text(special_of(&TINY))) {
        TINY_PAIR.check(&text)?;
    }
}

#[test]
fn a_frame_is_what_the_post_processor_adds() {
    let mut json = TINY.clone();
    json["post_processor"] = json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|im_start|>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
            {"SpecialToken": {"id": "</s>", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
        "special_tokens": {
            "<|im_start|>": {"id": "<|im_start|>", "ids": [0], "tokens": ["<|im_start|>"]},
            "</s>": {"id": "</s>", "ids": [4], "tokens": ["</s>"]},
        },
    });
    let pair = Pair::new(&json);
    assert_eq!((pair.ours.frame().before, pair.ours.frame().after), (&[0][..], &[4][..]));
    pair.check("the <|a|> end").expect("the same ids");
}

/// Should this fail, the two may know the same version of Unicode, and [`SETTLED`] can go.
#[test]
fn the_pinned_release_knows_a_newer_unicode() {
    let mut json = TINY.clone();
    json["normalizer"] = json!({"type": "NFC"});
    let pair = Pair::new(&json);
    let (text, mut ids) = ("\u{10eab}\u{899}", Vec::new());
    pair.ours.encode(text, &mut ids).expect("byte level encodes everything");
    let stable = pair.stable.encode(text, false).expect("byte level encodes everything");
    assert_ne!(ids, stable.get_ids(), "U+0899 came with Unicode 14");
    pair.check("e\u{301}\u{323}A\u{30a}ﬁ각 <|a|>\u{338}").expect("the same ids");
}

#[test]
fn real_vocabularies_give_the_ids_of_the_stable_release() {
    for (name, file) in real() {
        let json = serde_json::from_str(&std::fs::read_to_string(file).expect("a file")).expect("JSON");
        let pair = Pair::new(&json);
        let mut runner = proptest::test_runner::TestRunner::default();
        let checked = runner.run(&text(special_of(&json)), |text| pair.check(&text));
        checked.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn a_file_that_is_no_vocabulary_is_an_error() {
    assert!(matches!(Vocabulary::from_json("{"), Err(LoadError::Convert(_))));
    let refused = Vocabulary::from_json(r#"{"version": "1.0", "model": {"type": "Else", "vocab": {}}}"#);
    assert!(matches!(refused, Err(LoadError::Read(_))), "{refused:?}");
    assert!(matches!(Vocabulary::from_file("/none"), Err(LoadError::File { .. })));
}

/// Should this fail, the pinned release has mended it, and [`LoadError::WholeWord`] can go.
#[test]
fn whole_word_tokens_that_begin_beyond_ascii_make_the_pinned_release_panic() {
    let mut json = TINY.clone();
    json["added_tokens"].as_array_mut().expect("a list").push(json!({"id": 2_000, "content": "éé",
        "single_word": true, "lstrip": false, "rstrip": false, "normalized": false, "special": true}));
    let refused = Vocabulary::from_json(&json.to_string());
    assert_eq!(refused.err(), Some(LoadError::WholeWord("éé".into())));

    let canonical = tokenizers::canonicalize_str(&json.to_string()).expect("it is one");
    let pipeline = tokenizers::from_json(&canonical).expect("it is one");
    let encode = || pipeline.encode_into("éééé x", &Default::default(), &mut Vec::new()).is_ok();
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(encode)).is_err());
}

/// Blocks in which nothing was added lately: Latin to Thaana, Devanagari, Thai, Latin additional, punctuation, currency,
/// symbols, kana, Han, Hangul, ligatures, full width, mathematical letters, emoji.
const SETTLED: [RangeInclusive<char>; 15] = [
    '\0'..='\u{5ff}',
    '\u{620}'..='\u{7bf}',
    '\u{900}'..='\u{97f}',
    '\u{e00}'..='\u{e5b}',
    '\u{1e00}'..='\u{1eff}',
    '\u{2000}'..='\u{206f}',
    '\u{20a0}'..='\u{20bf}',
    '\u{2100}'..='\u{27bf}',
    '\u{3000}'..='\u{30ff}',
    '\u{4e00}'..='\u{9fa5}',
    '\u{ac00}'..='\u{d7a3}',
    '\u{fb00}'..='\u{fb06}',
    '\u{ff01}'..='\u{ff5e}',
    '\u{1d400}'..='\u{1d7cb}',
    '\u{1f300}'..='\u{1f64f}',
];
