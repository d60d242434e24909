//! Their decider of whether prefill goes to another pod.

use std::num::NonZeroU32;

use kv_index::BlockSize;
use routing_core::{ProfileBuilder, RoutingInput, RoutingPlan, StepBuilder, WorkflowBuilder};
use routing_plugins::condition::{UncachedCondition, UncachedParameters};
use routing_plugins::prepare::GivenTokensPreparer;

use super::given::{hold, known, profile, whole, with_search};
use crate::case::{Case, fleet, request};

pub(super) fn decide(case: &Case) -> Result<(), String> {
    known(&case.params, &["nonCachedTokens", "promptTokens"])?;
    known(&case.input, &["input_tokens", "cached_blocks", "block_size", "prefix_info"])?;
    known(&case.expected, &["disaggregate"])?;
    let expected = case.expected["disaggregate"].as_bool().ok_or("neither true nor false")?;
    let found = disaggregates(case)?;
    if found == expected { Ok(()) } else { Err(format!("disaggregates: {found}, expected {expected}")) }
}

fn disaggregates(case: &Case) -> Result<bool, String> {
    let narrow = |number: Option<u64>| u32::try_from(number.unwrap_or_default()).map_err(|error| error.to_string());
    // With 0, theirs is switched off: our workflow has no such step.
    let Some(tokens) = NonZeroU32::new(narrow(whole(&case.params, "nonCachedTokens")?)?) else { return Ok(false) };
    let parameters =
        UncachedParameters::new("decode", tokens).prompt_tokens(narrow(whole(&case.params, "promptTokens")?)?);
    let prompt: Vec<u32> = (0..narrow(whole(&case.input, "input_tokens")?)?).collect();
    let (index, fleet) = fleet(1, |_, pod| pod);
    let decode = if case.input.get("prefix_info").is_some_and(|info| info.is_null()) {
        profile("decode").preparer("tokens", GivenTokensPreparer::declare)
    } else {
        let size = BlockSize::new(narrow(whole(&case.input, "block_size")?)?).ok_or("unknown block size of 0")?;
        let held = whole(&case.input, "cached_blocks")?.unwrap_or_default() as usize * size.tokens();
        hold(&index, 0, prompt.get(..held).ok_or("unknown: more is cached than there is")?, size)?;
        with_search(profile("decode"), index, size)
    };
    let prefill: ProfileBuilder = profile("prefill");
    let prefill = StepBuilder::new("prefill", prefill)
        .when("uncached", move |declare| <UncachedCondition>::declare(declare, &parameters));
    let built = WorkflowBuilder::new().step(StepBuilder::new("decode", decode)).step(prefill).build();
    if !case.input["block_size"].is_u64() {
        // Of what theirs finds missing at every request, ours complains once, before there is a request.
        let faults = built.err().ok_or("it was built without a search")?.to_string();
        return if faults.contains("kv.prefix_matches") { Ok(false) } else { Err(faults) };
    }
    let workflow = built.map_err(|error| error.to_string())?;
    let mut plan = RoutingPlan::default();
    workflow
        .decide(&mut workflow.workspace(), RoutingInput::new(&request().tokens(&prompt), &fleet), &mut plan)
        .map_err(|error| error.to_string())?;
    Ok(plan.step("prefill").is_some())
}
