//! Slot of the prompt as token ids.
//!
//! Tokens that a request brings along are borrowed, never copied.

use routing_core::{Request, Slot};

/// The prompt's tokens: the request's own, or made of its text.
#[derive(Debug)]
pub struct PromptTokens;

impl Slot for PromptTokens {
    type Value = TokenList;
    const NAME: &'static str = "prompt.tokens";

    fn clear(value: &mut TokenList) {
        value.make();
    }
}

/// Tokens of a prompt; borrowed from the request where it has them.
#[derive(Debug, Default)]
pub struct TokenList {
    made: Vec<u32>,
    given: bool,
}

impl TokenList {
    /// Says that the request's own tokens are the prompt's.
    pub fn set_given(&mut self) {
        self.made.clear();
        self.given = true;
    }

    /// An empty list to fill with tokens made of the request's text. Its memory is that of earlier requests.
    pub fn make(&mut self) -> &mut Vec<u32> {
        self.made.clear();
        self.given = false;
        &mut self.made
    }

    /// The tokens of the request this list was written for.
    #[must_use]
    pub fn of<'a>(&'a self, request: &Request<'a>) -> &'a [u32] {
        if self.given { request.tokens.unwrap_or_default() } else { &self.made }
    }

    /// How many they are.
    #[must_use]
    pub fn len(&self, request: &Request<'_>) -> usize {
        if self.given { request.tokens.map_or(0, <[u32]>::len) } else { self.made.len() }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self, request: &Request<'_>) -> bool {
        self.len(request) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_tokens_are_borrowed_and_made_ones_keep_their_memory() {
        let (bare, given) = (crate::prepare::tests::request(), [1, 2, 3]);
        let request = bare.tokens(&given);
        let mut list = TokenList::default();
        list.set_given();
        assert_eq!(list.of(&request).as_ptr(), given.as_ptr());
        assert_eq!((list.len(&request), list.is_empty(&bare)), (3, true));
        list.make().extend([7; 100]);
        assert_eq!(list.of(&request), [7; 100]);
        let memory = list.made.as_ptr();
        PromptTokens::clear(&mut list);
        assert!(list.is_empty(&request));
        list.make().extend([8; 100]);
        assert_eq!(list.made.as_ptr(), memory);
    }
}
