//! Vocabularies to test with: a tiny one trained here, odd ones derived from it, and real ones where they are given.

#![allow(dead_code, reason = "each test file uses its share")]

use std::path::PathBuf;

use proptest::prelude::*;
use serde_json::{Value, json};
use tokenizers_stable::models::TrainerWrapper;
use tokenizers_stable::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers_stable::pre_tokenizers::byte_level::ByteLevel;
use tokenizers_stable::{AddedToken, Tokenizer};

/// A byte-level BPE of 2,000 tokens, trained on generated words, with the special tokens of a chat model.
pub(crate) fn tiny() -> Value {
    let words = (0..6_000_u32).map(|n| {
        let n = n.wrapping_mul(2_654_435_761) >> 8;
        let syllables = ["ka", "to", "mi", "ren", "über", "zu", "ing", "er", "the", "日本", "x1", "0", "é", "s", "\n"];
        let word: String = (0..3).map(|at| syllables[(n >> (4 * at)) as usize % syllables.len()]).collect();
        format!("{word} the {word}ing, and {word}'s end.\n\n  Then: {word}")
    });
    let byte_level = ByteLevel::new(false, true, true);
    let special = SPECIAL.map(|content| AddedToken::from(content, true));
    let mut trainer: TrainerWrapper = BpeTrainerBuilder::new()
        .vocab_size(2_000)
        .show_progress(false)
        .special_tokens(special.to_vec())
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build()
        .into();
    let mut tokenizer = Tokenizer::new(BPE::default());
    tokenizer.with_pre_tokenizer(Some(byte_level)).train(&mut trainer, words).expect("words to train on");
    let json = tokenizer.to_string(false).expect("a trained tokenizer");
    serde_json::from_str(&json).expect("what was just written")
}

/// The same with everything that could reach over a cut, one by one.
pub(crate) fn odd() -> Vec<(&'static str, Value)> {
    let plain = tiny();
    let with = |change: &dyn Fn(&mut Value)| {
        let mut changed = plain.clone();
        change(&mut changed);
        changed
    };
    let flag = |name: &'static str| with(&move |json| json["added_tokens"][2][name] = json!(true));
    let metaspace = |scheme: &str| {
        let split = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": true});
        // A trained byte-level vocabulary has no such character, and one without an id would show nothing.
        with(&|json| {
            json["pre_tokenizer"] = split.clone();
            json["model"]["vocab"]["▁"] = json!(2_000);
        })
    };
    vec![
        ("plain", plain.clone()),
        ("lstrip", flag("lstrip")),
        ("rstrip", flag("rstrip")),
        // With a token that ends where one of whole words may end.
        (
            "single word",
            with(&|json| {
                json["added_tokens"][2]["single_word"] = json!(true);
                json["added_tokens"].as_array_mut().expect("a list").push(json!({"id": 2_000, "content": "a|>",
                    "single_word": false, "lstrip": false, "rstrip": false, "normalized": false, "special": true}));
            }),
        ),
        ("normalized, no normalizer", flag("normalized")),
        ("nfc", with(&|json| json["normalizer"] = json!({"type": "NFC"}))),
        (
            "strip",
            with(&|json| {
                json["normalizer"] = json!({"type": "Strip", "strip_left": true, "strip_right": true});
            }),
        ),
        (
            "normalized, lowercase",
            with(&|json| {
                json["normalizer"] = json!({"type": "Lowercase"});
                json["added_tokens"][2]["normalized"] = json!(true);
            }),
        ),
        // A mark that goes together with the token's last character, so that it is none after all.
        (
            "normalized, nfc",
            with(&|json| {
                json["normalizer"] = json!({"type": "NFC"});
                json["added_tokens"][2]["normalized"] = json!(true);
            }),
        ),
        ("prepend", with(&|json| json["normalizer"] = json!({"type": "Prepend", "prepend": "▁"}))),
        ("metaspace first", metaspace("first")),
        ("metaspace always", metaspace("always")),
        (
            "truncation",
            with(&|json| {
                json["truncation"] =
                    json!({"max_length": 5, "strategy": "LongestFirst", "stride": 0, "direction": "Right"});
            }),
        ),
        // Longer tokens that begin or contain others, and one that begins before another ends.
        (
            "overlapping",
            with(&|json| {
                for (at, content) in ["<|a|>b", "k<|a|>", "|><|b|>x", "<|a"].into_iter().enumerate() {
                    let token = json!({"id": 2_000 + at, "content": content, "single_word": false, "lstrip": at == 1,
                    "rstrip": at == 0, "normalized": at == 3, "special": true});
                    json["added_tokens"].as_array_mut().expect("a list").push(token);
                }
            }),
        ),
    ]
}

