//! Flow control settings: bands, limits and weights, checked before a queue is made of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use super::FlowOrder;

/// What a [`FlowQueue`](super::FlowQueue) goes by.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use routing_core::flow::{BandConfig, FlowConfig, FlowOrder};
///
/// let config = FlowConfig::default()
///     .band(BandConfig::new("interactive").priority(10).time_to_live(Duration::from_secs(10)))
///     .band(BandConfig::new("batch").priority(-10).order(FlowOrder::ShortestFirst).min_share(0.1).ceiling(0.7))
///     .weight("gold", 4.0);
/// assert!(config.check().is_ok());
///
/// let wrong = FlowConfig::default().band(BandConfig::new("a").min_share(0.7)).band(BandConfig::new("a").min_share(0.6));
/// assert_eq!(wrong.check().unwrap_err().faults.len(), 3, "one name, one priority, and more than all");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FlowConfig {
    /// The bands; one with the defaults if there are none.
    pub bands: Vec<BandConfig>,
    /// What may wait in all bands together.
    pub limits: QueueLimits,
    /// How much more than others some keys may have, by name; 1 unless given.
    pub weights: BTreeMap<Arc<str>, f64>,
    /// How long a request waits for the pod that it was decided for, before it is decided about again; 100 ms unless given.
    pub affinity_wait: Duration,
    /// How many of those that wait are decided about when a pod has room; 256 unless given.
    pub lookahead: usize,
}

impl Default for FlowConfig {
    fn default() -> Self {
        Self {
            bands: Vec::new(),
            limits: QueueLimits::default(),
            weights: BTreeMap::new(),
            affinity_wait: Duration::from_millis(100),
            lookahead: 256,
        }
    }
}

impl FlowConfig {
    /// The same with another band.
    #[must_use]
    pub fn band(mut self, band: BandConfig) -> Self {
        self.bands.push(band);
        self
    }

    /// The same with a weight for a key: with 2 it has twice what others have.
    #[must_use]
    pub fn weight(mut self, key: impl Into<Arc<str>>, weight: f64) -> Self {
        self.weights.insert(key.into(), weight);
        self
    }

    /// The same with other limits on all bands together.
    #[must_use]
    pub fn limits(self, limits: QueueLimits) -> Self {
        Self { limits, ..self }
    }

    /// The same with another wait for the pod that a request was decided for.
    #[must_use]
    pub fn affinity_wait(self, wait: Duration) -> Self {
        Self { affinity_wait: wait, ..self }
    }

    /// The same with another number of requests that are looked at.
    #[must_use]
    pub fn lookahead(self, requests: usize) -> Self {
        Self { lookahead: requests, ..self }
    }

    /// Checks all of it.
    ///
    /// # Errors
    ///
    /// With every fault there is.
    pub fn check(&self) -> Result<(), FlowConfigError> {
        let mut faults = Vec::new();
        let (mut names, mut priorities) = (BTreeSet::new(), BTreeMap::new());
        for band in &self.bands {
            let name = &band.name;
            if name.is_empty() {
                faults.push(FlowFault::NoName);
            } else if !names.insert(name) {
                faults.push(FlowFault::NameTwice(Arc::clone(name)));
            }
            if let Some(other) = priorities.insert(band.priority, name) {
                faults.push(FlowFault::PriorityTwice { bands: [Arc::clone(other), Arc::clone(name)] });
            }
            band.check(&mut faults);
        }
        let sum: f64 = self.bands.iter().map(|band| f64::from(band.min_share)).sum();
        if sum > 1.0 + 1e-6 {
            faults.push(FlowFault::SharesExceedAll { sum });
        }
        if self.limits.has_zero() {
            faults.push(FlowFault::ZeroLimit { band: None });
        }
        if self.lookahead == 0 {
            faults.push(FlowFault::Lookahead);
        }
        if self.affinity_wait.is_zero() {
            faults.push(FlowFault::AffinityWait);
        }
        for (key, &weight) in &self.weights {
            if !(LEAST_WEIGHT..=1.0 / LEAST_WEIGHT).contains(&weight) {
                faults.push(FlowFault::Weight { key: Arc::clone(key), weight });
            }
        }
        if faults.is_empty() { Ok(()) } else { Err(FlowConfigError { faults }) }
    }
}

