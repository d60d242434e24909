//! Capacity filter: pods with context length and KV cache for the request.

use kv_index::{DEFAULT_POD_WORDS, PodId, PodSet};
use routing_core::{Declare, Filter, PluginError, PodInfo, PrefixMatches, Read, RoutingContext, TryRead};

use crate::filter::retain::retain;
use crate::load::{PodLoad, share};

use crate::prepare::{Loads, PromptChain};
use crate::score::uncached;
use crate::tokens::PromptTokens;

/// What [`CapacityFilter`] takes.
#[derive(Clone, Copy, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct CapacityParameters {
    /// Tokens that a request generates which does not say how many it may; 0 unless given.
    pub output_tokens: u32,
}

crate::parameters::setters! { CapacityParameters {
    output_tokens: u32,
} }

/// Keeps the pods with context and KV cache for the prompt and its answer.
///
/// With output = [`most_output`](routing_core::Request::most_output), or `output_tokens`, a pod stays if
///
/// - prompt + output ≤ its [`context_tokens`](PodInfo::context_tokens), and
/// - uncached + output ≤ its [`kv_tokens`](PodInfo::kv_tokens) × (1 − KV use), in whole tokens, where uncached is what the
///   pod does not hold of the prompt. If nothing prepares what pods hold, that is all of it.
///
/// A pod that does not tell a figure is not left out by it; one whose KV use is not a number counts as full. What a pod holds is counted as if it took no room; where
/// nobody else uses it at the moment, an engine may count it as free, and then a pod that stays can be short of it.
///
/// `OnEmpty::Fail` is sensible for contexts: engines refuse what does not fit. If room is what most requests lack, a second
/// filter for it is better a [`UtilizationFilter`](crate::extra::UtilizationFilter) that gives way.
#[derive(Clone, Copy, Debug)]
pub struct CapacityFilter<const W: usize = DEFAULT_POD_WORDS> {
    output_tokens: u32,
    tokens: Read<PromptTokens>,
    loads: Read<Loads>,
    held: TryRead<PrefixMatches<W>>,
    chain: TryRead<PromptChain>,
}

impl<const W: usize> CapacityFilter<W> {
    /// Declares that it reads tokens and loads, and what pods hold if that is there.
    pub fn declare(declare: &mut Declare<'_>, parameters: CapacityParameters) -> Self {
        let CapacityParameters { output_tokens } = parameters;
        let (tokens, loads) = (declare.reads(), declare.reads());
        Self { output_tokens, tokens, loads, held: declare.tries(), chain: declare.tries() }
    }
}

impl<const W: usize> Filter<W> for CapacityFilter<W> {
    fn filter(&self, context: &RoutingContext<'_, W>, candidates: PodSet<W>) -> Result<PodSet<W>, PluginError> {
        let (request, fleet, loads) = (context.request(), context.fleet(), context.read(self.loads)?);
        let prompt = context.read(self.tokens)?.of(request).len() as u64;
        let output = u64::from(request.most_output.unwrap_or(self.output_tokens));
        let fits = |pod: PodId, uncached: u64| {
            let Some(info) = fleet.pod(pod) else { return true };
            has_context(info, prompt + output) && has_room(info, &loads.of(pod), uncached + output)
        };
        let held = context.try_read(self.held)?.zip(context.try_read(self.chain)?);
        let (mut rest, mut kept) = (candidates, PodSet::EMPTY);
        if let Some((held, chain)) = held {
            for group in held.groups() {
                let lacking = uncached(prompt, chain.block_tokens() as u64, held, group.depth);
                kept = kept | retain(candidates & group.pods, |pod| fits(pod, lacking));
                // Whom it does not fit on though they hold some of it, it fits on no better without.
                rest = rest - group.pods;
            }
        }
        Ok(kept | retain(rest, |pod| fits(pod, prompt)))
    }
}

fn has_context(info: &PodInfo, tokens: u64) -> bool {
    info.context_tokens.is_none_or(|most| tokens <= u64::from(most))
}

fn has_room(info: &PodInfo, load: &PodLoad, tokens: u64) -> bool {
    let used = f64::from(share(load.kv_used));
    // Use is a single: rounded, or a cache that is free for 200 tokens would have room for 199.
    info.kv_tokens.is_none_or(|all| tokens as f64 <= (all as f64 * (1.0 - used)).round())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::testing::{BLOCK, Setup, request};

    fn kept<const W: usize>(setup: &Setup<W>, prompt: &[u32], most_output: Option<u32>, output: u32) -> Vec<usize> {
        let request = request().tokens(prompt);
        let request = most_output.map_or(request, |most| request.most_output(most));
        let parameters = CapacityParameters { output_tokens: output };
        setup.kept(request, move |declare| CapacityFilter::<W>::declare(declare, parameters))
    }

    fn context<const W: usize>() {
        let setup = Setup::<W>::new(3).pod(0, |pod| pod.context_tokens(20)).pod(1, |pod| pod.context_tokens(30));
        let prompt: Vec<u32> = (0..20).collect();
        assert_eq!(kept(&setup, &prompt, None, 0), [0, 1, 2]);
        assert_eq!(kept(&setup, &prompt, Some(1), 0), [1, 2]);
        assert_eq!(kept(&setup, &prompt, Some(11), 0), [2], "who does not tell stays");
        assert_eq!(kept(&setup, &prompt, None, 10), [1, 2], "the default counts");
        assert_eq!(kept(&setup, &prompt, Some(0), 10), [0, 1, 2], "what the request says counts first");
    }

    #[test]
    fn prompts_and_answers_must_fit_the_context() {
        context::<1>();
        context::<4>();
        context::<16>();
    }

    fn room<const W: usize>() {
        let prompt: Vec<u32> = (0..40).collect();
        let setup = Setup::<W>::new(5)
            .pod(0, |pod| pod.kv_tokens(200))
            .load(0, |load| load.kv_used = 0.8)
            .pod(1, |pod| pod.kv_tokens(200))
            .load(1, |load| load.kv_used = 0.85)
            .pod(2, |pod| pod.kv_tokens(200))
            .load(2, |load| load.kv_used = 0.85)
            .holds(2, &prompt[..3 * BLOCK])
            .pod(3, |pod| pod.kv_tokens(200))
            .load(3, |load| load.kv_used = f32::NAN);
        assert_eq!(kept(&setup, &prompt, None, 0), [0, 2, 4], "40 fit into 40, not into 30; 28 do; nothing into NaN");
        assert_eq!(kept(&setup, &prompt, Some(2), 0), [2, 4]);
        assert_eq!(kept(&setup, &prompt, Some(3), 0), [4]);
    }

    #[test]
    fn what_is_not_held_must_fit_the_cache() {
        room::<1>();
        room::<4>();
        room::<16>();
    }

    #[test]
    fn without_a_search_nothing_is_held() {
        use routing_core::{OnEmpty, ProfileBuilder};

        use crate::prepare::{GivenTokensPreparer, LoadParameters, LoadPreparer};

        let built = <ProfileBuilder>::new("serve")
            .preparer("tokens", GivenTokensPreparer::declare)
            .preparer("loads", |declare| {
                <LoadPreparer>::declare(declare, LoadParameters::default(), Default::default())
            })
            .filter("capacity", OnEmpty::Fail, |declare| {
                <CapacityFilter>::declare(declare, CapacityParameters::default())
            })
            .build();
        let faults = built.unwrap_err().to_string();
        assert!(!faults.contains("kv.prefix_matches") && !faults.contains("prompt.chain"), "{faults}");
    }
}
