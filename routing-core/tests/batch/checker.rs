//! A plan walked the dullest way: every pod with a cache of the size it has, block by block, least recently used out first.
//!
//! Knows nothing of tries, orders or costs. Requests begin in the plan's order; the oldest ones end when there is no room
//! for the next. What runs is pinned; what ended stays until room is needed.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use kv_index::BlockHash;
use routing_core::batch::{BatchPlan, BatchPod, BatchRequest, InfeasibleReason};

/// What came of a plan.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    /// By pod: prompt tokens that it computed.
    pub(crate) computed: Vec<u64>,
    /// By pod: how often a block was computed that this pod had computed before.
    pub(crate) again: Vec<u64>,
}

/// Walks a plan. Fails where a request is lost, done twice, or given to a pod that cannot hold it.
pub(crate) fn walk(plan: &BatchPlan, requests: &[BatchRequest<'_>], pods: &[BatchPod], block: u32) -> Walked {
    let mut seen = HashSet::new();
    let mut walked = Walked::default();
    assert_eq!(plan.pods.len(), pods.len());
    for (part, pod) in plan.pods.iter().zip(pods) {
        assert_eq!(part.pod, pod.pod);
        let mut cache = Cache { room: pod.kv_tokens, block: block.into(), ..Cache::default() };
        let mut computed = 0;
        for number in part.requests() {
            assert!(seen.insert(number), "request {number} is planned twice");
            computed += cache.serve(&requests[number as usize]);
        }
        walked.computed.push(computed);
        walked.again.push(cache.again);
    }
    for infeasible in &plan.infeasible {
        if infeasible.why == InfeasibleReason::TooLong {
            assert!(seen.insert(infeasible.request), "request {} is planned and too long", infeasible.request);
        }
    }
    assert_eq!(seen.len(), requests.len(), "requests were lost");
    walked
}

#[derive(Default)]
struct Cache<'r> {
    room: u64,
    block: u64,
    used: u64,
    clock: u64,
    /// When each block was last used, and by how many it is in use.
    blocks: HashMap<BlockHash, (u64, u32)>,
    /// Blocks that nobody uses, by when they were last used.
    idle: BTreeMap<u64, BlockHash>,
    running: VecDeque<(&'r [BlockHash], u64)>,
    ever: HashSet<BlockHash>,
    again: u64,
}

impl<'r> Cache<'r> {
    /// Serves a request; prompt tokens that had to be computed.
    fn serve(&mut self, request: &BatchRequest<'r>) -> u64 {
        let own = request.chain.len() as u64 * self.block;
        let private = (u64::from(request.prompt_tokens) + u64::from(request.output_tokens)).saturating_sub(own);
        assert!(own + private <= self.room, "a pod of {} tokens got more than it can hold", self.room);
        let hits = request.chain.iter().take_while(|hash| self.blocks.contains_key(hash)).count();
        for &hash in &request.chain[..hits] {
            self.pin(hash);
        }
        let needed = (request.chain.len() - hits) as u64 * self.block + private;
        while self.used + needed > self.room {
            if let Some((_, hash)) = self.idle.pop_first() {
                self.blocks.remove(&hash);
                self.used -= self.block;
            } else {
                self.end_oldest();
            }
        }
        for &hash in &request.chain[hits..] {
            // A later block of a chain may still be there although one before it is gone: it is computed anew.
            if !self.blocks.contains_key(&hash) {
                self.used += self.block;
            }
            self.pin(hash);
            self.again += u64::from(!self.ever.insert(hash));
        }
        self.used += private;
        self.running.push_back((request.chain, private));
        u64::from(request.prompt_tokens).saturating_sub(hits as u64 * self.block).max(1)
    }

    fn pin(&mut self, hash: BlockHash) {
        let (stamp, pins) = self.blocks.entry(hash).or_insert((0, 0));
        if *pins == 0 {
            self.idle.remove(stamp);
        }
        *pins += 1;
    }

    fn end_oldest(&mut self) {
        let (chain, private) = self.running.pop_front().expect("something runs, or all is idle");
        self.used -= private;
        // The end of a chain goes first.
        for &hash in chain.iter().rev() {
            self.clock += 1;
            let (stamp, pins) = self.blocks.get_mut(&hash).expect("what is in use is there");
            *pins -= 1;
            *stamp = self.clock;
            if *pins == 0 {
                self.idle.insert(self.clock, hash);
            }
        }
    }
}
