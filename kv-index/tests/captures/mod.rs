//! Captured engine messages and the events they stand for: every field, or a panic.

use std::borrow::Cow;

use kv_index::engine::{EngineEvent, EngineHash, EngineRemoved, EngineStored, ExtraKey, TokenIds};
use serde_json::Value;

/// Where arrays have what maps name.
const STORED: [&str; 11] = [
    "block_hashes",
    "parent_block_hash",
    "token_ids",
    "block_size",
    "lora_id",
    "medium",
    "lora_name",
    "extra_keys",
    "group_idx",
    "kv_cache_spec_kind",
    "kv_cache_spec_sliding_window",
];
const REMOVED: [&str; 3] = ["block_hashes", "medium", "group_idx"];

/// Frames from their hex.
pub(crate) fn frames(value: &Value) -> Vec<Vec<u8>> {
    value.as_array().expect("frames").iter().map(bytes).collect()
}

/// Bytes from their hex.
pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    let hex = value.as_str().expect("hex");
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex")).collect()
}

/// The event that an engine's own decoder found.
pub(crate) fn expected(event: &Value) -> EngineEvent<'static> {
    let (tag, fields) = fields(event);
    let mut hashes = None;
    match tag {
        "BlockStored" => {
            let mut stored = EngineStored::default();
            fields.iter().for_each(|(name, value)| match *name {
                "block_hashes" => hashes = Some(all(value, hash)),
                name => store(&mut stored, name, value),
            });
            EngineEvent::Stored(EngineStored { hashes: hashes.expect("hashes"), ..stored })
        }
        "BlockRemoved" => {
            let mut removed = EngineRemoved::default();
            fields.iter().for_each(|(name, value)| match *name {
                "block_hashes" => hashes = Some(all(value, hash)),
                "medium" => removed.medium = text(value),
                "group_idx" => removed.group = number(value),
                "locality" => removed.locality = text(value),
                "ownership" => removed.ownership = text(value),
                other => panic!("a removed event has {other}"),
            });
            EngineEvent::Removed(EngineRemoved { hashes: hashes.expect("hashes"), ..removed })
        }
        "AllBlocksCleared" => {
            assert!(fields.is_empty(), "{event}");
            EngineEvent::Cleared
        }
        other => panic!("an event of type {other}"),
    }
}

/// The tag and the named fields of either form.
fn fields(event: &Value) -> (&str, Vec<(&str, &Value)>) {
    let Value::Array(places) = event else {
        let map = event.as_object().expect("an array or a map");
        let fields = map.iter().filter(|(name, _)| *name != "type").map(|(name, value)| (&**name, value)).collect();
        return (map["type"].as_str().expect("a type"), fields);
    };
    let (tag, places) = (places[0].as_str().expect("a type"), &places[1..]);
    let names = if tag == "BlockStored" { &STORED[..] } else { &REMOVED };
    assert!(places.len() <= names.len(), "{event}");
    let mut fields = Vec::new();
    for (name, value) in names.iter().zip(places) {
        match value {
            Value::Object(metadata) if *name == "lora_name" => {
                fields.extend(metadata.iter().map(|(name, value)| (&**name, value)));
            }
            _ => fields.push((*name, value)),
        }
    }
    (tag, fields)
}

fn store(stored: &mut EngineStored<'static>, name: &str, value: &Value) {
    match name {
        "parent_block_hash" => stored.parent = (!value.is_null()).then(|| hash(value)),
        "token_ids" => stored.tokens = tokens(value),
        "block_size" => stored.block_size = number(value).unwrap_or(0),
        "lora_id" => stored.lora_id = value.as_i64(),
        "medium" => stored.medium = text(value),
        "lora_name" => stored.lora_name = text(value),
        "extra_keys" if value.is_null() => {}
        "extra_keys" => stored.extra_keys = all(value, |keys| if keys.is_null() { vec![] } else { all(keys, key) }),
        "group_idx" => stored.group = number(value),
        "kv_cache_spec_kind" => stored.kind = text(value),
        "kv_cache_spec_sliding_window" => stored.window = number(value),
        "locality" => stored.locality = text(value),
        "ownership" => stored.ownership = text(value),
        "session_id" => stored.session = text(value),
        "cache_salt" => stored.salt = text(value),
        other => panic!("a stored event has {other}"),
    }
}

fn all<T>(value: &Value, each: impl Fn(&Value) -> T) -> Vec<T> {
    value.as_array().expect("a list").iter().map(each).collect()
}

fn text(value: &Value) -> Option<Cow<'static, str>> {
    assert!(value.is_null() || value.is_string(), "{value}");
    value.as_str().map(|text| text.to_owned().into())
}

fn number(value: &Value) -> Option<u32> {
    assert!(value.is_null() || value.is_u64(), "{value}");
    value.as_u64().map(|number| number.try_into().expect("a small number"))
}

fn hash(value: &Value) -> EngineHash {
    match (value.get("bytes_hex"), value.as_u64(), value.as_i64()) {
        (Some(hex), _, _) => EngineHash::from_bytes(&bytes(hex)).expect("eight bytes at least"),
        (_, Some(number), _) => EngineHash::new(number),
        (_, _, Some(number)) => EngineHash::from_signed(number),
        _ => panic!("a hash like {value}"),
    }
}

fn tokens(value: &Value) -> TokenIds {
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    let pair = |value: &Value| Some([id(value.get(0)?)?, id(value.get(1)?)?]);
    let Some(list) = value.as_array() else { return TokenIds::default() };
    if let Some(ids) = list.iter().map(id).collect() {
        return TokenIds::Plain(ids);
    }
    list.iter().map(pair).collect::<Option<_>>().map_or(TokenIds::Wide(list.len()), TokenIds::Pairs)
}

fn key(value: &Value) -> ExtraKey<'static> {
    match value {
        Value::String(text) => ExtraKey::Text(text.clone().into()),
        Value::Number(number) => ExtraKey::Number(number.as_i64().expect("a number with a sign")),
        Value::Object(_) => ExtraKey::Digest(bytes(&value["bytes_hex"]).into()),
        Value::Array(parts) => match &parts[..] {
            [Value::String(identifier), Value::Number(offset)] => {
                let offset = offset.as_i64().expect("an offset");
                ExtraKey::Media { identifier: identifier.clone().into(), offset }
            }
            _ => ExtraKey::Other,
        },
        other => panic!("a key like {other}"),
    }
}
