//! A follower against a literal model of an engine on a bad wire: whatever happens in whatever order, once the faults end the
//! index holds what the engine does, or says that it does not.
#![cfg(feature = "vllm")]

#[path = "../support/mod.rs"]
mod support;
mod wire;

use kv_index::engine::FollowerState;
use proptest::prelude::*;
use support::truth::Way;
use wire::{Step, Wire};

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (1..6_usize).prop_map(Step::Publish),
        6 => (1..8_usize).prop_map(Step::Hear),
        6 => (1..8_usize).prop_map(Step::Reply),
        4 => (1..3_000_u64).prop_map(Step::Wait),
        2 => (1..4_usize).prop_map(Step::Lose),
        1 => Just(Step::Double),
        1 => Just(Step::Swap),
        1 => Just(Step::Garble),
        1 => Just(Step::GarbleReply),
        2 => Just(Step::Restart),
        1 => Just(Step::RestartUnseen),
        1 => Just(Step::CutSubscription),
        2 => Just(Step::CutReplay),
        1 => any::<bool>().prop_map(Step::RefuseSubscriptions),
        1 => any::<bool>().prop_map(Step::RefuseReplays),
        1 => any::<bool>().prop_map(Step::AnswerNothing),
    ];
    prop::collection::vec(step, 0..120)
}

fn way() -> impl Strategy<Value = Way> {
    prop::sample::select(Way::ALL.to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    /// An engine that keeps everything it published: nothing is lost, unless it was given up while the engine did not answer.
    #[test]
    fn after_the_faults_the_index_is_what_the_engine_holds(steps in steps(), way in way(), seed in any::<u64>()) {
        let mut wire = Wire::new(seed, way, 1_000_000);
        for step in &steps {
            wire.step(*step);
        }
        wire.recover();
        prop_assume!(!wire.is_ambiguous());
        prop_assert!(wire.is_found(), "{:?}", wire.status());
        prop_assert_eq!(wire.status().state, FollowerState::Live);
        if wire.given_up() {
            wire.claims_nothing_false();
            wire.clear();
        }
        wire.agrees("once all is well");
        wire.step(Step::Publish(5));
        wire.recover();
        wire.agrees("and later");
    }

    /// One that keeps little: what cannot be had is forgotten, never guessed, and a cleared cache is known again.
    #[test]
    fn what_cannot_be_replayed_is_not_claimed(steps in steps(), way in way(), keeps in 1..12_usize, seed in any::<u64>()) {
        let mut wire = Wire::new(seed, way, keeps);
        for step in &steps {
            wire.step(*step);
        }
        wire.recover();
        prop_assume!(!wire.is_ambiguous());
        prop_assert!(wire.is_found(), "{:?}", wire.status());
        if wire.status().lost == 0 && !wire.began_late() {
            wire.agrees("nothing was given up");
        }
        wire.claims_nothing_false();
        wire.clear();
        wire.agrees("the engine emptied its cache");
    }

    /// Without a replay socket.
    #[test]
    fn without_replays_nothing_false_is_claimed_either(steps in steps(), way in way(), seed in any::<u64>()) {
        let mut wire = Wire::without_replay(seed, way);
        for step in &steps {
            wire.step(*step);
        }
        // The next batch shows whatever is missing.
        wire.recover();
        wire.step(Step::Publish(1));
        wire.recover();
        prop_assume!(!wire.is_ambiguous());
        wire.claims_nothing_false();
        wire.clear();
        wire.agrees("the engine emptied its cache");
    }
}

/// The subscription never comes back: replays alone keep the pod in step.
#[test]
fn replays_alone_will_do() {
    for way in Way::ALL {
        let mut wire = Wire::new(7, way, 1_000);
        wire.step(Step::RefuseSubscriptions(true));
        wire.step(Step::CutSubscription);
        for round in 0..5 {
            wire.step(Step::Publish(4));
            wire.settle();
            wire.agrees(&format!("round {round}"));
            assert!(wire.is_found());
            assert_eq!(wire.status().state, FollowerState::Connecting);
        }
        wire.step(Step::Restart);
        wire.settle();
        wire.agrees("another engine");
        wire.step(Step::RefuseReplays(true));
        wire.settle();
        assert!(!wire.is_found(), "nobody is there");
    }
}

/// Its first batch was damaged, and the second one has the number that the old engine's next one would have had. The replay that
/// was asked for before has nothing, not even the batch that is known.
#[test]
fn an_empty_replay_shows_another_engine_whatever_came_live() {
    use Step::{Garble, Hear, Publish, Reply, Restart, Wait};
    for way in Way::ALL {
        let mut wire = Wire::new(11, way, 1_000);
        for step in [Publish(1), Hear(1), Reply(9), Restart, Wait(100), Publish(2), Garble, Hear(2), Reply(9)] {
            wire.step(step);
        }
        wire.recover();
        wire.agrees("once all is well");
    }
}
