use kv_index::{Config, Index};
use proptest::prelude::*;

use super::*;
use crate::pick::testing::at;

fn table(most: usize, ttl: u32) -> Sessions {
    Sessions::new(SessionLimits { most: NonZeroUsize::new(most).unwrap(), ttl_seconds: NonZeroU32::new(ttl).unwrap() })
}

fn pods(count: usize) -> (Index, Vec<Pod>) {
    let index: Index = Index::new(Config::default());
    let pods = (0..count).map(|at| index.join(&at.to_string()).expect("room")).collect();
    (index, pods)
}

/// The literal table: a list, the newest last.
#[derive(Default)]
struct Model(Vec<(u64, usize, u64)>);

impl Model {
    fn bind(&mut self, most: usize, session: u64, pod: usize, now: u64) {
        let used = self.0.iter().find(|entry| entry.0 == session).map_or(now, |entry| entry.2.max(now));
        self.0.retain(|entry| entry.0 != session);
        if self.0.len() == most {
            self.0.remove(0);
        }
        self.0.push((session, pod, used));
    }

    fn bound(&self, session: u64, now: u64, ttl: u64) -> Option<usize> {
        self.0.iter().find(|entry| entry.0 == session && now.saturating_sub(entry.2) < ttl).map(|entry| entry.1)
    }
}

#[derive(Clone, Debug)]
enum Op {
    Bind(u64, usize),
    Renew(u64),
    Settle(u64, usize),
    Forget(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (0u64..12, 0usize..4).prop_map(|(session, pod)| Op::Bind(session, pod)),
        (0u64..12).prop_map(Op::Renew),
        (0u64..12, 0usize..4).prop_map(|(session, pod)| Op::Settle(session, pod)),
        (0usize..4).prop_map(Op::Forget),
    ]
}

proptest! {
    /// Whatever happens, the table answers as the literal one. Pod 3 is one that no session may stay on.
    #[test]
    fn it_agrees_with_the_literal_table(
        ops in prop::collection::vec((op(), 0u64..4), 0..120), most in 1usize..9, ttl in 1u32..12,
    ) {
        let ((_index, pods), sessions, mut model, mut now) = (pods(4), table(most, ttl), Model::default(), 0);
        let stays = |pod: Pod| pod != pods[3];
        for (op, later) in ops {
            now += later;
            match op {
                Op::Bind(session, pod) => {
                    sessions.bind(session, pods[pod], at(now));
                    model.bind(most, session, pod, now);
                }
                Op::Renew(session) => {
                    let bound = model.bound(session, now, ttl.into()).filter(|pod| *pod != 3);
                    if let Some(pod) = bound {
                        model.bind(most, session, pod, now);
                    }
                    prop_assert_eq!(sessions.renew(session, at(now), stays), bound.map(|pod| pods[pod]));
                }
                Op::Settle(session, pod) => {
                    let pod = model.bound(session, now, ttl.into()).filter(|pod| *pod != 3).unwrap_or(pod);
                    prop_assert_eq!(sessions.settle(session, pods[op_pod(&op)], at(now), stays), pods[pod]);
                    model.bind(most, session, pod, now);
                }
                Op::Forget(pod) => {
                    let before = model.0.len();
                    model.0.retain(|entry| entry.1 != pod);
                    prop_assert_eq!(sessions.forget(pods[pod]), before - model.0.len());
                }
            }
            prop_assert_eq!(sessions.len(), model.0.len());
            prop_assert!(sessions.len() <= most);
            for session in 0..12 {
                let bound = model.bound(session, now, ttl.into()).map(|pod| pods[pod]);
                prop_assert_eq!(sessions.bound(session, at(now)), bound);
            }
        }
    }

    #[test]
    fn it_never_holds_more_than_its_limit(most in 1usize..3_000, sessions in 0u64..6_000) {
        let ((_index, pods), table) = (pods(1), table(most, 300));
        (0..sessions).for_each(|session| table.bind(session, pods[0], at(0)));
        prop_assert!(table.len() <= most);
        if sessions > 0 {
            prop_assert_eq!(table.bound(sessions - 1, at(0)), Some(pods[0]), "the newest is there");
        }
    }
}

fn op_pod(op: &Op) -> usize {
    match op {
        Op::Bind(_, pod) | Op::Settle(_, pod) | Op::Forget(pod) => *pod,
        Op::Renew(_) => 0,
    }
}

#[test]
fn the_expired_make_room_before_the_living() {
    let ((_index, pods), table) = (pods(1), table(3, 10));
    table.bind(1, pods[0], at(0));
    table.bind(2, pods[0], at(8));
    table.bind(3, pods[0], at(9));
    table.bind(4, pods[0], at(12));
    assert_eq!([1, 2, 3, 4].map(|session| table.bound(session, at(12)).is_some()), [false, true, true, true]);
}

#[test]
fn the_limit_is_shared_out_whole() {
    for most in [1, 255, 256, 511, 512, 1_000, 65_536, 70_001] {
        let ((_index, pods), table) = (pods(1), table(most, 300));
        (0..8 * most as u64).for_each(|session| table.bind(session, pods[0], at(0)));
        assert_eq!(table.len(), most, "every share is full, and they add up");
    }
}
