//! What the scheduler promises, request by request and under any load.

use std::collections::HashMap;

use kv_index::BlockHash;
use proptest::prelude::*;

use super::*;

const CONFIG: EngineConfig = EngineConfig {
    block_tokens: 4,
    blocks: 20,
    host_blocks: 0,
    host_us_per_token: 0.0,
    step_tokens: 16,
    max_running: 4,
    speed: 1.0,
    decode_speed: 1.0,
    priority_scheduling: false,
    removed_events: RemovedEvents::EveryCopy,
};

/// Chains by request.
#[derive(Default)]
struct Chains(Vec<Vec<BlockHash>>);

impl BlockChains for Chains {
    fn chain(&self, request: u32) -> &[BlockHash] {
        &self.0[request as usize]
    }
}

fn chains(all: &[&[u64]]) -> Chains {
    Chains(all.iter().map(|chain| chain.iter().map(|&hash| BlockHash::new(hash)).collect()).collect())
}

fn request(id: u32, prompt: u32, output: u32) -> EngineRequest {
    EngineRequest { id, prompt, output, ..EngineRequest::default() }
}

/// Runs to the end; who was sampled in which step.
fn run(engine: &mut Scheduler, chains: &Chains) -> Vec<(u64, Sampled)> {
    let (costs, mut all, mut sampled) = (CostModel::default(), Vec::new(), Vec::new());
    while engine.begin(&costs, chains).is_some() {
        engine.end(chains, &mut sampled);
        all.extend(sampled.drain(..).map(|one| (engine.step, one)));
    }
    all
}

/// Runs from the middle of a step to the end; who was sampled.
fn run_on(engine: &mut Scheduler, chains: &Chains) -> Vec<Sampled> {
    let mut sampled = Vec::new();
    engine.end(chains, &mut sampled);
    sampled.extend(run(engine, chains).into_iter().map(|(_, one)| one));
    sampled
}

fn stored(request: u32, from: u32, to: u32) -> BlockEvent {
    BlockEvent::Stored { request, from, to }
}

fn cached(engine: &mut Scheduler) -> Vec<u32> {
    engine.admitted().map(|one| one.cached_blocks).collect()
}

#[test]
fn a_long_prompt_takes_several_steps_and_then_decodes_one_token_a_step() {
    let chains = chains(&[&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]]);
    let mut engine = Scheduler::new(CONFIG);
    let long = request(0, 40, 3);
    assert!(engine.submit(long));
    // 16, 16 and 8 tokens, which gives the first; then two more.
    assert_eq!(run(&mut engine, &chains), [(3, Sampled::First(long)), (5, Sampled::Done(long))]);
    assert_eq!((engine.prefilled(), engine.pool.used()), (40, 0));
    assert!(engine.events().eq([stored(0, 0, 4), stored(0, 4, 8), stored(0, 8, 10)]));
}

#[test]
fn each_decoded_block_is_an_event_but_not_that_of_the_last_token() {
    // 10 tokens prefilled, 6 of the 7 decoded ones are ever read again: 16 tokens, 4 blocks.
    let chains = chains(&[&[1, 2, 3, 4], &[1, 2, 3, 4]]);
    let mut engine = Scheduler::new(CONFIG);
    assert!(engine.submit(request(0, 10, 7)));
    run(&mut engine, &chains);
    assert!(engine.events().eq([stored(0, 0, 2), stored(0, 2, 3), stored(0, 3, 4)]));
    assert!(engine.submit(request(1, 17, 1)));
    run(&mut engine, &chains);
    assert_eq!(cached(&mut engine), [0, 4]);
}

#[test]
fn a_prompt_is_prefilled_in_chunks_beside_what_decodes() {
    let chains = chains(&[&[], &[]]);
    let (mut engine, costs, mut sampled) = (Scheduler::new(CONFIG), CostModel::default(), Vec::new());
    assert!(engine.submit(request(0, 4, 9)));
    engine.begin(&costs, &chains).unwrap();
    assert_eq!((engine.end(&chains, &mut sampled), sampled.len()), (0, 1));
    assert!(engine.submit(request(1, 20, 1)));
    for (chunk, context, first) in [((0, 15), 5, 1), ((15, 5), 6, 2)] {
        let took = engine.begin(&costs, &chains).unwrap();
        assert_eq!((engine.chunks.as_slice(), engine.context), ([chunk].as_slice(), context));
        assert!(took.abs_diff(costs.step(&[chunk], 1, context as usize)) < Duration::from_nanos(2));
        assert_eq!(engine.end(&chains, &mut sampled), 1);
        assert_eq!(sampled.iter().filter(|one| matches!(one, Sampled::First(_))).count(), first);
    }
}

