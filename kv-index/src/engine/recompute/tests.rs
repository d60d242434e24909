//! Against what engines announced, as captured from them.

use super::*;

fn stored<'a>(hashes: &[EngineHash], tokens: TokenIds, block_size: u32) -> EngineStored<'a> {
    let extra_keys = vec![Vec::new(); hashes.len()];
    EngineStored { hashes: hashes.to_vec(), tokens, block_size, extra_keys, ..EngineStored::default() }
}

fn names(each: &[(EngineHash, ChainState)]) -> Vec<EngineHash> {
    each.iter().map(|(hash, _)| *hash).collect()
}

#[test]
fn what_an_event_does_not_tell_is_not_guessed() {
    let dialects = [
        #[cfg(feature = "vllm")]
        Dialect::vllm(crate::engine::vllm::VllmHashing::new(crate::engine::Version::new(0, 29, 0))),
        #[cfg(feature = "sglang")]
        Dialect::sglang(crate::engine::sglang::SglangHashing::new(crate::engine::Version::new(0, 5, 23))),
        #[cfg(feature = "trtllm")]
        Dialect::trtllm(crate::engine::trtllm::TrtllmHashing::new(crate::engine::trtllm::TrtllmForm::V2Sha256)),
    ];
    let one = [EngineHash::new(1)];
    for dialect in dialects.map(Result::unwrap) {
        let told = |event: &EngineStored<'_>| dialect.recompute(event, None).map(|_| ());
        let whole = stored(&one, TokenIds::Plain(vec![1, 2]), 2);
        assert_eq!(told(&whole), Ok(()));
        assert_eq!(told(&stored(&one, TokenIds::Plain(vec![]), 2)), Err(Unverifiable::NoTokens));
        assert_eq!(told(&stored(&one, TokenIds::Plain(vec![1]), 0)), Err(Unverifiable::NoTokens));
        assert_eq!(told(&stored(&one, TokenIds::Wide(2), 2)), Err(Unverifiable::WideTokens));
        assert_eq!(told(&stored(&one, TokenIds::Plain(vec![1, 2, 3, 4]), 2)), Err(Unverifiable::Sparse));
        assert_eq!(told(&stored(&one, TokenIds::Plain(vec![1]), u32::MAX)), Err(Unverifiable::Sparse));
        let orphan = EngineStored { parent: Some(EngineHash::new(9)), ..whole };
        assert_eq!(told(&orphan), Err(Unverifiable::UnknownParent));
    }
}

#[cfg(any(feature = "vllm", feature = "sglang"))]
mod captured {
    use std::borrow::Cow;
    use std::collections::HashMap;

    use serde_json::Value;

    use super::*;

    /// The stores of a file's captured messages, each with its name.
    pub(super) fn captured(text: &str) -> Vec<(String, Value)> {
        let file: Value = serde_json::from_str(text).unwrap();
        let messages = file["messages"].as_array().unwrap().iter();
        let captured = messages.filter(|message| message["name"].as_str().unwrap().starts_with("engine/"));
        let named = captured.flat_map(|message| {
            let events = message["decoded_untyped"][1].as_array().unwrap().clone();
            let name = message["name"].as_str().unwrap().to_owned();
            events.into_iter().map(move |event| (name.clone(), event))
        });
        named.filter(|(_, event)| event["type"] == "BlockStored" || event[0] == "BlockStored").collect()
    }

    pub(super) fn ids(value: &Value) -> Vec<u32> {
        value.as_array().unwrap().iter().map(|id| id.as_u64().unwrap() as u32).collect()
    }

