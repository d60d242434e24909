//! Linear cost scorer: a weighted sum of prefill, decode and requests.

use kv_index::DEFAULT_POD_WORDS;
use routing_core::{Declare, PluginError, Read, RoutingContext, Scorer, Scores};

use super::normalize;
use super::prompt::PromptReads;
use crate::parameters::{Amount, parameters};
use crate::prepare::Loads;

parameters! {
    /// What [`LinearCostScorer`] takes.
    #[derive(Clone, Copy, Debug, PartialEq)]
    #[cfg_attr(feature = "serde", serde(try_from = "Raw"))]
    pub struct LinearCostParameters {
        /// What a block counts that has to be computed; 1, unless given.
        pub prefill: Amount = Amount::ONE,
        /// How much of a held block is taken off what has to be computed; 1, unless given.
        pub credit: Amount = Amount::ONE,
        /// What a block counts that requests on the pod occupy; 1, unless given.
        pub decode: Amount = Amount::ONE,
        /// What a request on the pod counts, in blocks; 0, unless given.
        pub request: Amount = Amount::ZERO,
    }
}

/// Amounts as documents give them.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    prefill: Option<Amount>,
    credit: Option<Amount>,
    decode: Option<Amount>,
    request: Option<Amount>,
}

#[cfg(feature = "serde")]
impl TryFrom<Raw> for LinearCostParameters {
    type Error = &'static str;

    fn try_from(raw: Raw) -> Result<Self, &'static str> {
        let default = Self::default();
        let amounts = Self {
            prefill: raw.prefill.unwrap_or(default.prefill),
            credit: raw.credit.unwrap_or(default.credit),
            decode: raw.decode.unwrap_or(default.decode),
            request: raw.request.unwrap_or(default.request),
        };
        let costs = [amounts.prefill, amounts.decode, amounts.request];
        if costs == [Amount::ZERO; 3] { Err("nothing costs anything") } else { Ok(amounts) }
    }
}

/// Scores by a sum of costs: 1 for the cheapest candidate, 0 for the dearest, all 1 when equal.
///
/// The cost, in blocks, is `prefill · max(0, active + incoming − credit · held) + decode · occupied + request · requests`:
/// `active` are the uncached tokens in flight and `incoming` the prompt's tokens, both as blocks and parts of blocks; `held`
/// are the prompt's leading blocks that the pod holds; `occupied` are the tokens of all requests on the pod, as blocks. The
/// request itself would occupy as many blocks on every pod, so they are left out.
#[derive(Debug)]
pub struct LinearCostScorer<const W: usize = DEFAULT_POD_WORDS> {
    parameters: LinearCostParameters,
    loads: Read<Loads>,
    prompt: PromptReads<W>,
}

impl<const W: usize> LinearCostScorer<W> {
    /// Declares that it reads loads and who holds the prompt.
    pub fn declare(declare: &mut Declare<'_>, parameters: LinearCostParameters) -> Self {
        Self { parameters, loads: declare.reads(), prompt: PromptReads::declare(declare) }
    }
}

impl<const W: usize> Scorer<W> for LinearCostScorer<W> {
    fn score(&self, context: &RoutingContext<'_, W>, scores: &mut Scores<'_, W>) -> Result<(), PluginError> {
        let (loads, prompt) = (context.read(self.loads)?, self.prompt.read(context)?);
        let LinearCostParameters { prefill, credit, decode, request } = self.parameters;
        let (block, incoming) = (prompt.block as f64, prompt.tokens as f64);
        normalize::by_cost_and_depth(scores, prompt.held, |pod, depth| {
            let load = loads.of(pod);
            let held = (incoming - prompt.uncached(depth) as f64) / block;
            let computed = (load.in_flight.uncached_tokens as f64 + incoming) / block - credit.get() * held;
            let cost = prefill.get() * computed.max(0.0)
                + decode.get() * (load.tokens as f64 / block)
                + request.get() * f64::from(load.requests);
            // Amounts are finite, and may still multiply to more than there are numbers.
            cost.min(f64::MAX)
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::load::PodLoad;
    use crate::score::testing::{BLOCK, Scene, any_load};

    fn amounts([prefill, credit, decode, request]: [f64; 4]) -> LinearCostParameters {
        let amount = |number| Amount::new(number).unwrap();
        LinearCostParameters {
            prefill: amount(prefill),
            credit: amount(credit),
            decode: amount(decode),
            request: amount(request),
        }
    }

    fn scene() -> Scene {
        Scene::new(3).prompt(10 * BLOCK, &[4, 0, 10]).loads(|at| {
            let mut load = PodLoad { tokens: [0, 32, 160][at], requests: [1, 2, 9][at], ..PodLoad::default() };
            load.in_flight.uncached_tokens = [16, 0, 0][at];
            load
        })
    }

    fn scores(parameters: LinearCostParameters) -> Vec<f32> {
        scene().scores(move |d| LinearCostScorer::declare(d, parameters))
    }

    #[test]
    fn the_costs_add_up() {
        // 1 + 10 − 4 + 0 = 7; 10 + 2 = 12; 0 + 10 = 10.
        assert_eq!(scores(LinearCostParameters::default()), [1.0, 0.0, 0.4]);
        // 2 · 9 + 0.5 · 1 = 18.5; 2 · 10 + 0.5 · 2 = 21; 2 · 5 + 0.5 · 9 = 14.5: half the credit, decode for nothing.
        assert_eq!(scores(amounts([2.0, 0.5, 0.0, 0.5])), [2.5 / 6.5, 0.0, 1.0]);
    }

    #[test]
    fn what_is_held_pays_for_no_more_than_there_is_to_compute() {
        // 0, 10 and 0 blocks, though ten times as many are credited.
        assert_eq!(scores(amounts([1.0, 10.0, 0.0, 0.0])), [1.0, 0.0, 1.0]);
    }

    #[cfg(feature = "serde")]
    #[test]
    fn something_must_cost() {
        let read = |text| serde_json::from_str::<LinearCostParameters>(text);
        assert!(read(r#"{"prefill": 0, "decode": 0}"#).is_err() && read(r#"{"decodes": 1}"#).is_err());
        assert_eq!(read(r#"{"prefill": 0, "decode": 0, "request": 2}"#).unwrap(), amounts([0.0, 1.0, 0.0, 2.0]));
    }

    proptest! {
        /// Whatever the loads and amounts, scores lie in 0..=1.
        #[test]
        fn scores_are_in_range(
            loads in prop::collection::vec(any_load(), 1..8),
            numbers in prop::array::uniform4(prop_oneof![0.0..10.0, Just(f64::MAX)]),
        ) {
            let parameters = amounts(numbers);
            let scene = Scene::new(loads.len()).prompt(10 * BLOCK, &[3]).loads(|at| loads[at]);
            let scores = scene.scores(move |d| LinearCostScorer::declare(d, parameters));
            prop_assert!(scores.iter().all(|score| (0.0..=1.0).contains(score)), "{scores:?}");
            prop_assert!(scores.contains(&1.0));
        }
    }
}
