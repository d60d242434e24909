//! Results that nobody has taken: as they came, or by their places.

use std::collections::{BTreeMap, VecDeque};

use super::config::Order;
use super::result::BatchResult;

/// Results on their way to the consumer.
#[derive(Debug)]
pub(super) enum Ready {
    AsTheyCome(VecDeque<BatchResult>),
    ByPlace {
        /// Whose turn it is.
        next: u32,
        held: BTreeMap<u32, BatchResult>,
    },
}

impl Ready {
    pub(super) fn new(order: Order) -> Self {
        match order {
            Order::AsTheyCome => Self::AsTheyCome(VecDeque::new()),
            Order::ByPlace => Self::ByPlace { next: 0, held: BTreeMap::new() },
        }
    }

    pub(super) fn push(&mut self, result: BatchResult) {
        match self {
            Self::AsTheyCome(held) => held.push_back(result),
            Self::ByPlace { held, .. } => _ = held.insert(result.place, result),
        }
    }

    /// The next result for the consumer. `is_past` tells places whose results were taken before a resume.
    pub(super) fn pop(&mut self, is_past: impl Fn(u32) -> bool) -> Option<BatchResult> {
        match self {
            Self::AsTheyCome(held) => held.pop_front(),
            Self::ByPlace { next, held } => {
                skip(next, is_past);
                let result = held.remove(next)?;
                *next += 1;
                Some(result)
            }
        }
    }

    /// Results that are held.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::AsTheyCome(held) => held.len(),
            Self::ByPlace { held, .. } => held.len(),
        }
    }

    /// Whose result all the others wait for, if they do.
    pub(super) fn awaited(&mut self, is_past: impl Fn(u32) -> bool) -> Option<u32> {
        let Self::ByPlace { next, .. } = self else { return None };
        skip(next, is_past);
        Some(*next)
    }
}

fn skip(next: &mut u32, is_past: impl Fn(u32) -> bool) {
    while is_past(*next) {
        *next += 1;
    }
}
