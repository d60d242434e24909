//! Partial selection: the first few pods by a key, without memory of its own.

use kv_index::{PodId, PodSet};
use routing_core::Ranking;

/// Ranks the `most` pods with the lowest keys, lowest first; of equal keys the lower id goes first.
///
/// Eight are found in one pass over the pods, so short lists cost one pass. A key is asked for in each of them.
pub(super) fn rank_least<const W: usize>(
    pods: PodSet<W>,
    most: usize,
    ranking: &mut Ranking,
    key: impl Fn(PodId) -> u64,
) {
    let (mut left, mut after) = (most.min(pods.len()), None);
    while left > 0 {
        let few = Few::of(pods, after, left.min(PASS), &key);
        let Some(last) = few.list().last() else { return };
        for (_, pod) in few.list() {
            ranking.push(*pod);
        }
        left -= few.found;
        after = Some(*last);
    }
}

/// A number's place among others, as a key.
#[inline]
pub(super) fn ordered(number: f64) -> u64 {
    let bits = number.to_bits();
    // Of negative numbers all bits turn, of others the sign: then bits compare as numbers do.
    bits ^ ((bits as i64 >> 63) as u64 | 1 << 63)
}

type Entry = (u64, PodId);

struct Few {
    entries: [Entry; PASS],
    found: usize,
}

impl Few {
    fn of<const W: usize>(pods: PodSet<W>, after: Option<Entry>, most: usize, key: impl Fn(PodId) -> u64) -> Self {
        let mut few = Self { entries: [(u64::MAX, PodId::new(u16::MAX)); PASS], found: 0 };
        for pod in pods {
            let entry = (key(pod), pod);
            let full = few.found == most;
            if full && entry > few.entries[most - 1] || after.is_some_and(|after| entry <= after) {
                continue;
            }
            let at = few.list().iter().position(|other| entry < *other).unwrap_or(few.found);
            few.found = most.min(few.found + 1);
            few.entries[at..few.found].rotate_right(1);
            few.entries[at] = entry;
        }
        few
    }

    fn list(&self) -> &[Entry] {
        &self.entries[..self.found]
    }
}

/// Pods found in one pass: more than most lists are long, few enough to be moved about.
const PASS: usize = 8;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_the_start_of_the_sorted_list(keys in prop::collection::vec(0u64..20, 0..200), most in 0usize..40) {
            let pods: PodSet = (0..keys.len() as u16).map(PodId::new).collect();
            let mut ranking = Ranking::default();
            rank_least(pods, most, &mut ranking, |pod| keys[pod.index()]);
            let mut sorted: Vec<PodId> = pods.iter().collect();
            sorted.sort_by_key(|pod| (keys[pod.index()], *pod));
            sorted.truncate(most);
            prop_assert_eq!(ranking.picks().iter().map(|pick| pick.pod).collect::<Vec<_>>(), sorted);
        }

        #[test]
        fn keys_of_numbers_are_in_their_order(a in any::<f64>(), b in any::<f64>()) {
            prop_assert_eq!(ordered(a).cmp(&ordered(b)), a.total_cmp(&b));
        }
    }
}
