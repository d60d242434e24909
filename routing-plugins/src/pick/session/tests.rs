use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::Mutex;
use std::thread;

use kv_index::PodSet;
use routing_core::{Fleet, Request, RoutingInput, RoutingPlan, Workflow};

use super::*;
use crate::pick::SessionLimits;
use crate::pick::testing::{at, build, decide, fleet, numbers, pod, pods, profile, request, with};

/// A workflow in which the seed's low half is the session, with 0 for none; all pods are equally good.
fn workflow(when_refused: WhenRefused, sessions: &Arc<Sessions>) -> Workflow {
    let (parameters, sessions) =
        (SessionParameters { when_refused, ..SessionParameters::default() }, Arc::clone(sessions));
    let picker = move |declare: &mut Declare<'_>| SessionPicker::declare(declare, parameters, sessions);
    let session = |request: &Request<'_>| Some(request.seed & 0xffff_ffff).filter(|session| *session != 0);
    build(with::<Session>(profile(|_| 0.5, picker), session))
}

/// A request of a session, drawn as this number.
fn of(session: u64, number: u64) -> Request<'static> {
    request(number << 32 | session)
}

fn excluding(workflow: &Workflow, request: &Request<'_>, fleet: &Fleet, excluded: usize) -> usize {
    let (mut plan, excluded) = (RoutingPlan::default(), PodSet::from_iter([pod(excluded)]));
    workflow
        .decide(&mut workflow.workspace(), RoutingInput::new(request, fleet).excluding(excluded), &mut plan)
        .unwrap();
    plan.steps()[0].candidates[0].pod.id().index()
}

#[test]
fn a_session_stays_while_others_are_drawn() {
    let (workflow, fleet) = (workflow(WhenRefused::Rebind, &Arc::default()), fleet(20));
    for session in 1..50 {
        let home = numbers(&workflow, &of(session, 0), &fleet)[0];
        assert!((1..20).all(|number| numbers(&workflow, &of(session, number), &fleet)[0] == home));
    }
    let without: HashSet<_> = (0..50).map(|number| numbers(&workflow, &of(0, number), &fleet)[0]).collect();
    assert!(without.len() > 10, "requests without a session are spread");
}

#[test]
fn the_rest_is_by_total() {
    let sessions = Arc::<Sessions>::default();
    let shared = Arc::clone(&sessions);
    let picker = move |declare: &mut Declare<'_>| SessionPicker::declare(declare, SessionParameters::default(), shared);
    let workflow = build(with::<Session>(profile(|pod| pod as f32 / 10.0, picker), |_| Some(1)));
    let (_index, infos) = pods(6);
    sessions.bind(1, infos[2].pod, at(0));
    assert_eq!(numbers(&workflow, &request(0), &Fleet::new(1, infos)), [2, 5, 4]);
}

#[test]
fn a_session_moves_when_its_pod_is_gone_or_replaced() {
    let sessions = Arc::default();
    let (workflow, (index, infos)) = (workflow(WhenRefused::KeepWhileAlive, &sessions), pods(6));
    let home = decide(&workflow, &of(1, 0), &Fleet::new(1, infos.clone()))[0];
    let rest: Vec<_> = infos.into_iter().filter(|info| info.pod != home).collect();
    let next = decide(&workflow, &of(1, 1), &Fleet::new(2, rest.clone()))[0];
    assert_ne!(next, home);
    assert_eq!(sessions.bound(1, at(0)), Some(next));

    // Another pod with the id of the one that left.
    sessions.bind(1, home, at(0));
    index.retire(home);
    index.sweep(usize::MAX);
    let replaced = index.join("another").unwrap();
    assert_eq!((replaced.id(), replaced == home), (home.id(), false));
    let better = move |at: usize| if at == home.id().index() { 0.0 } else { 0.5 };
    let shared = Arc::clone(&sessions);
    let picker = move |declare: &mut Declare<'_>| SessionPicker::declare(declare, SessionParameters::default(), shared);
    let workflow = build(with::<Session>(profile(better, picker), |_| Some(1)));
    let infos = rest.into_iter().chain([routing_core::PodInfo::new(replaced, "another")]);
    assert_ne!(decide(&workflow, &of(1, 2), &Fleet::new(3, infos))[0], replaced, "not mistaken for the one that left");
}

#[test]
fn a_refused_session_moves_and_stays_where_it_moved() {
    let (workflow, fleet) = (workflow(WhenRefused::Rebind, &Arc::default()), fleet(6));
    let home = numbers(&workflow, &of(1, 0), &fleet)[0];
    let next = excluding(&workflow, &of(1, 1), &fleet, home);
    assert_ne!(next, home);
    assert!((2..30).all(|number| numbers(&workflow, &of(1, number), &fleet)[0] == next));
}

#[test]
fn a_refused_session_that_is_kept_comes_back() {
    let (workflow, fleet) = (workflow(WhenRefused::KeepWhileAlive, &Arc::default()), fleet(6));
    let home = numbers(&workflow, &of(1, 0), &fleet)[0];
    assert!((1..30).all(|number| excluding(&workflow, &of(1, number), &fleet, home) != home));
    assert!((30..60).all(|number| numbers(&workflow, &of(1, number), &fleet)[0] == home));
}

#[test]
fn its_time_begins_anew_with_each_request() {
    let limits = SessionLimits { ttl_seconds: NonZeroU32::new(10).unwrap(), ..SessionLimits::default() };
    let sessions = Arc::new(Sessions::new(limits));
    let (workflow, fleet) = (workflow(WhenRefused::Rebind, &sessions), fleet(6));
    let later = |seconds| {
        let mut request = of(1, seconds);
        request.now = at(seconds);
        request
    };
    let home = decide(&workflow, &later(0), &fleet)[0];
    for seconds in [9, 18, 27] {
        assert_eq!(decide(&workflow, &later(seconds), &fleet)[0], home);
    }
    assert_eq!(sessions.bound(1, at(36)), Some(home));
    assert_eq!(sessions.bound(1, at(37)), None);
    let moved = (37..300).step_by(11).any(|seconds| decide(&workflow, &later(seconds), &fleet)[0] != home);
    assert!(moved, "an expired session is drawn anew");
}

#[test]
fn requests_of_a_new_session_at_once_land_on_one_pod() {
    let (workflow, fleet) = (workflow(WhenRefused::Rebind, &Arc::default()), fleet(50));
    for session in 1..40 {
        let homes = Mutex::new(HashSet::new());
        #[expect(clippy::disallowed_methods, reason = "what happens at once is what is tested")]
        thread::scope(|scope| {
            for number in 0..4 {
                let (workflow, fleet, homes) = (&workflow, &fleet, &homes);
                scope.spawn(move || {
                    let home = numbers(workflow, &of(session, number), fleet)[0];
                    homes.lock().unwrap().insert(home);
                });
            }
        });
        assert_eq!(homes.lock().unwrap().len(), 1);
    }
}
