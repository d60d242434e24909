//! vLLM's refusals by release and setting.

use super::*;
use crate::BlockSize;
use crate::engine::prompt::{Adapter, Embeds, Media};
use crate::engine::vllm::VllmAlgorithm::{self, Sha256Cbor, Xxhash, XxhashCbor};
use crate::engine::{Dialect, DialectHasher};

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

fn refused(release: &str, algorithm: VllmAlgorithm, seed: Option<&str>) -> Option<DialectError> {
    let hashing = VllmHashing::new(version(release)).algorithm(algorithm);
    Dialect::vllm(seed.map_or(hashing.clone(), |seed| hashing.seed(seed))).err()
}

fn hasher(release: &str) -> DialectHasher {
    let dialect = Dialect::vllm(VllmHashing::new(version(release)).seed("0")).unwrap();
    DialectHasher::new(dialect, BlockSize::new(4).unwrap())
}

#[test]
fn a_seed_that_each_process_draws_is_refused() {
    let algorithm = "sha256";
    let error = DialectError::RandomSeed { version: version("0.28.1"), algorithm };
    assert_eq!(refused("0.28.1", VllmAlgorithm::Sha256, None), Some(error));
    assert!(error.to_string().contains("set PYTHONHASHSEED on every engine, or use token mode"), "{error}");
    for algorithm in [Xxhash, XxhashCbor] {
        let error = DialectError::RandomSeed { version: version("0.32.0"), algorithm: algorithm.name() };
        assert_eq!(refused("0.32.0", algorithm, None), Some(error));
        assert_eq!(refused("0.14.0", algorithm, Some("")), None, "an empty text is a seed");
    }
    assert_eq!(refused("0.29.0", Sha256Cbor, None), None);
    assert_eq!(refused("0.10.2", Sha256Cbor, Some("random")), None);
}

#[test]
fn releases_and_algorithms_that_are_not_established_are_refused() {
    let (engine, since) = (EngineKind::Vllm, version("0.10.2"));
    let old = DialectError::PythonHash { engine, version: version("0.10.1"), since };
    assert_eq!(refused("0.10.1", Sha256Cbor, Some("0")), Some(old));
    let since = version("0.14.0");
    let missing = DialectError::NoSuchAlgorithm { version: version("0.13.0"), algorithm: "xxhash_cbor", since };
    assert_eq!(refused("0.13.0", XxhashCbor, Some("0")), Some(missing));
    assert_eq!(refused("0.32.7", Sha256Cbor, None), None, "a patch of the newest series");
    for release in ["0.33.0", "1.0.0"] {
        let new = DialectError::TooNew { engine, version: version(release), newest: version("0.32.0") };
        assert_eq!(refused(release, Sha256Cbor, None), Some(new));
        assert!(new.to_string().contains("name 0.32.0 only if they are known not to have changed"), "{new}");
    }
}

#[test]
fn what_a_release_hashes_in_an_unknown_way_is_refused() {
    let tokens = [1_u32; 8];
    let plain = Prompt::new(&tokens);
    let media = [Media { identifier: "a", offset: 0, length: 1 }];
    for (before, since, prompt, what) in [
        ("0.11.1", "0.11.2", plain.adapter(Adapter::named("ad")), PromptFeature::Adapter),
        ("0.19.0", "0.19.1", plain.media(&media), PromptFeature::Media),
        ("0.28.0", "0.29.0", plain.embeds(Embeds { bytes: &[0; 8], row: 1 }), PromptFeature::Embeds),
    ] {
        let (version, first) = (version(before), version(since));
        let error = HashError::NotEstablished { engine: EngineKind::Vllm, version, what, since: first };
        assert_eq!(hasher(before).hash(&prompt), Err(error));
        assert!(hasher(since).hash(&prompt).is_ok());
        assert!(hasher(before).hash(&plain).is_ok());
    }
}

#[test]
fn an_adapter_needs_its_path_where_that_is_hashed() {
    let tokens = [1_u32; 8];
    let named = Prompt::new(&tokens).adapter(Adapter::named("ad"));
    assert!(hasher("0.30.0").hash(&named).is_ok());
    assert_eq!(hasher("0.31.0").hash(&named), Err(HashError::AdapterPath { version: version("0.31.0") }));
    let located = |path| hasher("0.31.0").hash(&Prompt::new(&tokens).adapter(Adapter::named("ad").path(path))).unwrap();
    assert_ne!(located("/a"), located("/b"));
}

#[test]
fn blocks_past_the_embeddings_have_the_digest_of_nothing() {
    let tokens = [0_u32; 12];
    let prompt = Prompt::new(&tokens).embeds(Embeds { bytes: &[7; 16], row: 2 });
    let serialized = hasher("0.29.0").preimages(&prompt).unwrap().blocks;
    for (block, rows) in serialized.iter().zip([&[7_u8; 8][..], &[7; 8], &[]]) {
        let digest: [u8; 32] = Sha256::digest(rows).into();
        assert!(block.windows(32).any(|bytes| bytes == digest));
    }
}

#[test]
fn a_chain_goes_on_from_a_digest() {
    let tokens: Vec<u32> = (0..40).collect();
    let item = |identifier, offset, length| Media { identifier, offset, length };
    let (media, later) = ([item("a", 3, 9), item("b", 20, 2)], [item("b", 8, 2)]);
    for release in ["0.29.0", "0.32.0"] {
        let whole = hasher(release).digests(&Prompt::new(&tokens).salt("s").media(&media)).unwrap();
        let rest = Prompt::new(&tokens[12..]).salt("s").media(&later);
        assert_eq!(hasher(release).digests_after(&whole[2], &rest).unwrap(), whole[3..]);
    }
    let short = BlockDigest::new(&[0; 16]).unwrap();
    let error = HashError::ParentLength { got: 16, expected: 32 };
    assert_eq!(hasher("0.29.0").digests_after(&short, &Prompt::new(&tokens)), Err(error));
}

#[test]
fn a_dialect_says_what_it_is() {
    let said = |hashing| Dialect::vllm(hashing).unwrap().to_string();
    assert_eq!(said(VllmHashing::new(version("0.29.0"))), "vLLM 0.29.0 sha256, no seed set");
    assert_eq!(said(VllmHashing::new(version("0.31.0")).seed("a\"b")), "vLLM 0.31.0 sha256, seed \"a\\\"b\"");
}
