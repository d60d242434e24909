mod heard;
mod keys;
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
        self.programs.begin(&turn, prompt, PodCache::new(self.pods[pod], Some(100_000)), self.now);
        turn
    }

    /// The same with an answer of a block.
    fn turn(&self, prompt: &ProgramPrompt, pod: usize) -> ProgramTurn {
        let turn = self.begin(prompt, pod);
        self.programs.end(&turn, Some(BLOCK as u64), self.now);
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

/// Of a question of 32 tokens no block is looked at; it is known by the end of its prompt.
#[test]
fn a_short_question_behind_a_system_prompt_is_found_again() {
    let small = |own: &[u64]| {
        let chain: Vec<BlockHash> = (1..=8).chain(own.iter().copied()).map(BlockHash::new).collect();
        ProgramPrompt::new(&chain, 16, 16 * chain.len() as u64)
    };
    let mut scene = Scene::new(ProgramLimits::default());
    let askers = [&[11, 12][..], &[21, 22], &[31, 32, 33]].map(|question| {
        scene.after(5.0);
        scene.turn(&small(question), 0)
    });
    for (asker, next) in askers.iter().zip([&[11, 12, 13, 14][..], &[21, 22, 23], &[31, 32, 33, 34, 35]]) {
        scene.after(5.0);
        assert_eq!(scene.turn(&small(next), 1).context, asker.context, "{next:?}");
    }
    // One that begins alike is another, and so is one that is asked twice at once.
    scene.after(5.0);
    let [like, once, again] = [&[31, 39][..], &[41, 42], &[41, 42]].map(|question| scene.begin(&small(question), 0));
    assert!(askers.iter().all(|asker| asker.program != like.program) && once.context != again.context);
}

#[test]
fn service_is_forgotten_with_the_last_context() {
    let limits = ProgramLimits::default().contexts(NonZeroUsize::new(3).unwrap());
    let mut scene = Scene::new(limits);
    let first = scene.turn(&prompt(&[1, 2, 3]), 0);
    assert_eq!(first.service, 0);
    scene.after(10.0);
    let again = scene.turn(&prompt(&[1, 2, 3, 4, 5]), 0);
    assert_eq!((again.program, again.service), (first.program, 4 * 64), "three blocks and an answer");
    scene.after(10.0);
    let branch = scene.turn(&prompt(&[1, 2, 3, 4, 9]), 0);
    assert_eq!((branch.program, branch.service), (first.program, 10 * 64), "and five, with an answer");
    assert_eq!(scene.programs.served(), 1);
    for other in 100..120 {
        scene.after(10.0);
        scene.turn(&prompt(&[other, other + 1_000]), 0);
    }
    assert_eq!((scene.programs.stats().contexts, scene.programs.served()), (3, 3));
    assert_eq!(scene.programs.find(&prompt(&[1, 2, 3, 4, 5, 6]), scene.now).service, 0);
}

#[test]
fn requests_at_once_on_one_context_are_a_fan_out_and_later_ones_are_not() {
    let mut scene = Scene::new(ProgramLimits::default());
    let first = scene.begin(&prompt(&[1, 2, 3, 4]), 0);
    for own in 10..14 {
        assert_eq!(scene.turn(&prompt(&[1, 2, 3, own]), 0).program, first.program);
    }
    scene.programs.end(&first, None, scene.now);
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
    scene.programs.end_before(&turn, Some(100), Pause::Over, scene.now);
    assert_eq!(scene.working_set(2), 0, "it was the last one");
}

#[test]
fn what_is_told_counts_more_than_what_was_learned() {
    let scene = Scene::new(ProgramLimits::default());
    let at = |seconds: f64| scene.now + Duration::from_secs_f64(seconds);
    let set = |seconds: f64| scene.programs.working_set(scene.pods[0], at(seconds));
    let turn = scene.begin(&prompt(&[1, 2]), 0);
    scene.programs.end_before(&turn, Some(72), Pause::Lasts(Duration::from_secs_f64(0.5)), scene.now);
    assert_eq!((set(0.5), set(2.0)), (200, 0));
    // It takes longer than computing all of the cache again.
    let turn = scene.begin(&prompt(&[1, 2, 3]), 0);
    scene.programs.end_before(&turn, Some(8), Pause::Lasts(Duration::from_secs(600)), scene.now);
    assert_eq!(set(0.0), 0);
}

/// A pod that computes ten times as slow as the cost model says keeps contexts for longer.
#[test]
fn a_slow_pod_keeps_what_it_has_for_longer() {
    let kept = |pace: f64| {
        let scene = Scene::new(ProgramLimits::default());
        let (turn, pod) = (scene.programs.find(&prompt(&[1]), scene.now), scene.pods[0]);
        scene.programs.begin(&turn, &prompt(&[1]), PodCache::new(pod, Some(100_000)).pace(pace), scene.now);
        scene.programs.end(&turn, None, scene.now);
        (0..1_000)
            .find(|second| scene.programs.working_set(pod, scene.now + Duration::from_secs(*second)) == 0)
            .unwrap()
    };
    let (fast, slow) = (kept(1.0), kept(10.0));
    assert!(fast > 1 && (8 * fast..=10 * fast).contains(&slow), "{fast} and {slow} s");
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
    scene.programs.end(&forgotten, Some(1_000), scene.now);
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
    scene.programs.end(&turn, Some(900), scene.now);
    assert_eq!(scene.working_set(0), own, "what ends was another's");
}

/// While one runs, others that begin alike are branches with a context each: none takes another's.
#[test]
fn users_of_one_system_prompt_do_not_take_each_others_contexts() {
    let mut scene = Scene::new(ProgramLimits::default());
    let system: Vec<u64> = (1..=20).collect();
    let of = |user: u64, turns: u64| -> Vec<u64> {
        let own = (0..3 * turns).map(|at| 1_000 * user + at);
        system.iter().copied().chain(own).collect()
    };
    let first: Vec<_> = (1..=5).map(|user| scene.begin(&prompt(&of(user, 1)), user as usize % 3)).collect();
    let mut contexts: Vec<u64> = first.iter().map(|turn| turn.context).collect();
    contexts.dedup();
    assert_eq!(contexts.len(), 5);
    // The system prompt counts once, with the first of them.
    let all: u64 = (0..3).map(|pod| scene.working_set(pod)).sum();
    assert_eq!(all, 20 * 64 + 5 * (3 * 64 + 256));
    first.iter().for_each(|turn| scene.programs.end(turn, Some(64), scene.now));
    scene.after(5.0);
    for (user, first) in (1..=5).zip(&first) {
        assert_eq!(scene.begin(&prompt(&of(user, 2)), 0).context, first.context, "user {user}");
    }
}

#[test]
fn what_one_tenant_says_is_nothing_of_anothers() {
    let scene = Scene::new(ProgramLimits::default());
    let one = scene.turn(&prompt(&[1, 2, 3]).tenant(1), 0);
    assert_ne!(scene.turn(&prompt(&[1, 2, 3, 4]).tenant(2), 0).program, one.program);
    // Nor is it less its own since another one said the same.
    assert_eq!(scene.turn(&prompt(&[1, 2, 3, 4]).tenant(1), 0).program, one.program);
    let keyed = scene.turn(&prompt(&[7]).key(Some(5)).tenant(1), 0);
    assert_ne!(scene.turn(&prompt(&[7, 8]).key(Some(5)).tenant(2), 0).program, keyed.program);
}

#[test]
fn a_short_request_of_a_key_takes_nothing_from_its_agent() {
    let scene = Scene::new(ProgramLimits::default());
    let agent = scene.turn(&prompt(&[1, 2, 3]).key(Some(7)), 0);
    let short = scene.turn(&prompt(&[]).key(Some(7)), 1);
    assert!(short.program == agent.program && short.context != agent.context);
    assert_eq!(scene.working_set(0), 4 * 64);
    assert_eq!(scene.turn(&prompt(&[1, 2, 3, 4]).key(Some(7)), 0).context, agent.context);
}

#[test]
fn made_up_kinds_and_answers_harm_nobody() {
    let mut scene = Scene::new(ProgramLimits::default());
    for at in 0..40 {
        scene.turn(&prompt(&[10_000 + at]), 0);
        scene.after(0.5);
        scene.turn(&prompt(&[10_000 + at, 20_000 + at]), 0);
    }
    let known = scene.programs.keep(0, 60.0);
    let mut blocks = vec![1];
    for kind in 1..5_000 {
        scene.turn(&prompt(&blocks).kind(kind), 0);
        if blocks.len() < 4 {
            blocks.push(blocks.len() as u64 + 1);
        }
    }
    assert!(known < 1.0 && scene.programs.keep(0, 60.0) <= known);
    let turn = scene.begin(&prompt(&[77]), 1);
    scene.programs.end(&turn, Some(u64::MAX), scene.now);
    let next = scene.begin(&prompt(&[78]), 2);
    assert!(scene.programs.working_set_with(&next, scene.pods[2], scene.now) < 100_000);
}

#[test]
fn what_is_remembered_of_turns_does_not_outgrow_contexts() {
    let scene = Scene::new(ProgramLimits::default());
    // Nothing is known of the cache, so that each is kept for long.
    for _ in 0..20_000 {
        let turn = scene.programs.find(&prompt(&[1, 2]), scene.now);
        scene.programs.begin(&turn, &prompt(&[1, 2]), PodCache::new(scene.pods[0], None), scene.now);
        scene.programs.end(&turn, Some(1), scene.now);
    }
    assert!(scene.programs.table_sizes().1 < 1_000, "{:?}", scene.programs.table_sizes());
    assert_eq!(scene.programs.stats().contexts, 1);
}

#[test]
fn a_context_goes_along_to_the_pod_that_answers() {
    let scene = Scene::new(ProgramLimits::default());
    let turn = scene.begin(&prompt(&[1, 2]), 0);
    let tokens = scene.working_set(0);
    scene.programs.moved(&turn, PodCache::new(scene.pods[1], None));
    assert_eq!((scene.working_set(0), scene.working_set(1)), (0, tokens));
}

#[test]
fn a_beginning_that_all_share_is_remembered_in_bounds_too() {
    let few = ProgramLimits::default().blocks(NonZeroUsize::new(1_000).unwrap());
    let mut scene = Scene::new(few);
    let system: Vec<u64> = (1..=90).collect();
    for user in 0..100 {
        scene.after(3.0);
        let blocks: Vec<u64> = system.iter().copied().chain([1_000 + user]).collect();
        scene.turn(&prompt(&blocks), 0);
        assert!(scene.programs.stats().blocks <= 1_000);
    }
    assert_eq!(scene.programs.stats().contexts, 10);
}
