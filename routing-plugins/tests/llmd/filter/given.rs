//! What cases give, read strictly, and profiles around one filter.

use std::sync::Arc;

use kv_index::{BlockSize, ChainHasher, ChainSeed, Event, EventSemantics, Index, PodSet, Stored};
use routing_core::{
    Declare, Filter, Fleet, OnEmpty, Picker, PluginError, PrepareContext, Preparer, ProfileBuilder, Ranking, Request,
    RoutingContext, RoutingInput, RoutingPlan, Totals, Trace, Write,
};
use routing_plugins::Hashing;
use routing_plugins::load::PodLoad;
use routing_plugins::prepare::{
    BlockHashParameters, BlockHashPreparer, GivenTokensPreparer, LoadTable, Loads, PrefixMatchPreparer,
};
use serde_json::Value;

use crate::case::Case;

/// Refuses names that a mapping does not know.
pub(super) fn known(value: &Value, names: &[&str]) -> Result<(), String> {
    let object = value.as_object().ok_or_else(|| format!("not an object: {value}"))?;
    match object.keys().find(|name| !names.contains(&name.as_str())) {
        Some(name) => Err(format!("unknown `{name}`")),
        None => Ok(()),
    }
}

pub(super) fn number(value: &Value, name: &str) -> Result<Option<f64>, String> {
    match &value[name] {
        Value::Null => Ok(None),
        number => number.as_f64().map(Some).ok_or_else(|| format!("`{name}` is no number: {number}")),
    }
}

pub(super) fn whole(value: &Value, name: &str) -> Result<Option<u64>, String> {
    match &value[name] {
        Value::Null => Ok(None),
        number => number.as_u64().map(Some).ok_or_else(|| format!("`{name}` is no whole number: {number}")),
    }
}

pub(super) fn list<'v>(value: &'v Value, name: &str) -> Result<&'v [Value], String> {
    value[name].as_array().map(Vec::as_slice).ok_or_else(|| format!("`{name}` is no list"))
}

/// What theirs fails open by is ours to say in the profile.
pub(super) fn on_empty(params: &Value, name: &str) -> Result<OnEmpty, String> {
    match &params[name] {
        Value::Null | Value::Bool(false) => Ok(OnEmpty::Fail),
        Value::Bool(true) => Ok(OnEmpty::KeepPrevious),
        other => Err(format!("`{name}` is neither true nor false: {other}")),
    }
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
    ProfileBuilder::new(name).picker("anybody", |_: &mut Declare<'_>| Anybody)
}

/// The same with loads, in the order of the pods.
pub(super) fn with_loads(profile: ProfileBuilder, loads: Vec<PodLoad>) -> ProfileBuilder {
    profile.preparer("loads", |declare| GivenLoads { loads, table: declare.writes() })
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

/// Lets a pod hold the first blocks of a prompt.
pub(super) fn hold(index: &Index, pod: usize, tokens: &[u32], size: BlockSize) -> Result<(), String> {
    let pod = index.pod(&format!("pod-{pod}")).ok_or("no such pod")?;
    let blocks = ChainHasher::new(ChainSeed::new("m"), size).hash(tokens);
    index
        .apply(pod, EventSemantics::Copies, &Event::Stored(Stored::prompt(&blocks)))
        .map_err(|gone| gone.to_string())?;
    Ok(())
}

struct GivenLoads {
    loads: Vec<PodLoad>,
    table: Write<Loads>,
}

impl Preparer for GivenLoads {
    fn prepare(&self, context: &mut PrepareContext<'_>) -> Result<(), PluginError> {
        let loads: LoadTable = context.fleet().pods().iter().zip(self.loads.iter().copied()).collect();
        context.put(self.table, loads)?;
        Ok(())
    }
}

struct Anybody;

impl Picker for Anybody {
    fn pick(&self, _: &RoutingContext<'_>, totals: &Totals<'_>, ranking: &mut Ranking) -> Result<(), PluginError> {
        totals.rank(1, ranking);
        Ok(())
    }
}
