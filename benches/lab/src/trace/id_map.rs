//! Map from block id to a number: dense array or hash map.
//!
//! Ids of most traces are counted up from 0, and there are a hundred million of them in a long one: then a flat table,
//! which takes a quarter of the memory of a map. The rule: which of the two it is cannot be told from what it answers.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use ahash::AHasher;

use super::Request;

/// A map by id.
pub(super) type Ids<T> = HashMap<u64, T, BuildHasherDefault<AHasher>>;

/// Numbers below `u32::MAX` by id.
#[derive(Debug)]
pub(super) enum IdMap {
    Flat(Vec<u32>),
    Sparse(Ids<u32>),
}

impl IdMap {
    /// An empty one for the ids of these requests.
    pub(super) fn new(requests: &[Request]) -> Self {
        let end = Self::end(requests);
        let ids: usize = requests.iter().map(|request| request.ids.len()).sum();
        // As much memory as the ids themselves take, or nearly.
        if end <= 2 * ids as u64 { Self::Flat(vec![NONE; end as usize]) } else { Self::Sparse(Ids::default()) }
    }

    /// Where free ids begin.
    pub(super) fn end(requests: &[Request]) -> u64 {
        requests.iter().flat_map(|request| &request.ids).max().map_or(0, |&id| id.saturating_add(1))
    }

    /// The number of an id, a new one if it has none.
    pub(super) fn get_or_set(&mut self, id: u64, number: impl FnOnce() -> u32) -> &mut u32 {
        match self {
            Self::Flat(numbers) => {
                let place = &mut numbers[id as usize];
                if *place == NONE {
                    *place = number();
                }
                place
            }
            Self::Sparse(numbers) => numbers.entry(id).or_insert_with(number),
        }
    }

    pub(super) fn get(&self, id: u64) -> Option<u32> {
        match self {
            Self::Flat(numbers) => numbers.get(id as usize).copied().filter(|&number| number != NONE),
            Self::Sparse(numbers) => numbers.get(&id).copied(),
        }
    }

    /// All numbers, in some order.
    pub(super) fn numbers(self) -> Vec<u32> {
        match self {
            Self::Flat(mut numbers) => {
                numbers.retain(|&number| number != NONE);
                numbers
            }
            Self::Sparse(numbers) => numbers.into_values().collect(),
        }
    }
}

const NONE: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_and_sparse_answer_alike() {
        let request = |ids: &[u64]| Request { ids: ids.to_vec(), ..Request::default() };
        let (flat, sparse) = (IdMap::new(&[request(&[0, 2, 5])]), IdMap::new(&[request(&[0, 1 << 60])]));
        assert!(matches!((&flat, &sparse), (IdMap::Flat(_), IdMap::Sparse(_))));
        for mut table in [flat, sparse] {
            assert_eq!(table.get(2), None);
            assert_eq!(*table.get_or_set(2, || 7), 7);
            *table.get_or_set(2, || 8) += 1;
            table.get_or_set(5, || 0);
            assert_eq!((table.get(2), table.get(5), table.get(9)), (Some(8), Some(0), None));
            let mut numbers = table.numbers();
            numbers.sort_unstable();
            assert_eq!(numbers, [0, 8]);
        }
    }
}
