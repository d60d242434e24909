//! Programs of other gateways, and what is learned of them, and not.

use super::*;

impl Scene {
    /// A peer's turn of a program that had so many tokens and was served as many, which goes to a pod now.
    fn hear(&self, key: u64, tokens: u64, pod: usize) {
        let told = ToldProgram { tenant: 0, key, tokens, service: tokens };
        self.programs.hear(&told, PodCache::new(self.pods[pod], Some(100_000)), self.now, self.now);
    }
}

#[test]
fn programs_that_peers_told_of_are_not_taken_to_be_over() {
    let mut scene = Scene::new(ProgramLimits::default().ttl_seconds(NonZeroU32::new(100).unwrap()));
    let mut blocks = vec![1];
    for next in 2..42 {
        scene.turn(&prompt(&blocks).key(Some(1)), 0);
        scene.after(30.0);
        blocks.push(next);
    }
    let known = scene.programs.keep(0, 40.0);
    assert!(known > 30.0, "{known}");
    // Some began here and went on elsewhere, others were never here.
    for key in 1_000..1_200 {
        scene.turn(&prompt(&[key]).key(Some(key)), 0);
    }
    scene.after(1.0);
    (1_000..1_500).for_each(|key| scene.hear(key, 1_000, 1));
    scene.after(200.0);
    scene.hear(9, 1_000, 1);
    assert_eq!(scene.programs.stats().contexts, 1);
    assert!(scene.programs.keep(0, 40.0) > 30.0, "{}", scene.programs.keep(0, 40.0));
    // Of those that ended here it is known that nobody came back.
    for own in 2_000..2_500 {
        scene.turn(&prompt(&[own]), 0);
    }
    scene.after(200.0);
    scene.turn(&prompt(&[3]), 0);
    assert_eq!(scene.programs.keep(0, 40.0), 0.0);
}

#[test]
fn a_peer_s_turn_of_a_helper_takes_nothing_from_its_agent() {
    let mut scene = Scene::new(ProgramLimits::default());
    let agent: Vec<u64> = (1..=100).collect();
    let first = scene.turn(&prompt(&agent).key(Some(7)), 0);
    assert_eq!(scene.working_set(0), 101 * 64);
    scene.after(0.1);
    scene.hear(7, 20_000, 1);
    assert_eq!((scene.working_set(0), scene.working_set(1)), (0, 20_000), "larger: its next turn");
    scene.after(0.1);
    let longer: Vec<u64> = (1..=400).collect();
    let second = scene.turn(&prompt(&longer).key(Some(7)), 2);
    assert_eq!(second.context, first.context);
    assert_eq!([0, 1, 2].map(|pod| scene.working_set(pod)), [0, 0, 401 * 64]);
    scene.after(0.1);
    scene.hear(7, 2_000, 1);
    assert_eq!([0, 1, 2].map(|pod| scene.working_set(pod)), [0, 0, 401 * 64], "a helper's");
    // What it was served counts.
    scene.programs.hear(
        &ToldProgram { tenant: 0, key: 7, tokens: 2_000, service: 1 << 20 },
        PodCache::new(scene.pods[1], None),
        scene.now,
        scene.now,
    );
    assert_eq!(scene.programs.find(&prompt(&longer).key(Some(7)), scene.now).service, 1 << 20);
}

#[test]
fn of_what_a_peer_told_alone_the_last_turn_counts_however_small() {
    let mut scene = Scene::new(ProgramLimits::default());
    scene.hear(7, 20_000, 1);
    scene.after(0.1);
    scene.hear(7, 2_000, 2);
    assert_eq!([0, 1, 2].map(|pod| scene.working_set(pod)), [0, 0, 2_000]);
}
