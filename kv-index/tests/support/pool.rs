//! Block pool of vLLM in small: physical copies, tail-first LRU, events as the real one emits them.
//!
//! What it keeps of the engine: a block is cached (and announced) when it is full, under its hash and group; a
//! finished request frees its blocks last first; free blocks stay cached until they are allocated again, oldest
//! first, and only then are announced as removed; the last block of a prompt is always computed, so an exact repeat
//! gives a second copy; a sliding-window group keeps only its window and announces only what it keeps.

use std::collections::{BTreeMap, VecDeque};

use kv_index::engine::vllm::{VllmAlgorithm, VllmHashing};
use kv_index::engine::{Adapter, Dialect, DialectHasher, Prompt, Version};
use kv_index::{BlockSize, ChainSeed};

use super::pack::Packer;

/// The cache namespace of a request: its adapter and its salt.
pub type Namespace = (Option<&'static str>, Option<&'static str>);

/// The namespaces requests come in.
pub const NAMESPACES: [Namespace; 4] =
    [(None, None), (Some("sql"), None), (None, Some("t1")), (Some("sql"), Some("t1"))];

/// An event as the engine would publish it.
#[derive(Clone, Debug)]
pub enum PoolEvent {
    Stored { group: usize, hashes: Vec<u64>, parent: Option<u64>, tokens: Vec<u32>, namespace: Namespace },
    Removed { group: usize, hash: u64, remaining: Option<u64> },
    Cleared,
}

/// Which evictions an engine announces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Removals {
    /// That of every copy: vLLM up to 0.32.
    #[default]
    EveryCopy,
    /// That of the last copy only (vllm#55092).
    LastCopy,
    /// That of every copy, with how many are left (vllm#48933).
    Counted,
}

impl Removals {
    #[allow(dead_code, reason = "not every test has all of them")]
    pub const ALL: [Self; 3] = [Self::EveryCopy, Self::LastCopy, Self::Counted];
}

/// The pool of one engine.
#[derive(Debug)]
pub struct Pool {
    pub block_size: usize,
    pub removals: Removals,
    /// Blocks in the sliding window, if there is a second group with one.
    window: Option<usize>,
    blocks: Vec<Physical>,
    free: VecDeque<usize>,
    cached: BTreeMap<(usize, u64), Vec<usize>>,
    running: BTreeMap<u32, Request>,
    next_request: u32,
    pub events: Vec<PoolEvent>,
    /// Everything that was ever hashed: what a hash stands for.
    pub meaning: BTreeMap<u64, (Namespace, Vec<u32>)>,
}

#[derive(Clone, Debug, Default)]
struct Physical {
    key: Option<(usize, u64)>,
    references: u32,
}

#[derive(Debug)]
struct Request {
    tokens: Vec<u32>,
    namespace: Namespace,
    computed: usize,
    /// Each group's blocks; none where the window has passed.
    tables: Vec<Vec<Option<usize>>>,
    /// Blocks announced or hit, group by group.
    cached: Vec<usize>,
}

impl Pool {
    pub fn new(block_size: usize, blocks: usize, window: Option<usize>) -> Self {
        Self {
            block_size,
            removals: Removals::default(),
            window,
            blocks: vec![Physical::default(); blocks],
            free: (0..blocks).collect(),
            cached: BTreeMap::new(),
            running: BTreeMap::new(),
            next_request: 0,
            events: Vec::new(),
            meaning: BTreeMap::new(),
        }
    }

    fn groups(&self) -> usize {
        1 + usize::from(self.window.is_some())
    }

