//! Their decider of whether prefill goes to another pod.

use std::num::NonZeroU32;

use kv_index::{BlockSize, Tier};
use routing_core::{DecideError, ProfileBuilder, RoutingInput, RoutingPlan, StepBuilder, WorkflowBuilder};
use routing_plugins::extra::{UncachedCondition, UncachedParameters};
use routing_plugins::prepare::GivenTokensPreparer;
use serde_json::Value;

use super::given::{hold, profile, with_search};
use crate::case::{Case, fleet, request};
use crate::read::{known, known_case, refused, signed, whole};

pub(super) fn decide(case: &Case) -> Result<(), String> {
    known_case(
        case,
        &["nonCachedTokens", "promptTokens"],
        &["input_tokens", "cached_blocks", "weighted_blocks", "block_size", "prefix_info", "endpoint"],
    )?;
    known(&case.expected, &["disaggregate", "error"])?;
    let tokens = |name| number(signed(&case.params, name)?);
    let thresholds = tokens("nonCachedTokens").and_then(|uncached| Ok((uncached, tokens("promptTokens")?)));
    if case.is_of_parameters() {
        return refused(case, thresholds);
    }
    let expected = case.expected["disaggregate"].as_bool().ok_or("neither true nor false")?;
    let (uncached, prompt) = thresholds?;
    // With 0, theirs is switched off: our workflow has no such step.
    let found = match NonZeroU32::new(uncached) {
        None => false,
        Some(uncached) => disaggregates(case, UncachedParameters::new("decode", uncached).prompt_tokens(prompt))?,
    };
    if found == expected { Ok(()) } else { Err(format!("found disaggregates: {found}, expected {expected}")) }
}

fn number(number: Option<i64>) -> Result<u32, String> {
    u32::try_from(number.unwrap_or_default()).map_err(|error| error.to_string())
}

/// Without an endpoint there is nobody that decodes, and so no plan that has a prefill.
fn disaggregates(case: &Case, parameters: UncachedParameters) -> Result<bool, String> {
    let prompt: Vec<u32> = (0..number(signed(&case.input, "input_tokens")?)?).collect();
    let is_absent = |name| case.input.get(name).is_some_and(Value::is_null);
    let (index, fleet) = fleet(usize::from(!is_absent("endpoint")), |_, pod| pod);
    let decode = if is_absent("prefix_info") {
        profile("decode").preparer("tokens", GivenTokensPreparer::declare)
    } else if is_absent("endpoint") {
        with_search(profile("decode"), index, BlockSize::new(1).ok_or("a size")?)
    } else {
        let size = BlockSize::new(number(signed(&case.input, "block_size")?)?).ok_or("unknown block size of 0")?;
        let (blocks, weighted) = (whole(&case.input, "cached_blocks")?, whole(&case.input, "weighted_blocks")?);
        // What a slower tier holds weighs less with theirs; what is counted, there and here, are blocks.
        let tier = if weighted < blocks && weighted.is_some() { Tier::Host } else { Tier::Gpu };
        let held = blocks.or(weighted).unwrap_or_default() as usize * size.tokens();
        hold(&index, 0, tier, prompt.get(..held).ok_or("unknown: more is cached than there is")?, size)?;
        with_search(profile("decode"), index, size)
    };
    let prefill: ProfileBuilder = profile("prefill");
    let prefill = StepBuilder::new("prefill", prefill)
        .when("uncached", move |declare| <UncachedCondition>::declare(declare, &parameters));
    let built = WorkflowBuilder::new().step(StepBuilder::new("decode", decode)).step(prefill).build();
    if is_absent("prefix_info") {
        // Of what theirs finds missing at every request, ours complains once, before there is a request.
        let faults = built.err().ok_or("it was built without a search")?.to_string();
        return if faults.contains("kv.prefix_matches") { Ok(false) } else { Err(faults) };
    }
    let workflow = built.map_err(|error| error.to_string())?;
    let mut plan = RoutingPlan::default();
    let request = request().tokens(&prompt);
    match workflow.decide(&mut workflow.workspace(), RoutingInput::new(&request, &fleet), &mut plan) {
        Err(DecideError::NoneOffered { .. }) if fleet.pods().is_empty() => Ok(false),
        decided => decided.map(|()| plan.step("prefill").is_some()).map_err(|error| error.to_string()),
    }
}
