//! Software pipelining of directory changes: home lines of hashes, each found and asked for a while before it is wanted.

use crate::blocks::BlockHash;
use crate::directory::{Directory, Home};
use crate::reclamation::Pin;

/// The home lines of `hashes`, in their order.
pub(crate) struct HomesAhead<'p, I> {
    directory: &'p Directory,
    hashes: I,
    pin: &'p Pin,
    /// Those that were asked for, the next one at `at`.
    asked: [Option<Home<'p>>; AHEAD],
    at: usize,
}

impl<'p, I: Iterator<Item = BlockHash>> HomesAhead<'p, I> {
    #[inline]
    pub(crate) fn new(directory: &'p Directory, mut hashes: I, pin: &'p Pin) -> Self {
        let mut asked = [None; AHEAD];
        for (home, hash) in asked.iter_mut().zip(&mut hashes) {
            *home = Some(directory.home_ahead(hash, pin));
        }
        Self { directory, hashes, pin, asked, at: 0 }
    }
}

impl<'p, I: Iterator<Item = BlockHash>> Iterator for HomesAhead<'p, I> {
    type Item = Home<'p>;

    #[inline]
    fn next(&mut self) -> Option<Home<'p>> {
        let later = self.hashes.next().map(|hash| self.directory.home_ahead(hash, self.pin));
        let home = std::mem::replace(&mut self.asked[self.at], later);
        self.at = (self.at + 1) % AHEAD;
        home
    }
}

/// How many blocks ahead a line is asked for.
const AHEAD: usize = 16;
