//! vLLM's golden vectors: roots, serialized bytes, digests, announced forms, generated tokens, coarser groups.

use std::num::NonZeroUsize;

use kv_index::engine::vllm::{VllmHashing, coarser};
use kv_index::engine::{Adapter, ChainBuffer, Dialect, DialectError, DialectHasher, Embeds, Media, Prompt, Version};
use kv_index::{BlockHash, BlockSize, ChainSource};
use serde_json::Value;

use crate::fields::{Fields, bytes, hex, hexes, number, text};

pub(crate) fn file(file: &mut Fields, version: Version) -> usize {
    file.skip("meta");
    for root in file.get("none_hashes").and_then(array).unwrap_or_default() {
        check_root(Fields::new("none_hashes", root), version);
    }
    if let Some(hybrid) = file.get("hybrid") {
        check_hybrid(Fields::new("hybrid", hybrid), version);
    }
    let cases = file.list("cases");
    let run = cases.len();
    cases.into_iter().for_each(|case| Case::read(Fields::case(case), version).check());
    run
}

fn check_root(mut root: Fields, version: Version) {
    let hashing = hashing(&mut root, version);
    let seed = root.text("seed_string");
    let dialect = match Dialect::vllm(hashing) {
        Ok(dialect) => dialect,
        Err(error) => {
            assert!(matches!(error, DialectError::RandomSeed { .. }), "{error}");
            assert!(root.flag("two_calls_differ"));
            assert_eq!(root.text("none_hash"), None);
            return root.finish();
        }
    };
    let prompt = Prompt::<u32>::new(&[]);
    let digest = dialect.root(&prompt).map(|root| root.to_string());
    assert_eq!(digest, root.text("none_hash"), "{dialect}: {seed:?}");
    let hasher = DialectHasher::new(dialect, BlockSize::new(16).unwrap());
    let serialized = hasher.preimages(&prompt).unwrap();
    assert_eq!(Some(hex(&serialized.root)), root.text("serialized_hex"), "{seed:?}");
    assert!(serialized.blocks.is_empty());
    root.finish();
}

fn check_hybrid(mut hybrid: Fields, version: Version) {
    hybrid.skip("note");
    let algorithm = hybrid.text("algo").unwrap().parse().unwrap();
    let dialect = Dialect::vllm(VllmHashing::new(version).algorithm(algorithm)).unwrap();
    let size = hybrid.number("hash_block_size");
    let hasher = DialectHasher::new(dialect, BlockSize::new(size as u32).unwrap());
    let tokens = hybrid.numbers("prompt_token_ids");
    let fine = hasher.digests(&Prompt::new(&tokens)).unwrap();
    let groups = hybrid.take("with_group_id");
    for (group, key) in groups.as_object().unwrap() {
        assert_eq!(
            text(key),
            format!("{}{:08x}", fine[0], group.parse::<u32>().unwrap()),
            "the hash has no group in it"
        );
    }
    let (coarse_size, coarse) = hybrid.prefixed("hashes_viewed_at_").unwrap();
    let times = NonZeroUsize::new(coarse_size.parse::<usize>().unwrap() / size).unwrap();
    let viewed: Vec<_> = coarser(&fine, times).collect();
    assert_eq!(hexes(&viewed), array(coarse).unwrap().iter().map(text).collect::<Vec<_>>());
    assert_eq!(hexes(&fine), hybrid.texts(&format!("hashes_{size}")));
    hybrid.finish();
}

struct Case {
    fields: Fields,
    hasher: DialectHasher,
    tokens: Vec<i128>,
    prompt_tokens: usize,
    lora: Option<(String, String)>,
    salt: Option<String>,
    media: Vec<(String, usize, usize)>,
    rows: Option<Vec<Vec<u8>>>,
}

impl Case {
    fn read(mut fields: Fields, version: Version) -> Self {
        let mut hashing = hashing(&mut fields, version);
        if fields.flag("mm_identifier_strings_are_same_object") {
            hashing = hashing.shared_identifiers();
        }
        fields.skip("none_hash_seed");
        let size = BlockSize::new(fields.number("block_size") as u32).unwrap();
        let hasher = DialectHasher::new(Dialect::vllm(hashing).unwrap(), size);
        let rows = fields.get("prompt_embeds_rows_hex").and_then(array);
        let rows = rows.map(|rows| rows.iter().map(|row| bytes(&text(row))).collect::<Vec<_>>());
        let mut tokens = fields.numbers("prompt_token_ids");
        if let (true, Some(rows)) = (tokens.is_empty(), &rows) {
            tokens = vec![0; rows.len()];
        }
        let prompt_tokens = tokens.len();
        tokens.extend(fields.numbers("output_token_ids"));
        fields.skip("lora_int_id");
        let (name, path) = (fields.text("lora_name"), fields.text("lora_path"));
        let lora = name.map(|name| (name, path.expect("an adapter has a path")));
        let salt = fields.text("cache_salt");
        let media = fields.list("mm_features").into_iter().map(|item| {
            let mut item = Fields::new("mm_features", item);
            let read = (item.text("identifier").unwrap(), item.number("offset"), item.number("length"));
            item.finish();
            read
        });
        let media = media.collect();
        Self { fields, hasher, tokens, prompt_tokens, lora, salt, media, rows }
    }

