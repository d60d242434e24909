//! A pod's paged cache: which frame holds which block, who uses it, and what is evicted for what.
//!
//! A block may lie in several frames at once: each is a copy. The rule that must never break: a frame with a user
//! is never evicted, and a block is cached exactly as long as one of its copies is.

use std::collections::HashMap;

use kv_index::{BlockHash, Digest, Tier};

use crate::paged::frames::{Frame, FreeFrames};

/// The frames of one pod.
#[derive(Debug)]
pub struct Pool {
    frames: Vec<State>,
    free: FreeFrames,
    cached: HashMap<BlockHash, Vec<Frame>>,
}

impl Pool {
    /// An empty pool of `capacity` frames.
    #[must_use]
    pub fn new(capacity: u32) -> Self {
        Self {
            frames: vec![State::default(); capacity as usize],
            free: FreeFrames::full(capacity),
            cached: HashMap::new(),
        }
    }

    /// Counts one more user of `frame`, which cannot be evicted until it is released.
    pub fn share(&mut self, frame: Frame) {
        let state = &mut self.frames[frame.index()];
        if state.users == 0 {
            self.free.remove(frame);
        }
        state.users += 1;
    }

    /// Takes the least recently used frame for one user, and evicts what it held. `None` if all are in use.
    pub fn claim(&mut self) -> Option<Claim> {
        let frame = self.free.pop_front()?;
        let evicted = std::mem::replace(&mut self.frames[frame.index()], State { hash: None, users: 1 }).hash;
        if let Some(hash) = evicted {
            let copies = self.cached.get_mut(&hash).expect("a frame that holds a block is listed under it");
            copies.retain(|&copy| copy != frame);
            if copies.is_empty() {
                self.cached.remove(&hash);
            }
        }
        Some(Claim { frame, evicted })
    }

    /// Says which block a claimed frame holds, now that all its tokens are there.
    pub fn seal(&mut self, frame: Frame, hash: BlockHash) {
        self.frames[frame.index()].hash = Some(hash);
        self.cached.entry(hash).or_default().push(frame);
    }

    /// Counts one user of `frame` out. Without users its block stays cached until the frame's turn comes.
    pub fn release(&mut self, frame: Frame) {
        let state = &mut self.frames[frame.index()];
        state.users -= 1;
        match state {
            State { users: 0, hash: Some(_) } => self.free.push_back(frame),
            State { users: 0, hash: None } => self.free.push_front(frame),
            _ => {}
        }
    }

    /// A frame that holds the block.
    #[must_use]
    pub fn find(&self, hash: BlockHash) -> Option<Frame> {
        self.cached.get(&hash).and_then(|copies| copies.first()).copied()
    }

    /// The frames of the chain's leading blocks, as far as they are cached.
    pub fn prefix<'a>(&'a self, chain: &'a [BlockHash]) -> impl Iterator<Item = Frame> + 'a {
        chain.iter().map_while(|&hash| self.find(hash))
    }

    /// Whether nobody uses `frame`.
    #[must_use]
    pub fn is_free(&self, frame: Frame) -> bool {
        self.frames[frame.index()].users == 0
    }

    /// Frames that nobody uses.
    #[must_use]
    pub fn free(&self) -> usize {
        self.free.len()
    }

    /// Every cached block, in no order, and how many copies there are of it.
    pub fn blocks(&self) -> impl Iterator<Item = (BlockHash, usize)> + '_ {
        self.cached.iter().map(|(&hash, copies)| (hash, copies.len()))
    }

    /// The digest of all copies, as a worker would send it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(self.blocks().flat_map(|(hash, copies)| std::iter::repeat_n((hash, Tier::Gpu), copies)))
    }
}

/// A frame taken for use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Which.
    pub frame: Frame,
    /// The block of which it held a copy.
    pub evicted: Option<BlockHash>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    hash: Option<BlockHash>,
    users: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u64) -> BlockHash {
        BlockHash::new(n)
    }

    fn put(pool: &mut Pool, n: u64) -> Claim {
        let claim = pool.claim().unwrap();
        pool.seal(claim.frame, hash(n));
        claim
    }

    #[test]
    fn the_least_recently_released_frame_goes_first() {
        let mut pool = Pool::new(2);
        let (one, two) = (put(&mut pool, 1), put(&mut pool, 2));
        assert_eq!((one.evicted, pool.claim()), (None, None));
        pool.release(two.frame);
        pool.release(one.frame);
        assert_eq!(put(&mut pool, 3).evicted, Some(hash(2)));
        assert_eq!((pool.find(hash(2)), pool.find(hash(1))), (None, Some(one.frame)));
    }

    #[test]
    fn a_shared_frame_is_not_evicted() {
        let mut pool = Pool::new(1);
        let one = put(&mut pool, 1);
        pool.release(one.frame);
        assert!(pool.is_free(one.frame));
        pool.share(one.frame);
        pool.share(one.frame);
        pool.release(one.frame);
        assert_eq!((pool.free(), pool.claim()), (0, None));
        pool.release(one.frame);
        assert_eq!(pool.claim().unwrap().evicted, Some(hash(1)));
    }

    #[test]
    fn an_unsealed_frame_is_used_again_before_any_cached_block_is_lost() {
        let mut pool = Pool::new(2);
        let (one, half) = (put(&mut pool, 1), pool.claim().unwrap());
        pool.release(one.frame);
        pool.release(half.frame);
        assert_eq!(pool.claim(), Some(Claim { frame: half.frame, evicted: None }));
    }

    #[test]
    fn a_block_stays_cached_until_its_last_copy_leaves() {
        let mut pool = Pool::new(2);
        let copies = [put(&mut pool, 1).frame, put(&mut pool, 1).frame];
        assert_eq!(pool.blocks().collect::<Vec<_>>(), [(hash(1), 2)]);
        assert_eq!(pool.digest(), Digest::of([(hash(1), Tier::Gpu), (hash(1), Tier::Gpu)]));
        copies.into_iter().for_each(|frame| pool.release(frame));
        assert_eq!(put(&mut pool, 2).evicted, Some(hash(1)));
        assert_eq!(pool.find(hash(1)), Some(copies[1]));
        assert_eq!(put(&mut pool, 3).evicted, Some(hash(1)));
        assert_eq!(pool.find(hash(1)), None);
    }
}
