//! SGLang's golden vectors: pages, prior hashes, salts, pairs, wide tokens, namespaces, storage chains.

use kv_index::engine::sglang::{SglangFormat, SglangHashing};
use kv_index::engine::{Adapter, BlockDigest, Dialect, DialectHasher, HashError, Prompt, Version};
use kv_index::{BlockHash, BlockSize};
use sha2::{Digest, Sha256};

use crate::fields::{Fields, bytes, hexes, number, text};

/// The release of August 2026.
pub(crate) fn august(file: &mut Fields, version: Version) -> usize {
    let hashing = SglangHashing::new(version);
    if let Some(meta) = file.get("meta") {
        check_meta(Fields::new("meta", meta), hashing);
    }
    let cases = file.list("cases");
    let run = cases.len();
    for case in cases {
        let (case, mut fields) = Case::read(Fields::case(case), hashing);
        case.check_pages(&mut fields);
        if fields.has("event_block_hashes_i64") {
            case.check_events(&mut fields);
        }
        fields.finish();
    }
    run
}

/// Release 0.5.23, and 0.5.22 where the two are the same.
pub(crate) fn newest(file: &mut Fields) -> usize {
    file.skip("meta");
    let cases = file.list("cases");
    let run = cases.len();
    for case in cases {
        let mut fields = Fields::case(case);
        let format = match fields.text("event_format").as_deref() {
            Some("default") => SglangFormat::Default,
            Some("dynamo") => SglangFormat::Dynamo,
            other => panic!("{}: format {other:?}", fields.name()),
        };
        let wide = fields.get("wide").is_some_and(|wide| wide == true);
        let hashing = SglangHashing::new(Version::new(0, 5, 23)).format(format);
        let (case, mut fields) = Case::read(fields, hashing);
        assert_eq!(wide, case.tokens.iter().any(|&id| id > i128::from(u32::MAX)), "{}", case.name);
        let namespace = case.dialect().namespace(&case.prompt());
        assert_eq!(namespace.map(|seed| seed.to_string()), fields.text("namespace_seed_hex"), "{}", case.name);
        assert_eq!(fields.text("event_cache_salt"), case.salt, "{}", case.name);
        assert_eq!(fields.text("event_lora_name"), case.lora, "{}", case.name);
        case.check_announced(&fields.numbers("event_block_hashes_i64"));
        if format == SglangFormat::Dynamo && !wide {
            let mut older = SglangHashing::new(Version::new(0, 5, 22)).format(format);
            older.eagle = case.eagle;
            let older = hasher(older, case.size());
            assert_eq!(older.hash(&case.prompt()), case.hasher.hash(&case.prompt()), "{}", case.name);
        }
        case.check_storage(&fields.texts("storage_node_hash_hex"));
        fields.finish();
    }
    run
}

fn check_meta(mut meta: Fields, hashing: SglangHashing) {
    for field in ["engine", "source", "python", "n_cases", "algorithm", "salt_root"] {
        meta.skip(field);
    }
    for cut in meta.list("i64_truncation") {
        let digest = BlockDigest::new(&bytes(&text(&cut["hex"]))).unwrap();
        assert_eq!(i128::from(first_word(&digest)), number(&cut["i64"]));
    }
    let refused = meta.take("out_of_range_tokens");
    for (what, error) in refused.as_object().unwrap() {
        let id = match what.as_str() {
            "2^32" => 1_i128 << 32,
            "negative" => -1,
            other => panic!("out of range: {other}"),
        };
        assert!(text(error).starts_with("IndexError"));
        let hasher = DialectHasher::new(Dialect::sglang(hashing).unwrap(), BlockSize::new(2).unwrap());
        let got = hasher.hash(&Prompt::new(&[0, 1, 2, id])).unwrap_err();
        assert!(matches!(got, HashError::Token { position: 3, id: at, .. } if at == id), "{got}");
    }
    meta.finish();
}

struct Case {
    name: String,
    hasher: DialectHasher,
    tokens: Vec<i128>,
    salt: Option<String>,
    key: Option<String>,
    lora: Option<String>,
    prior: Option<BlockDigest>,
    eagle: bool,
    units: usize,
}

impl Case {
    fn read(mut fields: Fields, mut hashing: SglangHashing) -> (Self, Fields) {
        hashing.eagle = fields.flag("is_bigram");
        let tokens = fields.numbers("token_ids");
        let case = Self {
            name: fields.name().to_owned(),
            hasher: hasher(hashing, fields.number("page_size")),
            units: if hashing.eagle { tokens.len().saturating_sub(1) } else { tokens.len() },
            tokens,
            eagle: hashing.eagle,
            salt: fields.text("cache_salt"),
            key: fields.text("extra_key"),
            lora: fields.get("lora_name_registered").map(|name| text(&name)),
            prior: fields.text("prior_hash_hex").map(|prior| BlockDigest::new(&bytes(&prior)).unwrap()),
        };
        (case, fields)
    }

    fn dialect(&self) -> &Dialect {
        self.hasher.dialect()
    }

    fn size(&self) -> usize {
        self.hasher.block_size().tokens()
    }

