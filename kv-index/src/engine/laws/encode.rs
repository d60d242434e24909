//! Msgpack encoder of batches in the newest listed vLLM's form, for round-trip tests.

use crate::engine::event::{EngineBatch, EngineEvent, EngineHash, EngineRemoved, EngineStored, ExtraKey, TokenIds};

/// A batch as a payload of maps. Events that only TensorRT-LLM has are left out.
#[must_use]
pub fn encode(batch: &EngineBatch<'_>) -> Vec<u8> {
    let events: Vec<Vec<u8>> = batch.events.iter().filter_map(event).collect();
    let mut bytes = vec![0x93, 0xcb];
    bytes.extend(batch.timestamp.to_bits().to_be_bytes());
    list(&mut bytes, &events, |bytes, event| bytes.extend(event));
    match batch.rank {
        Some(rank) => unsigned(&mut bytes, rank.into()),
        None => bytes.push(NIL),
    }
    bytes
}

fn event(event: &EngineEvent<'_>) -> Option<Vec<u8>> {
    let mut fields = Fields::default();
    match event {
        EngineEvent::Stored(event) => stored(&mut fields, event),
        EngineEvent::Removed(event) => removed(&mut fields, event),
        EngineEvent::Cleared => fields.text("type", Some("AllBlocksCleared")),
        _ => return None,
    }
    let mut bytes = vec![0xde, 0, fields.count];
    bytes.extend(fields.bytes);
    Some(bytes)
}

fn stored(fields: &mut Fields, event: &EngineStored<'_>) {
    fields.text("type", Some("BlockStored"));
    list(fields.named("block_hashes"), &event.hashes, |bytes, hash| unsigned(bytes, hash.get()));
    fields.number("parent_block_hash", event.parent.map(EngineHash::get));
    let bytes = fields.named("token_ids");
    match &event.tokens {
        TokenIds::Plain(ids) => list(bytes, ids, |bytes, id| unsigned(bytes, (*id).into())),
        TokenIds::Pairs(pairs) => list(bytes, pairs, |bytes, [first, second]| {
            bytes.push(0x92);
            unsigned(bytes, (*first).into());
            unsigned(bytes, (*second).into());
        }),
        TokenIds::Wide(count) => list(bytes, &vec![u64::MAX; *count], |bytes, id| unsigned(bytes, *id)),
    }
    fields.number("block_size", Some(event.block_size.into()));
    event.lora_id.into_iter().for_each(|id| signed(fields.named("lora_id"), id));
    fields.text("medium", event.medium.as_deref());
    fields.text("lora_name", event.lora_name.as_deref());
    list(fields.named("extra_keys"), &event.extra_keys, |bytes, keys| list(bytes, keys, key));
    fields.number("group_idx", event.group.map(u64::from));
    fields.text("kv_cache_spec_kind", event.kind.as_deref());
    fields.number("kv_cache_spec_sliding_window", event.window.map(u64::from));
    fields.text("locality", event.locality.as_deref());
    fields.text("ownership", event.ownership.as_deref());
    fields.text("session_id", event.session.as_deref());
    fields.text("cache_salt", event.salt.as_deref());
}

fn removed(fields: &mut Fields, event: &EngineRemoved<'_>) {
    fields.text("type", Some("BlockRemoved"));
    list(fields.named("block_hashes"), &event.hashes, |bytes, hash| signed(bytes, hash.get() as i64));
    fields.text("medium", event.medium.as_deref());
    fields.number("group_idx", event.group.map(u64::from));
    fields.text("locality", event.locality.as_deref());
    fields.text("ownership", event.ownership.as_deref());
}

fn key(bytes: &mut Vec<u8>, key: &ExtraKey<'_>) {
    match key {
        ExtraKey::Text(value) => text(bytes, value),
        ExtraKey::Media { identifier, offset } => {
            bytes.push(0x92);
            text(bytes, identifier);
            signed(bytes, *offset);
        }
        ExtraKey::Digest(digest) => sized(bytes, 0xc6, digest),
        ExtraKey::Number(number) => signed(bytes, *number),
        ExtraKey::Other => bytes.push(0xc2),
    }
}

const NIL: u8 = 0xc0;

#[derive(Default)]
struct Fields {
    count: u8,
    bytes: Vec<u8>,
}

impl Fields {
    fn named(&mut self, name: &str) -> &mut Vec<u8> {
        self.count += 1;
        text(&mut self.bytes, name);
        &mut self.bytes
    }

    fn text(&mut self, name: &str, value: Option<&str>) {
        match value {
            Some(value) => text(self.named(name), value),
            None => self.named(name).push(NIL),
        }
    }

    fn number(&mut self, name: &str, value: Option<u64>) {
        match value {
            Some(value) => unsigned(self.named(name), value),
            None => self.named(name).push(NIL),
        }
    }
}

fn list<T>(bytes: &mut Vec<u8>, items: &[T], mut each: impl FnMut(&mut Vec<u8>, &T)) {
    bytes.push(0xdd);
    bytes.extend((items.len() as u32).to_be_bytes());
    items.iter().for_each(|item| each(bytes, item));
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    sized(bytes, 0xdb, text.as_bytes());
}

fn sized(bytes: &mut Vec<u8>, marker: u8, contents: &[u8]) {
    bytes.push(marker);
    bytes.extend((contents.len() as u32).to_be_bytes());
    bytes.extend(contents);
}

fn unsigned(bytes: &mut Vec<u8>, number: u64) {
    bytes.push(0xcf);
    bytes.extend(number.to_be_bytes());
}

fn signed(bytes: &mut Vec<u8>, number: i64) {
    bytes.push(0xd3);
    bytes.extend(number.to_be_bytes());
}