    /// Hashes of the full-attention group, with how many physical copies there are.
    pub fn truth(&self) -> impl Iterator<Item = (u64, u32)> + '_ {
        self.cached.iter().filter(|((group, _), _)| *group == 0).map(|((_, hash), copies)| (*hash, copies.len() as u32))
    }

    pub fn holds(&self, hash: u64) -> bool {
        self.cached.contains_key(&(0, hash))
    }

    pub fn requests(&self) -> Vec<u32> {
        self.running.keys().copied().collect()
    }

    /// The hashes of a prompt's whole blocks, as the engine computes them.
    pub fn hashes(&mut self, tokens: &[u32], namespace: Namespace) -> Vec<u64> {
        let hashes = engine_hashes(tokens, namespace, self.block_size);
        for (at, hash) in hashes.iter().enumerate() {
            self.meaning.entry(*hash).or_insert_with(|| (namespace, tokens[..(at + 1) * self.block_size].to_vec()));
        }
        hashes
    }

    /// Starts a request: reuses what is cached, but always computes the last token.
    pub fn start(&mut self, tokens: Vec<u32>, namespace: Namespace) -> u32 {
        let hashes = self.hashes(&tokens, namespace);
        let most = (tokens.len() - 1) / self.block_size;
        let mut hit = hashes.iter().take(most).take_while(|hash| self.holds(**hash)).count();
        if let Some(window) = self.window {
            // The blocks of the window before the cut must be there in the other group too.
            while !(hit.saturating_sub(window)..hit).all(|at| self.cached.contains_key(&(1, hashes[at]))) {
                hit -= 1;
            }
        }
        let mut tables = Vec::new();
        for group in 0..self.groups() {
            let kept = if group == 0 { 0 } else { hit.saturating_sub(self.window.unwrap_or(0)) };
            let table = (0..hit).map(|at| (at >= kept).then(|| self.touch((group, hashes[at])))).collect();
            tables.push(table);
        }
        let request =
            Request { tokens, namespace, computed: hit * self.block_size, cached: vec![hit; tables.len()], tables };
        self.next_request += 1;
        self.running.insert(self.next_request, request);
        self.next_request
    }

    /// Computes up to `count` more tokens of a request, generating some once the prompt is done; false if there is
    /// no room.
    pub fn advance(&mut self, id: u32, count: usize, generate: &[u32]) -> bool {
        let Some(mut request) = self.running.remove(&id) else { return false };
        if request.computed == request.tokens.len() {
            request.tokens.extend(generate);
        }
        let until = (request.computed + count).min(request.tokens.len());
        let blocks = until.div_ceil(self.block_size);
        let needed: usize = request.tables.iter().map(|table| blocks.saturating_sub(table.len())).sum();
        let room = needed <= self.free.len();
        if room {
            for group in 0..self.groups() {
                while request.tables[group].len() < blocks {
                    let block = self.allocate();
                    request.tables[group].push(Some(block));
                }
            }
            request.computed = until;
            let hashes = self.hashes(&request.tokens.clone(), request.namespace);
            for group in 0..self.groups() {
                self.cache(&mut request, group, &hashes);
            }
        }
        self.running.insert(id, request);
        room
    }

    /// Ends a request: its blocks are free, the last first, and cached until they are needed.
    pub fn finish(&mut self, id: u32) {
        let Some(request) = self.running.remove(&id) else { return };
        for table in request.tables {
            for block in table.into_iter().rev().flatten() {
                self.release(block);
            }
        }
    }

    /// A connector failed to load a block of a running request: that one and what the request has after it are taken
    /// out of the cache, wherever others hang under them, and the request is over.
    pub fn fail_load(&mut self, id: u32, at: usize) {
        let Some(request) = self.running.get(&id) else { return };
        let doomed: Vec<_> = request.tables[0].iter().skip(at).flatten().copied().collect();
        doomed.into_iter().for_each(|block| self.uncache(block));
        self.finish(id);
    }

    /// Empties the cache; only an idle engine can.
    pub fn reset(&mut self) {
        if self.running.is_empty() {
            self.blocks.iter_mut().for_each(|block| block.key = None);
            self.cached.clear();
            self.events.push(PoolEvent::Cleared);
        }
    }

    fn touch(&mut self, key: (usize, u64)) -> usize {
        let block = self.cached[&key][0];
        if self.blocks[block].references == 0 {
            self.free.retain(|free| *free != block);
        }
        self.blocks[block].references += 1;
        block
    }

    fn allocate(&mut self) -> usize {
        let block = self.free.pop_front().expect("there was room");
        self.uncache(block);
        self.blocks[block].references = 1;
        block
    }

    fn uncache(&mut self, block: usize) {
        let Some(key) = self.blocks[block].key.take() else { return };
        let copies = self.cached.get_mut(&key).expect("a keyed block is cached");
        copies.retain(|copy| *copy != block);
        let left = copies.len() as u64;
        if left == 0 {
            self.cached.remove(&key);
        }
        if self.removals != Removals::LastCopy || left == 0 {
            let remaining = (self.removals == Removals::Counted).then_some(left);
            self.events.push(PoolEvent::Removed { group: key.0, hash: key.1, remaining });
        }
    }

    fn release(&mut self, block: usize) {
        self.blocks[block].references -= 1;
        if self.blocks[block].references > 0 {
            return;
        }
        match self.blocks[block].key {
            Some(_) => self.free.push_back(block),
            None => self.free.push_front(block),
        }
    }

    /// Caches and announces a request's newly full blocks in a group.
    fn cache(&mut self, request: &mut Request, group: usize, hashes: &[u64]) {
        let (from, to) = (request.cached[group], request.computed / self.block_size);
        let window = if group == 0 { None } else { self.window };
        let kept = window.map_or(0, |window| to.saturating_sub(window));
        if to > from {
            let announced = &hashes[from.max(kept)..to];
            for (slot, hash) in request.tables[group][from.max(kept)..to].iter().zip(announced) {
                let block = slot.expect("a new block is there");
                self.blocks[block].key = Some((group, *hash));
                self.cached.entry((group, *hash)).or_default().push(block);
            }
            self.events.push(PoolEvent::Stored {
                group,
                hashes: announced.to_vec(),
                parent: from.checked_sub(1).map(|before| hashes[before]),
                tokens: request.tokens[from * self.block_size..to * self.block_size].to_vec(),
                namespace: request.namespace,
            });
            request.cached[group] = to;
        }
        if window.is_some() {
            for at in 0..kept.min(request.tables[group].len()) {
                if let Some(block) = request.tables[group][at].take() {
                    self.release(block);
                }
            }
        }
    }

    /// The events since the last call as a payload; none if there were none.
    pub fn payload(&mut self, time: f64) -> Option<Vec<u8>> {
        let events = std::mem::take(&mut self.events);
        if events.is_empty() {
            return None;
        }
        let mut packer = Packer::default();
        packer.array(3).float(time).array(events.len());
        events.iter().for_each(|event| pack(&mut packer, event, self.block_size, self.window));
        packer.uint(0);
        Some(packer.0)
    }
}

