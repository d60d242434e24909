//! Bounded loads: candidates below a factor of the mean load.

use kv_index::PodSet;

use crate::parameters::Positive;
use crate::prepare::LoadTable;

/// The candidates that, given this request too, have at most ⌈(1 + ε) · mean⌉ requests; the mean counts this request.
///
/// There always is one: were all at the bound, they would have more requests than there are.
pub(super) fn with_room<const W: usize>(candidates: PodSet<W>, loads: &LoadTable, epsilon: Positive) -> PodSet<W> {
    let requests: u64 = candidates.iter().map(|pod| u64::from(loads.of(pod).requests)).sum();
    let mean = (requests + 1) as f64 / candidates.len() as f64;
    let most = ((1.0 + epsilon.get()) * mean).ceil();
    candidates.iter().filter(|pod| f64::from(loads.of(*pod).requests) + 1.0 <= most).collect()
}

#[cfg(test)]
mod tests {
    use kv_index::PodId;
    use proptest::prelude::*;

    use super::*;
    use crate::load::PodLoad;

    proptest! {
        #[test]
        fn somebody_has_room_and_the_least_busy_one_does(
            requests in prop::collection::vec(prop_oneof![0u32..6, any::<u32>()], 1..200),
            epsilon in prop_oneof![Just(f64::MIN_POSITIVE), 1e-9..2.0, Just(f64::MAX)],
        ) {
            let load = |(at, requests): (usize, &u32)| {
                (PodId::new(at as u16), PodLoad { requests: *requests, ..PodLoad::default() })
            };
            let loads: LoadTable = requests.iter().enumerate().map(load).collect();
            let candidates: PodSet = (0..requests.len() as u16).map(PodId::new).collect();
            let roomy = with_room(candidates, &loads, Positive::new(epsilon).unwrap());
            let least = candidates.iter().min_by_key(|pod| loads.of(*pod).requests).unwrap();
            prop_assert!(roomy.contains(least));
        }
    }
}
