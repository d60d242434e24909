//! Reuse: how much of what pods hold is asked for again, lately. What is pushed out of a cache costs only if it would have been.

use std::sync::atomic::{AtomicU64, Ordering};

use kv_index::PodSet;

use crate::score::PromptSize;

/// Tokens of the last prompts that some pod held, and those that none did; each counts as much less as there were prompts since.
///
/// Both are in one word, so that they are of the same prompts. Of two decisions at once one may go uncounted, which changes nothing.
#[derive(Debug, Default)]
pub(super) struct Reuse(AtomicU64);

impl Reuse {
    /// Learns of a prompt. What part of the cost of what is pushed out counts: all of it where prompts are a third held, or more.
    pub(super) fn of<const W: usize>(&self, prompt: &PromptSize<'_, W>, pods: PodSet<W>) -> f64 {
        let mut deepest = 0;
        prompt.by_depth(pods, |_, depth| deepest = deepest.max(depth));
        let new = prompt.uncached(deepest) as f64;
        self.learn(prompt.tokens as f64 - new, new)
    }

    fn learn(&self, held: f64, new: f64) -> f64 {
        let before = self.0.load(Ordering::Relaxed);
        let after = |bits: u64, tokens: f64| (f64::from(f32::from_bits(bits as u32)) * KEPT + tokens) as f32;
        let (held, new) = (after(before, held), after(before >> 32, new));
        self.0.store(u64::from(new.to_bits()) << 32 | u64::from(held.to_bits()), Ordering::Relaxed);
        // A share of the prompts, so that nothing divides by none.
        let share = f64::from(held / (held + new).max(1.0));
        (share / ENOUGH).min(1.0)
    }
}

/// Some two hundred prompts count.
const KEPT: f64 = 1.0 - 1.0 / 256.0;
/// From this share of held tokens on, all of what is pushed out counts.
const ENOUGH: f64 = 1.0 / 3.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_never_asked_for_again_costs_nothing_when_it_is_pushed_out() {
        let reuse = Reuse::default();
        assert_eq!(reuse.learn(0.0, 0.0), 0.0, "nothing is known");
        assert_eq!((0..100).map(|_| reuse.learn(0.0, 8_000.0)).fold(0.0, f64::max), 0.0);
        let some = (0..2_000).map(|_| reuse.learn(1_000.0, 9_000.0)).last().unwrap();
        assert!((some - 0.3).abs() < 0.01, "{some}: a tenth is a third of a third less a little");
        assert_eq!((0..1_000).map(|_| reuse.learn(5_000.0, 5_000.0)).last(), Some(1.0));
        let cold = (0..500).map(|_| reuse.learn(0.0, 1_000.0)).last().unwrap();
        assert!((0.5..1.0).contains(&cold), "{cold}: by tokens, large prompts are remembered longer");
        assert!((0..5_000).all(|_| (0.0..=1.0).contains(&reuse.learn(u64::MAX as f64, u64::MAX as f64))));
    }
}