#[test]
fn what_is_cached_is_not_computed_but_for_one_token() {
    let chains = chains(&[&[1, 2, 3], &[1, 2, 3], &[1, 2, 9]]);
    let mut engine = Scheduler::new(CONFIG);
    for (id, tokens) in [(0, 12), (1, 4), (2, 4)] {
        let before = engine.prefilled();
        assert!(engine.submit(request(id, 12, 1)));
        run(&mut engine, &chains);
        assert_eq!(engine.prefilled() - before, tokens, "request {id}");
    }
    assert_eq!(cached(&mut engine), [0, 2, 2]);
    let copies: HashMap<BlockHash, u32> = engine.pool().copies().collect();
    assert_eq!([1, 2, 3, 9].map(|hash| copies[&BlockHash::new(hash)]), [1, 1, 2, 1], "the last block again: a copy");
}

#[test]
fn equal_prompts_of_one_step_are_computed_once() {
    let chains = chains(&[&[1, 2], &[1, 2]]);
    let mut engine = Scheduler::new(CONFIG);
    assert!(engine.submit(request(0, 8, 1)) && engine.submit(request(1, 8, 1)));
    run(&mut engine, &chains);
    assert_eq!((engine.prefilled(), engine.step), (12, 1));
}

#[test]
fn what_does_not_fit_waits_in_order_and_what_never_will_is_refused() {
    let chains = chains(&[&[1, 2, 3, 4], &[5, 6, 7, 8], &[9]]);
    let mut engine = Scheduler::new(EngineConfig { blocks: 6, ..CONFIG });
    let (first, second) = (request(0, 16, 4), request(1, 16, 4));
    assert!(!engine.submit(request(2, 4, 21)) && engine.submit(request(2, 4, 20)), "room for 24 tokens");
    assert!(engine.abort(2) && engine.submit(first) && engine.submit(second) && engine.submit(request(2, 2, 1)));
    engine.begin(&CostModel::default(), &chains).unwrap();
    assert_eq!(engine.requests(), (1, 2), "the third would fit, and does not overtake");
    engine.end(&chains, &mut Vec::new());
    let sampled = run(&mut engine, &chains);
    assert_eq!(sampled[0], (4, Sampled::Done(first)));
    assert_eq!(sampled[1], (5, Sampled::First(second)), "it began when the first was done");
    let events: Vec<BlockEvent> = engine.events().collect();
    let tail = BlockEvent::Removed([4, 3].map(BlockHash::new).to_vec(), Tier::Gpu);
    assert_eq!(events[..3], [stored(0, 0, 4), tail, stored(1, 0, 4)], "the first one's tail made room");
}

#[test]
fn whoever_was_admitted_last_is_preempted_and_computes_again_what_is_gone() {
    // Two prompts of two blocks each in five blocks; each answer needs a third block for its first token, one gets it.
    let chains = chains(&[&[1, 2, 3, 4], &[5, 6, 7, 8]]);
    let mut engine = Scheduler::new(EngineConfig { blocks: 5, ..CONFIG });
    let (first, second) = (request(0, 8, 8), request(1, 8, 3));
    assert!(engine.submit(first) && engine.submit(second));
    let sampled = run(&mut engine, &chains);
    // The second one has its first token in step 1, and waits for the first, which is done in step 8. Its fourth block
    // is the second one's last; so a block and the token after it are computed again, for the second token.
    let expected = [
        (1, Sampled::First(first)),
        (1, Sampled::First(second)),
        (8, Sampled::Done(first)),
        (10, Sampled::Done(second)),
    ];
    assert_eq!(sampled, expected);
    assert_eq!((engine.preemptions(), engine.prefilled()), (1, 16 + 5));
    assert_eq!(cached(&mut engine), [0, 0], "admitted for the first time");
}

#[test]
fn a_received_prompt_is_announced_and_not_computed() {
    let chains = chains(&[&[1, 2, 3], &[1, 2, 3, 4]]);
    let mut engine = Scheduler::new(CONFIG);
    assert!(engine.submit(EngineRequest { received: 12, ..request(0, 12, 2) }));
    engine.begin(&CostModel::default(), &chains).unwrap();
    assert_eq!((engine.chunks.as_slice(), engine.prefilled()), ([(11, 1)].as_slice(), 0));
    assert!(engine.events().eq([stored(0, 0, 3)]));
    engine.end(&chains, &mut Vec::new());
    assert!(engine.submit(request(1, 16, 1)));
    run(&mut engine, &chains);
    assert_eq!((engine.prefilled(), cached(&mut engine)), (4, vec![0, 3]));
}

