mod literal;
mod plugins;

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::{Duration, Instant};

use kv_index::{BlockHash, Config, Index, Pod};
use routing_core::ProgramTurn;

use super::*;
use crate::load::start;

/// Blocks are as long as one that is looked at.
const BLOCK: usize = 64;

struct Scene {
    index: Index,
    programs: Programs,
    pods: Vec<Pod>,
    now: Instant,
}

impl Scene {
    fn new(limits: ProgramLimits) -> Self {
        let index = Index::new(Config::default());
        let pods = (0..3).map(|at| index.join(&format!("pod-{at}")).unwrap()).collect();
        Self { index, programs: Programs::new(limits), pods, now: start() }
    }

    fn after(&mut self, seconds: f64) {
        self.now += Duration::from_secs_f64(seconds);
    }

    /// A turn on a pod with a cache of 100,000 tokens, which is not over.
    fn begin(&self, prompt: &ProgramPrompt, pod: usize) -> ProgramTurn {
        let turn = self.programs.find(prompt, self.now);
        self.programs.begin(&turn, prompt, self.pods[pod], Some(100_000), self.now);
        turn
    }

    /// The same with an answer of a block.
    fn turn(&self, prompt: &ProgramPrompt, pod: usize) -> ProgramTurn {
        let turn = self.begin(prompt, pod);
        self.programs.end(&turn, turn.tokens + BLOCK as u64, self.now);
        turn
    }

    fn working_set(&self, pod: usize) -> u64 {
        self.programs.working_set(self.pods[pod], self.now)
    }
}

/// A prompt whose blocks are these.
fn prompt(blocks: &[u64]) -> ProgramPrompt {
    let chain: Vec<BlockHash> = blocks.iter().map(|&block| BlockHash::new(block)).collect();
    ProgramPrompt::new(&chain, BLOCK, (blocks.len() * BLOCK) as u64)
}

#[test]
fn what_goes_on_with_an_answer_is_of_the_same_program() {
    let mut scene = Scene::new(ProgramLimits::default());
    let first = scene.turn(&prompt(&[1, 2, 3]), 0);
    scene.after(10.0);
    let second = scene.turn(&prompt(&[1, 2, 3, 4, 5]), 1);
    assert_eq!((second.program, second.context), (first.program, first.context));
    // Another one with the same system prompt is another program, and so is a third.
    scene.after(10.0);
    let other = scene.turn(&prompt(&[1, 2, 9]), 0);
    assert_ne!(other.program, first.program);
    assert_ne!(scene.turn(&prompt(&[1, 2]), 0).program, first.program);
    // An edit that takes back a little is no new program, nor is a branch at an early answer; that is a context of its own.
    scene.after(10.0);
    let long = scene.turn(&prompt(&[1, 2, 3, 4, 5, 6, 7, 8, 10, 11]), 0);
    assert_eq!(long.context, first.context);
    let edited = scene.turn(&prompt(&[1, 2, 3, 4, 5, 6, 7, 8, 20]), 0);
    assert_eq!(edited.context, first.context);
    let branch = scene.turn(&prompt(&[1, 2, 3, 4, 30, 31]), 0);
    assert!(branch.program == first.program && branch.context != first.context);
    // Both go on.
    assert_eq!(scene.turn(&prompt(&[1, 2, 3, 4, 30, 31, 32]), 0).context, branch.context);
    assert_eq!(scene.turn(&prompt(&[1, 2, 3, 4, 5, 6, 7, 8, 20, 21]), 0).context, first.context);
}

#[test]
fn requests_at_once_on_one_context_are_a_fan_out_and_later_ones_are_not() {
    let mut scene = Scene::new(ProgramLimits::default());
    let first = scene.begin(&prompt(&[1, 2, 3, 4]), 0);
    for own in 10..14 {
        assert_eq!(scene.turn(&prompt(&[1, 2, 3, own]), 0).program, first.program);
    }
    scene.programs.end(&first, 300, scene.now);
    scene.after(60.0);
    assert_ne!(scene.turn(&prompt(&[1, 2, 3, 20]), 0).program, first.program, "a system prompt");
}

#[test]
fn a_key_bounds_a_program_and_holds_it_together() {
    let scene = Scene::new(ProgramLimits::default());
    let of = |blocks: &[u64], key| scene.turn(&prompt(blocks).key(Some(key)), 0);
    let agent = of(&[1, 2, 3], 7);
    let helper = of(&[50, 51], 7);
    assert!(helper.program == agent.program && helper.context != agent.context, "with a prompt of its own");
    assert_eq!(of(&[50, 51, 52], 7).context, helper.context);
    assert_ne!(of(&[1, 2, 3], 8).program, agent.program, "the same prompt of somebody else");
    // Too short to be told, but by its key.
    assert_eq!(of(&[], 8).program, of(&[1, 2, 3, 4], 8).program);
}

