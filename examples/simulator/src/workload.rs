//! Workloads: traffic, the fleet that it goes to, and the capacity of that fleet.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use pointsman_example_common::progress::Progress;
use pointsman_lab::trace::Trace;

use crate::SimulateError;
use crate::capacity::{SaturatingTrace, saturate};
use crate::config::SimConfig;
use crate::options::Options;
use crate::parallel::parallel_map;

/// Traffic for a fleet.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) config: SimConfig,
    /// The shape of the gaps between requests; the traffic's own if none.
    pub(crate) burstiness: Option<f64>,
    /// The traffic, and requests a second that saturate the fleet; 0 if the rate is given.
    pub(crate) traffic: SaturatingTrace,
}

impl Workload {
    /// Every workload of the options, each with its capacity unless a rate is given.
    pub(crate) fn all(options: &Options) -> Result<Vec<Self>, SimulateError> {
        let traffic = options.traffic()?;
        for (_, trace) in &traffic {
            options.fleet(trace.block)?;
        }
        let total = traffic.len() * PROBES;
        let (bar, probes) = (Mutex::new(Progress::on_stderr(total)), AtomicUsize::new(0));
        let prepare = |(name, trace): &(String, Trace)| {
            let config = options.fleet(trace.block)?;
            let probed = &mut || {
                let done = probes.fetch_add(1, Ordering::Relaxed) + 1;
                bar.lock().show(done.min(total - 1), "capacity search");
            };
            let traffic = match options.rate {
                Some(_) => SaturatingTrace { trace: trace.clone(), copies: 1, capacity: 0.0 },
                // What pods take does not depend on who waits before them, and is that of pods that stay.
                None => saturate(trace, &SimConfig { flow: None, churn_us: None, ..config.clone() }, probed)?,
            };
            Ok(Self { name: name.clone(), config, burstiness: options.burstiness, traffic })
        };
        let workloads = parallel_map(&traffic, options.parallelism(), prepare);
        if options.rate.is_none() {
            bar.lock().show(total, "capacity search");
            bar.lock().end();
        }
        workloads.into_iter().collect()
    }

    /// The traffic at this percentage of the fleet's capacity, and the fleet with this seed.
    pub(crate) fn at_load(&self, percent: f64, seed: u64) -> (Trace, SimConfig) {
        self.at_rate(self.traffic.capacity * percent / 100.0, seed)
    }

    /// The same at so many requests a second; 0 for the traffic's own times.
    pub(crate) fn at_rate(&self, rate: f64, seed: u64) -> (Trace, SimConfig) {
        let trace = self.traffic.trace.clone();
        let trace = if rate > 0.0 { trace.at_rate(rate, seed) } else { trace };
        let trace = match self.burstiness {
            Some(shape) => trace.with_burstiness(shape, seed),
            // Arrivals are drawn anew by every seed: what holds of one draw only does not hold.
            None if rate > 0.0 => trace.resampled(seed),
            None => trace,
        };
        (trace, SimConfig { seed, ..self.config.clone() })
    }
}

/// Simulations that a capacity search takes, about.
const PROBES: usize = 20;
