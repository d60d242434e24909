//! Time to first byte of the fleet, by an exponentially weighted moving average.

use std::time::Duration;

/// The fleet's mean time to first byte, exponentially smoothed.
#[derive(Debug, Default)]
pub(super) struct MeanFirstByte {
    mean: f64,
    samples: u32,
}

impl MeanFirstByte {
    /// Adds a sample; the mean before it in seconds, once there are enough.
    pub(super) fn add(&mut self, first_byte: Duration) -> Option<f64> {
        let mean = (self.samples >= MIN_SAMPLES).then_some(self.mean);
        let share = 1.0 / f64::from(self.samples.min(SMOOTHING) + 1);
        self.mean += (first_byte.as_secs_f64() - self.mean) * share;
        self.samples = self.samples.saturating_add(1);
        mean
    }
}

/// Samples before anything is slow.
const MIN_SAMPLES: u32 = 50;
/// Samples that the mean is smoothed over.
const SMOOTHING: u32 = 200;
