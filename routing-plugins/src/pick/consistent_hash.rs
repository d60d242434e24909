//! Consistent hashing with bounded loads: one key, one pod, while that pod is there.

use kv_index::DEFAULT_POD_WORDS;
use std::num::{NonZeroU16, NonZeroUsize};

use routing_core::{Declare, Picker, PluginError, Ranking, Read, RoutingContext, Totals};

use super::bounded::with_room;
use super::placement::Placements;
use crate::parameters::{Positive, parameters};
use crate::prepare::{HashKey, Loads};

parameters! {
    /// What [`ConsistentHashPicker`] takes.
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[cfg_attr(feature = "serde", serde(try_from = "Written"))]
    pub struct ConsistentHashParameters {
        /// How many candidates are ranked; 3 unless given.
        pub most: NonZeroUsize = super::MOST,
        /// How keys are placed; by rendezvous unless given.
        pub by: HashBy = HashBy::default(),
        /// How far above the mean a pod's requests may be; 0.25 unless given. With none, only the key counts: documents say
        /// `bounded: false`.
        pub epsilon: Option<Positive> = Positive::new(0.25),
        /// Points of each pod on the ring, if it is one; 160 unless given. More are more even, and a longer ring. Documents give
        /// them to rings only.
        pub points: NonZeroU16 = const { NonZeroU16::new(160).expect("not zero") },
    }
}

/// Parameters as they are written, before they are checked together.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
#[serde(default)]
struct Written {
    most: NonZeroUsize,
    by: HashBy,
    bounded: bool,
    epsilon: Option<Positive>,
    points: Option<NonZeroU16>,
}

#[cfg(feature = "serde")]
impl Default for Written {
    fn default() -> Self {
        Self { most: super::MOST, by: HashBy::default(), bounded: true, epsilon: None, points: None }
    }
}

#[cfg(feature = "serde")]
impl TryFrom<Written> for ConsistentHashParameters {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, &'static str> {
        let Written { most, by, bounded, epsilon, points } = written;
        let default = Self::default();
        let epsilon = match (bounded, epsilon) {
            (true, epsilon) => epsilon.or(default.epsilon),
            (false, None) => None,
            (false, Some(_)) => return Err("an `epsilon` bounds, and `bounded` is false"),
        };
        if by == HashBy::Rendezvous && points.is_some() {
            return Err("`points` are those of a ring, and keys are placed by rendezvous");
        }
        Ok(Self { most, by, epsilon, points: points.unwrap_or(default.points) })
    }
}

/// How a consistent hash places keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum HashBy {
    /// To the pod with the highest hash of its name and the key. Even, and looks at every candidate.
    #[default]
    Rendezvous,
    /// To the next point on a ring on which every pod has many. Less even, and looks at few candidates.
    Ring,
}

/// Ranks candidates in the order of the request's [`HashKey`].
///
/// Each key has an order of all pods, which depends on their names and nothing else: it is the same on every gateway and
/// after every restart. When a pod leaves, only its own keys move; when one joins, keys move to it and nowhere else; and
/// the order of the others stays (`tests/movement.rs`). Pods of one name share their places.
///
/// With an epsilon, loads are bounded: a candidate that, with this request, would have more than ⌈(1 + ε) · mean⌉ requests
/// is passed over for the next in the key's order, and comes after all that have room. The mean is over the candidates and
/// counts this request; requests are those of [`Loads`].
///
/// By rendezvous, pods' shares of many keys differ as chance does. On a ring of 160 points each, shares are mostly within a
/// quarter of the mean. The names' hashes and the ring are made when pods change, not when a version does. Give every
/// version of a fleet its own number: of two fleets with one number and the same ids, the first is placed.
#[derive(Debug)]
pub struct ConsistentHashPicker<const W: usize = DEFAULT_POD_WORDS> {
    most: NonZeroUsize,
    bound: Option<(Positive, Read<Loads>)>,
    key: Read<HashKey>,
    placements: Placements<W>,
}

impl<const W: usize> ConsistentHashPicker<W> {
    /// Declares that it reads keys, and loads if they are bounded.
    pub fn declare(declare: &mut Declare<'_>, parameters: ConsistentHashParameters) -> Self {
        declare.ignores_scores();
        let points = (parameters.by == HashBy::Ring).then_some(parameters.points);
        Self {
            most: parameters.most,
            bound: parameters.epsilon.map(|epsilon| (epsilon, declare.reads())),
            key: declare.reads(),
            placements: Placements::new(points),
        }
    }
}

impl<const W: usize> Picker<W> for ConsistentHashPicker<W> {
    fn pick(
        &self,
        context: &RoutingContext<'_, W>,
        totals: &Totals<'_, W>,
        ranking: &mut Ranking,
    ) -> Result<(), PluginError> {
        let (key, candidates) = (*context.read(self.key)?, totals.candidates());
        let roomy = match self.bound {
            Some((epsilon, loads)) => with_room(candidates, context.read(loads)?, epsilon),
            None => candidates,
        };
        self.placements.with(context.fleet(), |placement| {
            placement.rank(key, roomy, self.most.get(), ranking);
            let left = self.most.get().saturating_sub(ranking.picks().len());
            placement.rank(key, candidates - roomy, left, ranking);
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests;