    fn check(mut self) {
        let rows = self.rows.take();
        let flat = rows.as_ref().map(|rows| rows.concat());
        let media: Vec<_> = self
            .media
            .iter()
            .map(|(identifier, offset, length)| Media { identifier, offset: *offset, length: *length })
            .collect();
        let mut prompt = Prompt::new(&self.tokens).generated_after(self.prompt_tokens).media(&media);
        prompt.adapter = self.lora.as_ref().map(|(name, path)| Adapter::named(name).path(path));
        prompt.salt = self.salt.as_deref();
        if let (Some(rows), Some(bytes)) = (&rows, &flat) {
            prompt = prompt.embeds(Embeds { bytes, row: rows[0].len() });
        }
        let Self { mut fields, hasher, .. } = self;
        let name = fields.name().to_owned();
        assert_eq!(hasher.dialect().root(&prompt).unwrap().to_string(), fields.text("none_hash").unwrap(), "{name}");
        let serialized = hasher.preimages(&prompt).unwrap();
        if fields.has("serialized_hex_per_block") {
            let blocks: Vec<_> = serialized.blocks.iter().map(|block| hex(block)).collect();
            assert_eq!(blocks, fields.texts("serialized_hex_per_block"), "{name}");
        }
        let digests = hasher.digests(&prompt).unwrap();
        assert_eq!(hexes(&digests), fields.texts("block_hashes_hex"), "{name}");
        assert_eq!(fields.list("extra_keys_per_block").len(), digests.len(), "{name}");
        let announced = fields.numbers("block_hashes_event_u64");
        let announced: Vec<_> = announced.iter().map(|&hash| BlockHash::new(hash.try_into().unwrap())).collect();
        assert_eq!(hasher.hash(&prompt).unwrap(), announced, "{name}");
        let mut before = prompt;
        before.tokens = &prompt.tokens[..prompt.prompt_tokens];
        let prefilled = hasher.digests(&before).unwrap();
        assert_eq!(prefilled.len(), fields.number("num_hashes_from_prompt"), "{name}");
        assert_eq!(prefilled, digests[..prefilled.len()], "{name}");
        check_lazy(&hasher, &prompt, &announced, &name);
        fields.finish();
    }
}

/// The same case lazily, a block at a time, if its tokens are of 32 bits.
fn check_lazy(hasher: &DialectHasher, prompt: &Prompt<'_, i128>, expected: &[BlockHash], name: &str) {
    let Ok(tokens) = prompt.tokens.iter().map(|&id| u32::try_from(id)).collect::<Result<Vec<_>, _>>() else { return };
    let mut narrow = Prompt::new(&tokens).generated_after(prompt.prompt_tokens).media(prompt.media);
    (narrow.adapter, narrow.salt, narrow.embeds) = (prompt.adapter, prompt.salt, prompt.embeds);
    let mut buffer = ChainBuffer::default();
    let mut chain = hasher.lazy(&narrow, &mut buffer).unwrap();
    for blocks in 0..=expected.len() {
        assert_eq!(chain.hash_up_to(blocks), &expected[..blocks], "{name}");
    }
}

fn hashing(fields: &mut Fields, version: Version) -> VllmHashing {
    let algorithm = fields.text("algo").unwrap().parse().unwrap();
    let hashing = VllmHashing::new(version).algorithm(algorithm);
    match fields.text("pythonhashseed") {
        Some(seed) => hashing.seed(seed),
        None => hashing,
    }
}

fn array(value: Value) -> Option<Vec<Value>> {
    match value {
        Value::Array(items) => Some(items),
        _ => None,
    }
}

#[test]
fn numbers_of_either_sign_are_read() {
    assert_eq!(number(&Value::from(u64::MAX)), i128::from(u64::MAX));
    assert_eq!(number(&Value::from(-1)), -1);
}