/// The folders of `POINTSMAN_VOCABULARIES` that hold a `tokenizer.json`, by name.
pub(crate) fn real() -> Vec<(String, PathBuf)> {
    #[expect(clippy::disallowed_methods, reason = "a test is configured by its environment")]
    let folder = std::env::var_os("POINTSMAN_VOCABULARIES");
    let Some(folder) = folder else {
        eprintln!("skipped for real vocabularies: POINTSMAN_VOCABULARIES names no folder of <name>/tokenizer.json");
        return Vec::new();
    };
    let entries = std::fs::read_dir(&folder).expect("POINTSMAN_VOCABULARIES is a folder");
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let path = entry.ok()?.path();
            let file = path.join("tokenizer.json");
            file.is_file().then(|| (path.file_name().unwrap_or_default().to_string_lossy().into_owned(), file))
        })
        .collect();
    found.sort();
    assert!(!found.is_empty(), "{folder:?} holds no <name>/tokenizer.json");
    found
}

/// Text as clients send it and as nobody does, with these special tokens in it.
pub(crate) fn text(special: Vec<String>) -> impl Strategy<Value = String> {
    let part = prop_oneof![
        4 => "[a-zA-Z0-9 ,.'’]{0,60}",
        2 => "(the|ka|to|miren|über|日本|k|b|x|<|\\||>|<\\|a|\\|>){1,6}",
        2 => "[ \t\r\n\u{a0}\u{3000}]{1,6}",
        1 => "\\PC{0,20}",
        1 => any::<char>().prop_map(String::from),
        1 => Just("\u{338}".to_owned()),
        1 => Just("e\u{301}A\u{30a}ﬁ𝒳👩‍👩‍👧".to_owned()),
        1 => "[a-z ]{250,400}",
        6 => proptest::sample::select(special),
    ];
    proptest::collection::vec(part, 0..24).prop_map(|parts| parts.concat())
}

/// Prompts of which many begin alike: each goes on where a part of an earlier one ends.
pub(crate) fn conversations(special: Vec<String>) -> impl Strategy<Value = Vec<String>> {
    let turn = (any::<proptest::sample::Index>(), 0..=4_usize, text(special));
    proptest::collection::vec(turn, 1..12).prop_map(|turns| {
        let mut prompts = vec![String::new()];
        for (earlier, quarters, more) in turns {
            let base = earlier.get(&prompts);
            let mut end = base.len() * quarters / 4;
            while !base.is_char_boundary(end) {
                end -= 1;
            }
            prompts.push(format!("{}{more}", &base[..end]));
        }
        prompts
    })
}

/// The contents of the added tokens of a `tokenizer.json`, at most 40 of them.
pub(crate) fn special_of(json: &Value) -> Vec<String> {
    let tokens = json["added_tokens"].as_array().expect("a list");
    tokens.iter().take(40).map(|token| token["content"].as_str().expect("a text").to_owned()).collect()
}

pub(crate) const SPECIAL: [&str; 5] = ["<|im_start|>", "<|im_end|>", "<|a|>", "<|b|>", "</s>"];
