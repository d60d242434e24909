//! Flow control as a document: bands, limits, weights and detectors, in whatever format serde reads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use routing_core::flow::{BandConfig, FlowConfig, FlowConfigError, FlowControl, QueueLimits};
use serde::Deserialize;

use super::{
    ConcurrencyDetector, ConcurrencyLimits, OrderDocument, PoolDetector, PoolLimits, PredictedWaitDetector,
    PredictedWaitParameters, UtilizationDetector, UtilizationLimits, WorkingSetDetector, WorkingSetLimits,
};
use crate::{PluginState, duration};

/// Flow control, as a document has it.
///
/// # Examples
///
/// ```
/// use std::sync::Arc;
///
/// use kv_index::{BlockSize, Config, Index};
/// use routing_plugins::flow::FlowDocument;
/// use routing_plugins::{Hashing, PluginState};
///
/// let document: FlowDocument = serde_json::from_str(r#"{
///   "bands": [
///     {"name": "interactive", "priority": 10, "time_to_live": "10s"},
///     {"name": "batch", "priority": -10, "order": "shortest_first", "min_share": 0.1, "ceiling": 0.7}
///   ],
///   "weights": {"gold": 4},
///   "saturation": {"predicted_wait": {"within": 0.5}, "concurrency": {"requests": 128}}
/// }"#)?;
/// let state = PluginState::new(Arc::new(<Index>::new(Config::default())), Hashing::Native(BlockSize::new(16).unwrap()));
/// let control = document.build(&state)?;
/// assert_eq!((control.config.bands.len(), control.detectors.len()), (2, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct FlowDocument {
    /// The bands; one with the defaults if there are none.
    pub bands: Vec<BandDocument>,
    /// What may wait in all bands together.
    pub limits: LimitsDocument,
    /// How much more than others some keys may have, by name.
    pub weights: BTreeMap<String, f64>,
    /// How long a request waits for the pod that it was decided for, before it is decided about again.
    #[serde(deserialize_with = "some_duration")]
    pub affinity_wait: Option<Duration>,
    /// How many of those that wait are decided about when a pod has room.
    pub lookahead: Option<usize>,
    /// What is full; the predicted wait and engines' reports with their defaults, if nothing is named.
    pub saturation: SaturationDocument,
}

/// A band, as a document has it: what is not given is as [`BandConfig::new`] has it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct BandDocument {
    /// Its name.
    pub name: String,
    /// Requests of this priority or more are of it.
    #[serde(default)]
    pub priority: i32,
    /// The share of all tokens that it gets at least.
    #[serde(default)]
    pub min_share: f32,
    /// How full it may make a pod.
    #[serde(default = "one")]
    pub ceiling: f32,
    /// The part of that which is left free for keys that have less in flight than their share.
    #[serde(default)]
    pub headroom: f32,
    /// The order within a key.
    #[serde(default)]
    pub order: OrderDocument,
    /// How long a request may wait.
    #[serde(default, deserialize_with = "some_duration")]
    pub time_to_live: Option<Duration>,
    /// What may wait in it.
    #[serde(default)]
    pub limits: LimitsDocument,
}

/// Limits, as a document has them: what is not given is as [`QueueLimits::default`] has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct LimitsDocument {
    /// Requests.
    pub requests: Option<usize>,
    /// Tokens that serving them takes.
    pub tokens: Option<u64>,
    /// Bytes of their bodies.
    pub bytes: Option<u64>,
}

/// The detectors that are asked, each with its parameters; a pod has room if all say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct SaturationDocument {
    /// [`PredictedWaitDetector`].
    pub predicted_wait: Option<PredictedWaitParameters>,
    /// [`ConcurrencyDetector`].
    pub concurrency: Option<ConcurrencyLimits>,
    /// [`UtilizationDetector`].
    pub utilization: Option<UtilizationLimits>,
    /// [`PoolDetector`].
    pub pool: Option<PoolLimits>,
    /// [`WorkingSetDetector`].
    pub working_set: Option<WorkingSetLimits>,
}

impl FlowDocument {
    /// The queue's settings.
    #[must_use]
    pub fn config(&self) -> FlowConfig {
        let Self { bands, limits, weights, affinity_wait, lookahead, .. } = self;
        let mut config = FlowConfig::default().limits(limits.limits());
        config.bands = bands.iter().map(BandDocument::config).collect();
        config.weights = weights.iter().map(|(key, weight)| (Arc::from(key.as_str()), *weight)).collect();
        config.affinity_wait = affinity_wait.unwrap_or(config.affinity_wait);
        config.lookahead = lookahead.unwrap_or(config.lookahead);
        config
    }

    /// Flow control over what plugins share.
    ///
    /// # Errors
    ///
    /// With every fault there is.
    pub fn build<const W: usize>(&self, state: &PluginState<W>) -> Result<FlowControl<W>, FlowConfigError> {
        let config = self.config();
        config.check()?;
        Ok(self.saturation.add_to(FlowControl::new(config), state))
    }
}

impl BandDocument {
    fn config(&self) -> BandConfig {
        let order = self.order.order();
        let band = BandConfig::new(self.name.as_str()).priority(self.priority).min_share(self.min_share);
        let band = band.ceiling(self.ceiling).headroom(self.headroom).order(order).limits(self.limits.limits());
        match self.time_to_live {
            Some(time) => band.time_to_live(time),
            None => band,
        }
    }
}

impl LimitsDocument {
    fn limits(self) -> QueueLimits {
        let QueueLimits { requests, tokens, bytes, .. } = QueueLimits::default();
        let limits = QueueLimits::default().requests(self.requests.unwrap_or(requests));
        limits.tokens(self.tokens.unwrap_or(tokens)).bytes(self.bytes.unwrap_or(bytes))
    }
}

impl SaturationDocument {
    fn add_to<const W: usize>(self, mut control: FlowControl<W>, state: &PluginState<W>) -> FlowControl<W> {
        let Self { predicted_wait, concurrency, utilization, pool, working_set } = if self == Self::default() {
            Self { predicted_wait: Some(Default::default()), utilization: Some(Default::default()), ..self }
        } else {
            self
        };
        if let Some(parameters) = predicted_wait {
            control = control.detector(PredictedWaitDetector::new(parameters, state));
        }
        if let Some(limits) = concurrency {
            control = control.detector(ConcurrencyDetector::new(limits, state));
        }
        if let Some(limits) = utilization {
            control = control.detector(UtilizationDetector::new(limits, state));
        }
        if let Some(limits) = pool {
            control = control.detector(PoolDetector::new(limits, state));
        }
        if let Some(limits) = working_set {
            control = control.detector(WorkingSetDetector::new(limits, state));
        }
        control
    }
}

pub(super) fn some_duration<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration::deserialize(from).map(Some)
}

fn one() -> f32 {
    1.0
}