/// A class of requests that are more urgent than those of lower bands.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BandConfig {
    /// Its name, in metrics and errors.
    pub name: Arc<str>,
    /// Requests of this priority or more are of this band, if they are of none above; 0 unless given. Those that are below all bands
    /// are of the lowest.
    pub priority: i32,
    /// The share of all tokens that it gets at least while some of it wait, 0..=1, whatever waits above it; 0 unless given, which
    /// is strict. Owed that, it may make pods full, whatever its ceiling is.
    pub min_share: f32,
    /// How full it may make a pod, above 0 and up to 1, of what saturation detectors say is full; 1 unless given. What is left of a pod
    /// is for those above, who find room at once.
    pub ceiling: f32,
    /// The part of that which is left free for keys that have less in flight than their share, from 0 to below 1; 0 unless given. A key that sends
    /// much waits sooner then, and one that sends little finds room at once.
    pub headroom: f32,
    /// The order within a key.
    pub order: FlowOrder,
    /// How long a request may wait before it is shed; 60 s unless given.
    pub time_to_live: Duration,
    /// What may wait in it.
    pub limits: QueueLimits,
}

impl BandConfig {
    /// A band with the defaults: strict, by arrival.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        Self {
            name: name.into(),
            priority: 0,
            min_share: 0.0,
            ceiling: 1.0,
            headroom: 0.0,
            order: FlowOrder::Arrival,
            time_to_live: Duration::from_secs(60),
            limits: QueueLimits::default(),
        }
    }

    fn check(&self, faults: &mut Vec<FlowFault>) {
        let band = || Arc::clone(&self.name);
        if !(0.0..=1.0).contains(&self.min_share) {
            faults.push(FlowFault::Share { band: band(), share: self.min_share });
        }
        if !(self.ceiling > 0.0 && self.ceiling <= 1.0) {
            faults.push(FlowFault::Ceiling { band: band(), ceiling: self.ceiling });
        }
        if !(0.0..1.0).contains(&self.headroom) {
            faults.push(FlowFault::Headroom { band: band(), headroom: self.headroom });
        }
        if self.time_to_live.is_zero() || self.time_to_live > LONGEST_LIFE {
            faults.push(FlowFault::TimeToLive { band: band(), time: self.time_to_live });
        }
        if self.limits.has_zero() {
            faults.push(FlowFault::ZeroLimit { band: Some(band()) });
        }
        if let FlowOrder::AttainedService(levels) = self.order {
            if !levels.is_sound() {
                faults.push(FlowFault::Levels { band: band() });
            }
        }
    }
}

/// Setters, since the band grows fields.
impl BandConfig {
    /// The same with this [`priority`](#structfield.priority).
    #[must_use]
    pub fn priority(self, priority: i32) -> Self {
        Self { priority, ..self }
    }

    /// The same with this [`min_share`](#structfield.min_share).
    #[must_use]
    pub fn min_share(self, min_share: f32) -> Self {
        Self { min_share, ..self }
    }

    /// The same with this [`ceiling`](#structfield.ceiling).
    #[must_use]
    pub fn ceiling(self, ceiling: f32) -> Self {
        Self { ceiling, ..self }
    }

    /// The same with this [`headroom`](#structfield.headroom).
    #[must_use]
    pub fn headroom(self, headroom: f32) -> Self {
        Self { headroom, ..self }
    }

    /// The same with this [`order`](#structfield.order).
    #[must_use]
    pub fn order(self, order: FlowOrder) -> Self {
        Self { order, ..self }
    }

    /// The same with this [`time_to_live`](#structfield.time_to_live).
    #[must_use]
    pub fn time_to_live(self, time_to_live: Duration) -> Self {
        Self { time_to_live, ..self }
    }

    /// The same with these [`limits`](#structfield.limits).
    #[must_use]
    pub fn limits(self, limits: QueueLimits) -> Self {
        Self { limits, ..self }
    }
}

/// Bounds on what waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueLimits {
    /// Requests; 4,096 unless given.
    pub requests: usize,
    /// Tokens that serving them takes; 64 Mi unless given.
    pub tokens: u64,
    /// Bytes of their bodies; 1 GiB unless given.
    pub bytes: u64,
}

crate::setters::setters! { QueueLimits {
    requests: usize,
    tokens: u64,
    bytes: u64,
} }

impl Default for QueueLimits {
    fn default() -> Self {
        Self { requests: 4_096, tokens: 64 << 20, bytes: 1 << 30 }
    }
}

impl QueueLimits {
    fn has_zero(&self) -> bool {
        self.requests == 0 || self.tokens == 0 || self.bytes == 0
    }
}

