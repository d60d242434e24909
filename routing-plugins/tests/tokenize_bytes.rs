//! A prefix cache takes no more memory than it says, and says no more than its bound: counted at the allocator.

use pointsman_test_support::alloc::{CountingAllocator, live_bytes};
use routing_plugins::tokenize::{PrefixCache, SafeSplit, TokenizeError, Tokenizer};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

/// One token for two bytes, and `|` is special.
#[derive(Debug)]
struct Pairs;

impl Tokenizer for Pairs {
    fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        out.extend(text.as_bytes().chunks(2).map(|pair| pair.iter().fold(0, |id, byte| id << 8 | u32::from(*byte))));
        Ok(())
    }

    fn safe_splits(&self, text: &str, out: &mut Vec<SafeSplit>) {
        out.extend(text.match_indices('|').map(|(at, _)| SafeSplit::new(at, at + 1)));
    }
}

#[test]
fn what_is_held_is_what_is_counted_and_stays_within_the_bound() {
    for bound in [0, 500, 4_000, 60_000, 1_000_000] {
        let cache = PrefixCache::new(Pairs, bound);
        let mut ids = Vec::with_capacity(1 << 20);
        let before = live_bytes();
        for round in 0..2_000_u32 {
            let prompt = prompt(round);
            ids.clear();
            cache.encode(&prompt, &mut ids).expect("pairs encode everything");
            drop(prompt);
            let (held, stats) = (live_bytes() - before, cache.stats());
            assert_eq!(held, stats.bytes as isize, "round {round} of bound {bound}: {stats:?}");
            assert!(stats.bytes <= bound, "round {round} of bound {bound}: {stats:?}");
        }
        let stats = cache.stats();
        assert_eq!(stats.pieces > 0, bound >= 4_000, "{bound}: {stats:?}");
        assert!(bound < 4_000 || stats.bytes * 2 > bound, "most of the bound is used: {stats:?}");
    }
}

/// Conversations with short and long turns, many of them at first and few later.
fn prompt(round: u32) -> String {
    let conversations = if round < 1_000 { 40 } else { 3 };
    let long = if round < 1_000 { 130 } else { 900 };
    let turns = (0..1 + round / 40 % 8).map(|turn| {
        let word = format!("{:03}-{turn} ", round % conversations);
        word.repeat(1 + long * (1 + turn as usize % 2) / word.len() * 3) + "|"
    });
    turns.collect()
}
