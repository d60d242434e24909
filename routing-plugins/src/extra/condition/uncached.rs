//! Conditional disaggregation: a prefill step only where the decode pod lacks enough of the prompt.

use kv_index::DEFAULT_POD_WORDS;
use std::num::NonZeroU32;

use routing_core::{Condition, Declare, PluginError, PrefixMatches, Read, ReadPick, RoutingContext};

use crate::prepare::PromptChain;
use crate::score::{length, uncached};
use crate::tokens::PromptTokens;

/// What [`UncachedCondition`] takes.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct UncachedParameters {
    /// The step whose pick is asked what it holds.
    pub step: Box<str>,
    /// The fewest tokens that pod must lack.
    pub tokens: NonZeroU32,
    /// The fewest tokens the prompt must have; any number, unless given.
    #[cfg_attr(feature = "serde", serde(default))]
    pub prompt_tokens: u32,
}

impl UncachedParameters {
    /// For prompts of any length.
    #[must_use]
    pub fn new(step: &str, tokens: NonZeroU32) -> Self {
        Self { step: step.into(), tokens, prompt_tokens: 0 }
    }

    /// The same for prompts of at least so many tokens.
    #[must_use]
    pub fn prompt_tokens(self, tokens: u32) -> Self {
        Self { prompt_tokens: tokens, ..self }
    }
}

/// Holds if the pod that another step picked lacks so much of the prompt that it is worth another pod.
///
/// Lacking = tokens of the prompt − leading blocks the pod holds × tokens in a block. It holds if lacking ≥ `tokens` and
/// the prompt has ≥ `prompt_tokens`. What is beyond the last whole block counts, and the
/// limit means the same whatever the block size.
///
/// Where only the prompt's beginning is searched for, a pod that holds all of that is taken to lack nothing beyond it but
/// the tokens after the last whole block.
#[derive(Clone, Copy, Debug)]
pub struct UncachedCondition<const W: usize = DEFAULT_POD_WORDS> {
    lacking: u64,
    prompt: u64,
    tokens: Read<PromptTokens>,
    chain: Read<PromptChain>,
    held: Read<PrefixMatches<W>>,
    pick: ReadPick,
}

impl<const W: usize> UncachedCondition<W> {
    /// Declares that it reads the prompt, what pods hold of it, and what the step picked.
    pub fn declare(declare: &mut Declare<'_>, parameters: &UncachedParameters) -> Self {
        Self {
            lacking: u64::from(parameters.tokens.get()),
            prompt: u64::from(parameters.prompt_tokens),
            tokens: declare.reads(),
            chain: declare.reads(),
            held: declare.reads(),
            pick: declare.reads_pick(&parameters.step),
        }
    }
}

impl<const W: usize> Condition<W> for UncachedCondition<W> {
    fn holds(&self, context: &RoutingContext<'_, W>) -> Result<bool, PluginError> {
        let tokens = context.read(self.tokens)?.of(context.request()).len() as u64;
        let (held, block) = (context.read(self.held)?, context.read(self.chain)?.block_tokens() as u64);
        let tokens = length(tokens, block, held);
        let lacking = uncached(tokens, block, held, held.depth(context.pick(self.pick)?));
        Ok(tokens >= self.prompt && lacking >= self.lacking)
    }
}

#[cfg(test)]
mod tests {
    use routing_core::{RoutingInput, RoutingPlan, StepBuilder, WorkflowBuilder};

    use super::*;
    use crate::filter::testing::{BLOCK, Setup, request};

    /// Whether prefill is taken for a prompt of 42 tokens, of which the only pod holds so many blocks.
    fn is_taken<const W: usize>(blocks: usize, parameters: &UncachedParameters) -> bool {
        is_taken_within::<W>(None, blocks, parameters)
    }

    /// The same where only so many tokens of the prompt are searched for.
    fn is_taken_within<const W: usize>(most: Option<u32>, blocks: usize, parameters: &UncachedParameters) -> bool {
        let prompt: Vec<u32> = (0..42).collect();
        let setup = Setup::<W>::new(1).holds(0, &prompt[..blocks * BLOCK]);
        let picker = setup.profile("decode");
        let parameters = parameters.clone();
        let prefill = StepBuilder::new("prefill", Setup::<W>::anybody("prefill"))
            .when("uncached", move |declare| UncachedCondition::<W>::declare(declare, &parameters));
        let workflow = WorkflowBuilder::new().step(StepBuilder::new("decode", picker)).step(prefill).build().unwrap();
        let mut plan = RoutingPlan::default();
        let request = request().tokens(&prompt);
        let request = most.map_or(request, |most| request.most_prefix(most));
        workflow.decide(&mut workflow.workspace(), RoutingInput::new(&request, &setup.fleet()), &mut plan).unwrap();
        plan.step("prefill").is_some()
    }

    fn lacking(tokens: u32) -> UncachedParameters {
        UncachedParameters::new("decode", NonZeroU32::new(tokens).unwrap())
    }

    fn check<const W: usize>() {
        assert!(is_taken::<W>(0, &lacking(42)));
        assert!(!is_taken::<W>(0, &lacking(43)));
        assert!(is_taken::<W>(10, &lacking(2)), "what is beyond the last block counts");
        assert!(!is_taken::<W>(10, &lacking(3)));
    }

    #[test]
    fn what_is_lacking_decides() {
        check::<1>();
        check::<4>();
        check::<16>();
    }

    #[test]
    fn who_holds_all_that_counts_lacks_nothing_beyond_it() {
        let most = Some(4 * BLOCK as u32);
        assert!(!is_taken_within::<4>(most, 10, &lacking(3)) && is_taken_within::<4>(most, 10, &lacking(2)));
        assert!(!is_taken_within::<4>(most, 4, &lacking(3)), "what is beyond is not known, and taken to be held");
        assert!(is_taken_within::<4>(most, 3, &lacking(42 - 3 * BLOCK as u32)));
        assert!(is_taken_within::<4>(Some(1), 10, &lacking(42)), "where nothing counts nothing is held");
    }

    #[test]
    fn short_prompts_can_be_excepted() {
        assert!(is_taken::<4>(0, &lacking(5).prompt_tokens(42)));
        assert!(!is_taken::<4>(0, &lacking(5).prompt_tokens(43)));
    }

    #[test]
    fn without_a_search_it_does_not_build() {
        let step = |name: &str| <StepBuilder>::new(name, <Setup>::anybody(name));
        let condition = step("prefill").when("uncached", |d| <UncachedCondition>::declare(d, &lacking(1)));
        let faults = WorkflowBuilder::new().step(step("decode")).step(condition).build().unwrap_err().to_string();
        for slot in ["kv.prefix_matches", "prompt.tokens", "prompt.chain"] {
            assert!(faults.contains(slot), "{faults}");
        }
    }

    #[cfg(feature = "serde")]
    #[test]
    fn parameters_must_name_a_step_and_a_number() {
        let read = |text| serde_json::from_str::<UncachedParameters>(text);
        assert_eq!(read(r#"{"step": "decode", "tokens": 16}"#).unwrap().prompt_tokens, 0);
        assert!(read(r#"{"step": "decode"}"#).is_err() && read(r#"{"tokens": 16}"#).is_err());
        assert!(read(r#"{"step": "decode", "tokens": 0}"#).is_err());
    }
}
