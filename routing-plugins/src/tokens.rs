//! The prompt's tokens, whoever made them.

use routing_core::{Request, Slot};

/// The prompt's tokens: the request's own, or made of its text.
#[derive(Debug)]
pub struct PromptTokens;

impl Slot for PromptTokens {
    type Value = TokenList;
    const NAME: &'static str = "prompt.tokens";

    fn clear(value: &mut TokenList) {
        value.made.clear();
        value.given = false;
    }
}

/// Tokens of a prompt; borrowed from the request where it has them.
#[derive(Debug, Default)]
pub struct TokenList {
    made: Vec<u32>,
    given: bool,
}

impl TokenList {
    /// The tokens.
    #[must_use]
    pub fn of<'a>(&'a self, request: &Request<'a>) -> &'a [u32] {
        if self.given { request.tokens.unwrap_or_default() } else { &self.made }
    }

    /// Says that the request has them.
    pub fn set_given(&mut self) {
        self.made.clear();
        self.given = true;
    }

    /// The list to fill with tokens, empty.
    pub fn make(&mut self) -> &mut Vec<u32> {
        self.made.clear();
        self.given = false;
        &mut self.made
    }
}
