//! Where turns went: sessions and programs of one gateway, known to another.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::program::{PodCache, ProgramPrompt, ToldProgram};

/// The pods of a gateway as its decisions see them, with caches of 100,000 tokens.
fn fleet(state: &PluginState) -> Fleet {
    let pods = ["a", "b", "c"].into_iter().filter_map(|name| Some((state.index.pod(name)?, name)));
    Fleet::new(1, pods.map(|(pod, name)| PodInfo::new(pod, name).kv_tokens(100_000)))
}

/// Two gateways that know of each other, and where notes are taken.
fn pair(now: Instant) -> [PluginState; 2] {
    let (one, other) = (gateway(&["a", "b"]), gateway(&["b", "c", "a"]));
    other.hear_peer(OTHER, &whole(&one, ONE, now), now).unwrap();
    one.hear_peer(ONE, &whole(&other, OTHER, now), now).unwrap();
    for (state, id) in [(&one, ONE), (&other, OTHER)] {
        assert_eq!(state.tell_turns(id, now), None);
    }
    [one, other]
}

fn session(turn: &PeerTurn) -> u64 {
    match turn.of {
        TurnOf::Session { session, .. } => session,
        TurnOf::Program(_) => 0,
    }
}

#[test]
fn a_session_is_bound_where_a_peer_had_it_unless_it_had_a_turn_here_since() {
    let now = start();
    let [one, other] = pair(now);
    let at = |seconds: u32| now + SECOND * seconds;
    let (here, there) = (one.sessions.table("s"), other.sessions.table("s"));
    here.bind(7, pod(&one, "b"), at(1));
    here.bind(8, pod(&one, "a"), at(2));
    there.bind(8, pod(&other, "c"), at(3));
    let told = one.tell_turns(ONE, at(4)).unwrap();
    assert_eq!(
        told.turns.iter().map(|turn| (session(turn), turn.age)).collect::<Vec<_>>(),
        [(7, 3 * SECOND), (8, 2 * SECOND)]
    );
    assert_eq!(one.tell_turns(ONE, at(4)), None, "once");
    other.hear_turns(OTHER, &told, &fleet(&other), at(4)).unwrap();
    assert_eq!(there.bound(7, at(4)), Some(pod(&other, "b")));
    assert_eq!(there.bound(8, at(4)), Some(pod(&other, "c")), "the later one");
    assert_eq!(there.bound(7, at(300)), Some(pod(&other, "b")));
    assert_eq!(there.bound(7, at(301)), None, "as old as it was there");
    assert_eq!(other.hear_turns(OTHER, &told, &fleet(&other), at(5)), Err(PeerIgnored::Old));
    assert_eq!(one.hear_turns(ONE, &told, &fleet(&one), at(5)), Err(PeerIgnored::Own));
    let stranger = PeerTurns { gateway: GatewayId::new(9), ..told };
    assert_eq!(other.hear_turns(OTHER, &stranger, &fleet(&other), at(5)), Err(PeerIgnored::Unknown));
    assert!(other.tell_turns(OTHER, at(6)).is_some_and(|told| told.turns.len() == 1), "what was heard is not told on");
}

#[test]
fn turns_are_told_once_somebody_asks_and_within_bounds_of_number_and_age() {
    let (state, now) = (gateway(&["a"]), start());
    let (table, a) = (state.sessions.table("s"), pod(&state, "a"));
    table.bind(1, a, now);
    assert_eq!(state.tell_turns(ONE, now), None, "nobody asked before");
    (0..10_000).for_each(|session| table.bind(session, a, now));
    assert_eq!(state.tell_turns(ONE, now).unwrap().turns.len(), 4_096);
    table.bind(1, a, now);
    assert_eq!(state.tell_turns(ONE, now + 61 * SECOND), None, "a minute is too long");
    let other = gateway(&["a"]);
    other.hear_peer(OTHER, &whole(&state, ONE, now), now).unwrap();
    let of = |table: &str, pod| PeerTurn { pod, age: SECOND, of: TurnOf::Session { table: table.into(), session: 5 } };
    let old = PeerTurn { age: Duration::MAX, ..of("s", 0) };
    let turns = vec![old, of("s", 1), of("s", 9), of("none", 0)];
    let told = PeerTurns { gateway: ONE, sequence: 1, pods: vec!["a".into(), "nobody".into()], turns };
    let there = other.sessions.table("s");
    other.hear_turns(OTHER, &told, &fleet(&other), now).unwrap();
    assert!(there.is_empty(), "too old, no pod of the name, no pod at all, no table");
}

