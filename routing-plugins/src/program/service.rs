//! Attained service: tokens that were computed and generated for each program so far.
//!
//! Of a program that several gateways serve, whoever has a turn of it adds to the most that any of them knows. That is all of it where each turn begins
//! after the one before was told, but for the last answer; of turns at once it is less.
//!
//! The rule that must never break: a program is known for as long as a context of it is, so that this is bounded as contexts are
//! (`tests::service_is_forgotten_with_the_last_context`).

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use ahash::AHasher;

/// What programs were served.
#[derive(Debug, Default)]
pub(super) struct Services {
    programs: HashMap<u64, Served, BuildHasherDefault<AHasher>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Served {
    tokens: u64,
    /// Its contexts.
    contexts: u32,
}

impl Services {
    /// Tokens that a program was served.
    pub(super) fn of(&self, program: u64) -> u64 {
        self.programs.get(&program).map_or(0, |served| served.tokens)
    }

    /// A program has a context more.
    pub(super) fn enter(&mut self, program: u64) {
        self.programs.entry(program).or_default().contexts += 1;
    }

    /// A program is served so many tokens more.
    pub(super) fn serve(&mut self, program: u64, tokens: u64) {
        if let Some(served) = self.programs.get_mut(&program) {
            served.tokens = served.tokens.saturating_add(tokens);
        }
    }

    /// A program was served so many tokens elsewhere, and here as far as that is known there: at least as many as that in all.
    pub(super) fn reach(&mut self, program: u64, tokens: u64) {
        if let Some(served) = self.programs.get_mut(&program) {
            served.tokens = served.tokens.max(tokens);
        }
    }

    /// A context of a program is forgotten.
    pub(super) fn leave(&mut self, program: u64) {
        let Some(served) = self.programs.get_mut(&program) else { return };
        served.contexts -= 1;
        if served.contexts == 0 {
            self.programs.remove(&program);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.programs.len()
    }
}
