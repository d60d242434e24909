//! Hash ring: virtual nodes of every pod.

use kv_index::PodId;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// Points on a ring of 2^64, and whose they are.
///
/// Point n of a pod is the XXH3 of its name with seed n: every gateway puts it in the same place, and it stays there
/// whoever else comes or goes.
#[derive(Debug, Default)]
pub(super) struct Ring {
    points: Vec<u64>,
    owners: Vec<PodId>,
}

impl Ring {
    /// A ring of pods, each at so many points.
    pub(super) fn new<'a>(pods: impl Iterator<Item = (PodId, &'a str)>, each: u16) -> Self {
        let point =
            |pod, name: &str, n: u16| (xxh3_64_with_seed(name.as_bytes(), n.into()), xxh3_64(name.as_bytes()), pod);
        let mut all: Vec<_> = pods.flat_map(|(pod, name)| (0..each).map(move |n| point(pod, name, n))).collect();
        // Should two points fall together, names decide before ids do: those differ between gateways.
        all.sort_unstable();
        let (points, owners) = all.into_iter().map(|(point, _, pod)| (point, pod)).unzip();
        Self { points, owners }
    }

    /// The owners of all points, from a key's place once around.
    pub(super) fn from(&self, place: u64) -> impl Iterator<Item = PodId> + '_ {
        let at = self.points.partition_point(|point| *point < place);
        let (before, after) = self.owners.split_at(at);
        after.iter().chain(before).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_followed_by_every_point_in_order() {
        let names = ["a", "b", "c"];
        let pods = || names.iter().enumerate().map(|(at, name)| (PodId::new(at as u16), *name));
        let ring = Ring::new(pods(), 5);
        assert!(ring.points.is_sorted());
        for place in [0, 1 << 63, u64::MAX, ring.points[3], ring.points[3] + 1] {
            let mut literal: Vec<(u64, PodId)> = ring.points.iter().copied().zip(ring.owners.iter().copied()).collect();
            literal.sort_by_key(|(point, _)| point.wrapping_sub(place));
            let owners: Vec<PodId> = literal.into_iter().map(|(_, pod)| pod).collect();
            assert_eq!(ring.from(place).collect::<Vec<_>>(), owners);
        }
        assert_eq!(Ring::default().from(7).count(), 0);
    }
}
