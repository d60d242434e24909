//! What the engine model promises, request by request and under a random load.

use std::collections::HashMap;

use super::*;
use pointsman_lab::SplitMix64;

const SIZE: BlockSize = BlockSize::new(4).expect("not zero");

fn chain(story: u64, blocks: usize) -> Vec<BlockHash> {
    (0..blocks as u64).map(|at| BlockHash::new((story << 32) + at + 1)).collect()
}

fn job(client: usize, chain: &[BlockHash], prompt: usize, total: usize) -> Job {
    Job { client, chain: chain.to_vec(), prompt, total }
}

fn run(engine: &mut Engine) -> Vec<Report> {
    let mut reports = Vec::new();
    while engine.load() > 0 {
        reports.extend(engine.step().reports);
    }
    reports
}

#[test]
fn a_prefill_is_one_report_and_each_decoded_block_another() {
    let mut engine = Engine::new(SIZE, 16);
    let chain = chain(1, 6);
    engine.submit(job(7, &chain, 10, 26));
    let step = engine.step();
    let decoded = |at: usize| Report::Stored { parent: Parent::Block(chain[at - 1]), blocks: vec![chain[at]] };
    let prefill = Report::Stored { parent: Parent::Root, blocks: chain[..2].to_vec() };
    assert_eq!(step.reports, [prefill, decoded(2), decoded(3), decoded(4), decoded(5)]);
    assert_eq!((step.finished, step.asked, step.hit), (vec![7], 2, 0));
}

#[test]
fn the_next_turn_reuses_prompt_and_answer() {
    let mut engine = Engine::new(SIZE, 16);
    let chain = chain(1, 8);
    engine.submit(job(0, &chain, 10, 16));
    run(&mut engine);
    engine.submit(job(0, &chain, 22, 32));
    let step = engine.step();
    assert_eq!((step.asked, step.hit), (5, 4));
    assert_eq!(step.reports[0], Report::Stored { parent: Parent::Block(chain[3]), blocks: vec![chain[4]] });
}

#[test]
fn eviction_takes_the_tail_of_the_oldest_first_and_reports_each_block_alone() {
    let mut engine = Engine::new(SIZE, 6);
    let (old, new) = (chain(1, 4), chain(2, 4));
    engine.submit(job(0, &old, 16, 16));
    run(&mut engine);
    engine.submit(job(1, &new, 16, 16));
    let reports = run(&mut engine);
    let prefill = Report::Stored { parent: Parent::Root, blocks: new.clone() };
    assert_eq!(reports, [Report::Removed(old[3]), Report::Removed(old[2]), prefill]);
    assert_eq!(engine.pool().prefix(&old).count(), 2);
}

#[test]
fn an_exact_repeat_of_whole_blocks_makes_a_second_copy_of_the_last() {
    let mut engine = Engine::new(SIZE, 8);
    let chain = chain(1, 3);
    for _ in 0..2 {
        engine.submit(job(0, &chain, 12, 12));
        run(&mut engine);
    }
    let mut copies: Vec<_> = engine.pool().blocks().collect();
    copies.sort();
    assert_eq!(copies, [(chain[0], 1), (chain[1], 1), (chain[2], 2)]);
}

#[test]
fn a_request_waits_until_there_is_room_for_all_of_it() {
    let mut engine = Engine::new(SIZE, 10);
    engine.submit(job(0, &chain(1, 8), 4, 32));
    engine.submit(job(1, &chain(2, 4), 16, 16));
    assert!(engine.step().finished.is_empty());
    assert_eq!((engine.waiting.len(), engine.running.len()), (1, 1));
    assert_eq!(engine.step().finished, [0]);
    assert_eq!(engine.step().finished, [1]);
}

#[test]
fn a_restart_loses_the_cache_and_every_request() {
    let mut engine = Engine::new(SIZE, 10);
    engine.submit(job(0, &chain(1, 8), 4, 32));
    engine.submit(job(1, &chain(2, 4), 16, 16));
    engine.step();
    assert_eq!(engine.restart(), [0, 1]);
    assert_eq!((engine.load(), engine.pool().blocks().count(), engine.promised), (0, 0, 0));
}

/// Counts copies as the reports tell them, and compares with the pool after every step.
#[test]
fn reports_add_up_to_the_pool_and_the_cache_is_closed_under_prefixes() {
    let mut rng = SplitMix64::new(11);
    let mut engine = Engine::new(SIZE, 60);
    let stories: Vec<_> = (1..9).map(|story| chain(story, 12)).collect();
    let mut told: HashMap<BlockHash, usize> = HashMap::new();
    let mut copied = false;
    for _ in 0..4_000 {
        if rng.one_in(2) {
            let prompt = rng.between(1, 40);
            let story = rng.below(stories.len());
            engine.submit(job(story, &stories[story], prompt, rng.between(prompt, 48)));
        }
        for report in engine.step().reports {
            match report {
                Report::Stored { blocks, .. } => blocks.iter().for_each(|&hash| *told.entry(hash).or_default() += 1),
                Report::Removed(hash) => *told.get_mut(&hash).unwrap() -= 1,
                Report::Cleared => told.clear(),
            }
        }
        told.retain(|_, copies| *copies > 0);
        assert_eq!(told, engine.pool().blocks().collect());
        copied |= told.values().any(|&copies| copies > 1);
        for story in &stories {
            let held = story.iter().filter(|&&hash| engine.pool().find(hash).is_some()).count();
            assert_eq!(engine.pool().prefix(story).count(), held);
        }
    }
    assert!(copied, "the test has met second copies");
}
