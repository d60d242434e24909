//! What changed in the cache: noted as blocks are scheduled, published when the step ends.

use kv_index::Tier;

use super::State;
use crate::http::block_hashing::block;
use crate::http::events::CacheEvent;
use crate::scheduler::BlockEvent;

impl State {
    /// Notes what changed in the cache, by both of a block's names, while the requests are there that it is of.
    pub(super) fn gather(&mut self) {
        let (events, mut removed) = (&mut self.unpublished, Vec::new());
        for event in self.scheduler.events() {
            match event {
                BlockEvent::Stored { request, from, to } => {
                    let Some(request) = self.requests.0.get(&request) else { continue };
                    let chain = &request.chain;
                    let (from, to) = (from as usize, to as usize);
                    let size = self.hasher.block_size().tokens();
                    self.digests.extend((from..to).map(|at| (chain.hashes[at], chain.digests[at])));
                    events.push(CacheEvent::Stored {
                        parent: from.checked_sub(1).map(|at| chain.block(at)),
                        blocks: (from..to).map(|at| chain.block(at)).collect(),
                        tokens: request.tokens[from * size..to * size].to_vec(),
                        block_size: size as u32,
                        salt: chain.salt.clone().filter(|_| from == 0),
                    });
                }
                BlockEvent::Removed(hashes, Tier::Gpu) => {
                    events.extend(hashes.iter().map(|hash| CacheEvent::Removed(block(*hash, &self.digests[hash]))));
                    removed.extend(hashes);
                }
                _ => {}
            }
        }
        for hash in removed {
            if self.scheduler.pool().find(hash).is_none() {
                self.digests.remove(&hash);
            }
        }
    }

    /// Sends to the sinks what was noted.
    pub(super) fn publish(&mut self) {
        let events = std::mem::take(&mut self.unpublished);
        if !events.is_empty() {
            self.sinks.iter_mut().for_each(|sink| sink.step(&events));
        }
    }
}
