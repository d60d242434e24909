//! A warm pick allocates nothing, whichever picker it is; not on a new version of a fleet with the same pods either.

use std::sync::Arc;
use std::time::Instant;

use kv_index::{Config, Index};
use pointsman_test_support::alloc::allocations;
use routing_core::{
    Declare, Fleet, Picker, PluginError, PodInfo, PrepareContext, Preparer, ProfileBuilder, Request, RoutingContext,
    RoutingInput, RoutingPlan, Scorer, Scores, Workflow, Write,
};
use routing_plugins::extra::{BetterBy, TwoChoicesParameters, TwoChoicesPicker};
use routing_plugins::load::PodLoad;
use routing_plugins::pick::{
    ConsistentHashParameters, ConsistentHashPicker, HashBy, MaxScorePicker, RoundRobinPicker, SessionPicker,
    WeightedRandomParameters, WeightedRandomPicker,
};
use routing_plugins::prepare::{HashKey, LoadTable, Loads, Session};

/// Writes a key and a session of ten, and no loads, which takes no memory.
struct Keys(Write<HashKey>, Write<Session>, Write<Loads>);

impl Preparer for Keys {
    fn prepare(&self, context: &mut PrepareContext<'_>) -> Result<(), PluginError> {
        let seed = context.request().seed;
        context.put(self.0, seed)?;
        context.put(self.1, Some(seed % 10))?;
        Ok(context.put(self.2, LoadTable::default())?)
    }
}

struct By;

impl Scorer for By {
    fn score(&self, _: &RoutingContext<'_>, scores: &mut Scores<'_>) -> Result<(), PluginError> {
        scores.fill(|pod| (pod.index() % 7) as f32 / 7.0);
        Ok(())
    }
}

fn workflow<P: Picker + 'static>(picker: impl FnOnce(&mut Declare<'_>) -> P + Send + 'static) -> Workflow {
    ProfileBuilder::new("s")
        .preparer("keys", |declare: &mut Declare<'_>| Keys(declare.writes(), declare.writes(), declare.writes()))
        .scorer("by", 1.0, |_: &mut Declare<'_>| By)
        .picker("picker", picker)
        .build()
        .expect("it fits together")
        .into()
}

#[expect(clippy::disallowed_methods, reason = "a request has some instant; which one does not matter")]
fn check(name: &str, picker: Workflow) {
    let index: Index = Index::new(Config::default());
    let info = |at: usize| {
        let name = format!("pod-{at}");
        PodInfo::new(index.join(&name).expect("room"), &name)
    };
    let infos: Vec<PodInfo> = (0..200).map(info).collect();
    let fleets = [Fleet::new(1, infos.clone()), Fleet::new(2, infos)];
    let (mut workspace, mut plan, now) = (picker.workspace(), RoutingPlan::default(), Instant::now());
    let mut decide = |seed: u64, fleet: &Fleet| {
        let request = Request::new("m", now).seed(seed);
        picker.decide(&mut workspace, RoutingInput::new(&request, fleet), &mut plan).expect("a plan");
    };
    (0..20).for_each(|seed| decide(seed, &fleets[0]));
    assert_eq!(allocations(|| (20..200).for_each(|seed| decide(seed, &fleets[0]))), 0, "{name}");
    assert_eq!(allocations(|| (20..200).for_each(|seed| decide(seed, &fleets[1]))), 0, "{name}, on a new version");
    assert_eq!(plan.steps()[0].candidates.len(), 3, "it did something");
}

#[test]
fn a_warm_pick_allocates_nothing() {
    check("max score", workflow(|declare| MaxScorePicker::declare(declare, Default::default())));
    check("turns", workflow(|declare| RoundRobinPicker::declare(declare, Default::default(), Arc::default())));
    check("sessions", workflow(|declare| SessionPicker::declare(declare, Default::default(), Arc::default())));
    for by in [HashBy::Rendezvous, HashBy::Ring] {
        let parameters = ConsistentHashParameters::default().by(by);
        check("keys", workflow(move |declare| ConsistentHashPicker::declare(declare, parameters)));
    }
    for temperature in [WeightedRandomParameters::default().temperature, None] {
        let parameters = WeightedRandomParameters::default().temperature(temperature);
        check("chance", workflow(move |declare| WeightedRandomPicker::declare(declare, parameters)));
    }
    for by in [BetterBy::Total, BetterBy::Requests] {
        let parameters = TwoChoicesParameters::default().by(by);
        check("two", workflow(move |declare| TwoChoicesPicker::declare(declare, parameters)));
    }
}

#[test]
fn the_counter_counts() {
    let table = || -> LoadTable { [(kv_index::PodId::new(3), PodLoad::default())].into_iter().collect() };
    assert_ne!(allocations(|| drop(std::hint::black_box(table()))), 0);
}
