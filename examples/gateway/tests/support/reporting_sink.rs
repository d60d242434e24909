//! A simulated pod's cache events, told to a reporter.

use kv_index::{BlockHash, Parent};
use pointsman_engine_sim::events::{CacheEvent, EventSink};
use pointsman_reporter::ReporterHandle;
use pointsman_reporter::shadow_cache::ShadowCache;

/// A simulated pod's events, told to a reporter of copies.
#[derive(Debug)]
pub(crate) struct ReportingSink {
    handle: ReporterHandle,
    shadow: ShadowCache,
}

impl ReportingSink {
    /// A sink for the reporter that was started with this shadow as its holdings.
    pub(crate) fn new(handle: ReporterHandle, shadow: ShadowCache) -> Self {
        Self { handle, shadow }
    }
}

impl EventSink for ReportingSink {
    fn step(&mut self, events: &[CacheEvent]) {
        for event in events {
            match event {
                CacheEvent::Stored { parent, blocks, .. } => {
                    let parent = parent.as_ref().map_or(Parent::Root, |block| Parent::Block(block.hash));
                    let blocks: Vec<BlockHash> = blocks.iter().map(|block| block.hash).collect();
                    self.shadow.store(&self.handle, parent, &blocks);
                }
                CacheEvent::Removed(block) => self.shadow.evict(&self.handle, &[block.hash]),
                CacheEvent::Cleared => self.shadow.clear(&self.handle),
            }
        }
    }

    /// The reporter lives on; all that changed is that the cache is empty.
    fn restarted(&mut self) {
        self.shadow.clear(&self.handle);
    }
}
