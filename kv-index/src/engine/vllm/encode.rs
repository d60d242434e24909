//! Serialization of a block, `(parent, tokens, extra keys)`, for either encoder.
//!
//! The order of extra keys is vLLM's: adapter, media, salt, embeddings. Up to 0.30 each is bare; from 0.31 each is a
//! tuple that begins with a tag.

use smallvec::SmallVec;

use crate::engine::prompt::TokenId;
use crate::engine::vllm::keys::Keys;

/// A serializer of tuples, bytes, texts and integers.
pub(super) trait Encode {
    /// Begins a tuple of so many.
    fn open(&mut self, items: usize);
    /// Ends a tuple of so many.
    fn close(&mut self, items: usize);
    fn bytes(&mut self, bytes: &[u8]);
    /// A text, as an object of its own.
    fn text(&mut self, text: &str) -> Object;
    /// A text that is the same object as one written before.
    fn again(&mut self, object: Object, text: &str);
    fn int(&mut self, value: i128);
    fn none(&mut self);

    /// Integers that are not a tuple's only items.
    fn ints<T: TokenId>(&mut self, values: &[T]) {
        for &value in values {
            self.int(value.into());
        }
    }
}

/// Integers of up to five bytes on their way out.
///
/// Each is written as a word of eight bytes of which the next covers the rest: without a branch on its length, and
/// without asking the buffer for room. With a `match` and a push for each, blocks under xxhash took 1.7 times as long
/// (`benches/hash.rs`).
pub(super) struct Packed<'b> {
    out: &'b mut Vec<u8>,
    bytes: [u8; PACKED + 8],
    length: usize,
}

impl<'b> Packed<'b> {
    pub(super) fn new(out: &'b mut Vec<u8>) -> Self {
        Self { out, bytes: [0; PACKED + 8], length: 0 }
    }

    /// Takes the first `length` bytes of `word`, at most eight.
    #[inline]
    pub(super) fn push(&mut self, word: [u8; 8], length: usize) {
        if self.length > PACKED {
            self.flush();
        }
        self.bytes[self.length..self.length + 8].copy_from_slice(&word);
        self.length += length;
    }

    /// Writes what was taken, and lends the buffer.
    pub(super) fn flush(&mut self) -> &mut Vec<u8> {
        self.out.extend_from_slice(&self.bytes[..self.length]);
        self.length = 0;
        self.out
    }
}

/// Sixteen tokens of five bytes.
const PACKED: usize = 80;

/// A text that was written, for serializers that refer back to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object(pub(super) u32);

/// How a release writes extra keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyForm {
    /// Whether each key is a tuple with a tag: from 0.31.
    pub(super) tagged: bool,
    /// Whether equal identifiers are one object.
    pub(super) shared_identifiers: bool,
}

/// Writes a block.
#[inline]
pub(super) fn block<T: TokenId>(
    encoder: &mut impl Encode,
    form: KeyForm,
    parent: &[u8],
    tokens: &[T],
    keys: &Keys<'_>,
) {
    encoder.open(3);
    encoder.bytes(parent);
    encoder.open(tokens.len());
    encoder.ints(tokens);
    encoder.close(tokens.len());
    match keys.count() {
        0 => encoder.none(),
        count => {
            encoder.open(count);
            extra_keys(encoder, form, keys);
            encoder.close(count);
        }
    }
    encoder.close(3);
}

fn extra_keys(encoder: &mut impl Encode, form: KeyForm, keys: &Keys<'_>) {
    if let Some(adapter) = keys.adapter {
        key(encoder, form, "lora", 2, |encoder| {
            encoder.text(adapter.name);
            if form.tagged {
                encoder.text(adapter.path);
            }
        });
    }
    media(encoder, form, keys);
    if let Some(salt) = keys.salt {
        key(encoder, form, "cache_salt", 1, |encoder| _ = encoder.text(salt));
    }
    if let Some(digest) = &keys.embeds {
        key(encoder, form, "prompt_embeds", 1, |encoder| encoder.bytes(digest));
    }
}

/// A key: in releases that tag keys, a tuple of its tag and so many values.
fn key<E: Encode>(encoder: &mut E, form: KeyForm, tag: &str, values: usize, write: impl FnOnce(&mut E)) {
    if !form.tagged {
        return write(encoder);
    }
    encoder.open(1 + values);
    encoder.text(tag);
    write(encoder);
    encoder.close(1 + values);
}

fn media(encoder: &mut impl Encode, form: KeyForm, keys: &Keys<'_>) {
    let items = if form.tagged { 3 } else { 2 };
    // The tag is a literal of vLLM's source, so all of a block's tags are one object.
    let mut tag: Option<Object> = None;
    let mut written: SmallVec<[(&str, Object); 4]> = SmallVec::new();
    for &(identifier, offset) in &keys.media {
        encoder.open(items);
        if form.tagged {
            match tag {
                Some(tag) => encoder.again(tag, "mm"),
                None => tag = Some(encoder.text("mm")),
            }
        }
        match written.iter().find(|(other, _)| *other == identifier) {
            Some(&(_, object)) => encoder.again(object, identifier),
            None => {
                let object = encoder.text(identifier);
                if form.shared_identifiers {
                    written.push((identifier, object));
                }
            }
        }
        encoder.int(i128::from(offset));
        encoder.close(items);
    }
}
