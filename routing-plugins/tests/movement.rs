//! One pod leaving moves only its own keys; one pod joining takes some, and moves no other.
//!
//! For the pickers that promise where a key or a session goes: the consistent hash in both forms, and sessions.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use kv_index::{Config, Index, Pod};
use proptest::prelude::*;
use routing_core::{
    Declare, Fleet, Picker, PluginError, PodInfo, PrepareContext, Preparer, ProfileBuilder, Request, RoutingInput,
    RoutingPlan, Slot, StepBuilder, Workflow, WorkflowBuilder, Write,
};
use routing_plugins::pick::{
    ConsistentHashParameters, ConsistentHashPicker, HashBy, SessionParameters, SessionPicker, Sessions,
};
use routing_plugins::prepare::{HashKey, Session};

/// Puts in a slot what a function makes of the key, which the request carries as its longest output.
struct Put<S: Slot>(Write<S>, fn(u64) -> S::Value);

impl<S: Slot> Preparer for Put<S> {
    fn prepare(&self, context: &mut PrepareContext<'_>) -> Result<(), PluginError> {
        let key = u64::from(context.request().most_output.unwrap_or_default());
        Ok(context.put(self.0, (self.1)(key))?)
    }
}

/// A workflow whose plans rank everyone.
fn workflow<S: Slot, P: Picker + 'static>(
    key: fn(u64) -> S::Value,
    picker: impl FnOnce(&mut Declare<'_>) -> P + Send + 'static,
) -> Workflow {
    let profile = ProfileBuilder::new("s")
        .preparer("put", move |declare: &mut Declare<'_>| Put::<S>(declare.writes(), key))
        .picker("picker", picker);
    WorkflowBuilder::new().step(StepBuilder::new("s", profile).ranked(1_000)).build().expect("it fits together")
}

fn consistent_hash(by: HashBy) -> Workflow {
    let parameters = ConsistentHashParameters::default().by(by).epsilon(None).most(ALL);
    workflow::<HashKey, _>(|key| key, move |declare| ConsistentHashPicker::declare(declare, parameters))
}

fn session(sessions: Arc<Sessions>) -> Workflow {
    workflow::<Session, _>(Some, |declare| SessionPicker::declare(declare, SessionParameters::default(), sessions))
}

const ALL: NonZeroUsize = NonZeroUsize::new(1_000).expect("not zero");

/// Where each of so many keys goes, and who after.
#[expect(clippy::disallowed_methods, reason = "a request has some instant; which one does not matter")]
fn ranked(workflow: &Workflow, keys: u32, seed: u64, fleet: &Fleet) -> Vec<Vec<Pod>> {
    let (mut workspace, mut plan, now) = (workflow.workspace(), RoutingPlan::default(), Instant::now());
    let mut decide = |key: u32| {
        let request = Request::new("m", now).seed(seed ^ u64::from(key)).most_output(key);
        workflow.decide(&mut workspace, RoutingInput::new(&request, fleet), &mut plan).expect("a plan");
        plan.steps()[0].candidates.iter().map(|candidate| candidate.pod).collect()
    };
    (0..keys).map(&mut decide).collect()
}

/// Pods of these names, in one fleet with all of them and one without the pod of a number.
fn fleets(names: &BTreeSet<String>, without: usize) -> (Index, Fleet, Fleet, Pod) {
    let index: Index = Index::new(Config::default());
    let mut infos: Vec<_> = names.iter().map(|name| PodInfo::new(index.join(name).expect("room"), name)).collect();
    let all = Fleet::new(1, infos.clone());
    let without = infos.remove(without % infos.len());
    (index, all, Fleet::new(2, infos), without.pod)
}

fn names() -> impl Strategy<Value = BTreeSet<String>> {
    prop::collection::btree_set("[a-z]{1,3}(-[0-9]{1,2})?", 2..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// The order of all others stays too. Read backwards, the fleet without the pod is joined by it: keys move only to it.
    #[test]
    fn a_pod_that_leaves_or_joins_moves_only_its_own_keys(
        names in names(), without in any::<usize>(), by in prop::sample::select(&[HashBy::Rendezvous, HashBy::Ring][..]),
    ) {
        let (_index, all, fewer, gone) = fleets(&names, without);
        let workflow = consistent_hash(by);
        let (before, after) = (ranked(&workflow, 200, 0, &all), ranked(&workflow, 200, 0, &fewer));
        for (before, after) in before.iter().zip(&after) {
            prop_assert_eq!(before.len(), names.len());
            if before[0] != gone {
                prop_assert_eq!(before[0], after[0]);
            }
            let others: Vec<Pod> = before.iter().copied().filter(|pod| *pod != gone).collect();
            prop_assert_eq!(&others, after);
        }
        prop_assert_eq!(ranked(&workflow, 200, 0, &all), before, "and when it comes back, so do its keys");
    }

    /// Sessions of the pods that stay are where they were; those of the one that left stay where they went.
    #[test]
    fn a_pod_that_leaves_moves_only_its_own_sessions(names in names(), without in any::<usize>(), seed in any::<u64>()) {
        let (_index, all, fewer, gone) = fleets(&names, without);
        let workflow = session(Arc::default());
        let homes = |seed, fleet: &Fleet| -> Vec<Pod> {
            ranked(&workflow, 200, seed, fleet).iter().map(|ranked| ranked[0]).collect()
        };
        let (before, after) = (homes(seed, &all), homes(!seed, &fewer));
        for (before, after) in before.iter().zip(&after) {
            if *before == gone {
                prop_assert_ne!(*after, gone);
            } else {
                prop_assert_eq!(before, after);
            }
        }
        prop_assert_eq!(homes(seed, &all), after, "one that joins takes nobody's sessions");
    }
}

/// A pod's share of the keys, no more, moves when it leaves: the measure that plain hashing by number fails.
#[test]
fn a_leaving_pod_moves_its_share_of_the_keys() {
    let names: BTreeSet<String> = (0..20).map(|at| format!("pod-{at}")).collect();
    for by in [HashBy::Rendezvous, HashBy::Ring] {
        let (_index, all, fewer, _) = fleets(&names, 7);
        let workflow = consistent_hash(by);
        let (before, after) = (ranked(&workflow, 10_000, 0, &all), ranked(&workflow, 10_000, 0, &fewer));
        let moved = before.iter().zip(&after).filter(|(before, after)| before[0] != after[0]).count();
        assert!((300..700).contains(&moved), "{by:?}: {moved} of 10,000 keys moved, a twentieth is 500");
    }
}
