use proptest::prelude::*;
use routing_core::{Fleet, PodInfo, Request, RoutingInput, RoutingPlan, Workflow};

use super::*;
use crate::load::PodLoad;
use crate::pick::testing::{build, fleet, numbers, pod, pods, profile, request, with};
use crate::prepare::LoadTable;

const FORMS: [HashBy; 2] = [HashBy::Rendezvous, HashBy::Ring];

/// A workflow in which the seed is the key.
fn workflow(by: HashBy) -> Workflow {
    let parameters = ConsistentHashParameters { by, epsilon: None, ..ConsistentHashParameters::default() };
    let picker = move |declare: &mut Declare<'_>| ConsistentHashPicker::declare(declare, parameters);
    build(with::<HashKey>(profile(|_| 0.5, picker), |request| request.seed))
}

/// The same with loads that are bounded. They are told as text in the body, of all things that a request borrows.
fn bounded(by: HashBy, epsilon: f64) -> Workflow {
    let epsilon = Positive::new(epsilon);
    let parameters = ConsistentHashParameters { by, epsilon, ..ConsistentHashParameters::default() };
    let picker = move |declare: &mut Declare<'_>| ConsistentHashPicker::declare(declare, parameters);
    let loads = |request: &Request<'_>| -> LoadTable {
        let load = |(at, load): (usize, &[u8])| {
            let requests = load.iter().fold(0, |number, byte| number << 8 | u32::from(*byte));
            (pod(at), PodLoad { requests, ..PodLoad::default() })
        };
        request.body.chunks(4).enumerate().map(load).collect()
    };
    build(with::<Loads>(with::<HashKey>(profile(|_| 0.5, picker), |request| request.seed), loads))
}

fn told(loads: &[u32]) -> Vec<u8> {
    loads.iter().flat_map(|load| load.to_be_bytes()).collect()
}

#[test]
fn shares_are_even() {
    const KEYS: u64 = 40_000;
    // In shares of the mean: chance alone for rendezvous, the arcs of a ring otherwise.
    for (by, tolerance) in FORMS.into_iter().zip([0.1, 0.25]) {
        let (workflow, fleet, mut counts) = (workflow(by), fleet(20), [0u32; 20]);
        (0..KEYS).for_each(|key| counts[numbers(&workflow, &request(key), &fleet)[0]] += 1);
        let mean = KEYS as f64 / 20.0;
        assert!(counts.iter().all(|count| (f64::from(*count) / mean - 1.0).abs() < tolerance), "{by:?}: {counts:?}");
    }
}

#[test]
fn failover_is_as_even() {
    for by in FORMS {
        let (workflow, fleet, mut counts) = (workflow(by), fleet(6), [0u32; 6]);
        let ranked = |key| numbers(&workflow, &request(key), &fleet);
        // Where the keys of pod 0 would go.
        (0..30_000).map(ranked).filter(|ranked| ranked[0] == 0).for_each(|ranked| counts[ranked[1]] += 1);
        assert!(counts[1..].iter().all(|count| (600..1_400).contains(count)), "{by:?}: {counts:?}");
    }
}

/// Other gateways place the same keys, whatever order pods joined theirs in.
#[test]
fn places_depend_on_names_alone() {
    for by in FORMS {
        let ((here, mut infos), workflow) = (pods(8), workflow(by));
        let there: kv_index::Index = kv_index::Index::new(kv_index::Config::default());
        let mut other: Vec<PodInfo> =
            infos.iter().rev().map(|info| PodInfo::new(there.join(&info.name).unwrap(), &info.name)).collect();
        infos.push(PodInfo::new(here.join("shared").unwrap(), "shared"));
        other.push(PodInfo::new(there.join("shared").unwrap(), "shared"));
        let named = |version, infos: &[PodInfo], key| -> Vec<Box<str>> {
            let fleet = Fleet::new(version, infos.to_vec());
            let ranked = numbers(&workflow, &request(key), &fleet);
            ranked.iter().map(|at| fleet.pod(pod(*at)).unwrap().name.clone()).collect()
        };
        assert!((0..200).all(|key| named(1, &infos, key) == named(2, &other, key)), "{by:?}");
    }
}

