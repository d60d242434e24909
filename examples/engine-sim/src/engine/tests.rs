//! What the engine promises, request by request and under any load.

use std::collections::HashMap;

use kv_index::BlockSize;
use proptest::prelude::*;

use super::*;

fn engine(blocks: u32) -> Engine {
    Engine::new(Names::new("sim", BlockSize::new(4).unwrap(), "0").unwrap(), blocks)
}

/// A job of a story: two jobs of one story begin alike.
fn job(story: u32, prompt: usize, answer: usize) -> Job {
    let tokens = |range: std::ops::Range<usize>| range.map(|at| story * 1_000 + at as u32).collect();
    Job { prompt: tokens(0..prompt), answer: tokens(prompt..prompt + answer), ..Job::default() }
}

fn run(engine: &mut Engine) -> Vec<CacheEvent> {
    let mut events = Vec::new();
    loop {
        let step = engine.schedule();
        if step.is_empty() {
            return events;
        }
        events.extend(step.events);
        engine.complete();
    }
}

/// How many blocks each `Stored` has (positive), and each `Removed` (negative).
fn shape(events: &[CacheEvent]) -> Vec<i64> {
    let count = |event: &CacheEvent| match event {
        CacheEvent::Stored { blocks, .. } => blocks.len() as i64,
        CacheEvent::Removed(_) => -1,
        CacheEvent::Cleared => 0,
    };
    events.iter().map(count).collect()
}

#[test]
fn a_prefill_is_one_event_and_each_decoded_block_another_but_not_the_last_token() {
    let mut engine = engine(16);
    engine.submit(job(1, 10, 7)).unwrap();
    // 10 tokens prefilled, 6 of the 7 decoded ones are ever read again: 16 tokens, 4 blocks.
    assert_eq!(shape(&run(&mut engine)), [2, 1, 1]);
    assert_eq!(engine.usage(), (0, 16));
    let id = engine.submit(job(1, 17, 1)).unwrap();
    assert_eq!(engine.schedule().admitted, [Admitted { id, prompt: 17, cached: 16, received: 0 }]);
}

#[test]
fn a_long_prompt_is_prefilled_in_chunks_beside_what_decodes() {
    let mut engine = engine(8_000);
    engine.submit(job(1, 4, 9)).unwrap();
    engine.schedule();
    engine.complete();
    engine.submit(job(2, 10_000, 1)).unwrap();
    let step = engine.schedule();
    assert_eq!((step.contexts, step.chunks), (vec![4], vec![(0, STEP_TOKENS - 1)]));
    assert_eq!(engine.complete().len(), 1, "a prompt that is not all there samples nothing");
    let step = engine.schedule();
    assert_eq!((step.contexts, step.chunks), (vec![5], vec![(STEP_TOKENS - 1, 10_000 - STEP_TOKENS + 1)]));
    assert_eq!(engine.complete().len(), 2);
}

#[test]
fn an_exact_repeat_of_whole_blocks_makes_a_second_copy_of_the_last() {
    let mut engine = engine(8);
    for _ in 0..2 {
        engine.submit(job(1, 12, 1)).unwrap();
        run(&mut engine);
    }
    let mut copies: Vec<u32> = engine.blocks().map(|(_, copies)| copies).collect();
    copies.sort();
    assert_eq!(copies, [1, 1, 2]);
}

#[test]
fn eviction_takes_the_tail_of_the_oldest_and_comes_before_the_store() {
    let mut engine = engine(6);
    engine.submit(job(1, 16, 1)).unwrap();
    let old = run(&mut engine);
    engine.submit(job(2, 16, 1)).unwrap();
    let new = run(&mut engine);
    assert_eq!(shape(&new), [-1, -1, 4]);
    let [CacheEvent::Stored { blocks, .. }] = &old[..] else { panic!("{old:?}") };
    assert_eq!(new[..2], [CacheEvent::Removed(blocks[3].clone()), CacheEvent::Removed(blocks[2].clone())]);
}

