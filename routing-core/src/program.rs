//! The slot of programs: which chain or tree of requests a request belongs to. The framework reads it, for plans.

use crate::slot::Slot;

/// A request as a turn of a program: of one agent's requests, each of which goes on where another ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramTurn {
    /// The program's number. None other has it, ever.
    pub program: u64,
    /// The number of the context that it goes on with: a program whose agents have prompts of their own has several.
    pub context: u64,
    /// Tokens of the prompt.
    pub tokens: u64,
    /// Tokens that were computed and generated for the program so far; 0 unless told.
    pub service: u64,
    /// Turns that follow this one on the longest way to the program's end, as its client tells; 0 unless told.
    pub remaining: u32,
}

impl ProgramTurn {
    /// A turn with a prompt of so many tokens.
    #[must_use]
    pub const fn new(program: u64, context: u64, tokens: u64) -> Self {
        Self { program, context, tokens, service: 0, remaining: 0 }
    }

    /// The same of a program that was served so many tokens.
    #[must_use]
    pub const fn service(self, service: u64) -> Self {
        Self { service, ..self }
    }

    /// The same with so many turns that follow it.
    #[must_use]
    pub const fn remaining(self, remaining: u32) -> Self {
        Self { remaining, ..self }
    }
}

/// The program that a request belongs to; none, if nobody can tell. Written by whatever recognizes programs.
#[derive(Debug)]
pub struct Program;

impl Slot for Program {
    type Value = Option<ProgramTurn>;
    const NAME: &'static str = "program.turn";

    fn clear(value: &mut Option<ProgramTurn>) {
        *value = None;
    }
}
