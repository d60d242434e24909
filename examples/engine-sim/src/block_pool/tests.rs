use std::collections::HashMap;

use proptest::prelude::*;

use super::*;

fn hash(n: u64) -> BlockHash {
    BlockHash::new(n)
}

/// Allocates and seals; the block, and what it evicted.
fn put(pool: &mut BlockPool, n: u64) -> (BlockId, Vec<BlockHash>) {
    let mut evicted = Evicted::default();
    let id = pool.allocate(&mut evicted).unwrap();
    pool.seal(id, hash(n));
    (id, evicted.gpu)
}

#[test]
fn a_shared_block_is_not_evicted() {
    let mut pool = BlockPool::new(1, 0);
    let (one, _) = put(&mut pool, 1);
    pool.release(&[one]);
    assert!(pool.is_free(one));
    pool.share(one);
    pool.share(one);
    pool.release(&[one]);
    assert_eq!((pool.free(), pool.allocate(&mut Evicted::default())), (0, None));
    pool.release(&[one]);
    assert_eq!(put(&mut pool, 2).1, [hash(1)]);
}

#[test]
fn an_empty_block_is_used_again_before_any_cached_block_is_lost() {
    let mut pool = BlockPool::new(2, 0);
    let (one, _) = put(&mut pool, 1);
    let half = pool.allocate(&mut Evicted::default()).unwrap();
    pool.release(&[one, half]);
    assert_eq!(put(&mut pool, 2), (half, vec![]));
}

#[test]
fn a_hash_stays_cached_until_its_last_copy_leaves() {
    let mut pool = BlockPool::new(2, 0);
    let copies = [put(&mut pool, 1).0, put(&mut pool, 1).0];
    assert_eq!(pool.copies().collect::<Vec<_>>(), [(hash(1), 2)]);
    assert_eq!(pool.digest(), Digest::of([(hash(1), Tier::Gpu), (hash(1), Tier::Gpu)]));
    pool.release(&[copies[1]]);
    pool.release(&[copies[0]]);
    assert_eq!((put(&mut pool, 2).1, pool.find(hash(1))), (vec![hash(1)], Some(copies[0])));
    assert_eq!((put(&mut pool, 3).1, pool.find(hash(1))), (vec![hash(1)], None));
}

#[test]
fn the_tail_goes_before_the_head_and_what_leaves_stays_in_host_memory() {
    let mut pool = BlockPool::new(3, 2);
    let ids = [1, 2, 3].map(|n| put(&mut pool, n).0);
    pool.release(&ids);
    let mut evicted = Evicted::default();
    let mut claim = |pool: &mut BlockPool| {
        pool.allocate(&mut evicted).unwrap();
        std::mem::take(&mut evicted)
    };
    let left = |gpu, host: &[u64]| Evicted {
        gpu: vec![hash(gpu)],
        offloaded: vec![hash(gpu)],
        host: host.iter().map(|&n| hash(n)).collect(),
    };
    assert_eq!([claim(&mut pool), claim(&mut pool)], [left(3, &[]), left(2, &[])]);
    let chain = [1, 2, 3].map(hash);
    assert_eq!((pool.prefix(&chain).count(), pool.host_prefix(&chain[1..])), (1, 2));
    assert_eq!(claim(&mut pool), left(1, &[3]), "host memory forgets what it has had for longest");
}

/// The contract, literally: lists that are searched from end to end.
#[derive(Default)]
struct Model {
    /// Cached copies in the order they were sealed.
    copies: Vec<Copy>,
    /// Blocks with a user and no hash.
    unsealed: usize,
    releases: usize,
}

struct Copy {
    /// As the pool calls it: names a copy, and nothing more.
    id: BlockId,
    hash: BlockHash,
    users: u32,
    /// Which release its last user's was.
    released: usize,
}

impl Model {
    fn used(&self) -> usize {
        self.unsealed + self.copies.iter().filter(|copy| copy.users > 0).count()
    }

    fn newest(&mut self, hash: BlockHash) -> Option<&mut Copy> {
        self.copies.iter_mut().rfind(|copy| copy.hash == hash)
    }