/// The engine's hashes of a prompt's whole blocks.
pub fn engine_hashes(tokens: &[u32], namespace: Namespace, block_size: usize) -> Vec<u64> {
    let size = BlockSize::new(block_size as u32).expect("blocks have tokens");
    let mut prompt = Prompt::new(tokens);
    if let Some(name) = namespace.0 {
        prompt = prompt.adapter(Adapter::named(name));
    }
    if let Some(salt) = namespace.1 {
        prompt = prompt.salt(salt);
    }
    let hashes = DialectHasher::new(dialect(), size).hash(&prompt).expect("computable");
    hashes.into_iter().map(|hash| hash.get()).collect()
}

/// What the simulated engine speaks.
pub fn dialect() -> Dialect {
    let hashing = VllmHashing::new(Version::new(0, 29, 0)).algorithm(VllmAlgorithm::Sha256Cbor);
    Dialect::vllm(hashing).expect("computable")
}

/// The model's own seed in token mode.
pub fn model() -> ChainSeed {
    ChainSeed::new("simulated")
}

/// An event as a map, the way vLLM 0.29 writes it.
fn pack(packer: &mut Packer, event: &PoolEvent, block_size: usize, window: Option<usize>) {
    match event {
        PoolEvent::Cleared => {
            packer.map(1).text("type").text("AllBlocksCleared");
        }
        PoolEvent::Removed { group, hash, remaining } => {
            let fields = 4 + usize::from(remaining.is_some());
            packer.map(fields).text("type").text("BlockRemoved").text("block_hashes").uints([*hash].into_iter());
            packer.text("medium").text("GPU").text("group_idx").uint(*group as u64);
            if let Some(left) = remaining {
                packer.text("remaining_copy_counts").uints([*left].into_iter());
            }
        }
        PoolEvent::Stored { group, hashes, parent, tokens, namespace: (adapter, salt) } => {
            packer.map(if *group == 0 { 11 } else { 12 }).text("type").text("BlockStored");
            packer.text("block_hashes").uints(hashes.iter().copied());
            packer.text("parent_block_hash").option(*parent);
            packer.text("token_ids").uints(tokens.iter().map(|token| u64::from(*token)));
            packer.text("block_size").uint(block_size as u64);
            packer.text("lora_id").option(adapter.map(|_| 1));
            packer.text("medium").text("GPU").text("lora_name");
            match adapter {
                Some(name) => packer.text(name),
                None => packer.nil(),
            };
            packer.text("extra_keys").array(hashes.len());
            for at in 0..hashes.len() {
                // The salt is a key of a prompt's very first block only.
                let salt = salt.filter(|_| parent.is_none() && at == 0 && *group == 0);
                let keys: Vec<_> = adapter.iter().copied().chain(salt).collect();
                if keys.is_empty() {
                    packer.nil();
                } else {
                    packer.array(keys.len());
                    keys.into_iter().for_each(|key| {
                        packer.text(key);
                    });
                }
            }
            packer.text("group_idx").uint(*group as u64).text("kv_cache_spec_kind");
            if *group == 0 {
                packer.text("full_attention");
            } else {
                packer.text("sliding_window").text("kv_cache_spec_sliding_window");
                packer.uint((window.unwrap_or(0) * block_size) as u64);
            }
        }
    }
}
