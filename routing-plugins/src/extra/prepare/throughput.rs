//! Constant-throughput latency predictor: time to first token by prefill rate.

use kv_index::DEFAULT_POD_WORDS;
use std::time::Duration;

use routing_core::{Declare, PluginError, PrepareContext, Preparer, Read, Write};

use crate::extra::{Prediction, Predictions};
use crate::parameters::{Positive, parameters};
use crate::prepare::Loads;
use crate::score::PromptReads;

parameters! {
    /// What [`ThroughputPredictor`] takes.
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct ThroughputParameters {
        /// Prompt tokens that a pod computes in a second; 15,000, unless given. Measure it.
        pub prefill_rate: Positive = const { Positive::constant(15_000.0) },
    }
}

/// Writes [`Predictions`] of the time to the first token: `(uncached in flight + uncached of this request) / rate`.
///
/// It takes prompts to be computed one after the other, and foreign requests not to be there; for each token after the
/// first nothing is predicted.
#[derive(Debug)]
pub struct ThroughputPredictor<const W: usize = DEFAULT_POD_WORDS> {
    rate: f64,
    loads: Read<Loads>,
    prompt: PromptReads<W>,
    predictions: Write<Predictions>,
}

impl<const W: usize> ThroughputPredictor<W> {
    /// Declares that it reads loads and who holds the prompt, and writes predictions.
    pub fn declare(declare: &mut Declare<'_>, parameters: ThroughputParameters) -> Self {
        let (loads, prompt) = (declare.reads(), PromptReads::declare(declare));
        Self { rate: parameters.prefill_rate.get(), loads, prompt, predictions: declare.writes() }
    }
}

impl<const W: usize> Preparer<W> for ThroughputPredictor<W> {
    fn prepare(&self, context: &mut PrepareContext<'_, W>) -> Result<(), PluginError> {
        let (request, fleet) = (context.request(), context.fleet());
        let (reads, table) = context.write(self.predictions)?;
        let (loads, prompt) = (reads.read(self.loads)?, self.prompt.read_from(&reads, request)?);
        prompt.by_depth(fleet.pods(), |pods, depth| {
            for pod in pods {
                let tokens = loads.of(pod).in_flight.uncached_tokens as f64 + prompt.uncached(depth) as f64;
                let ttft = Duration::try_from_secs_f64(tokens / self.rate).unwrap_or(Duration::MAX);
                table.set(pod, Prediction { ttft: Some(ttft), tpot: None });
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extra::{HeadroomParameters, HeadroomScorer};
    use crate::load::PodLoad;
    use crate::score::testing::{BLOCK, Scene};

    #[test]
    fn the_time_is_that_of_all_tokens_yet_to_be_computed() {
        let scene = Scene::new(3).prompt(10 * BLOCK, &[5]).loads(|at| {
            let mut load = PodLoad::default();
            load.in_flight.uncached_tokens = if at == 2 { 3 * BLOCK as u64 } else { 0 };
            load
        });
        // 80, 160 and 208 tokens at 1,000 a second; 160 ms are allowed, and only the third takes longer.
        let parameters = ThroughputParameters { prefill_rate: Positive::new(1_000.0).unwrap() };
        let headroom = HeadroomParameters { ttft_target_ms: Positive::new(160.0), ..HeadroomParameters::default() };
        let profile = scene
            .profile()
            .preparer("predict", move |d: &mut Declare<'_>| ThroughputPredictor::declare(d, parameters))
            .scorer("headroom", 1.0, move |d: &mut Declare<'_>| HeadroomScorer::declare(d, headroom));
        assert_eq!(scene.scores_of(&scene.request(), profile), [0.01, 1.0, 0.0]);
    }
}
