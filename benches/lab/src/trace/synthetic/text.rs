//! A growing text, and the ids of its blocks.
//!
//! The rule: an id stands for all the text up to its end. What follows the last whole block has a new one whenever the
//! text changes, since with one more token it is another block.

use crate::trace::{Request, Start};
use pointsman_test_support::SplitMix64;

/// Tokens of a block in synthetic traffic, unless said otherwise: more than engines have, so that a million requests fit.
pub(super) const BLOCK: usize = 64;

/// Gives ids that nobody has, to blocks of so many tokens.
#[derive(Debug)]
pub(super) struct Fresh {
    next: u64,
    block: usize,
}

impl Default for Fresh {
    fn default() -> Self {
        Self::of(BLOCK)
    }
}

impl Fresh {
    pub(super) fn of(block: usize) -> Self {
        Self { next: 0, block }
    }

    pub(super) fn id(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }
}

/// A text by its length and its blocks.
#[derive(Clone, Debug)]
pub(super) struct Text {
    block: usize,
    whole: Vec<u64>,
    tokens: usize,
    /// What follows the last whole block.
    tail: u64,
}

impl Default for Text {
    fn default() -> Self {
        Self { block: BLOCK, whole: Vec::new(), tokens: 0, tail: 0 }
    }
}

impl Text {
    /// A text of its own.
    pub(super) fn new(tokens: usize, fresh: &mut Fresh) -> Self {
        let mut text = Self { block: fresh.block, ..Self::default() };
        text.grow(tokens, fresh);
        text
    }

    /// Goes on with what nobody else says, if only by a token.
    pub(super) fn grow(&mut self, tokens: usize, fresh: &mut Fresh) {
        self.tokens += tokens.max(1);
        self.whole.reserve_exact((self.tokens / self.block).saturating_sub(self.whole.len()));
        while self.whole.len() < self.tokens / self.block {
            self.whole.push(fresh.id());
        }
        self.tail = fresh.id();
    }

    /// Forgets all but the beginning, and goes on with what nobody else says.
    pub(super) fn turn(&mut self, kept: usize, tokens: usize, fresh: &mut Fresh) {
        self.tokens = self.tokens.min(kept);
        self.whole.truncate(self.tokens / self.block);
        self.grow(tokens, fresh);
    }

    pub(super) fn tokens(&self) -> usize {
        self.tokens
    }

    /// A request with this prompt and an answer of so many tokens.
    pub(super) fn request(&self, start: Start, session: u32, output: f64) -> Request {
        let mut ids = Vec::with_capacity(self.tokens.div_ceil(self.block));
        ids.extend_from_slice(&self.whole);
        if !self.tokens.is_multiple_of(self.block) {
            ids.push(self.tail);
        }
        Request { start, session, input: self.tokens as u32, output: output.max(1.0) as u32, ids }
    }
}

/// Times of requests that come independently of each other, in µs.
pub(super) fn arrivals(rng: &mut SplitMix64, per_second: f64) -> impl FnMut() -> Start + use<> {
    let (mut rng, mut at) = (rng.fork(), 0.0);
    move || {
        at += rng.exponential(1e6 / per_second);
        Start::At(at as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_blocks_stay_and_the_rest_is_new_with_every_change() {
        let (mut fresh, start) = (Fresh::default(), Start::At(0));
        let mut text = Text::new(2 * BLOCK + 5, &mut fresh);
        let one = text.request(start, 0, 1.0);
        assert_eq!(one, text.clone().request(start, 0, 1.0), "the same text is the same prompt");
        text.grow(BLOCK - 5, &mut fresh);
        let two = text.request(start, 0, 1.0);
        assert_eq!((one.ids.len(), two.ids.len()), (3, 3));
        assert_eq!((&one.ids[..2], one.ids[2] == two.ids[2]), (&two.ids[..2], false));
        text.turn(BLOCK + 63, 1, &mut fresh);
        let three = text.request(start, 0, 0.0);
        assert_eq!((three.input as usize, three.output, three.ids.len()), (2 * BLOCK, 1, 2));
        assert!(three.ids[0] == one.ids[0] && three.ids[1] != one.ids[1]);
    }
}