#[test]
fn kept_blocks_stay_until_they_are_released() {
    let chains = chains(&[&[1, 2]]);
    let mut engine = Scheduler::new(CONFIG);
    assert!(engine.submit(EngineRequest { keep_blocks: true, ..request(0, 10, 1) }));
    run(&mut engine, &chains);
    assert_eq!((engine.pool().used(), engine.kept(0).len(), engine.requests()), (3, 3, (0, 0)));
    assert!(engine.release(0) && !engine.release(0));
    assert_eq!(engine.pool().used(), 0);
}

#[test]
fn blocks_in_host_memory_are_fetched_and_not_computed() {
    let chains = chains(&[&[1, 2, 3, 4], &[5, 6, 7, 8], &[1, 2, 3, 4]]);
    let config = EngineConfig { blocks: 5, host_blocks: 10, host_us_per_token: 1e9, ..CONFIG };
    let mut engine = Scheduler::new(config);
    for id in 0..2 {
        assert!(engine.submit(request(id, 17, 1)));
        run(&mut engine, &chains);
    }
    assert!(engine.submit(request(2, 17, 1)));
    let took = engine.begin(&CostModel::default(), &chains).unwrap();
    assert_eq!(cached(&mut engine).last(), Some(&4));
    assert!(took >= Duration::from_secs(12_000), "three blocks or four were away: {took:?}");
}

#[test]
fn no_more_run_than_may_and_those_that_decode_go_first() {
    let chains = chains(&[&[], &[], &[], &[], &[]]);
    let mut engine = Scheduler::new(EngineConfig { step_tokens: 4, ..CONFIG });
    for id in 0..5 {
        assert!(engine.submit(request(id, 3, 5)));
    }
    engine.begin(&CostModel::default(), &chains).unwrap();
    assert_eq!(engine.requests(), (2, 3), "four tokens are three of the first and one of the second");
    for _ in 0..3 {
        engine.end(&chains, &mut Vec::new());
        engine.begin(&CostModel::default(), &chains);
    }
    assert_eq!(engine.requests(), (4, 1), "four is the most");
}

#[test]
fn background_requests_are_passed_under_priority_scheduling() {
    let chains = chains(&[&[1, 2, 3, 4], &[5, 6, 7, 8], &[9, 10]]);
    for (priority_scheduling, order) in [(false, [0, 1, 2]), (true, [2, 0, 1])] {
        let mut engine = Scheduler::new(EngineConfig { step_tokens: 8, priority_scheduling, ..CONFIG });
        for (id, prompt, background) in [(0, 16, true), (1, 16, true), (2, 8, false)] {
            assert!(engine.submit(EngineRequest { background, ..request(id, prompt, 1) }));
        }
        let firsts = run(&mut engine, &chains).into_iter().filter_map(|(_, sampled)| match sampled {
            Sampled::First(request) => Some(request.id),
            Sampled::Done(_) => None,
        });
        assert_eq!(firsts.collect::<Vec<_>>(), order);
    }
}

#[test]
fn a_preempted_background_request_does_not_pass_those_that_wait() {
    let chains = chains(&[&[], &[], &[]]);
    let mut engine = Scheduler::new(EngineConfig { blocks: 5, priority_scheduling: true, ..CONFIG });
    let background = EngineRequest { background: true, ..request(1, 8, 9) };
    assert!(engine.submit(request(0, 8, 9)) && engine.submit(background));
    engine.begin(&CostModel::default(), &chains).unwrap();
    assert!(engine.submit(request(2, 12, 1)));
    let firsts = run_on(&mut engine, &chains).into_iter().filter_map(|one| match one {
        Sampled::Done(request) => Some(request.id),
        Sampled::First(_) => None,
    });
    assert_eq!(firsts.collect::<Vec<_>>(), [0, 2, 1]);
    assert_eq!(engine.preemptions(), 1);
}

#[test]
fn a_block_is_removed_with_its_last_copy_where_copies_are_not_reported() {
    let chains = chains(&[&[1, 2], &[1, 2], &[3, 4]]);
    for (removed_events, count) in [(RemovedEvents::EveryCopy, 1), (RemovedEvents::LastCopy, 0)] {
        let mut engine = Scheduler::new(EngineConfig { blocks: 4, removed_events, ..CONFIG });
        for id in 0..3 {
            // The second one computes the second block again; the third one takes the place of the first copy.
            assert!(engine.submit(request(id, 8, 1)));
            run(&mut engine, &chains);
        }
        let removed = engine.events().filter_map(|event| match event {
            BlockEvent::Removed(hashes, Tier::Gpu) => Some(hashes.len()),
            _ => None,
        });
        assert_eq!(removed.sum::<usize>(), count, "{removed_events:?}");
    }
}

#[derive(Clone, Debug)]
enum Act {
    /// A story, and the request's own numbers.
    Submit(u64, EngineRequest),
    Begin,
    End,
    Abort(u32),
    Release(u32),
}

