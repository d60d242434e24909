use super::*;

const CONFIG: EngineConfig = EngineConfig {
    block: 4,
    blocks: 20,
    host_blocks: 0,
    host_us_per_token: 0.0,
    step_tokens: 16,
    most_running: 4,
    speed: 1.0,
    online_first: false,
};

fn chains(all: &[&[u64]]) -> Chains {
    let mut chains = Chains::default();
    all.iter().for_each(|ids| chains.push(ids.iter().map(|&id| BlockHash::new(id))));
    chains
}

fn job(request: u32, prompt: u32, output: u32) -> Job {
    Job { request, prompt, output, received: false, filler: false }
}

/// Runs to the end; how many steps it took, and who was sampled when.
fn run(engine: &mut Engine, chains: &Chains) -> Vec<(u64, Sampled)> {
    let (costs, mut all, mut sampled) = (CostModel::default(), Vec::new(), Vec::new());
    while engine.begin(&costs, chains).is_some() {
        engine.end(&mut sampled);
        all.extend(sampled.drain(..).map(|one| (engine.step, one)));
    }
    all
}

#[test]
fn a_long_prompt_takes_several_steps_and_then_decodes_one_token_a_step() {
    let chains = chains(&[&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]]);
    let mut engine = Engine::new(CONFIG);
    let long = job(0, 40, 3);
    assert!(engine.submit(long));
    // 16, 16 and 8 tokens, which gives the first; then two more.
    assert_eq!(run(&mut engine, &chains), [(3, Sampled::First(long)), (5, Sampled::Done(long))]);
    assert_eq!(engine.prefilled, 40);
    assert_eq!(engine.cache.in_use(), 0);
    let stored = |from, to| Change::Stored { request: 0, from, to };
    assert_eq!(engine.changes, [stored(0, 4), stored(4, 8), stored(8, 10)]);
}

#[test]
fn what_is_held_is_not_computed_but_for_one_token() {
    let chains = chains(&[&[1, 2, 3], &[1, 2, 3], &[1, 2, 9]]);
    let mut engine = Engine::new(CONFIG);
    for (request, tokens) in [(0, 12), (1, 4), (2, 4)] {
        let before = engine.prefilled;
        assert!(engine.submit(job(request, 12, 1)));
        run(&mut engine, &chains);
        assert_eq!(engine.prefilled - before, tokens, "request {request}");
    }
    assert_eq!(engine.admitted.iter().map(|one| one.blocks_hit).collect::<Vec<_>>(), [0, 2, 2]);
}

#[test]
fn equal_prompts_of_one_step_are_computed_once() {
    let chains = chains(&[&[1, 2], &[1, 2]]);
    let mut engine = Engine::new(CONFIG);
    assert!(engine.submit(job(0, 8, 1)) && engine.submit(job(1, 8, 1)));
    run(&mut engine, &chains);
    assert_eq!((engine.prefilled, engine.step), (12, 1));
}

#[test]
fn who_does_not_fit_waits_and_who_never_will_is_refused() {
    let chains = chains(&[&[1, 2, 3, 4], &[5, 6, 7, 8], &[9]]);
    let mut engine = Engine::new(EngineConfig { blocks: 6, ..CONFIG });
    let (first, second) = (job(0, 16, 4), job(1, 16, 4));
    assert!(!engine.submit(job(2, 4, 30)), "34 tokens, and room for 24");
    assert!(engine.submit(first) && engine.submit(second));
    let sampled = run(&mut engine, &chains);
    assert_eq!(sampled[1], (4, Sampled::Done(first)));
    assert_eq!(sampled[2], (5, Sampled::First(second)), "it began when the first was done");
    let removed = engine.changes.iter().find(|change| matches!(change, Change::Removed(..)));
    let tail = [4, 3, 2].map(BlockHash::new).to_vec();
    assert_eq!(removed, Some(&Change::Removed(tail, Tier::Gpu)), "the first one's tail made room");
}

#[test]
fn a_received_prompt_is_not_computed_and_then_held() {
    let chains = chains(&[&[1, 2, 3], &[1, 2, 3, 4]]);
    let mut engine = Engine::new(CONFIG);
    assert!(engine.submit(Job { received: true, ..job(0, 12, 2) }));
    run(&mut engine, &chains);
    assert_eq!((engine.prefilled, engine.admitted.len()), (0, 0));
    assert!(engine.submit(job(1, 16, 1)));
    run(&mut engine, &chains);
    assert_eq!((engine.prefilled, engine.admitted[0].blocks_hit), (4, 3));
}

#[test]
fn blocks_in_host_memory_are_fetched_and_not_computed() {
    let chains = chains(&[&[1, 2, 3, 4], &[5, 6, 7, 8], &[1, 2, 3, 4]]);
    let config = EngineConfig { blocks: 5, host_blocks: 10, host_us_per_token: 1e9, ..CONFIG };
    let mut engine = Engine::new(config);
    for request in 0..2 {
        assert!(engine.submit(job(request, 17, 1)));
        run(&mut engine, &chains);
    }
    assert!(engine.submit(job(2, 17, 1)));
    let took = engine.begin(&CostModel::default(), &chains).unwrap();
    assert_eq!(engine.admitted.last().map(|one| one.blocks_hit), Some(4));
    assert!(took >= 12_000_000_000, "three blocks or four were away: {took}");
}

#[test]
fn no_more_run_than_may_and_those_that_decode_go_first() {
    let chains = chains(&[&[], &[], &[], &[], &[]]);
    let mut engine = Engine::new(EngineConfig { step_tokens: 4, ..CONFIG });
    for request in 0..5 {
        assert!(engine.submit(job(request, 3, 5)));
    }
    engine.begin(&CostModel::default(), &chains).unwrap();
    assert_eq!(engine.requests(), (2, 3), "four tokens are three of the first and one of the second");
    let mut sampled = Vec::new();
    for _ in 0..3 {
        engine.end(&mut sampled);
        engine.begin(&CostModel::default(), &chains);
    }
    assert_eq!(engine.requests(), (4, 1), "four is the most");
}

#[test]
fn online_prompts_pass_those_of_a_batch_where_engines_are_told_so() {
    let chains = chains(&[&[1, 2, 3, 4], &[5, 6, 7, 8], &[9, 10]]);
    for (online_first, order) in [(false, [0, 1, 2]), (true, [2, 0, 1])] {
        let mut engine = Engine::new(EngineConfig { step_tokens: 8, online_first, ..CONFIG });
        for (request, prompt, filler) in [(0, 16, true), (1, 16, true), (2, 8, false)] {
            assert!(engine.submit(Job { filler, ..job(request, prompt, 1) }));
        }
        let firsts = run(&mut engine, &chains).into_iter().filter_map(|(_, sampled)| match sampled {
            Sampled::First(job) => Some(job.request),
            Sampled::Done(_) => None,
        });
        assert_eq!(firsts.collect::<Vec<_>>(), order);
    }
}