    pub(super) fn text(value: &Value) -> Option<Cow<'_, str>> {
        value.as_str().map(Cow::Borrowed)
    }

    pub(super) fn hash(value: &Value) -> EngineHash {
        match (value.as_u64(), value.as_i64(), value["bytes_hex"].as_str()) {
            (Some(raw), ..) => EngineHash::new(raw),
            (_, Some(raw), _) => EngineHash::from_signed(raw),
            (_, _, Some(hex)) => EngineHash::new(u64::from_str_radix(&hex[hex.len() - 16..], 16).unwrap()),
            _ => panic!("{value}"),
        }
    }

    pub(super) fn hashes(value: &Value) -> Vec<EngineHash> {
        value.as_array().unwrap().iter().map(hash).collect()
    }

    /// Recomputes each event from where the chain stood, and says how many could be.
    pub(super) fn follow(dialect: &Dialect, events: &[(String, EngineStored<'_>)]) -> (usize, Vec<Unverifiable>) {
        let mut states: HashMap<EngineHash, ChainState> = HashMap::new();
        let (mut told, mut untold) = (0, Vec::new());
        for (name, event) in events {
            let before = event.parent.and_then(|parent| states.get(&parent)).cloned();
            match dialect.recompute(event, before.as_ref()) {
                Ok(each) => {
                    assert_eq!(names(&each), event.hashes, "{name}");
                    states.extend(each);
                    told += 1;
                }
                Err(why) => untold.push(why),
            }
        }
        (told, untold)
    }
}

#[cfg(feature = "vllm")]
mod vllm {
    use std::borrow::Cow;

    use serde_json::Value;

    use super::captured::{captured, follow, hash, hashes, ids, text};
    use super::*;
    use crate::engine::vllm::{VllmAlgorithm, VllmHashing};
    use crate::engine::{ExtraKey, Version};

    fn dialect(release: Version, algorithm: VllmAlgorithm) -> Dialect {
        Dialect::vllm(VllmHashing::new(release).algorithm(algorithm)).unwrap()
    }

    fn extra(value: &Value) -> Vec<ExtraKey<'_>> {
        let keys = value.as_array().into_iter().flatten();
        keys.map(|key| match (key.as_str(), key.as_array().map(Vec::as_slice)) {
            (Some(text), _) => ExtraKey::Text(text.into()),
            (_, Some([identifier, offset])) => {
                ExtraKey::Media { identifier: text(identifier).unwrap(), offset: offset.as_i64().unwrap() }
            }
            _ => panic!("{key}"),
        })
        .collect()
    }

    fn decode(event: &Value) -> EngineStored<'_> {
        EngineStored {
            hashes: hashes(&event["block_hashes"]),
            parent: Some(&event["parent_block_hash"]).filter(|parent| !parent.is_null()).map(hash),
            tokens: TokenIds::Plain(ids(&event["token_ids"])),
            block_size: ids(&Value::from(vec![event["block_size"].clone()]))[0],
            lora_name: text(&event["lora_name"]),
            extra_keys: event["extra_keys"].as_array().into_iter().flatten().map(extra).collect(),
            ..EngineStored::default()
        }
    }

    #[test]
    fn captured_events_are_recomputed() {
        let captured = captured(include_str!("../../../tests/vectors/vllm_events.json"));
        let events: Vec<_> = captured.iter().map(|(name, event)| (name.clone(), decode(event))).collect();
        let dialect = dialect(Version::new(0, 29, 0), VllmAlgorithm::Sha256Cbor);
        let (told, untold) = follow(&dialect, &events);
        assert_eq!(told, 8);
        // The sparse group of the hybrid model, and no other.
        assert_eq!(untold, [Unverifiable::Sparse]);
    }

    #[test]
    fn another_algorithm_disagrees() {
        let captured = captured(include_str!("../../../tests/vectors/vllm_events.json"));
        let event = decode(&captured[0].1);
        let got = dialect(Version::new(0, 29, 0), VllmAlgorithm::Sha256).recompute(&event, None).unwrap();
        assert_ne!(names(&got), event.hashes);
    }

    #[test]
    fn keys_are_told_apart_or_not_at_all() {
        let event = |extra: Vec<ExtraKey<'static>>, lora: Option<&'static str>, parent: Option<u64>| EngineStored {
            extra_keys: vec![extra],
            lora_name: lora.map(Cow::Borrowed),
            parent: parent.map(EngineHash::new),
            ..stored(&[EngineHash::new(1)], TokenIds::Plain(vec![1, 2]), 2)
        };
        let text = |text: &'static str| ExtraKey::Text(text.into());
        let (old, new) = (Version::new(0, 30, 0), Version::new(0, 31, 0));
        let told = |release, event: &EngineStored<'_>| {
            let dialect = dialect(release, VllmAlgorithm::Sha256);
            let before = ChainState::after(BlockDigest::from([7; 32]), None);
            dialect.recompute(event, Some(&before)).map(|each| each[0].0)
        };
        let salted = event(vec![text("a")], None, None);
        let adapted = event(vec![text("a")], Some("a"), None);
        let both = event(vec![text("a"), text("a")], Some("a"), None);
        assert_eq!(told(old, &salted), told(old, &adapted), "untagged, a salt is a name");
        assert_ne!(told(old, &salted), told(old, &both));
        assert_ne!(told(old, &salted), told(new, &salted));
        assert_eq!(told(new, &adapted), Err(Unverifiable::AdapterPath));
        for unclear in [
            event(vec![text("b")], None, Some(1)),
            event(vec![text("b"), text("c")], None, None),
            event(vec![], Some("a"), None),
            event(vec![ExtraKey::Other], None, None),
            event(vec![ExtraKey::Digest(Cow::Borrowed(&[1; 5]))], None, None),
            EngineStored { extra_keys: vec![], ..salted.clone() },
        ] {
            assert_eq!(told(old, &unclear), Err(Unverifiable::ExtraKeys), "{unclear:?}");
        }
        assert_eq!(told(old, &event(vec![ExtraKey::Number(4)], None, None)), Err(Unverifiable::NotEstablished));
    }
}

