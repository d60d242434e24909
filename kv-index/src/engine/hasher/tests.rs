//! Property tests of dialect hashing: eager, lazy and in pieces.

use proptest::prelude::*;

use super::*;
use crate::engine::{Adapter, EngineKind};
#[cfg(feature = "vllm")]
use crate::engine::{Embeds, Media};
use crate::{Config, Event, EventSemantics, Index, Matches, Stored};

/// One of every kind.
fn dialects() -> Vec<Dialect> {
    let mut dialects: Vec<Dialect> = Vec::new();
    #[cfg(feature = "vllm")]
    for release in [crate::engine::Version::new(0, 30, 0), crate::engine::Version::new(0, 32, 0)] {
        for algorithm in ["sha256", "sha256_cbor", "xxhash", "xxhash_cbor"] {
            let hashing = crate::engine::vllm::VllmHashing::new(release).algorithm(algorithm.parse().unwrap());
            dialects.extend(Dialect::vllm(hashing.clone().seed("42")));
            dialects.extend(Dialect::vllm(hashing.seed("7").shared_identifiers()));
        }
    }
    #[cfg(feature = "sglang")]
    for patch in [18, 23] {
        let plain = crate::engine::sglang::SglangHashing::new(crate::engine::Version::new(0, 5, patch));
        let dynamo = plain.format(crate::engine::sglang::SglangFormat::Dynamo);
        dialects.extend([plain, plain.eagle(), dynamo].into_iter().flat_map(Dialect::sglang));
    }
    #[cfg(feature = "trtllm")]
    for form in ["v1_block_key", "v2_sha256"] {
        dialects
            .extend(Dialect::trtllm(crate::engine::trtllm::TrtllmHashing::new(form.parse().unwrap()).sha256_salts()));
    }
    dialects
}

/// Everything that the dialect hashes, or as much of it as `what` has bits for.
fn dressed<'a>(dialect: &Dialect, what: u8, prompt: Prompt<'a, u32>) -> Prompt<'a, u32> {
    let mut prompt = prompt;
    if what & 1 != 0 {
        prompt = prompt.salt("tenant");
    }
    if what & 2 != 0 {
        prompt = prompt.adapter(Adapter::named("sql").path("/sql").id(3)).extra_key("key");
    }
    #[cfg(feature = "vllm")]
    if dialect.engine() == EngineKind::Vllm {
        if what & 4 != 0 {
            prompt = prompt.media(&MEDIA);
        }
        if what & 8 != 0 {
            prompt = prompt.embeds(Embeds { bytes: &[9; 70], row: 2 });
        }
    }
    assert!(matches!(dialect.engine(), EngineKind::Vllm | EngineKind::Sglang | EngineKind::Trtllm));
    prompt
}

#[cfg(feature = "vllm")]
static MEDIA: [Media<'static>; 4] = [
    Media { identifier: "a", offset: 2, length: 9 },
    Media { identifier: "b", offset: 11, length: 1 },
    Media { identifier: "a", offset: 12, length: 30 },
    Media { identifier: "c", offset: 60, length: 50 },
];

proptest! {
    #[test]
    fn lazily_or_at_once_every_dialect_hashes_the_same(
        tokens in prop::collection::vec(0u32..0x7fff_ffff, 0..200),
        size in 1u32..40,
        (what, generated) in (0u8..16, 0usize..100),
        steps in prop::collection::vec(0usize..60, 0..6),
    ) {
        let mut buffer = ChainBuffer::default();
        for dialect in dialects() {
            let prompt = Prompt::new(&tokens).generated_after(tokens.len().saturating_sub(generated));
            let prompt = dressed(&dialect, what, prompt);
            let hasher = DialectHasher::new(dialect, BlockSize::new(size).unwrap());
            let whole = hasher.hash(&prompt).unwrap();
            let mut lazy = hasher.lazy(&prompt, &mut buffer).unwrap();
            prop_assert_eq!(lazy.len(), whole.len());
            let mut deepest = 0;
            for depth in &steps {
                let depth = (*depth).min(whole.len());
                deepest = deepest.max(depth);
                prop_assert_eq!(lazy.hash_up_to(depth), &whole[..depth]);
                prop_assert_eq!(lazy.hashes().len(), deepest, "no deeper than asked");
            }
            prop_assert_eq!(lazy.hash_up_to(usize::MAX), &whole[..]);
        }
    }
}

#[test]
fn an_index_is_searched_lazily_in_every_dialect() {
    let tokens: Vec<u32> = (0..16 * 2_000).collect();
    let mut buffer = ChainBuffer::default();
    for dialect in dialects() {
        let hasher = DialectHasher::new(dialect, BlockSize::new(16).unwrap());
        let prompt = Prompt::new(&tokens);
        let blocks = hasher.hash(&prompt).unwrap();
        let index: Index = Index::new(Config::default());
        let pod = index.join("a").unwrap();
        index.apply(pod, EventSemantics::Copies, &Event::Stored(Stored::prompt(&blocks[..100]))).unwrap();
        let mut matches = Matches::default();
        let mut chain = hasher.lazy(&prompt, &mut buffer).unwrap();
        index.search_lazy(&mut chain, &mut matches);
        assert_eq!(matches.depth(pod.id()), 100, "{chain:?}");
        assert!(chain.hashes().len() < 1_000, "{chain:?}");
        let hashed = chain.hashes().len();
        assert_eq!(buffer.hashes(), &blocks[..hashed], "the buffer keeps what was hashed");
        buffer.clear();
        assert!(buffer.hashes().is_empty());
    }
}

#[test]
fn dialects_have_no_block_in_common() {
    let tokens: Vec<u32> = (0..64).collect();
    let mut seen = std::collections::HashMap::new();
    for dialect in dialects() {
        for what in [0, 1, 2, 3] {
            let prompt = dressed(&dialect, what, Prompt::new(&tokens));
            let hasher = DialectHasher::new(dialect.clone(), BlockSize::new(16).unwrap());
            let first = hasher.hash(&prompt).unwrap()[0];
            // Releases, formats and options that change nothing for a prompt agree on it, and nothing else does.
            let other = seen.insert(first, dialect.clone());
            assert!(other.is_none_or(|other| other.engine() == dialect.engine()), "{dialect} {what}");
        }
    }
}
