//! Profiles around one filter.

use std::sync::Arc;

use kv_index::{BlockSize, ChainHasher, ChainSeed, Event, EventSemantics, Index, PodId, PodSet, Stored, Tier};
use routing_core::{Declare, Filter, Fleet, OnEmpty, ProfileBuilder, Request, RoutingInput, RoutingPlan, Trace};
use routing_plugins::Hashing;
use routing_plugins::load::PodLoad;
use routing_plugins::prepare::{
    BlockHashParameters, BlockHashPreparer, GivenTokensPreparer, Loads, PrefixMatchPreparer,
};
use serde_json::Value;

use crate::case::Case;
use crate::plugins::{Best, Given};
use crate::read::{flag, known, list};

/// What theirs fails open by is ours to say in the profile.
pub(super) fn on_empty(params: &Value, name: &str) -> Result<OnEmpty, String> {
    Ok(if flag(params, name)? { OnEmpty::KeepPrevious } else { OnEmpty::Fail })
}

/// Whether the pods that stayed are those expected.
pub(super) fn as_expected(case: &Case, kept: &[usize]) -> Result<(), String> {
    known(&case.expected, &["kept"])?;
    let expected: Option<Vec<u64>> = list(&case.expected, "kept")?.iter().map(Value::as_u64).collect();
    let kept: Vec<u64> = kept.iter().map(|pod| *pod as u64).collect();
    if Some(&kept) == expected.as_ref() { Ok(()) } else { Err(format!("kept {kept:?}, expected {expected:?}")) }
}

/// Who stays when a profile's only filter has run.
pub(super) fn kept<F: Filter + 'static>(
    profile: ProfileBuilder,
    request: &Request<'_>,
    fleet: &Fleet,
    on_empty: OnEmpty,
    declare: impl FnOnce(&mut Declare<'_>) -> F + Send + 'static,
) -> Result<Vec<usize>, String> {
    if fleet.pods().is_empty() {
        // Ours does not ask a filter then.
        return Ok(Vec::new());
    }
    let workflow = profile.filter("filter", on_empty, declare).build().map_err(|error| error.to_string())?;
    let (mut plan, mut trace) = (RoutingPlan::default(), Trace::default());
    let decided =
        workflow.decide(&mut workflow.workspace(), RoutingInput::new(request, fleet).traced(&mut trace), &mut plan);
    let step = trace.steps.last().ok_or("no step")?;
    let filter = step.filters.first().ok_or_else(|| format!("the filter did not run: {decided:?}"))?;
    let removed = if filter.passed_over { PodSet::EMPTY } else { filter.removed };
    let kept = step.offered - removed;
    if kept.is_empty() != decided.is_err() {
        return Err(format!("decided {decided:?}"));
    }
    Ok(kept.iter().map(|pod| pod.index()).collect())
}

/// A profile that picks anybody.
pub(super) fn profile(name: &str) -> ProfileBuilder {
    ProfileBuilder::new(name).picker("anybody", |_: &mut Declare<'_>| Best)
}

/// The same with loads, in the order of the pods.
pub(super) fn with_loads(profile: ProfileBuilder, loads: Vec<PodLoad>) -> ProfileBuilder {
    let loads: Vec<_> = loads.into_iter().enumerate().map(|(at, load)| (PodId::new(at as u16), load)).collect();
    profile.preparer("loads", |d| Given::<Loads, _>(d.writes(), move || loads.iter().copied().collect()))
}

/// The same with tokens and a search.
pub(super) fn with_search(profile: ProfileBuilder, index: Arc<Index>, size: BlockSize) -> ProfileBuilder {
    profile
        .preparer("tokens", GivenTokensPreparer::declare)
        .preparer("chain", move |declare| {
            BlockHashPreparer::declare(declare, BlockHashParameters::default(), Hashing::Native(size))
        })
        .preparer("held", |declare| PrefixMatchPreparer::declare(declare, index))
}

/// Lets a pod hold the first blocks of a prompt, in a tier.
pub(super) fn hold(index: &Index, pod: usize, tier: Tier, tokens: &[u32], size: BlockSize) -> Result<(), String> {
    let pod = index.pod(&format!("pod-{pod}")).ok_or("no such pod")?;
    let blocks = ChainHasher::new(ChainSeed::new("m"), size).hash(tokens);
    index
        .apply(pod, EventSemantics::Copies, &Event::Stored(Stored::prompt(&blocks).in_tier(tier)))
        .map_err(|gone| gone.to_string())?;
    Ok(())
}
