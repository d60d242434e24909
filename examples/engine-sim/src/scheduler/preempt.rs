//! Preemption: whoever was admitted last gives up its blocks, where an answer needs one and there is none.
//!
//! It waits before all others of its priority, keeps its tokens, and computes again what is no longer cached of them. In a step that preempted nobody
//! is admitted, unless nobody else runs.

use std::cmp::Reverse;

use super::{Running, Scheduler, Waiting};

impl Scheduler {
    /// Gives blocks to those that have no room for their next token, the first admitted first. Whether somebody was preempted for it.
    pub(super) fn grow(&mut self) -> bool {
        let before = self.preemptions;
        let mut full = std::mem::take(&mut self.full);
        full.sort_unstable_by_key(|slot| self.running[*slot as usize].admission);
        self.full = full;
        while let Some(&slot) = self.full.first() {
            match self.pool.allocate(&mut self.evicted) {
                Some(block) => {
                    self.full.remove(0);
                    self.running[slot as usize].blocks.push(block);
                    self.decode(slot);
                }
                None => self.preempt(),
            }
        }
        self.report_evicted();
        self.preemptions > before
    }

    /// Preempts the request that was admitted last; of background requests, where they wait for all others.
    fn preempt(&mut self) {
        let key = |slot: &u32| {
            let Running { request, admission, .. } = &self.running[*slot as usize];
            (self.config.priority_scheduling && request.background, *admission)
        };
        let Some(slot) = self.slots().max_by_key(key) else { return };
        let is_decoding = !self.prefilling.contains(&slot);
        let running = &self.running[slot as usize];
        // Of those that decode, every step since the first gave a token.
        let more = if is_decoding { self.step - running.first + 1 } else { 0 };
        let (request, generated) = (running.request, running.generated + more as u32);
        self.take_out(slot);
        self.preemptions += 1;
        let first = self.waiting.iter().position(|other| !self.passes(other.request, request));
        let place = first.unwrap_or(self.waiting.len());
        self.waiting.insert(place, Waiting { request, generated, is_preempted: true });
    }

    /// Takes a request out of the step that it is in, and its blocks from it.
    pub(super) fn take_out(&mut self, slot: u32) {
        let before = self.decoding.len() + self.full.len();
        self.decoding.retain(|Reverse((_, other))| *other != slot);
        self.full.retain(|other| *other != slot);
        self.prefilling.retain(|other| *other != slot);
        self.ready.retain(|other| *other != slot);
        let running = self.remove(slot);
        if self.decoding.len() + self.full.len() < before {
            self.context -= running.written(self.step) + 1;
            self.background_decoding -= usize::from(running.request.background);
        }
        self.pool.release(&running.blocks);
    }

    /// The places of all that run.
    pub(super) fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        let decoding = self.decoding.iter().map(|&Reverse((_, slot))| slot);
        self.prefilling.iter().chain(&self.ready).chain(&self.full).copied().chain(decoding)
    }
}
