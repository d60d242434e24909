//! Tokenization prefix cache: a conversation's next turn costs its new text only.
//!
//! A prompt is split into pieces at special tokens ([`Tokenizer::safe_splits`]). A piece is known by the piece before it and by
//! its text, so pieces form a tree in which conversations share what they have in common. The rule: a piece is used
//! only if its text is, byte for byte, the prompt's; a hash finds it and never decides.

mod store;

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use ahash::RandomState;

use self::store::{Key, Node, Part, Store};
use super::{Frame, SafeSplit, TokenizeError, Tokenizer};

/// A tokenizer that remembers.
///
/// It gives the ids that the tokenizer inside gives, always (`tests/tokenize_cache.rs`). A tokenizer without splits is
/// simply called.
///
/// # Bound and eviction
///
/// Everything that is held is counted, the tables' spare room included, and stays within the bound
/// (`tests/tokenize_bytes.rs`). Eviction is second chance: pieces stand in a queue, the oldest goes first, and one that
/// was used since it last came up is put back once. Pieces of one prompt go from its end to its beginning.
///
/// # Concurrency
///
/// Lookups share a lock and hold it for one table access a piece. Hashing, comparing, copying and encoding are done
/// without it. Two threads that meet the same new text both encode it.
///
/// # Examples
///
/// ```
/// use routing_plugins::tokenize::{SafeSplit, PrefixCache, TokenizeError, Tokenizer};
///
/// /// One token a byte, and `|` is special.
/// #[derive(Debug)]
/// struct Bytes;
///
/// impl Tokenizer for Bytes {
///     fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
///         out.extend(text.bytes().map(u32::from));
///         Ok(())
///     }
///
///     fn safe_splits(&self, text: &str, out: &mut Vec<SafeSplit>) {
///         out.extend(text.match_indices('|').map(|(at, _)| SafeSplit::new(at, at + 1)));
///     }
/// }
///
/// let cache = PrefixCache::new(Bytes, 1 << 20);
/// let turn = "a long system prompt ".repeat(20) + "|";
/// let mut ids = Vec::new();
/// cache.encode(&turn, &mut ids)?;
/// ids.clear();
/// cache.encode(&format!("{turn}and more"), &mut ids)?;
/// assert_eq!(cache.stats().reused_tokens, 421);
/// # Ok::<(), TokenizeError>(())
/// ```
#[derive(Debug)]
pub struct PrefixCache<T> {
    inner: T,
    hasher: RandomState,
    store: RwLock<Store>,
    counters: Counters,
}

impl<T: Tokenizer> PrefixCache<T> {
    /// Wraps a tokenizer, to hold at most so many bytes.
    #[must_use]
    pub fn new(inner: T, bytes: usize) -> Self {
        // Random, so that clients cannot aim at one place of the table; a collision would cost time, never a wrong id.
        let hasher = RandomState::with_seed(std::hash::RandomState::new().hash_one(0) as usize);
        Self { inner, hasher, store: RwLock::new(Store::new(bytes)), counters: Counters::default() }
    }

    /// The tokenizer inside.
    #[must_use]
    pub fn inner(&self) -> &T {
        &self.inner
    }

    /// What it did so far, and what it holds.
    #[must_use]
    pub fn stats(&self) -> CacheStats {
        let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CacheStats {
            prompts: count(&self.counters.prompts),
            hits: count(&self.counters.hits),
            reused_tokens: count(&self.counters.reused),
            encoded_tokens: count(&self.counters.encoded),
            evicted: store.evicted(),
            pieces: store.len(),
            bytes: store.bytes(),
        }
    }

    /// The pieces of a prompt, from its beginning to the last split.
    fn pieces(&self, text: &str) -> Vec<Piece> {
        let mut splits = Vec::new();
        self.inner.safe_splits(text, &mut splits);
        let mut from = 0;
        let mut pieces = Vec::new();
        for split in splits {
            // Which splits are taken depends on the text before them alone, so prompts that begin alike are split alike.
            if split.at - from >= SHORTEST {
                pieces.push(Piece { from, split, hash: self.hasher.hash_one(&text.as_bytes()[from..split.at]) });
                from = split.at;
            }
        }
        pieces
    }

    /// The known pieces that the prompt begins with.
    fn find(&self, text: &str, pieces: &[Piece]) -> Vec<Arc<Node>> {
        let mut path = Vec::new();
        {
            let store = self.store.read().unwrap_or_else(PoisonError::into_inner);
            let mut parent = None;
            for piece in pieces {
                let Some(node) = store.get(Key::new(parent, piece.hash)) else { break };
                parent = Some(node.id());
                path.push(node);
            }
        }
        // Behind a piece of another text nothing can be right, since the pieces below are known by it.
        let same = path.iter().zip(pieces).take_while(|(node, piece)| node.text() == piece.of(text)).count();
        path.truncate(same);
        path.iter().for_each(|node| node.touch());
        path
    }
}

impl<T: Tokenizer> Tokenizer for PrefixCache<T> {
    fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        let first = out.len();
        let pieces = self.pieces(text);
        let path = self.find(text, &pieces);
        path.iter().for_each(|node| out.extend_from_slice(node.ids()));
        let reused = out.len() - first;

