//! Tokenizer throughput: the stable release, the pinned one, and the pinned one behind the prefix cache.
//!
//! A conversation of 16 turns is tokenized turn by turn, as a gateway sees it: every prompt is the one before with an
//! answer and a question more. Ids are compared before anything is timed. The tiny vocabulary is trained here; real ones
//! are measured when `POINTSMAN_VOCABULARIES` names a folder of `<name>/tokenizer.json`.

use std::hint::black_box;
use std::path::PathBuf;
use std::time::Instant;

use pointsman_benches::measure::{Spread, interleaved};
use routing_plugins::tokenize::{PrefixCache, Tokenizer, Vocabulary};
use tokenizers_stable::AddedToken;
use tokenizers_stable::Tokenizer as Stable;
use tokenizers_stable::models::TrainerWrapper;
use tokenizers_stable::models::bpe::{BPE, BpeTrainerBuilder};
use tokenizers_stable::pre_tokenizers::byte_level::ByteLevel;

fn main() {
    println!("| vocabulary | tokens | stable | pinned | pinned, cached | last turn: stable | pinned | cached |");
    println!("|---|---|---|---|---|---|---|---|");
    measure("tiny", &tiny());
    for (name, file) in real() {
        measure(&name, &std::fs::read_to_string(file).expect("a readable file"));
    }
}

/// One row: million tokens a second over the whole conversation, then milliseconds for its last prompt.
fn measure(name: &str, json: &str) {
    let stable: Stable = json.parse().expect("the stable release reads it");
    let pinned = Vocabulary::from_json(json).expect("the pinned release reads it");
    let prompts = conversation(&stable);
    let plain = |text: &str| -> usize {
        let mut ids = Vec::new();
        pinned.encode(text, &mut ids).expect("it has ids");
        black_box(ids).len()
    };
    let by_stable = |text: &str| black_box(stable.encode_fast(text, false).expect("it has ids")).len();
    let tokens = agree(&stable, &pinned, &prompts);
    let whole = interleaved(ROUNDS, 3, |lane| {
        let cache = PrefixCache::new(&pinned, BOUND);
        let began = Instant::now();
        for prompt in &prompts {
            match lane {
                0 => by_stable(prompt),
                1 => plain(prompt),
                _ => cached(&cache, prompt),
            };
        }
        tokens as f64 / began.elapsed().as_secs_f64() / 1e6
    });
    let (last, before) = prompts.split_last().expect("turns");
    let turn = interleaved(ROUNDS, 3, |lane| {
        let cache = PrefixCache::new(&pinned, BOUND);
        before.iter().for_each(|prompt| {
            cached(&cache, prompt);
        });
        let began = Instant::now();
        match lane {
            0 => by_stable(last),
            1 => plain(last),
            _ => cached(&cache, last),
        };
        began.elapsed().as_secs_f64() * 1e3
    });
    let cells: Vec<String> =
        whole.iter().map(|spread| cell(spread, 1)).chain(turn.iter().map(|t| cell(t, 3))).collect();
    println!("| {name} | {tokens} | {} |", cells.join(" | "));
}

fn cell(spread: &Spread, digits: usize) -> String {
    format!("{:.digits$} ({:.digits$}..{:.digits$})", spread.median, spread.min, spread.max)
}

fn cached(cache: &PrefixCache<&Vocabulary>, text: &str) -> usize {
    let mut ids = Vec::new();
    cache.encode(text, &mut ids).expect("it has ids");
    black_box(ids).len()
}

/// Compares all three; the tokens of all prompts together.
fn agree(stable: &Stable, pinned: &Vocabulary, prompts: &[String]) -> usize {
    let cache = PrefixCache::new(pinned, BOUND);
    let mut tokens = 0;
    for prompt in prompts {
        let (mut plain, mut cached) = (Vec::new(), Vec::new());
        pinned.encode(prompt, &mut plain).expect("it has ids");
        cache.encode(prompt, &mut cached).expect("it has ids");
        let encoding = stable.encode_fast(prompt.as_str(), false).expect("it has ids");
        assert_eq!(plain, encoding.get_ids(), "the releases disagree");
        assert_eq!(plain, cached, "the cache disagrees");
        tokens += plain.len();
    }
    tokens
}

/// The prompts of a conversation, in the special tokens that the vocabulary has.
fn conversation(stable: &Stable) -> Vec<String> {
    let known =
        MARKS.into_iter().find(|(begin, end)| [begin, end].iter().all(|mark| stable.token_to_id(mark).is_some()));
    let (begin, end) = known.expect("a chat model's vocabulary");
    let text = TEXTS.concat();
    let mut at = 0;
    let mut take = |bytes: usize| {
        let part: String = text.chars().cycle().skip(at).take(bytes).collect();
        at += bytes;
        part
    };
    let mut prompt = format!("{begin}system\n{}{end}\n", take(8_000));
    (0..TURNS)
        .map(|turn| {
            if turn > 0 {
                prompt += &format!("{begin}assistant\n{}{end}\n", take(3_000));
            }
            prompt += &format!("{begin}user\n{}{end}\n", take(1_000));
            format!("{prompt}{begin}assistant\n")
        })
        .collect()
}

/// A byte-level BPE of 2,000 tokens.
fn tiny() -> String {
    let special = [MARKS[0].0, MARKS[0].1].map(|content| AddedToken::from(content, true));
    let mut trainer: TrainerWrapper = BpeTrainerBuilder::new()
        .vocab_size(2_000)
        .show_progress(false)
        .special_tokens(special.to_vec())
        .initial_alphabet(ByteLevel::alphabet().into_iter().collect())
        .build()
        .into();
    let mut tokenizer = Stable::new(BPE::default());
    tokenizer
        .with_pre_tokenizer(Some(ByteLevel::new(false, true, true)))
        .train(&mut trainer, TEXTS.iter().flat_map(|text| text.lines()))
        .expect("text to train on");
    tokenizer.to_string(false).expect("a trained tokenizer")
}

fn real() -> Vec<(String, PathBuf)> {
    let Some(folder) = std::env::var_os("POINTSMAN_VOCABULARIES") else {
        eprintln!("no real vocabularies: POINTSMAN_VOCABULARIES names no folder of <name>/tokenizer.json");
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
    found
}

/// How a message begins and ends.
const MARKS: [(&str, &str); 3] =
    [("<|im_start|>", "<|im_end|>"), ("<|start_header_id|>", "<|eot_id|>"), ("<｜User｜>", "<｜end▁of▁sentence｜>")];

/// Prose and code.
const TEXTS: [&str; 4] = [
    include_str!("../../README.md"),
    include_str!("../../routing-core/src/slot.rs"),
    include_str!("../../ARCHITECTURE.md"),
    include_str!("../../kv-index/src/index.rs"),
];

const TURNS: usize = 16;
const ROUNDS: usize = 9;
const BOUND: usize = 64 << 20;
