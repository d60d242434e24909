//! A prefix cache takes no more memory than it says, and says no more than its bound: counted at the allocator.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use routing_plugins::tokenize::{Cut, PrefixCache, TokenizeError, Tokenizer};

struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    let _ = HELD.try_with(|held| held.set(held.get() + change));
}

// SAFETY: every call is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One token for two bytes, and `|` is special.
#[derive(Debug)]
struct Pairs;

impl Tokenizer for Pairs {
    fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        out.extend(text.as_bytes().chunks(2).map(|pair| pair.iter().fold(0, |id, byte| id << 8 | u32::from(*byte))));
        Ok(())
    }

    fn cuts(&self, text: &str, out: &mut Vec<Cut>) {
        out.extend(text.match_indices('|').map(|(at, _)| Cut::new(at, at + 1)));
    }
}

#[test]
fn what_is_held_is_what_is_counted_and_stays_within_the_bound() {
    for bound in [0, 500, 4_000, 60_000, 1_000_000] {
        let cache = PrefixCache::new(Pairs, bound);
        let mut ids = Vec::with_capacity(1 << 20);
        let before = HELD.get();
        for round in 0..2_000_u32 {
            let prompt = prompt(round);
            ids.clear();
            cache.encode(&prompt, &mut ids).expect("pairs encode everything");
            drop(prompt);
            let (held, stats) = (HELD.get() - before, cache.stats());
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