#[test]
fn what_does_not_fit_waits_in_order_and_what_never_fits_is_refused() {
    let mut engine = engine(4);
    engine.submit(job(1, 4, 9)).unwrap();
    engine.submit(job(2, 8, 1)).unwrap();
    engine.submit(job(3, 2, 1)).unwrap();
    engine.schedule();
    assert_eq!(engine.requests(), (1, 2), "the first needs 3 of 4 frames, and nobody overtakes the second");
    engine.complete();
    run(&mut engine);
    assert_eq!(engine.requests(), (0, 0));
    assert!(engine.submit(job(4, 16, 1)).is_err());
    assert!(engine.submit(job(4, 15, 1)).is_ok());
}

#[test]
fn what_was_received_is_announced_and_not_computed() {
    let mut engine = engine(8);
    engine.submit(Job { received: 12, ..job(1, 12, 2) }).unwrap();
    let step = engine.schedule();
    assert_eq!((shape(&step.events), step.chunks), (vec![3], vec![(11, 1)]));
    assert_eq!((step.admitted[0].cached, step.admitted[0].received), (0, 11));
}

#[test]
fn what_is_kept_stays_until_it_is_released() {
    let mut engine = engine(8);
    let id = engine.submit(Job { kept: true, ..job(1, 10, 1) }).unwrap();
    run(&mut engine);
    assert_eq!((engine.usage().0, engine.kept(id).len(), engine.requests()), (3, 3, (0, 0)));
    assert!(engine.release(id) && !engine.release(id));
    assert_eq!(engine.usage().0, 0);
}

#[derive(Clone, Debug)]
enum Act {
    Submit(Job),
    Schedule,
    Complete,
    Abort(u64),
    Release(u64),
}

fn act() -> impl Strategy<Value = Act> {
    let job = (0_u32..5, 1_usize..40, 1_usize..12, 0_usize..4, any::<bool>(), any::<bool>());
    let submit = job.prop_map(|(story, prompt, answer, received, kept, salted)| {
        let salt = salted.then(|| "s".to_owned());
        Act::Submit(Job { received: received * 13, kept, salt, ..self::job(story, prompt, answer) })
    });
    prop_oneof![
        3 => submit,
        6 => Just(Act::Schedule),
        6 => Just(Act::Complete),
        1 => (0_u64..40).prop_map(Act::Abort),
        2 => (0_u64..40).prop_map(Act::Release),
    ]
}

/// Copies as events tell them.
fn count(told: &mut HashMap<BlockHash, u32>, events: &[CacheEvent]) {
    for event in events {
        match event {
            CacheEvent::Stored { blocks, .. } => {
                blocks.iter().for_each(|block| *told.entry(block.hash).or_default() += 1);
            }
            CacheEvent::Removed(block) => *told.get_mut(&block.hash).expect("told before") -= 1,
            CacheEvent::Cleared => told.clear(),
        }
    }
    told.retain(|_, copies| *copies > 0);
}

proptest! {
    /// Whatever is asked: events add up to the cache, what is in use stays, and in the end nobody uses anything.
    #[test]
    fn events_add_up_to_the_cache(acts in proptest::collection::vec(act(), 0..120)) {
        let mut engine = engine(24);
        let mut told = HashMap::new();
        for act in acts {
            match act {
                Act::Submit(job) => _ = engine.submit(job),
                Act::Schedule => count(&mut told, &engine.schedule().events),
                Act::Complete => _ = engine.complete(),
                Act::Abort(id) => _ = engine.abort(RequestId(id)),
                Act::Release(id) => _ = engine.release(RequestId(id)),
            }
            prop_assert_eq!(&told, &engine.blocks().collect::<HashMap<_, _>>());
            prop_assert_eq!(told.len(), engine.memory.names());
            for request in &engine.running {
                for hash in &request.chain.hashes[..request.sealed] {
                    prop_assert!(told.contains_key(hash), "a block in use was evicted");
                }
            }
        }
        for _ in 0..2_000 {
            engine.complete();
            let kept: Vec<RequestId> = engine.kept.keys().copied().collect();
            kept.into_iter().for_each(|id| _ = engine.release(id));
            if engine.requests() == (0, 0) {
                break;
            }
            count(&mut told, &engine.schedule().events);
        }
        prop_assert_eq!((engine.requests(), engine.usage().0, engine.promised), ((0, 0), 0, 0));
        prop_assert_eq!(&told, &engine.blocks().collect::<HashMap<_, _>>());
    }
}
