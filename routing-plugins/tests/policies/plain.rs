//! Rules without a formula: by chance, in turn, by session.

use routing_plugins::load::Work;

use super::scene::{Pod, Scene};

#[test]
fn chance_is_even_and_comes_from_the_seed() {
    let pods =
        [Pod { held: 20, ..Pod::default() }, Pod { waiting: 50, ..Pod::default() }, Pod::default(), Pod::default()];
    let mut scene = Scene::new("random", &pods);
    let mut counts = [0; 4];
    let chosen: Vec<usize> = (0..2_000).map(|seed| scene.decide(seed)).collect();
    chosen.iter().for_each(|pod| counts[*pod] += 1);
    assert!(counts.iter().all(|count| (420..580).contains(count)), "{counts:?}");
    for seed in [1_999, 3, 3, 700] {
        assert_eq!(scene.decide(seed), chosen[seed as usize], "whatever was decided in between");
    }
}

#[test]
fn turns_go_round() {
    let pods = [Pod { held: 20, ..Pod::default() }, Pod { waiting: 50, ..Pod::default() }, Pod::default()];
    let mut scene = Scene::new("round_robin", &pods);
    let turns: Vec<usize> = (0..7).map(|seed| scene.decide(seed)).collect();
    assert_eq!(turns, [0, 1, 2, 0, 1, 2, 0]);
}

#[test]
fn a_session_stays_where_it_began() {
    let pods = [Pod { waiting: 2, ..Pod::default() }, Pod::default(), Pod { waiting: 1, ..Pod::default() }];
    let mut scene = Scene::new("session_sticky", &pods);
    assert_eq!(scene.decide_as(1, "s"), 1, "the fewest requests");
    (0..5).for_each(|_| scene.send(1, Work::of(10)));
    assert_eq!(scene.decide_as(2, "s"), 1, "it stays");
    assert_eq!(scene.decide_as(3, "t"), 2, "another begins where there are fewest now");
    assert_eq!((scene.decide_as(4, "s"), scene.decide_as(5, "t")), (1, 2));
}
