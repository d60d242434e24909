//! Result queue: a FIFO, or a reorder buffer that releases results by index.

use std::collections::{BTreeMap, VecDeque};

use super::config::ResultOrder;
use super::result::BatchResult;

/// Results that the consumer has not taken.
#[derive(Debug)]
pub(super) enum ResultQueue {
    Fifo(VecDeque<BatchResult>),
    Reorder {
        /// The index of the next result.
        next: u32,
        early: BTreeMap<u32, BatchResult>,
    },
}

impl ResultQueue {
    pub(super) fn new(order: ResultOrder) -> Self {
        match order {
            ResultOrder::Completion => Self::Fifo(VecDeque::new()),
            ResultOrder::Index => Self::Reorder { next: 0, early: BTreeMap::new() },
        }
    }

    pub(super) fn push(&mut self, result: BatchResult) {
        match self {
            Self::Fifo(results) => results.push_back(result),
            Self::Reorder { early, .. } => _ = early.insert(result.index, result),
        }
    }

    /// The next result for the consumer. `is_resumed` is true of results from an earlier run.
    pub(super) fn pop(&mut self, is_resumed: impl Fn(u32) -> bool) -> Option<BatchResult> {
        match self {
            Self::Fifo(results) => results.pop_front(),
            Self::Reorder { next, early } => {
                skip(next, is_resumed);
                let result = early.remove(next)?;
                *next += 1;
                Some(result)
            }
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Fifo(results) => results.len(),
            Self::Reorder { early, .. } => early.len(),
        }
    }

    /// The index of the result that all others wait for, if they are released by index.
    pub(super) fn next_index(&mut self, is_resumed: impl Fn(u32) -> bool) -> Option<u32> {
        let Self::Reorder { next, .. } = self else { return None };
        skip(next, is_resumed);
        Some(*next)
    }
}

fn skip(next: &mut u32, is_resumed: impl Fn(u32) -> bool) {
    while is_resumed(*next) {
        *next += 1;
    }
}