fn act() -> impl Strategy<Value = Act> {
    let submit = (0_u64..5, 1_u32..40, 1_u32..12, 0_u32..4, any::<bool>(), any::<bool>()).prop_map(
        |(story, prompt, output, received, keep_blocks, background)| {
            let received = received * 13;
            Act::Submit(story, EngineRequest { id: 0, prompt, output, received, keep_blocks, background })
        },
    );
    prop_oneof![
        3 => submit,
        6 => Just(Act::Begin),
        6 => Just(Act::End),
        1 => (0_u32..40).prop_map(Act::Abort),
        2 => (0_u32..40).prop_map(Act::Release),
    ]
}

/// Copies as events tell them.
fn count(told: &mut HashMap<BlockHash, u32>, engine: &mut Scheduler, chains: &Chains) {
    for event in engine.events() {
        match event {
            BlockEvent::Stored { request, from, to } => {
                let blocks = &chains.chain(request)[from as usize..to as usize];
                blocks.iter().for_each(|&hash| *told.entry(hash).or_default() += 1);
            }
            BlockEvent::Removed(hashes, Tier::Gpu) => {
                hashes.iter().for_each(|hash| *told.get_mut(hash).expect("told before") -= 1);
            }
            other => panic!("{other:?}"),
        }
    }
    told.retain(|_, copies| *copies > 0);
}

/// Ends a step; whoever has tokens and is not paused has one more, and all of them when it is done.
fn end(engine: &mut Scheduler, chains: &Chains, tokens: &mut HashMap<u32, u32>) -> Result<(), TestCaseError> {
    let mut sampled = Vec::new();
    engine.end(chains, &mut sampled);
    let paused: Vec<u32> = engine.paused().collect();
    tokens.iter_mut().filter(|(id, _)| !paused.contains(id)).for_each(|(_, tokens)| *tokens += 1);
    for one in sampled {
        match one {
            Sampled::First(request) => prop_assert_eq!(tokens.insert(request.id, 1), None),
            Sampled::Done(request) => prop_assert_eq!(tokens.remove(&request.id), Some(request.output)),
        }
    }
    Ok(())
}

proptest! {
    /// Whatever is asked: events add up to the pool, blocks in use stay, answers are whole, sums are right, and in the end
    /// nothing is in use.
    #[test]
    fn events_add_up_to_the_pool(acts in proptest::collection::vec(act(), 0..120), priority_scheduling: bool) {
        let config = EngineConfig { blocks: 14, max_running: 6, priority_scheduling, ..CONFIG };
        let (mut engine, costs) = (Scheduler::new(config), CostModel::default());
        let (mut chains, mut told, mut tokens) = (Chains::default(), HashMap::new(), HashMap::new());
        for act in acts {
            match act {
                Act::Submit(story, request) => {
                    let request = EngineRequest { id: chains.0.len() as u32, ..request };
                    let blocks = u64::from(request.prompt + request.output - 1) / 4;
                    chains.0.push((0..blocks).map(|at| BlockHash::new(story * 1_000 + at)).collect());
                    prop_assert!(engine.submit(request));
                }
                Act::Begin => _ = engine.begin(&costs, &chains),
                Act::End if engine.stepping => end(&mut engine, &chains, &mut tokens)?,
                Act::End => {}
                Act::Abort(id) => {
                    engine.abort(id);
                    tokens.remove(&id);
                }
                Act::Release(id) => _ = engine.release(id),
            }
            count(&mut told, &mut engine, &chains);
            prop_assert_eq!(&told, &engine.pool().copies().collect::<HashMap<_, _>>());
            let mut context = 0;
            for slot in engine.decoding.iter().map(|Reverse((_, slot))| slot).chain(&engine.full) {
                context += engine.running[*slot as usize].written(engine.step) + 1;
            }
            prop_assert_eq!(context, engine.context);
            for running in &engine.running {
                for hash in chains.0.get(running.request.id as usize).into_iter().flatten().take(running.sealed) {
                    prop_assert!(told.contains_key(hash), "a block in use was evicted");
                }
            }
        }
        for _ in 0..2_000 {
            if engine.stepping {
                end(&mut engine, &chains, &mut tokens)?;
            }
            (0..chains.0.len() as u32).for_each(|id| _ = engine.release(id));
            if engine.requests() == (0, 0) {
                break;
            }
            engine.begin(&costs, &chains);
            count(&mut told, &mut engine, &chains);
        }
        prop_assert_eq!((engine.requests(), engine.pool().used(), engine.context), ((0, 0), 0, 0));
        prop_assert_eq!((engine.background_decoding(), tokens.len()), (0, 0));
    }
}
