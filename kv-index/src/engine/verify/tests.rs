//! Verification cases: mismatches and their causes.

use super::*;
use crate::BlockSize;
use crate::engine::vllm::{VllmAlgorithm, VllmHashing};
use crate::engine::{Adapter, DialectHasher, ExtraKey, Prompt, TokenIds, Version};

fn vllm(version: (u16, u16), algorithm: VllmAlgorithm, seed: Option<&str>) -> Dialect {
    let mut hashing = VllmHashing::new(Version::new(version.0, version.1, 0)).algorithm(algorithm);
    hashing.seed = seed.map(Into::into);
    Dialect::vllm(hashing).expect("computable")
}

fn usual() -> Dialect {
    vllm((0, 30), VllmAlgorithm::Sha256, Some("42"))
}

/// What an engine that speaks `dialect` announces for a prompt, hashed `hashed` tokens at a time.
fn announced(dialect: &Dialect, salt: Option<&'static str>, hashed: u32) -> EngineBatch<'static> {
    let tokens: Vec<u32> = (0..64).collect();
    let size = BlockSize::new(hashed).expect("not zero");
    let mut prompt = Prompt::new(&tokens);
    if let Some(salt) = salt {
        prompt = prompt.salt(salt);
    }
    let hashes = DialectHasher::new(dialect.clone(), size).hash(&prompt).expect("computable");
    let per_block = 16 / hashed as usize;
    let hashes = hashes.iter().skip(per_block - 1).step_by(per_block).map(|hash| EngineHash::new(hash.get()));
    let mut extra_keys = vec![Vec::new(); 4];
    extra_keys[0].extend(salt.map(|salt| ExtraKey::Text(salt.into())));
    let stored = EngineStored {
        hashes: hashes.collect(),
        tokens: TokenIds::Plain(tokens),
        block_size: 16,
        extra_keys,
        ..EngineStored::default()
    };
    EngineBatch { events: vec![EngineEvent::Stored(stored)], ..EngineBatch::default() }
}

fn cause(taken_for: Dialect, batch: &EngineBatch<'_>) -> MismatchCause {
    let mut verifier = Verifier::new(VerifyConfig::every(taken_for, 1));
    let found = verifier.look_at(batch).expect("they disagree");
    assert_eq!(verifier.stats().mismatched, 4);
    assert_eq!(verifier.stats().last_mismatch, Some(found.clone()));
    assert_eq!(verifier.look_at(batch), None, "told once");
    found.cause
}

#[test]
fn an_engine_that_speaks_its_dialect_agrees() {
    let mut verifier = Verifier::new(VerifyConfig::every(usual(), 1));
    assert_eq!(verifier.look_at(&announced(&usual(), None, 16)), None);
    assert_eq!(verifier.look_at(&announced(&usual(), Some("s"), 16)), None);
    assert_eq!((verifier.stats().matched, verifier.stats().mismatched), (8, 0));
}

#[test]
fn each_setting_that_differs_is_named() {
    let seeded = vllm((0, 30), VllmAlgorithm::Sha256, Some("0"));
    assert_eq!(cause(usual(), &announced(&seeded, None, 16)), MismatchCause::Seed { actual: Some(seeded) });
    let odd = vllm((0, 30), VllmAlgorithm::Sha256, Some("of this process alone"));
    assert_eq!(cause(usual(), &announced(&odd, None, 16)), MismatchCause::Seed { actual: None });
    let cbor = vllm((0, 30), VllmAlgorithm::Sha256Cbor, Some("42"));
    assert_eq!(cause(usual(), &announced(&cbor, None, 16)), MismatchCause::Algorithm { actual: cbor });
    let xxhash = vllm((0, 30), VllmAlgorithm::XxhashCbor, Some("0"));
    assert_eq!(cause(usual(), &announced(&xxhash, None, 16)), MismatchCause::Algorithm { actual: xxhash });
    let tagged = vllm((0, 32), VllmAlgorithm::Sha256, Some("42"));
    assert_eq!(cause(usual(), &announced(&tagged, Some("s"), 16)), MismatchCause::Version { actual: Some(tagged) });
    assert_eq!(cause(usual(), &announced(&usual(), None, 8)), MismatchCause::BlockSize { hashed: 8, announced: 16 });
}

#[test]
fn the_warning_says_what_was_seen_and_what_to_do() {
    let odd = vllm((0, 30), VllmAlgorithm::Sha256, Some("of this process alone"));
    let mut verifier = Verifier::new(VerifyConfig::every(usual(), 1));
    let text = verifier.look_at(&announced(&odd, None, 16)).expect("they disagree").to_string();
    assert!(text.contains("where vLLM 0.30.0 sha256, seed \"42\" gives"), "{text}");
    assert!(text.contains("set it to one value on every engine, or use token mode"), "{text}");
}

#[test]
fn what_follows_a_chosen_store_is_checked_and_what_follows_others_cannot_be() {
    let mut whole = announced(&usual(), None, 16);
    let EngineEvent::Stored(stored) = &mut whole.events[0] else { unreachable!("a store") };
    let tail = EngineStored {
        parent: Some(stored.hashes[1]),
        hashes: stored.hashes.split_off(2),
        tokens: TokenIds::Plain((32..64).collect()),
        extra_keys: vec![Vec::new(); 2],
        ..stored.clone()
    };
    stored.tokens.truncate(32);
    stored.extra_keys.truncate(2);
    let tail = EngineBatch { events: vec![EngineEvent::Stored(tail)], ..EngineBatch::default() };

    let mut verifier = Verifier::new(VerifyConfig::every(usual(), 1));
    verifier.look_at(&tail);
    assert_eq!(verifier.stats().unverifiable, 2);
    verifier.look_at(&whole);
    verifier.look_at(&tail);
    assert_eq!((verifier.stats().matched, verifier.stats().unverifiable), (4, 2));

    // Another turn may go on from any block of a chain that is followed.
    let EngineEvent::Stored(stored) = &tail.events[0] else { unreachable!("a store") };
    let mut branch = stored.clone();
    branch.parent = Some(branch.hashes.remove(0));
    branch.tokens = TokenIds::Plain((48..64).collect());
    branch.extra_keys.pop();
    verifier.look_at(&EngineBatch { events: vec![EngineEvent::Stored(branch)], ..EngineBatch::default() });
    assert_eq!((verifier.stats().matched, verifier.stats().unverifiable), (5, 2));
}

#[test]
fn an_adapter_whose_path_is_not_known_cannot_be_told() {
    let tagged = vllm((0, 32), VllmAlgorithm::Sha256, Some("42"));
    let tokens: Vec<u32> = (0..16).collect();
    let prompt = Prompt::new(&tokens).adapter(Adapter::named("sql").path("/adapters/sql"));
    let size = BlockSize::new(16).expect("not zero");
    let hash = DialectHasher::new(tagged.clone(), size).hash(&prompt).expect("computable")[0];
    let stored = EngineStored {
        hashes: vec![EngineHash::new(hash.get())],
        tokens: TokenIds::Plain(tokens),
        block_size: 16,
        lora_name: Some("sql".into()),
        extra_keys: vec![vec![ExtraKey::Text("sql".into())]],
        ..EngineStored::default()
    };
    let mut verifier = Verifier::new(VerifyConfig::every(tagged, 1));
    verifier.look_at(&EngineBatch { events: vec![EngineEvent::Stored(stored)], ..EngineBatch::default() });
    assert_eq!((verifier.stats().mismatched, verifier.stats().unverifiable), (0, 1));
}

#[test]
fn one_of_so_many_stores_is_checked() {
    let mut verifier = Verifier::new(VerifyConfig::every(usual(), 10));
    for _ in 0..100 {
        verifier.look_at(&announced(&usual(), None, 16));
    }
    assert_eq!(verifier.stats().matched, 40);
}