#[cfg(feature = "sglang")]
mod sglang {
    use serde_json::Value;

    use super::captured::{captured, follow, hash, hashes, ids, text};
    use super::*;
    use crate::engine::Version;
    use crate::engine::sglang::{SglangFormat, SglangHashing};

    fn decode(event: &Value) -> EngineStored<'_> {
        let tokens = event[3].as_array().unwrap();
        let tokens = match tokens.first().is_some_and(Value::is_array) {
            true => TokenIds::Pairs(tokens.iter().map(|pair| ids(pair).try_into().unwrap()).collect()),
            false => TokenIds::Plain(ids(&event[3])),
        };
        EngineStored {
            hashes: hashes(&event[1]),
            parent: Some(&event[2]).filter(|parent| !parent.is_null()).map(hash),
            tokens,
            block_size: event[4].as_u64().unwrap() as u32,
            salt: text(&event[7]["cache_salt"]),
            ..EngineStored::default()
        }
    }

    fn dialect(hashing: SglangHashing) -> Dialect {
        Dialect::sglang(hashing).unwrap()
    }

    #[test]
    fn captured_events_are_recomputed() {
        let captured = captured(include_str!("../../../tests/vectors/sglang_events.json"));
        let events: Vec<_> = captured.iter().map(|(name, event)| (name.clone(), decode(event))).collect();
        let (pairs, plain): (Vec<_>, Vec<_>) =
            events.into_iter().partition(|(_, event)| matches!(event.tokens, TokenIds::Pairs(_)));
        let hashing = SglangHashing::new(Version::new(0, 5, 18));
        assert_eq!(follow(&dialect(hashing.eagle()), &pairs), (1, vec![]));
        // Two events follow one that the sample does not have.
        assert_eq!(follow(&dialect(hashing), &plain), (2, vec![Unverifiable::UnknownParent; 2]));
        let got = dialect(hashing).recompute(&pairs[0].1, None).unwrap();
        assert_ne!(names(&got), pairs[0].1.hashes, "a dialect without pairs disagrees");
        assert_eq!(follow(&dialect(hashing.eagle()), &plain).1[2], Unverifiable::NotPairs);
    }

    #[test]
    fn folded_hashes_are_recomputed_from_where_the_chain_stood() {
        let hashing = SglangHashing::new(Version::new(0, 5, 23)).format(SglangFormat::Dynamo);
        let dialect = dialect(hashing);
        let tokens: Vec<u32> = (0..8).collect();
        let prompt = crate::engine::Prompt::new(&tokens).salt("s");
        let hasher = crate::engine::DialectHasher::new(dialect.clone(), crate::BlockSize::new(2).unwrap());
        let hashes: Vec<_> = hasher.hash(&prompt).unwrap().iter().map(|hash| EngineHash::new(hash.get())).collect();
        let event = |hashes: &[EngineHash], tokens: &[u32]| EngineStored {
            salt: Some("s".into()),
            ..stored(hashes, TokenIds::Plain(tokens.to_vec()), 2)
        };
        let first = dialect.recompute(&event(&hashes[..3], &tokens[..6]), None).unwrap();
        assert_eq!(names(&first), hashes[..3]);
        let (parent, state) = first[2].clone();
        let last = EngineStored { parent: Some(parent), ..event(&hashes[3..], &tokens[6..]) };
        assert_eq!(names(&dialect.recompute(&last, Some(&state)).unwrap()), hashes[3..]);
        let adapted = EngineStored { lora_name: Some("sql".into()), ..last };
        assert_eq!(dialect.recompute(&adapted, Some(&state)).unwrap_err(), Unverifiable::AdapterKey);
    }
}

#[cfg(feature = "trtllm")]
#[test]
fn the_first_form_of_trtllm_needs_no_state() {
    use crate::engine::trtllm::{TrtllmForm, TrtllmHashing};

    let dialect = Dialect::trtllm(TrtllmHashing::new(TrtllmForm::V1BlockKey)).unwrap();
    let hashes = [0x0003_488f_8809_6b5f, 0x25d0_4a50_c543_affa].map(EngineHash::new);
    let event = stored(&hashes[1..], TokenIds::Plain(vec![70_000, 151_935, 0x7fff_ffff, 0]), 4);
    let event = EngineStored { parent: Some(hashes[0]), ..event };
    assert_eq!(names(&dialect.recompute(&event, None).unwrap()), hashes[1..]);
    let salted = EngineStored { salt: Some("s".into()), ..event };
    assert_eq!(dialect.recompute(&salted, None).unwrap_err(), Unverifiable::NotEstablished);
}
