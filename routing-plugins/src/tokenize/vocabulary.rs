//! Hugging Face tokenizer, read from `tokenizer.json`.
//!
//! The rule: a text is split only where the split changes no id. Added tokens that are matched in the raw text are found
//! before anything else happens, from the left, the longest first; the text between two of them is normalized, split
//! and encoded by itself. So behind such a token a text can be split, whatever the normalizer and the model are. What
//! could still reach over a split, and what is done about it:
//!
//! - Something that looks at the beginning of a prompt (a blank that is prepended to the first word only). The part
//!   after a split is encoded with the special token before it, whose id is then dropped: it never is the beginning.
//! - Tokens that swallow white space (`lstrip`, `rstrip`). A split lies behind what is swallowed.
//! - Tokens that match whole words only (`single_word`). What follows decides whether they match, so a vocabulary with
//!   such tokens is not split at all: [`Vocabulary::unsplittable`].
//! - Tokens that are matched in normalized text (`normalized`). They are split at if there is no normalizer, since then
//!   it is the same text, and not otherwise.
//! - Special tokens around a prompt are a [`Frame`], added outside of the splits. Truncation and padding are never done.

use std::fmt;
use std::path::Path;

use tokenizers::pipeline::{EncodeOptions, Override, PipelinePatternMatcher, PipelineToken, PipelineTokenizer};

use super::{Frame, SafeSplit, TokenizeError, Tokenizer};

/// The vocabulary and the rules of one model, as Hugging Face's `tokenizers` reads them.
pub struct Vocabulary {
    pipeline: PipelineTokenizer,
    before: Box<[u32]>,
    after: Box<[u32]>,
    cutting: Cutting,
}

impl Vocabulary {
    /// Reads a `tokenizer.json` of any version.
    ///
    /// # Errors
    ///
    /// When it is not one, or asks for something that the tokenizer does not do.
    pub fn from_json(json: &str) -> Result<Self, LoadError> {
        let canonical = tokenizers::canonicalize_str(json).map_err(|error| LoadError::Convert(text(&error)))?;
        let pipeline = tokenizers::from_json(&canonical).map_err(|error| LoadError::Read(text(&error)))?;
        let cutting = Cutting::of(&pipeline)?;
        let frame = &pipeline.get_post_processor().single;
        let ids = |run: &[(PipelineToken, u8)]| run.iter().map(|(id, _)| u32::from(*id)).collect();
        let (before, after) = (ids(&frame.prefix), ids(&frame.suffix));
        Ok(Self { pipeline, before, after, cutting })
    }

    /// Reads a `tokenizer.json` from a file.
    ///
    /// # Errors
    ///
    /// As [`Self::from_json`], and when the file cannot be read.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, LoadError> {
        let path = path.as_ref();
        let json = std::fs::read_to_string(path)
            .map_err(|error| LoadError::File { path: path.display().to_string().into(), kind: error.kind() })?;
        Self::from_json(&json)
    }

    /// Why texts of this vocabulary are never split, so that a [`PrefixCache`](super::PrefixCache) holds nothing; none
    /// if they are.
    #[must_use]
    pub fn unsplittable(&self) -> Option<Unsplittable> {
        match self.cutting {
            Cutting::Never(why) => Some(why),
            Cutting::Raw | Cutting::All => None,
        }
    }
}

impl Tokenizer for Vocabulary {
    fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        self.encode_from(text, 0, out)
    }

    fn frame(&self) -> Frame<'_> {
        Frame::new(&self.before, &self.after)
    }

    fn safe_splits(&self, text: &str, out: &mut Vec<SafeSplit>) {
        let deep = match self.cutting {
            Cutting::Never(_) => return,
            Cutting::Raw => false,
            Cutting::All => true,
        };
        let mut from = 0;
        loop {
            let split = self.next_token(text, from, Matched::Raw);
            if deep {
                let chunk = &text[..split.map_or(text.len(), |split| split.token)];
                while let Some(inner) = self.next_token(chunk, from, Matched::Normalized) {
                    from = inner.at;
                    out.push(inner);
                }
            }
            let Some(split) = split else { return };
            from = split.at;
            out.push(split);
        }
    }

    fn encode_after(&self, text: &str, split: SafeSplit, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        self.encode_from(&text[split.token..], 1, out)
    }
}

