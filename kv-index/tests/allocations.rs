//! Allocation tests: a warm search allocates nothing, eager or lazy, with holes or without; an index that was emptied gives its memory back.

use kv_index::{
    BlockHash, BlockSize, ChainHasher, ChainSeed, Config, Event, EventSemantics, Index, Matches, Parent, Pod, Removed,
    Stored,
};
use pointsman_test_support::alloc::{self, CountingAllocator};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

fn allocations(mut work: impl FnMut()) -> usize {
    // Warm: the buffers grow, and this thread joins the epochs.
    (0..3).for_each(|_| work());
    alloc::allocations(work)
}

fn store(index: &Index, pod: Pod, parent: Parent, blocks: &[BlockHash]) {
    index.apply(pod, EventSemantics::Membership, &Event::Stored(Stored::new(parent, blocks))).expect("live");
}

#[test]
fn a_warm_search_allocates_nothing() {
    let hasher = ChainHasher::new(ChainSeed::new("m"), BlockSize::new(16).unwrap());
    let tokens: Vec<u32> = (0..16 * 1_000).collect();
    let chain = hasher.hash(&tokens);
    let index: Index = Index::new(Config::default());
    for n in 1..=40 {
        let pod = index.join(&format!("pod-{n}")).unwrap();
        store(&index, pod, Parent::Root, &chain[..n * 20]);
        if n % 10 == 0 {
            index.apply(pod, EventSemantics::Membership, &Event::Removed(Removed::new(&chain[n..=n]))).unwrap();
        }
    }
    // A chain that lies in many runs: at each step several pods hold all of what one of them makes longer.
    for n in 0..8 {
        for pod in 0..4 {
            let pod = index.pod(&format!("pod-{}", 40 - pod)).unwrap();
            store(&index, pod, Parent::Block(chain[799 + n * 20]), &chain[800 + n * 20..820 + n * 20]);
        }
    }
    let scanned = index.join("scanned").unwrap();
    store(&index, scanned, Parent::Unknown, &chain[..500]);
    let (mut matches, mut buffer) = (Matches::default(), Vec::new());
    assert_eq!(allocations(|| index.search(&chain, &mut matches)), 0, "eager");
    assert_eq!(matches.groups().len(), 38, "the search did something");
    assert_eq!(allocations(|| index.search_lazy(&mut hasher.lazy(&tokens, &mut buffer), &mut matches)), 0, "lazy");
    assert_eq!(allocations(|| index.scan(&chain, &mut matches)), 0, "scan");
    assert_ne!(allocations(|| drop(chain.clone())), 0, "the counter counts");
}

#[cfg(feature = "vllm")]
#[test]
fn nor_does_one_in_an_engine_s_dialect() {
    use kv_index::engine::vllm::VllmHashing;
    use kv_index::engine::{Adapter, ChainBuffer, Dialect, DialectHasher, Media, Prompt, Version};

    let tokens: Vec<u32> = (0..16 * 500).collect();
    let media = [Media { identifier: "a", offset: 20, length: 100 }, Media { identifier: "b", offset: 120, length: 9 }];
    let prompt = Prompt::new(&tokens).salt("s").adapter(Adapter::named("sql").path("/sql")).media(&media);
    for algorithm in ["sha256", "sha256_cbor", "xxhash", "xxhash_cbor"] {
        let hashing = VllmHashing::new(Version::new(0, 32, 0)).algorithm(algorithm.parse().unwrap()).seed("0");
        let hasher = DialectHasher::new(Dialect::vllm(hashing).unwrap(), BlockSize::new(16).unwrap());
        let index: Index = Index::new(Config::default());
        let pod = index.join("a").unwrap();
        store(&index, pod, Parent::Root, &hasher.hash(&prompt).unwrap()[..400]);
        let (mut matches, mut buffer) = (Matches::default(), ChainBuffer::default());
        let search = || index.search_lazy(&mut hasher.lazy(&prompt, &mut buffer).unwrap(), &mut matches);
        assert_eq!(allocations(search), 0, "{algorithm}");
        assert_eq!(matches.depth(pod.id()), 400);
    }
}

/// By the allocator's count, not by ours: a million segments of one block each.
#[test]
fn an_index_that_was_emptied_gives_its_memory_back() {
    let index: Index = Index::new(Config::default());
    let pod = index.join("a").expect("room");
    let mut random = pointsman_test_support::SplitMix64::new(1);
    let blocks: Vec<BlockHash> = (0..1_000_000).map(|_| BlockHash::new(random.next_u64())).collect();
    let empty = alloc::live_bytes();
    for block in blocks.chunks(1) {
        store(&index, pod, Parent::Root, block);
    }
    kv_index::collect_garbage();
    let full = alloc::live_bytes() - empty;
    assert_eq!(index.stats().segments, blocks.len());
    for blocks in blocks.chunks(100) {
        index.apply(pod, EventSemantics::Membership, &Event::Removed(Removed::new(blocks))).expect("live");
    }
    kv_index::collect_garbage();
    let left = alloc::live_bytes() - empty;
    assert!(left * 10 <= full, "{left} of {full} bytes are left");
}
