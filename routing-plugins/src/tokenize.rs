//! Tokenizing: the tokenizer trait, chat templates, vocabularies and a prefix cache.
//!
//! A [`Tokenizer`] turns text into ids; a gateway can bring its own. [`PrefixCache`] wraps one and keeps the ids of
//! prompts' beginnings, split at special tokens, so that the next turn of a conversation costs its new text only.
//! [`TokenizePreparer`] makes the tokens of a request by its model. [`PromptApi`] makes chats of the requests of other APIs.
//!
//! - Feature `tokenizers`: `Vocabulary`, a tokenizer read from a model's `tokenizer.json`.
//! - Feature `chat`: `ChatTemplate`, the model's Jinja template, and `ModelPrompts`, which reads the bodies of
//!   requests.
//!
//! The rule: ids from the cache are those that would be made without it, for every text and every vocabulary
//! (`tests/tokenize_cache.rs`). A vocabulary that cannot promise this at a token is not split there.

mod api_prompt;
mod cache;
#[cfg(feature = "chat")]
mod chat;
mod error;
mod preparer;
#[cfg(feature = "chat")]
mod prompt;
#[cfg(feature = "tokenizers")]
mod vocabulary;

use std::sync::Arc;

pub use api_prompt::PromptApi;
pub use cache::{CacheStats, PrefixCache};
#[cfg(feature = "chat")]
pub use chat::{Chat, ChatTemplate, ContentFormat};
pub use error::{PromptError, TemplateError, TokenizeError};
pub use preparer::{PromptTokenizer, TokenizePreparer, Tokenizers};
#[cfg(feature = "chat")]
pub use prompt::ModelPrompts;
#[cfg(feature = "tokenizers")]
pub use vocabulary::{LoadError, Unsplittable, Vocabulary};

/// Turns text into token ids.
///
/// [`Self::encode`] is all that is needed. [`Self::safe_splits`] is for [`PrefixCache`]: without it nothing is cached.
///
/// # Examples
///
/// ```
/// use routing_plugins::tokenize::{TokenizeError, Tokenizer};
///
/// /// One token a byte.
/// #[derive(Debug)]
/// struct Bytes;
///
/// impl Tokenizer for Bytes {
///     fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
///         out.extend(text.bytes().map(u32::from));
///         Ok(())
///     }
/// }
///
/// let mut ids = Vec::new();
/// Bytes.encode("ab", &mut ids)?;
/// assert_eq!(ids, [97, 98]);
/// # Ok::<(), TokenizeError>(())
/// ```
pub trait Tokenizer: Send + Sync + std::fmt::Debug {
    /// Appends the ids of a text, special tokens in it included, and nothing around it.
    ///
    /// # Errors
    ///
    /// When the vocabulary has no ids for the text. What was appended until then is of no meaning.
    fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizeError>;

    /// What the model wants around a prompt that does not come from a chat template.
    fn frame(&self) -> Frame<'_> {
        Frame::default()
    }

    /// Appends the places where a text can be split, in ascending order.
    ///
    /// An implementation promises, for every text and each of its splits:
    ///
    /// 1. The ids up to a split depend on the text up to there and on nothing else, among all texts that have this split.
    ///    [`Self::encode`] of the text up to the split gives them, and that shorter text has the same splits.
    /// 2. Those ids, followed by what [`Self::encode_after`] appends, are the ids of the whole text.
    fn safe_splits(&self, text: &str, out: &mut Vec<SafeSplit>) {
        let _ = (text, out);
    }

    /// Appends the ids of what follows a split of this text.
    ///
    /// # Errors
    ///
    /// As [`Self::encode`].
    fn encode_after(&self, text: &str, split: SafeSplit, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        self.encode(&text[split.at..], out)
    }
}

// Tokenizers are shared: what points to one is one.
macro_rules! pointer {
    ($($pointer:ty),*) => {$(
        impl<T: Tokenizer + ?Sized> Tokenizer for $pointer {
            fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
                (**self).encode(text, out)
            }

            fn frame(&self) -> Frame<'_> {
                (**self).frame()
            }

            fn safe_splits(&self, text: &str, out: &mut Vec<SafeSplit>) {
                (**self).safe_splits(text, out);
            }

            fn encode_after(&self, text: &str, split: SafeSplit, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
                (**self).encode_after(text, split, out)
            }
        }
    )*};
}

pointer!(&T, Arc<T>, Box<T>);

/// A place right behind a special token of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SafeSplit {
    /// Where the special token begins, with the white space that it swallows.
    pub token: usize,
    /// Where it ends, and the rest begins.
    pub at: usize,
}

impl SafeSplit {
    /// A split behind the special token that lies from `token` to `at`, both byte offsets.
    #[must_use]
    pub const fn new(token: usize, at: usize) -> Self {
        Self { token, at }
    }
}

/// Special tokens around a prompt, as a vocabulary's post-processor adds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Frame<'t> {
    /// Before the text; often one token that begins every prompt.
    pub before: &'t [u32],
    /// After the text.
    pub after: &'t [u32],
}

impl<'t> Frame<'t> {
    /// A frame.
    #[must_use]
    pub const fn new(before: &'t [u32], after: &'t [u32]) -> Self {
        Self { before, after }
    }
}

// Object safe, and so is everything a gateway may bring.
const _: () = {
    const fn object<T: ?Sized + Send + Sync>() {}
    object::<dyn Tokenizer>();
    object::<dyn Tokenizers>();
    object::<dyn PromptTokenizer>();
};
