//! A request as engines hash it: tokens, LoRA adapter, cache salt, media and embeddings.

/// A prompt with everything that goes into an engine's hashes.
///
/// Token ids are of any integer type. Only what a gateway knows needs to be set; a dialect that lacks something
/// says so instead of guessing.
///
/// # Examples
///
/// ```
/// use kv_index::engine::{Adapter, Prompt};
///
/// let tokens = [1_u32, 2, 3, 4];
/// let prompt = Prompt::new(&tokens).adapter(Adapter::named("sql-lora")).salt("tenant-42");
/// assert_eq!(prompt.salt, Some("tenant-42"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Prompt<'a, T = u32> {
    /// Every token, generated ones included.
    pub tokens: &'a [T],
    /// How many of them were the prompt; the rest were generated. vLLM before 0.31 hashed the two differently.
    pub prompt_tokens: usize,
    /// The adapter the request runs with.
    pub adapter: Option<Adapter<'a>>,
    /// The request's cache salt; an empty one is none.
    pub salt: Option<&'a str>,
    /// Images, audio and the like, by the place of their placeholder tokens, in order.
    pub media: &'a [Media<'a>],
    /// Embeddings given instead of tokens.
    pub embeds: Option<Embeds<'a>>,
    /// SGLang's `extra_key`, exactly as its engine has it.
    pub extra_key: Option<&'a str>,
}

/// A token id of any integer type.
pub trait TokenId: Copy + Into<i128> {}

impl<T: Copy + Into<i128>> TokenId for T {}

impl<'a, T> Prompt<'a, T> {
    /// A prompt of tokens alone.
    #[must_use]
    pub const fn new(tokens: &'a [T]) -> Self {
        let prompt_tokens = tokens.len();
        Self { tokens, prompt_tokens, adapter: None, salt: None, media: &[], embeds: None, extra_key: None }
    }

    /// The same of which only the first tokens were the prompt, and the rest was generated.
    #[must_use]
    pub const fn generated_after(self, prompt_tokens: usize) -> Self {
        Self { prompt_tokens, ..self }
    }

    /// The same under an adapter.
    #[must_use]
    pub const fn adapter(self, adapter: Adapter<'a>) -> Self {
        Self { adapter: Some(adapter), ..self }
    }

    /// The same with a cache salt.
    #[must_use]
    pub const fn salt(self, salt: &'a str) -> Self {
        Self { salt: Some(salt), ..self }
    }

    /// The same with media items, ordered by offset.
    #[must_use]
    pub const fn media(self, media: &'a [Media<'a>]) -> Self {
        Self { media, ..self }
    }

    /// The same with embeddings. Where they stand, token ids are 0.
    #[must_use]
    pub const fn embeds(self, embeds: Embeds<'a>) -> Self {
        Self { embeds: Some(embeds), ..self }
    }

    /// The same with SGLang's `extra_key`.
    #[must_use]
    pub const fn extra_key(self, key: &'a str) -> Self {
        Self { extra_key: Some(key), ..self }
    }

    /// The cache salt, unless it is empty.
    pub(super) fn cache_salt(&self) -> Option<&'a str> {
        self.salt.filter(|salt| !salt.is_empty())
    }
}

/// A LoRA adapter, as far as the gateway knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Adapter<'a> {
    /// The name that requests give.
    pub name: &'a str,
    /// Where the engine loaded it from. vLLM hashes it from 0.31 on.
    pub path: Option<&'a str>,
    /// The number the engine gave it. TensorRT-LLM hashes it.
    pub id: Option<u64>,
}

impl<'a> Adapter<'a> {
    /// An adapter of which only the name is known.
    #[must_use]
    pub const fn named(name: &'a str) -> Self {
        Self { name, path: None, id: None }
    }

    /// The same, loaded from this path.
    #[must_use]
    pub const fn path(self, path: &'a str) -> Self {
        Self { path: Some(path), ..self }
    }

    /// The same with the engine's number.
    #[must_use]
    pub const fn id(self, id: u64) -> Self {
        Self { id: Some(id), ..self }
    }
}

/// An image, a sound or the like: what it is and which tokens stand for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a place and a name: complete by nature")]
pub struct Media<'a> {
    /// What the engine calls it: a hash of its content, behind `<adapter>:` if the tower is adapted too.
    pub identifier: &'a str,
    /// The first of its tokens.
    pub offset: usize,
    /// How many tokens it has.
    pub length: usize,
}

/// Embeddings given instead of tokens, as the raw bytes of the tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "bytes and their stride: complete by nature")]
pub struct Embeds<'a> {
    /// The rows, one after the other.
    pub bytes: &'a [u8],
    /// Bytes of a row, which stands for a token.
    pub row: usize,
}

impl<'a> Embeds<'a> {
    /// The bytes of the rows of these tokens, as far as there are rows.
    #[must_use]
    pub fn rows(&self, tokens: std::ops::Range<usize>) -> &'a [u8] {
        let at = |token: usize| token.saturating_mul(self.row).min(self.bytes.len());
        &self.bytes[at(tokens.start)..at(tokens.end.max(tokens.start))]
    }
}
