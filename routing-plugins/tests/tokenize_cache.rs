//! Ids from the prefix cache are those without it: any prompts, any vocabulary, any bound, any number of threads.

#![expect(clippy::disallowed_methods, reason = "threads at once are what is tested")]

mod vocabularies;

use std::sync::LazyLock;

use proptest::prelude::*;
use routing_plugins::tokenize::{PrefixCache, SafeSplit, Tokenizer, Unsplittable, Vocabulary};
use vocabularies::{conversations, odd, real, special_of};

static ODD: LazyLock<Vec<(&str, Vocabulary, Vec<String>)>> = LazyLock::new(|| {
    let read = |json: &serde_json::Value| Vocabulary::from_json(&json.to_string());
    let named = |(name, json): (&'static str, serde_json::Value)| {
        let vocabulary = read(&json).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, vocabulary, special_of(&json))
    };
    odd().into_iter().map(named).collect()
});

/// All that may be special in one of them.
fn special() -> Vec<String> {
    let mut special: Vec<String> = ODD.iter().flat_map(|(_, _, special)| special.clone()).collect();
    special.sort();
    special.dedup();
    special
}

fn ids(tokenizer: &impl Tokenizer, text: &str) -> Vec<u32> {
    let mut ids = vec![u32::MAX];
    tokenizer.encode(text, &mut ids).expect("encoded");
    assert_eq!(ids.remove(0), u32::MAX, "what was there stays");
    ids
}

fn safe_splits(tokenizer: &impl Tokenizer, text: &str) -> Vec<SafeSplit> {
    let mut splits = Vec::new();
    tokenizer.safe_splits(text, &mut splits);
    splits
}

/// Cached is uncached, and within the bound.
fn check(vocabulary: &Vocabulary, prompts: &[String], bound: usize) -> Result<(), TestCaseError> {
    let cache = PrefixCache::new(vocabulary, bound);
    for prompt in prompts.iter().chain(prompts) {
        prop_assert_eq!(ids(&cache, prompt), ids(vocabulary, prompt), "{:?}", prompt);
        prop_assert!(cache.stats().bytes <= bound, "{:?} of {}", cache.stats(), bound);
    }
    Ok(())
}

/// What [`Tokenizer::safe_splits`] promises, literally, for every split and every pair of prompts.
fn check_cuts(vocabulary: &Vocabulary, prompts: &[String]) -> Result<(), TestCaseError> {
    for text in prompts {
        let (all, whole) = (safe_splits(vocabulary, text), ids(vocabulary, text));
        prop_assert!(all.windows(2).all(|pair| pair[0].at <= pair[1].token), "{:?}", all);
        for (count, split) in all.iter().enumerate() {
            let begin = &text[..split.at];
            prop_assert_eq!(&safe_splits(vocabulary, begin), &all[..=count], "splits of {:?} in {:?}", begin, text);
            let mut joined = ids(vocabulary, begin);
            vocabulary.encode_after(text, *split, &mut joined).expect("encoded");
            prop_assert_eq!(&joined, &whole, "{:?} split at {}", text, split.at);
        }
        for other in prompts {
            let others = safe_splits(vocabulary, other);
            let shared = |split: &&SafeSplit| other.as_bytes().starts_with(&text.as_bytes()[..split.at]);
            for split in all.iter().filter(shared).filter(|split| others.iter().any(|other| other.at == split.at)) {
                prop_assert!(others.contains(split), "{:?} and {:?} at {:?}", text, other, split);
            }
        }
    }
    Ok(())
}

proptest! {
    /// Every odd vocabulary, with a bound that holds all, some or nothing.
    #[test]
    fn cached_is_uncached(prompts in conversations(special()), bound in prop_oneof![0..8_000_usize, Just(1 << 24)]) {
        for (name, vocabulary, _) in ODD.iter() {
            check(vocabulary, &prompts, bound).map_err(|error| TestCaseError::fail(format!("{name}: {error}")))?;
        }
    }

    #[test]
    fn splits_change_no_id(prompts in conversations(special())) {
        for (name, vocabulary, _) in ODD.iter() {
            check_cuts(vocabulary, &prompts).map_err(|error| TestCaseError::fail(format!("{name}: {error}")))?;
        }
    }
}

#[test]
fn real_vocabularies_are_cut_and_cached_without_a_trace() {
    for (name, file) in real() {
        let json = serde_json::from_str(&std::fs::read_to_string(&file).expect("a file")).expect("JSON");
        let vocabulary = Vocabulary::from_file(&file).expect("a vocabulary");
        assert_eq!(vocabulary.unsplittable(), None, "{name}");
        let mut runner = proptest::test_runner::TestRunner::default();
        let prompts = conversations(special_of(&json));
        let checked = runner.run(&(prompts, prop_oneof![0..8_000_usize, Just(1 << 24)]), |(prompts, bound)| {
            check(&vocabulary, &prompts, bound)?;
            check_cuts(&vocabulary, &prompts)
        });
        checked.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn only_whole_word_tokens_forbid_cuts() {
    for (name, vocabulary, _) in ODD.iter() {
        let expected = (*name == "single word").then_some(Unsplittable::WholeWords);
        assert_eq!(vocabulary.unsplittable(), expected, "{name}");
        assert_eq!(safe_splits(vocabulary, "x<|im_end|>y").is_empty(), expected.is_some(), "{name}");
    }
}

#[test]
fn a_next_turn_costs_its_new_text_only() {
    let (_, vocabulary, _) = &ODD[0];
    let cache = PrefixCache::new(vocabulary, 1 << 24);
    let mut prompt = format!("<|im_start|>system\n{}<|im_end|>\n", "Be kind to the miren. ".repeat(500));
    for turn in 0..20 {
        let before = cache.stats();
        let new = format!("<|im_start|>user\n{turn} {}<|im_end|>\n", "What of the end? ".repeat(40));
        prompt += &new;
        assert_eq!(ids(&cache, &format!("{prompt}<|im_start|>assistant\n")).len(), {
            ids(vocabulary, &format!("{prompt}<|im_start|>assistant\n")).len()
        });
        let cost = cache.stats().encoded_tokens - before.encoded_tokens;
        // A few hundred bytes before the last split may be too short for a piece of their own.
        assert!(turn == 0 || cost <= ids(vocabulary, &new).len() as u64 + 256, "turn {turn} cost {cost}");
    }
    assert_eq!((cache.stats().prompts, cache.stats().hits, cache.stats().evicted), (20, 19, 0));
}

#[test]
fn threads_share_a_small_cache_and_get_the_right_ids() {
    let (_, vocabulary, _) = &ODD[0];
    let cache = PrefixCache::new(vocabulary, 60_000);
    std::thread::scope(|scope| {
        for thread in 0..4_usize {
            let cache = &cache;
            scope.spawn(move || {
                for round in 0..300_usize {
                    let conversation = (round * 7 + thread) % 9;
                    let turns = 1 + (round + thread * 3) % 12;
                    let prompt: String = (0..turns)
                        .map(|turn| format!("<|im_start|>{conversation} {turn} {}<|im_end|>", "ka to ".repeat(60)))
                        .collect();
                    assert_eq!(ids(cache, &prompt), ids(vocabulary, &prompt));
                    assert!(cache.stats().bytes <= 60_000);
                }
            });
        }
    });
    let stats = cache.stats();
    assert!(stats.evicted > 0 && stats.hits > 0, "{stats:?}");
}