        let (known, new) = pieces.split_at(path.len());
        let mut last = known.last().map(|piece| piece.split);
        let mut learnt = Vec::with_capacity(new.len());
        for piece in new {
            let start = out.len();
            encode_part(&self.inner, &text[..piece.split.at], last, out)?;
            learnt.push(Part { hash: piece.hash, text: piece.of(text).into(), ids: out[start..].into() });
            last = Some(piece.split);
        }
        encode_part(&self.inner, text, last, out)?;

        if !learnt.is_empty() {
            self.store.write().unwrap_or_else(PoisonError::into_inner).insert(path.last(), learnt);
        }
        self.counters.count(reused, out.len() - first - reused);
        Ok(())
    }

    fn frame(&self) -> Frame<'_> {
        self.inner.frame()
    }

    fn safe_splits(&self, text: &str, out: &mut Vec<SafeSplit>) {
        self.inner.safe_splits(text, out);
    }

    fn encode_after(&self, text: &str, split: SafeSplit, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
        self.inner.encode_after(text, split, out)
    }
}

/// What a cache did and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheStats {
    /// Prompts that were asked for.
    pub prompts: u64,
    /// Prompts of which at least the first piece was known.
    pub hits: u64,
    /// Tokens that were copied.
    pub reused_tokens: u64,
    /// Tokens that were made by the tokenizer inside.
    pub encoded_tokens: u64,
    /// Pieces that had to go.
    pub evicted: u64,
    /// Pieces that are held.
    pub pieces: usize,
    /// Bytes that are held.
    pub bytes: usize,
}

/// A part of a prompt that ends at a split.
#[derive(Debug)]
struct Piece {
    from: usize,
    split: SafeSplit,
    hash: u64,
}

impl Piece {
    fn of<'t>(&self, text: &'t str) -> &'t str {
        &text[self.from..self.split.at]
    }
}

/// Appends the ids of what follows a split, or of everything.
fn encode_part<T: Tokenizer>(
    inner: &T,
    text: &str,
    after: Option<SafeSplit>,
    out: &mut Vec<u32>,
) -> Result<(), TokenizeError> {
    match after {
        None => inner.encode(text, out),
        Some(split) if split.at == text.len() => Ok(()),
        Some(split) => inner.encode_after(text, split, out),
    }
}

#[derive(Debug, Default)]
struct Counters {
    prompts: AtomicU64,
    hits: AtomicU64,
    reused: AtomicU64,
    encoded: AtomicU64,
}

impl Counters {
    fn count(&self, reused: usize, encoded: usize) {
        self.prompts.fetch_add(1, Ordering::Relaxed);
        self.hits.fetch_add(u64::from(reused > 0), Ordering::Relaxed);
        self.reused.fetch_add(reused as u64, Ordering::Relaxed);
        self.encoded.fetch_add(encoded as u64, Ordering::Relaxed);
    }
}

/// The shortest piece, in bytes: a piece costs about 130 bytes beside its text and ids, and a lookup. At most so much
/// old text before the last split is encoded again.
const SHORTEST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// One token a byte.
    #[derive(Debug)]
    struct Bytes;

    impl Tokenizer for Bytes {
        fn encode(&self, text: &str, out: &mut Vec<u32>) -> Result<(), TokenizeError> {
            out.extend(text.bytes().map(u32::from));
            Ok(())
        }
    }

    fn parts(texts: &[&str]) -> Vec<Part> {
        texts.iter().map(|text| Part { hash: 7, text: (*text).into(), ids: [1].into() }).collect()
    }

    #[test]
    fn a_piece_of_another_text_is_not_used_whatever_its_hash() {
        let cache = PrefixCache::new(Bytes, 10_000);
        let insert = |below: Option<&Arc<Node>>, texts: &[&str]| {
            cache.store.write().expect("nobody panicked").insert(below, parts(texts));
        };
        let found = |text: &str| {
            let piece = |from, at| Piece { from, split: SafeSplit::new(from, at), hash: 7 };
            let path = cache.find(text, &[piece(0, 1), piece(1, 2)]);
            path.iter().map(|node| node.text().to_owned()).collect::<Vec<_>>()
        };
        insert(None, &["a", "b"]);
        assert_eq!(found("ab"), ["a", "b"]);
        assert_eq!(found("ax"), ["a"]);
        assert!(found("xb").is_empty(), "right behind wrong is wrong");
        insert(None, &["x", "b"]);
        assert_eq!((found("ab").len(), found("xb").len()), (2, 0), "the first keeps the place");
    }

    #[test]
    fn nothing_is_hung_on_a_piece_of_another_text_or_one_that_is_gone() {
        let mut store = Store::new(1_000);
        let get = |store: &Store, parent: Option<&Arc<Node>>| store.get(Key::new(parent.map(|node| node.id()), 7));
        store.insert(None, parts(&["a"]));
        let first = get(&store, None);
        store.insert(None, parts(&["x", "c"]));
        assert_eq!((store.len(), get(&store, first.as_ref()).is_some()), (1, false));
        for hash in 0..50 {
            store.insert(None, vec![Part { hash: 100 + hash, text: "y".repeat(300).into(), ids: [1].into() }]);
        }
        assert!(get(&store, None).is_none(), "evicted");
        let held = store.len();
        store.insert(first.as_ref(), parts(&["c"]));
        assert_eq!((store.len(), get(&store, first.as_ref()).is_some()), (held, false));
    }
}