#[test]
fn a_program_that_a_peer_told_of_counts_in_its_pod_s_working_set_and_goes_on_here() {
    let now = start();
    let [one, other] = pair(now);
    let chain: Vec<BlockHash> = (1..=200).map(BlockHash::new).collect();
    let prompt = |blocks: usize| ProgramPrompt::new(&chain[..blocks], 16, 16 * blocks as u64).key(Some(7)).tenant(3);
    let cache = |state: &PluginState, name: &str| PodCache::new(pod(state, name), Some(100_000));
    let turn = one.programs.find(&prompt(100), now);
    one.programs.begin(&turn, &prompt(100), cache(&one, "b").held(600), now);
    let told = one.tell_turns(ONE, now + SECOND).unwrap();
    let TurnOf::Program(program) = &told.turns[0].of else { panic!("{told:?}") };
    assert_eq!(*program, ToldProgram { tenant: 3, key: 7, tokens: 1_600 + 256, service: 1_000 });
    let at = now + SECOND;
    other.hear_turns(OTHER, &told, &fleet(&other), at).unwrap();
    let b = pod(&other, "b");
    assert_eq!((other.programs.working_set(b, at), other.programs.stats().contexts), (1_856, 1));
    // Its next turn, which came here.
    let next = other.programs.find(&prompt(200), at);
    assert_eq!(next.service, 1_000);
    other.programs.begin(&next, &prompt(200), cache(&other, "b").held(1_600), at);
    assert_eq!((other.programs.working_set(b, at), other.programs.stats().contexts), (3_200 + 256, 1), "the same one");
    assert_eq!(other.programs.find(&prompt(200), at).service, 2_600);
    // While it runs here, nobody else knows better where it is.
    let late = PeerTurns { sequence: 2, pods: vec!["a".into()], ..told.clone() };
    other.hear_turns(OTHER, &late, &fleet(&other), at).unwrap();
    assert_eq!(other.programs.working_set(pod(&other, "a"), at), 0);
    other.programs.end(&next, Some(10), at);
    assert_eq!(other.programs.working_set(b, at), 3_210);
    // Of another tenant the same name is another program.
    let stranger = other.programs.find(&prompt(200).tenant(4), at);
    assert!(stranger.program != next.program && stranger.service == 0);
}

#[derive(Clone, Debug)]
enum Op {
    /// A session's turn is decided by a gateway for a pod.
    Turn {
        at: usize,
        session: u64,
        pod: usize,
    },
    /// A gateway tells, and these of the others hear; some later, and then with a number that is too low.
    Tell {
        from: usize,
        hears: [bool; 3],
        late: bool,
    },
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        5 => (0..3_usize, 0..4_u64, 0..3_usize).prop_map(|(at, session, pod)| Op::Turn { at, session, pod }),
        3 => (0..3_usize, any::<[bool; 3]>(), prop::bool::weighted(0.2))
            .prop_map(|(from, hears, late)| Op::Tell { from, hears, late }),
        3 => (0..40_000_u64).prop_map(Op::Wait),
    ]
}

proptest! {
    /// Whatever is decided, told, lost and told late, a session is bound at each gateway where its latest turn went that is known there.
    #[test]
    fn sessions_agree_with_the_model(ops in prop::collection::vec(op(), 1..80)) {
        const PODS: [&str; 3] = ["a", "b", "c"];
        let (states, mut now) = ([["a", "b", "c"], ["c", "a", "b"], ["b", "c", "a"]].map(|pods| gateway(&pods)), start());
        let id = |at: usize| GatewayId::new(at as u64 + 1);
        let tables: Vec<_> = states.iter().map(|state| state.sessions.table("s")).collect();
        for (at, state) in states.iter().enumerate() {
            let _ = state.tell_turns(id(at), now);
            for (from, other) in states.iter().enumerate().filter(|(from, _)| *from != at) {
                state.hear_peer(id(at), &whole(other, id(from), now), now).unwrap();
            }
        }
        // The rule, word by word: where each session's latest turn went and when, by gateway; and what each has to tell.
        let mut latest: [BTreeMap<u64, (Instant, usize)>; 3] = Default::default();
        let mut notes: [Vec<(u64, Instant, usize)>; 3] = Default::default();
        let mut late_ones: [Option<PeerTurns>; 3] = Default::default();
        for op in ops {
            match op {
                Op::Wait(millis) => now += Duration::from_millis(millis),
                Op::Turn { at, session, pod: chosen } => {
                    tables[at].bind(session, pod(&states[at], PODS[chosen]), now);
                    latest[at].insert(session, (now, chosen));
                    notes[at].push((session, now, chosen));
                }
                Op::Tell { from, late: true, .. } => {
                    let Some(told) = &late_ones[from] else { continue };
                    for at in (0..3).filter(|at| *at != from) {
                        prop_assert_eq!(states[at].hear_turns(id(at), told, &fleet(&states[at]), now), Err(PeerIgnored::Old));
                    }
                }
                Op::Tell { from, hears, .. } => {
                    let expected: Vec<_> = std::mem::take(&mut notes[from]);
                    let told = states[from].tell_turns(id(from), now);
                    let is_fresh = |at: &Instant| now.duration_since(*at) <= 60 * SECOND;
                    let fresh: Vec<_> = expected.into_iter().filter(|(_, at, _)| is_fresh(at)).collect();
                    prop_assert_eq!(told.as_ref().map_or(0, |told| told.turns.len()), fresh.len());
                    let Some(told) = told else { continue };
                    for at in (0..3).filter(|at| *at != from && hears[*at]) {
                        prop_assert_eq!(states[at].hear_turns(id(at), &told, &fleet(&states[at]), now), Ok(()));
                        for &(session, when, chosen) in &fresh {
                            let known = latest[at].entry(session).or_insert((when, chosen));
                            if known.0 < when {
                                *known = (when, chosen);
                            }
                        }
                    }
                    if hears == [true; 3] {
                        late_ones[from] = Some(told);
                    }
                }
            }
            for (at, state) in states.iter().enumerate() {
                for session in 0..4 {
                    let known = latest[at].get(&session).filter(|(when, _)| now.duration_since(*when) < 300 * SECOND);
                    let expected = known.map(|(_, chosen)| pod(state, PODS[*chosen]));
                    prop_assert_eq!(tables[at].bound(session, now), expected, "session {} at {}", session, at);
                }
            }
        }
    }
}
