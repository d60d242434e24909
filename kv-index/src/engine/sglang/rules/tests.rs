//! SGLang's refusals and namespaces, case by case.

use super::*;
use crate::BlockSize;
use crate::engine::prompt::{Adapter, Media};
use crate::engine::{Dialect, DialectHasher};

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

fn hasher(hashing: SglangHashing) -> DialectHasher {
    DialectHasher::new(Dialect::sglang(hashing).unwrap(), BlockSize::new(4).unwrap())
}

#[test]
fn releases_and_formats_that_are_not_established_are_refused() {
    let refused = |hashing| Dialect::sglang(hashing).err();
    let engine = EngineKind::Sglang;
    let old = DialectError::PythonHash { engine, version: version("0.5.5"), since: version("0.5.6") };
    assert_eq!(refused(SglangHashing::new(version("0.5.5"))), Some(old));
    assert_eq!(refused(SglangHashing::new(version("0.5.6"))), None);
    for release in ["0.5.24", "0.6.0"] {
        let new = DialectError::TooNew { engine, version: version(release), newest: version("0.5.23") };
        assert_eq!(refused(SglangHashing::new(version(release))), Some(new));
    }
    let dynamo = |release| SglangHashing::new(version(release)).format(SglangFormat::Dynamo);
    let missing = DialectError::NoSuchFormat { version: version("0.5.21"), since: version("0.5.22") };
    assert_eq!(refused(dynamo("0.5.21")), Some(missing));
    assert_eq!(refused(dynamo("0.5.22")), None);
}

#[test]
fn adapters_known_by_name_are_refused_with_what_to_do() {
    let refused = |release| Dialect::sglang(SglangHashing::new(version(release)).adapters()).unwrap_err();
    let unlike = refused("0.5.23");
    assert_eq!(unlike, DialectError::AdapterUuid { version: version("0.5.23") });
    let dynamo = SglangHashing::new(version("0.5.22")).format(SglangFormat::Dynamo).adapters();
    assert_eq!(Dialect::sglang(dynamo), Err(DialectError::AdapterUuid { version: version("0.5.22") }));
    assert!(unlike.to_string().contains("use token mode"), "{unlike}");
    for release in ["0.5.18", "0.5.22"] {
        let alike = refused(release);
        assert_eq!(alike, DialectError::AdaptersAlike { version: version(release), since: version("0.5.23") });
        assert!(alike.to_string().contains("upgrade to 0.5.23"), "{alike}");
    }
}

#[test]
fn what_cannot_be_computed_is_refused_when_hashing() {
    let tokens = [1_u32; 8];
    let plain = Prompt::new(&tokens);
    let newest = hasher(SglangHashing::new(version("0.5.23")));
    assert_eq!(newest.hash(&plain.adapter(Adapter::named("ad"))), Err(HashError::AdapterKey));
    assert!(newest.hash(&plain.adapter(Adapter::named("ad")).extra_key("k")).is_ok());
    let media = [Media { identifier: "a", offset: 0, length: 1 }];
    let error = HashError::NotComputable { engine: EngineKind::Sglang, what: PromptFeature::Media };
    assert_eq!(newest.hash(&plain.media(&media)), Err(error));
    let old = hasher(SglangHashing::new(version("0.5.17")));
    assert!(matches!(old.hash(&plain.salt("s")), Err(HashError::NotEstablished { what: PromptFeature::Salt, .. })));
    assert_eq!(old.hash(&plain.salt("")), newest.hash(&plain), "an empty salt is none");
}

#[test]
fn token_ids_beyond_what_a_release_hashes_are_named() {
    let old = hasher(SglangHashing::new(version("0.5.22")));
    let new = hasher(SglangHashing::new(version("0.5.23")));
    let (engine, narrow) = (EngineKind::Sglang, u64::from(u32::MAX));
    for (hasher, id, most) in
        [(&old, 1_i128 << 32, narrow), (&old, -1, narrow), (&new, 1 << 64, u64::MAX), (&new, -7, u64::MAX)]
    {
        let got = hasher.hash(&Prompt::new(&[0, 1, 2, 3, 4, id, 6, 7]));
        assert_eq!(got, Err(HashError::Token { engine, id, position: 5, most }));
        assert!(hasher.hash(&Prompt::new(&[0, 1, 2, 3, 4, id])).is_ok(), "not in a whole page");
    }
    assert!(new.hash(&Prompt::new(&[0, 1, 2, i128::from(u64::MAX)])).is_ok());
    let pairs = hasher(SglangHashing::new(version("0.5.22")).eagle());
    assert!(pairs.hash(&Prompt::new(&[0, 1, 2, 3, -1])).is_err(), "the last pair has it");
}

#[test]
fn pairs_need_a_token_more() {
    let pairs = hasher(SglangHashing::new(version("0.5.18")).eagle());
    for (tokens, pages) in [(0, 0), (1, 0), (4, 0), (5, 1), (8, 1), (9, 2)] {
        assert_eq!(pairs.hash(&Prompt::new(&vec![1_u32; tokens])).unwrap().len(), pages, "{tokens} tokens");
    }
}