/// Why there is no queue by some settings: all that is wrong with them. An operator's to fix.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{}", faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
#[non_exhaustive]
pub struct FlowConfigError {
    /// The faults; at least one.
    pub faults: Vec<FlowFault>,
}

/// One thing that is wrong with flow control settings.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FlowFault {
    /// A band without a name.
    #[error("a band has no name: give it one for metrics and errors")]
    NoName,
    /// Two bands of one name.
    #[error("two bands are called `{0}`: rename one")]
    NameTwice(Arc<str>),
    /// Two bands of one priority: a request could be of either.
    #[error("bands `{}` and `{}` have the same priority: give one of them another", bands[0], bands[1])]
    PriorityTwice {
        /// Their names.
        bands: [Arc<str>; 2],
    },
    /// A share that is none.
    #[error("band `{band}`: a minimum share of {share} is not in 0..=1")]
    Share {
        /// Whose.
        band: Arc<str>,
        /// What was given.
        share: f32,
    },
    /// Bands are promised more than there is.
    #[error("minimum shares add up to {sum:.3}: promise 1 at most")]
    SharesExceedAll {
        /// What they add up to.
        sum: f64,
    },
    /// A ceiling that is none.
    #[error("band `{band}`: a ceiling of {ceiling} is not above 0 and up to 1")]
    Ceiling {
        /// Whose.
        band: Arc<str>,
        /// What was given.
        ceiling: f32,
    },
    /// A headroom that is none.
    #[error("band `{band}`: a headroom of {headroom} is not in 0..1")]
    Headroom {
        /// Whose.
        band: Arc<str>,
        /// What was given.
        headroom: f32,
    },
    /// A band in which nobody could wait.
    #[error(
        "band `{band}`: a time to live of {time:?} is not above 0 and up to a day; without waiting, leave flow control out"
    )]
    TimeToLive {
        /// Whose.
        band: Arc<str>,
        /// What was given.
        time: Duration,
    },
    /// Levels of attained service that are none.
    #[error("band `{band}`: attained service takes a first level of 1 token or more and an aging above 0, up to a day")]
    Levels {
        /// Whose.
        band: Arc<str>,
    },
    /// A limit under which nobody could wait.
    #[error("{}a limit is 0: nothing could wait", band.as_ref().map_or_else(String::new, |band| format!("band `{band}`: ")))]
    ZeroLimit {
        /// Whose; all bands' together if none.
        band: Option<Arc<str>>,
    },
    /// Nobody would ever be looked at.
    #[error("a lookahead of 0 lets nobody go: give 1 or more")]
    Lookahead,
    /// Requests would be decided about again and again.
    #[error("an affinity wait of 0 decides about all that wait all the time: give 10 ms or more")]
    AffinityWait,
    /// A weight that is none.
    #[error("key `{key}`: a weight of {weight} is not in 0.001..=1000")]
    Weight {
        /// Whose.
        key: Arc<str>,
        /// What was given.
        weight: f64,
    },
}

/// Longer than anybody waits.
const LONGEST_LIFE: Duration = Duration::from_secs(86_400);
/// The least that a weight may be, and its inverse the most.
const LEAST_WEIGHT: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::ServiceLevels;

    #[test]
    fn every_fault_is_told_at_once() {
        let nothing = QueueLimits::default().requests(0);
        let wrong = FlowConfig::default()
            .band(BandConfig::new("").min_share(f32::NAN))
            .band(BandConfig::new("a").priority(1).ceiling(0.0).time_to_live(Duration::ZERO))
            .band(BandConfig::new("a").priority(1).min_share(2.0).limits(nothing))
            .limits(nothing)
            .lookahead(0)
            .weight("k", 0.0)
            .band(
                BandConfig::new("l")
                    .priority(2)
                    .order(FlowOrder::AttainedService(ServiceLevels::default().first_level(0))),
            );
        let faults = wrong.check().unwrap_err().faults;
        let texts: Vec<_> = faults.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 12, "{texts:#?}");
        for part in
            ["no name", "NaN", "`a`: a ceiling of 0", "called `a`", "same priority", "share of 2", "a time to live"]
        {
            assert!(texts.iter().any(|text| text.contains(part)), "{part} is not in {texts:#?}");
        }
        assert!(wrong.check().unwrap_err().to_string().lines().count() == 12);
        assert_eq!(FlowConfig::default().check(), Ok(()));
    }
}