    fn release(&mut self, id: BlockId) {
        self.releases += 1;
        let copy = self.copies.iter_mut().find(|copy| copy.id == id).unwrap();
        (copy.users, copy.released) = (copy.users - 1, self.releases);
    }

    /// Evicts down to the capacity, least recently released first.
    fn evict(&mut self, capacity: usize) -> Vec<BlockHash> {
        let mut gone = Vec::new();
        while self.copies.len() + self.unsealed > capacity {
            let free = (0..self.copies.len()).filter(|&at| self.copies[at].users == 0);
            let oldest = free.min_by_key(|&at| self.copies[at].released).unwrap();
            gone.push(self.copies.remove(oldest).hash);
        }
        gone
    }
}

/// Chains that share beginnings: a path in a tree with two children each.
fn chain(path: u8, length: usize) -> Vec<BlockHash> {
    (0..length).map(|at| hash(1_000 * (at as u64 + 1) + u64::from(path & ((1 << at) - 1)))).collect()
}

proptest! {
    /// Requests are admitted, find the same, evict the same in the same order, and leave the same; prefixes have no holes.
    #[test]
    fn it_does_what_the_model_does(
        capacity in 4_usize..40,
        steps in prop::collection::vec((0..4_u8, any::<u8>(), 0_usize..7, 0_usize..4), 1..80),
    ) {
        let (mut pool, mut model) = (BlockPool::new(capacity, 0), Model::default());
        // Requests: chain, blocks, and how many of them are sealed.
        let mut running: Vec<(Vec<BlockHash>, Vec<BlockId>, usize)> = Vec::new();
        for (act, path, length, more) in steps {
            let mut evicted = Evicted::default();
            let at = usize::from(path) % running.len().max(1);
            if act == 0 && !running.is_empty() {
                // Whether another request has sealed the same meanwhile or not.
                let (chain, ids, sealed) = &mut running[at];
                for (&id, &hash) in ids.iter().zip(&*chain).skip(*sealed) {
                    pool.seal(id, hash);
                    model.unsealed -= 1;
                    model.copies.push(Copy { id, hash, users: 1, released: 0 });
                }
                *sealed = chain.len();
            } else if act == 1 && !running.is_empty() {
                let (_, ids, sealed) = running.remove(at);
                pool.release(&ids);
                model.unsealed -= ids.len() - sealed;
                ids[..sealed].iter().rev().for_each(|&id| model.release(id));
            } else {
                let chain = chain(path, length);
                let mut ids: Vec<BlockId> = pool.prefix(&chain).collect();
                let found = chain.iter().take_while(|hash| model.newest(**hash).is_some()).count();
                let waking = chain[..found].iter().filter(|hash| model.newest(**hash).unwrap().users == 0).count();
                let free = ids.iter().filter(|id| pool.is_free(**id)).count();
                prop_assert_eq!((ids.len(), free), (found, waking));
                let need = length - found + more;
                if model.used() + waking + need <= capacity {
                    ids.iter().for_each(|&id| pool.share(id));
                    chain[..found].iter().for_each(|hash| model.newest(*hash).unwrap().users += 1);
                    ids.extend((0..need).map(|_| pool.allocate(&mut evicted).unwrap()));
                    model.unsealed += need;
                    running.push((chain, ids, found));
                }
            }
            prop_assert_eq!(evicted.gpu, model.evict(capacity));
            let mut copies: HashMap<BlockHash, u32> = HashMap::new();
            model.copies.iter().for_each(|copy| *copies.entry(copy.hash).or_default() += 1);
            prop_assert_eq!(pool.copies().collect::<HashMap<_, _>>(), copies);
            prop_assert_eq!((pool.used(), pool.free()), (model.used(), capacity - model.used()));
            for path in 0..=u8::MAX >> 1 {
                let chain = chain(path, 7);
                let held = chain.iter().filter(|hash| pool.find(**hash).is_some()).count();
                prop_assert_eq!(pool.prefix(&chain).count(), held, "no holes");
            }
        }
    }
}