    fn prompt(&self) -> Prompt<'_, i128> {
        let mut prompt = Prompt::new(&self.tokens);
        (prompt.salt, prompt.extra_key) = (self.salt.as_deref(), self.key.as_deref());
        prompt.adapter = self.lora.as_deref().map(Adapter::named);
        prompt
    }

    /// Without salts and keys: pages, the short one at the end with them, and all of it as one page.
    fn check_pages(&self, fields: &mut Fields) {
        let plain = Prompt::new(&self.tokens);
        let digests = |hasher: &DialectHasher, prior: Option<BlockDigest>, prompt: &Prompt<'_, i128>| match prior {
            Some(prior) => hasher.digests_after(&prior, prompt).unwrap(),
            None => hasher.digests(prompt).unwrap(),
        };
        let resized =
            |size: usize| DialectHasher::new(self.dialect().clone(), BlockSize::new(size as u32).expect("some units"));
        let mut pages = digests(&self.hasher, self.prior, &plain);
        if let Some(nodes) = fields.get("node_hash_value_hex") {
            assert_eq!(hexes(&pages), nodes.as_array().unwrap().iter().map(text).collect::<Vec<_>>(), "{}", self.name);
        }
        let whole = pages.len() * self.size();
        if self.units > whole {
            let rest = Prompt::new(&self.tokens[whole..]);
            pages.extend(digests(&resized(self.units - whole), pages.last().copied().or(self.prior), &rest));
        }
        assert_eq!(hexes(&pages), fields.texts("get_hash_str_pages_hex"), "{}", self.name);
        let words: Vec<_> = pages.iter().map(|page| i128::from(first_word(page))).collect();
        assert_eq!(words, fields.numbers("get_hash_str_pages_i64"), "{}", self.name);
        let at_once = (self.units > 0).then(|| digests(&resized(self.units), self.prior, &plain)[0].to_string());
        assert_eq!(at_once, fields.text("get_hash_str_whole_hex"), "{}", self.name);
    }

    /// With salts and keys, as one event announces them.
    fn check_events(&self, fields: &mut Fields) {
        let digests = self.hasher.digests(&self.prompt()).unwrap();
        self.check_announced(&fields.numbers("event_block_hashes_i64"));
        let salted = self.salt.as_deref().is_some_and(|salt| !salt.is_empty());
        let root = self.dialect().root(&self.prompt()).map(|root| root.to_string());
        assert_eq!(root.is_some(), salted, "{}", self.name);
        if let Some(expected) = fields.get("salt_root_hex") {
            assert_eq!(root, Some(text(&expected)), "{}", self.name);
        }
        let announced = fields.texts("node_event_hash_value_hex");
        let expected = if salted { hexes(&digests) } else { Vec::new() };
        assert_eq!(announced, expected, "{}", self.name);
        assert_eq!(fields.text("event_parent_block_hash"), None, "{}", self.name);
        assert_eq!(fields.number("event_count"), usize::from(!digests.is_empty()), "{}", self.name);
        assert_eq!(fields.number("event_token_ids_len"), digests.len() * self.size(), "{}", self.name);
    }

    fn check_announced(&self, expected: &[i128]) {
        let got: Vec<_> = match &self.prior {
            None => self.hasher.hash(&self.prompt()).unwrap(),
            Some(prior) => {
                assert_eq!(self.dialect().namespace(&self.prompt()), None, "{}: prior and namespace", self.name);
                let digests = self.hasher.digests_after(prior, &self.prompt()).unwrap();
                digests.iter().map(|digest| BlockHash::new(first_word(digest) as u64)).collect()
            }
        };
        let expected: Vec<_> = expected.iter().map(|&hash| BlockHash::new(hash as u64)).collect();
        assert_eq!(got, expected, "{}", self.name);
    }

    /// The storage's chains start from a root of their own, and are the same from there.
    fn check_storage(&self, expected: &[String]) {
        let mut plain = Prompt::new(&self.tokens);
        let salt = self.salt.as_deref().filter(|salt| !salt.is_empty());
        let digests = match (self.key.as_deref(), salt) {
            (None, None) => self.hasher.digests(&plain).unwrap(),
            (key, salt) => {
                let mut root = Sha256::new_with_prefix(b"sglang-cache-namespace-v1");
                for part in [key, salt] {
                    let length = part.map_or(0, str::len) as u64;
                    root.update([u8::from(part.is_some())]);
                    root.update(&length.to_le_bytes()[..if part.is_some() { 8 } else { 0 }]);
                    root.update(part.unwrap_or_default());
                }
                plain.salt = None;
                let root = BlockDigest::from(<[u8; 32]>::from(root.finalize()));
                self.hasher.digests_after(&root, &plain).unwrap()
            }
        };
        assert_eq!(hexes(&digests), expected, "{}", self.name);
    }
}

fn hasher(hashing: SglangHashing, size: usize) -> DialectHasher {
    DialectHasher::new(Dialect::sglang(hashing).unwrap(), BlockSize::new(size as u32).unwrap())
}

fn first_word(digest: &BlockDigest) -> i64 {
    i64::from_be_bytes(*digest.as_bytes().first_chunk().unwrap())
}
