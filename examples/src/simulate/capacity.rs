//! How many requests a second a fleet can take.
//!
//! The greatest rate at which nine in ten requests have their first token within five times what it takes on a fleet that
//! is nearly idle, by a rule of others' making ([`REFERENCE`]): beyond it queues grow for as long as traffic comes, and no
//! rule is judged by a yardstick of its own.

use pointsman_lab::trace::Trace;

use crate::simulate::SimulateError;
use crate::simulate::config::SimConfig;
use crate::simulate::online::{Load, simulate};
use crate::simulate::policy::Policy;

/// The rule by which capacity is told.
pub const REFERENCE: &str = "lmetric";

/// Requests a second that a fleet just takes of such traffic, within 2%.
///
/// # Errors
///
/// As [`simulate`].
pub fn capacity(trace: &Trace, config: &SimConfig) -> Result<f64, SimulateError> {
    let policy = Policy::find(REFERENCE)?;
    let p90 = |rate: f64| -> Result<f64, SimulateError> {
        let trace = trace.clone().at_rate(rate, config.seed);
        let outcome = simulate(&policy, &Load::new(&trace), config, &mut |_| {})?;
        Ok(outcome.ttft.quantile(0.9).unwrap_or(0.0))
    };
    let mut low = IDLE_PER_POD * config.pods.len() as f64;
    let most = 5.0 * p90(low)?;
    let mut high = low * 2.0;
    while p90(high)? <= most && high < 1e6 {
        (low, high) = (high, high * 2.0);
    }
    while high / low > 1.02 {
        let middle = (low * high).sqrt();
        if p90(middle)? <= most { low = middle } else { high = middle }
    }
    Ok(low)
}

/// Requests a second at which a pod is nearly idle.
const IDLE_PER_POD: f64 = 0.01;