/// Gateways of other builds place them so too.
#[test]
fn places_are_pinned() {
    let ranked =
        |by| -> [Vec<usize>; 3] { [1, 2, u64::MAX].map(|key| numbers(&workflow(by), &request(key), &fleet(10))) };
    assert_eq!(ranked(HashBy::Rendezvous), PINNED[0]);
    assert_eq!(ranked(HashBy::Ring), PINNED[1]);
}

const PINNED: [[[usize; 3]; 3]; 2] = [[[8, 3, 9], [4, 1, 3], [5, 6, 8]], [[0, 6, 2], [2, 1, 8], [2, 0, 8]]];

#[test]
fn a_new_version_with_other_pods_is_placed_anew() {
    for by in FORMS {
        let (workflow, (index, mut infos)) = (workflow(by), pods(6));
        let before = Fleet::new(1, infos.clone());
        let old = infos.remove(2);
        let first = |fleet: &Fleet, key| numbers(&workflow, &request(key), fleet)[0];
        let homes: Vec<usize> = (0..300).map(|key| first(&before, key)).collect();
        index.retire(old.pod);
        index.sweep(usize::MAX);
        let another = index.join("another").unwrap();
        assert_eq!(another.id(), old.pod.id(), "the same ids, another pod");
        infos.push(PodInfo::new(another, "another"));
        let after = Fleet::new(2, infos);
        let moved = (0..300).filter(|key| first(&after, *key) != homes[*key as usize]).count();
        assert!(moved > 20, "the one that came has keys of its own, not those of the one that left: {moved}");
        assert!((0..300).all(|key| first(&before, key) == homes[key as usize]), "the old version is decided as before");
    }
}

#[test]
fn a_full_pod_is_passed_over_and_comes_last() {
    for by in FORMS {
        let (free, bounded, fleet) = (workflow(by), bounded(by, 0.25), fleet(3));
        for key in 0..100 {
            let order = numbers(&free, &request(key), &fleet);
            // Of 12 and this one, the mean is 4⅓ and the bound 6.
            for (busy, expected) in [(5, [0, 1, 2]), (6, [1, 2, 0])] {
                let mut loads = [(12 - busy) / 2; 3];
                loads[order[0]] = busy;
                loads[order[1]] = 12 - busy - loads[order[2]];
                let body = told(&loads);
                let ranked = numbers(&bounded, &request(key).body(&body), &fleet);
                assert_eq!(ranked, expected.map(|at| order[at]));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// No pod is given a request that puts it above ⌈(1 + ε) · mean⌉, however few the keys are.
    #[test]
    fn nobody_is_above_the_bound(
        by in prop::sample::select(&FORMS[..]), epsilon in prop_oneof![Just(1e-9), 0.01..1.5],
        pods in 1usize..24, requests in prop::collection::vec((0u64..5, 0usize..40), 1..250),
    ) {
        let (workflow, fleet) = (bounded(by, epsilon), fleet(pods));
        let (mut workspace, mut plan, mut loads) = (workflow.workspace(), RoutingPlan::default(), vec![0u32; pods]);
        for (key, done) in requests {
            let body = told(&loads);
            workflow.decide(&mut workspace, RoutingInput::new(&request(key).body(&body), &fleet), &mut plan).unwrap();
            let chosen = plan.steps()[0].candidates[0].pod.id().index();
            loads[chosen] += 1;
            let mean = loads.iter().sum::<u32>() as f64 / pods as f64;
            prop_assert!(f64::from(loads[chosen]) <= ((1.0 + epsilon) * mean).ceil(), "{:?}", loads);
            // Some finish meanwhile.
            if let Some(load) = loads.get_mut(done) {
                *load = load.saturating_sub(1);
            }
        }
    }
}
