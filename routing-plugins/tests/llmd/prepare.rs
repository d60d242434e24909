//! Cases of preparers, and of what a host works out before it sends.

mod approximate;
mod estimator;
mod lru;

use kv_index::BlockSize;

use super::case::{Case, Verdict};
use super::read::signed;

/// The size of block that a case of their approximate plugins goes by.
pub(crate) fn block_size(case: &Case) -> Result<Option<BlockSize>, String> {
    approximate::size(&case.params, signed(&case.input, "pod_block_size")?)
}

pub(crate) fn check(case: &Case) -> Verdict {
    let run: fn(&Case) -> Result<(), String> = match (&*case.plugin, &*case.kind) {
        ("inflight-token-estimator", _) => estimator::estimate,
        ("approx-prefix-index", "lru") => lru::predicted,
        ("approx-prefix-blocks", "split") => approximate::split,
        ("approx-prefix-cache-producer", "produce") => approximate::produce,
        ("approx-prefix-cache-producer", "blocks") => approximate::blocks,
        ("approx-prefix-cache-producer", "block_size") => approximate::block_size,
        ("approx-prefix-cache-producer", "config") => approximate::config,
        _ => return Verdict::NotMine,
    };
    Verdict::of(run(case))
}
