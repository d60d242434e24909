//! Placements of consistent hashing: rendezvous weights or ring points by pod name, cached while pods stay.

use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use kv_index::{PodId, PodSet};
use parking_lot::Mutex;
use routing_core::{Fleet, Ranking};
use xxhash_rust::xxh3::xxh3_64;

use super::chance::mix;
use super::least::rank_least;
use super::ring::Ring;

/// The placements of the fleets that were seen last.
///
/// A decision on a known fleet loads one pointer. A version that changed nothing but loads or labels is known by its names;
/// one with other pods is placed once, and whoever decides on it meanwhile waits. A few are kept, since decisions on an
/// old version go on for a while after a new one.
#[derive(Debug)]
pub(super) struct Placements<const W: usize> {
    /// Points of each pod on a ring, if there is one.
    points: Option<NonZeroU16>,
    /// Latest first.
    kept: ArcSwap<Vec<Arc<Placement<W>>>>,
    building: Mutex<()>,
}

impl<const W: usize> Placements<W> {
    pub(super) fn new(points: Option<NonZeroU16>) -> Self {
        Self { points, kept: ArcSwap::default(), building: Mutex::new(()) }
    }

    /// Works with the placement of a fleet.
    pub(super) fn with<T>(&self, fleet: &Fleet<W>, work: impl FnOnce(&Placement<W>) -> T) -> T {
        let kept = self.kept.load();
        match kept.iter().find(|placement| placement.is_of(fleet)) {
            Some(placement) => work(placement),
            None => work(&self.place(fleet)),
        }
    }

    fn place(&self, fleet: &Fleet<W>) -> Arc<Placement<W>> {
        let _one_at_a_time = self.building.lock();
        let kept = self.kept.load();
        if let Some(placement) = kept.iter().find(|placement| placement.is_of(fleet)) {
            return Arc::clone(placement);
        }
        let placement = Arc::new(Placement::new(fleet, self.points));
        let latest = std::iter::once(&placement).chain(kept.iter()).take(KEPT).cloned().collect();
        self.kept.store(Arc::new(latest));
        placement
    }
}

/// Where the pods of one fleet lie.
#[derive(Debug)]
pub(super) struct Placement<const W: usize> {
    /// The version it was last used for. Relaxed: it stands for itself, all else is never changed.
    version: AtomicU64,
    pods: PodSet<W>,
    /// Hashes of names, by pod.
    names: Vec<u64>,
    ring: Option<Ring>,
}

impl<const W: usize> Placement<W> {
    fn new(fleet: &Fleet<W>, points: Option<NonZeroU16>) -> Self {
        let infos = || fleet.pods().into_iter().filter_map(|pod| fleet.pod(pod));
        let mut names = Vec::new();
        for info in infos() {
            names.resize(info.pod.id().index() + 1, 0);
            names[info.pod.id().index()] = xxh3_64(info.name.as_bytes());
        }
        Self {
            version: AtomicU64::new(fleet.version()),
            pods: fleet.pods(),
            names,
            ring: points.map(|points| Ring::new(infos().map(|info| (info.pod.id(), &*info.name)), points.get())),
        }
    }

    fn is_of(&self, fleet: &Fleet<W>) -> bool {
        if self.pods != fleet.pods() {
            return false;
        }
        if self.version.load(Ordering::Relaxed) == fleet.version() {
            return true;
        }
        // Places come from names, so names tell whether they are the same.
        let name = |pod: PodId| fleet.pod(pod).map(|info| xxh3_64(info.name.as_bytes()));
        let same = self.pods.iter().all(|pod| name(pod) == self.names.get(pod.index()).copied());
        if same {
            self.version.store(fleet.version(), Ordering::Relaxed);
        }
        same
    }

    /// Ranks `most` of these pods in a key's order.
    pub(super) fn rank(&self, key: u64, mut pods: PodSet<W>, most: usize, ranking: &mut Ranking) {
        // Keys need not be hashes: numbers in a row go to different places.
        let place = mix(key ^ SALT);
        let Some(ring) = &self.ring else {
            // Highest weights first.
            let weight = |name: &u64| mix(name ^ place);
            return rank_least(pods, most, ranking, |pod| !self.names.get(pod.index()).map_or(0, weight));
        };
        let mut left = most.min(pods.len());
        let mut owners = ring.from(place);
        while left > 0 {
            let Some(pod) = owners.next() else { return };
            if pods.remove(pod) {
                ranking.push(pod);
                left -= 1;
            }
        }
    }
}

/// Fleets whose placements are kept.
const KEPT: usize = 4;

/// Keeps places apart from the hashes that a host may use as keys.
const SALT: u64 = 0x510e_527f_ade6_82d1;