impl Vocabulary {
    /// Appends the ids of a text but for the first few.
    fn encode_from(&self, text: &str, skip: usize, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        let options = EncodeOptions {
            add_special_tokens: false,
            encode_special_tokens: false,
            padding: Override::Off,
            truncation: Override::Off,
        };
        let mut ids = Vec::with_capacity(text.len() / 4);
        self.pipeline.encode_into(text, &options, &mut ids).map_err(TokenizeError::new)?;
        out.extend(ids.into_iter().skip(skip).map(u32::from));
        Ok(())
    }

    /// The first added token at or after an offset, as the tokenizer itself finds it.
    fn next_token(&self, text: &str, from: usize, matched: Matched) -> Option<SafeSplit> {
        let normalized = matches!(matched, Matched::Normalized);
        let ((token, at), _) =
            self.pipeline.get_added_vocabulary().extract_next(text.as_bytes(), from, normalized, false)?;
        Some(SafeSplit { token, at })
    }
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let added = self.pipeline.get_added_vocabulary().len();
        write!(f, "Vocabulary({added} added tokens, {:?})", self.cutting)
    }
}

/// Which added tokens are looked for.
#[derive(Clone, Copy, Debug)]
enum Matched {
    Raw,
    Normalized,
}

/// Behind which added tokens a text is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cutting {
    Never(Unsplittable),
    /// Those that are matched in the raw text.
    Raw,
    /// All of them, for there is no normalizer.
    All,
}

impl Cutting {
    fn of(pipeline: &PipelineTokenizer) -> Result<Self, LoadError> {
        let added = pipeline.get_added_vocabulary().get_added_tokens_decoder();
        let beyond_ascii = |content: &str| content.chars().next().is_some_and(|first| !first.is_ascii());
        if let Some(token) = added.values().find(|token| token.single_word && beyond_ascii(&token.content)) {
            return Err(LoadError::WholeWord(token.content.as_str().into()));
        }
        let (normalized, raw): (Vec<_>, Vec<_>) = added.values().partition(|token| token.normalized);
        if raw.iter().any(|token| token.single_word) {
            return Ok(Self::Never(Unsplittable::WholeWords));
        }
        let deep = pipeline.get_normalizers().is_empty() && normalized.iter().all(|token| !token.single_word);
        if deep && !added.is_empty() {
            return Ok(Self::All);
        }
        Ok(if raw.is_empty() { Self::Never(Unsplittable::NoTokens) } else { Self::Raw })
    }
}

/// Why texts of a vocabulary are never split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unsplittable {
    /// It has no added tokens that are matched in the raw text.
    NoTokens,
    /// It has added tokens that match whole words only, so what follows a token decides whether it is one.
    WholeWords,
}

/// Why a vocabulary cannot be used. The operator's to fix: another file, or another tokenizer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read `{path}`: {kind}")]
    File {
        /// Which file.
        path: Box<str>,
        /// Why.
        kind: std::io::ErrorKind,
    },
    /// It is no `tokenizer.json`, or an old one with something that has no newer form.
    #[error("not a tokenizer's file: {0}")]
    Convert(Box<str>),
    /// It asks for something that the tokenizer does not do.
    #[error("the vocabulary cannot be used: {0}")]
    Read(Box<str>),
    /// The pinned tokenizer may panic on a token that matches whole words only and does not begin with an ASCII letter
    /// (`tests/tokenize_agreement.rs`).
    #[error("the added token `{0}` matches whole words only and does not begin with an ASCII character")]
    WholeWord(Box<str>),
}

fn text(error: &impl fmt::Display) -> Box<str> {
    error.to_string().into()
}