#[test]
fn a_context_counts_where_it_is_until_it_is_not_expected_back() {
    let mut scene = Scene::new(ProgramLimits::default());
    // A block and an answer take 128 tokens, and programs are back after a second.
    let mut blocks = vec![1];
    for turn in 0..40 {
        scene.turn(&prompt(&blocks), 0);
        assert_eq!(scene.working_set(0), 64 * (turn + 2));
        scene.after(1.0);
        blocks.push(blocks.len() as u64 + 1);
    }
    let kept = scene.programs.keep(0, 2.5);
    assert!((1.0..2.0).contains(&kept), "{kept}");
    scene.after(kept - 1.0);
    assert_eq!((scene.working_set(0), scene.programs.stats().kept), (0, 0), "it should have been back");
    // It comes back elsewhere, and runs for as long as it takes.
    let turn = scene.begin(&prompt(&blocks), 2);
    scene.after(1_000.0);
    assert_eq!(scene.working_set(0), 0);
    assert!(scene.working_set(2) > 40 * 64);
    assert_eq!(scene.programs.stats().running, 1);
    // What its own prompt needs is not counted twice.
    assert_eq!(scene.programs.working_set_with(&turn, scene.pods[2], scene.now), scene.working_set(2));
    scene.programs.end_before(&turn, 5_000, Pause::Over, scene.now);
    assert_eq!(scene.working_set(2), 0, "it was the last one");
}

#[test]
fn what_is_told_counts_more_than_what_was_learned() {
    let scene = Scene::new(ProgramLimits::default());
    let at = |seconds: f64| scene.now + Duration::from_secs_f64(seconds);
    let set = |seconds: f64| scene.programs.working_set(scene.pods[0], at(seconds));
    let turn = scene.begin(&prompt(&[1, 2]), 0);
    scene.programs.end_before(&turn, 200, Pause::Lasts(Duration::from_secs_f64(0.5)), scene.now);
    assert_eq!((set(0.5), set(2.0)), (200, 0));
    // It takes longer than computing all of the cache again.
    let turn = scene.begin(&prompt(&[1, 2, 3]), 0);
    scene.programs.end_before(&turn, 200, Pause::Lasts(Duration::from_secs(600)), scene.now);
    assert_eq!(set(0.0), 0);
}

#[test]
fn pauses_are_learned_by_kind() {
    let mut scene = Scene::new(ProgramLimits::default());
    for program in 0..40 {
        for (kind, pause) in [(1, 0.2), (2, 30.0)] {
            let blocks: Vec<u64> = (0..4).map(|at| 1_000 * kind + 10 * program + at).collect();
            scene.turn(&prompt(&blocks[..2]).kind(kind), 0);
            scene.after(pause);
            scene.turn(&prompt(&blocks).kind(kind), 0);
            scene.after(5.0);
        }
    }
    let [short, long, other] = [1, 2, 3].map(|kind| scene.programs.keep(kind, 60.0));
    assert!(short < 1.0 && (30.0..60.0).contains(&long) && other == 60.0, "{short}, {long}, {other}");
}

#[test]
fn there_are_no_more_than_may_be_and_old_ones_are_forgotten() {
    let few = ProgramLimits::default()
        .contexts(NonZeroUsize::new(3).unwrap())
        .blocks(NonZeroUsize::new(20).unwrap())
        .ttl_seconds(NonZeroU32::new(100).unwrap());
    let mut scene = Scene::new(few);
    let turns: Vec<_> = (0..5).map(|at| scene.turn(&prompt(&[10 * at + 1, 10 * at + 2]), 0)).collect();
    let stats = scene.programs.stats();
    assert_eq!((stats.contexts, stats.blocks), (3, 6));
    assert_ne!(scene.programs.find(&prompt(&[1, 2, 3]), scene.now).context, turns[0].context);
    assert_eq!(scene.programs.find(&prompt(&[41, 42, 43]), scene.now).context, turns[4].context);
    scene.turn(&prompt(&(100..119).collect::<Vec<_>>()), 0);
    assert!(scene.programs.stats().blocks <= 20);
    scene.after(100.0);
    scene.turn(&prompt(&[7]), 0);
    assert_eq!(scene.programs.stats().contexts, 1);
    // Of one that is forgotten while it runs nothing is left to end.
    let forgotten = turns[0];
    scene.programs.end(&forgotten, 1_000, scene.now);
}

#[test]
fn a_pod_that_took_anothers_place_has_nothing() {
    let mut scene = Scene::new(ProgramLimits::default());
    let turn = scene.begin(&prompt(&[1, 2]), 0);
    assert!(scene.index.retire(scene.pods[0]));
    scene.index.sweep(usize::MAX);
    scene.pods[0] = scene.index.join("new").unwrap();
    assert_eq!(scene.working_set(0), 0);
    scene.begin(&prompt(&[5]), 0);
    let own = scene.working_set(0);
    scene.programs.end(&turn, 900, scene.now);
    assert_eq!(scene.working_set(0), own, "what ends was another's");
}
