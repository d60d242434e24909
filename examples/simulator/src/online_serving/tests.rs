use pointsman_lab::trace::synthetic::Synthetic;
use pointsman_lab::trace::{Request, Trace};

use super::*;

#[test]
fn a_request_has_the_same_chance_whenever_it_comes() {
    let trace = Synthetic::Agents.trace(300, 3).at_rate(4.0, 3);
    assert!(trace.is_closed());
    let load = PreparedTrace::new(&trace);
    let tokens = |speed: f64| {
        let mut config = SimConfig::mixed(4, 1_000_000, trace.block);
        config.pods[0].0.speed *= speed;
        let result = simulate(&Policy::find("random").unwrap(), &load, &config, &mut |_| {}).unwrap();
        result.pods.iter().map(|pod| pod.output_tokens).collect::<Vec<_>>()
    };
    assert_eq!(tokens(1.0), tokens(0.3), "answers come in another order, and go to the same pods");
}

#[test]
fn a_gateway_hears_of_blocks_when_their_step_is_over() {
    let prompt = |start, session| Request { start, session, input: 30_000, output: 2, ids: (0..59).collect() };
    // One comes so many µs after the one that computes the prompt, whose first step takes a fifth of a second.
    let finds = |after: &u64| {
        let trace = Trace::new(512, vec![prompt(Start::At(0), 1), prompt(Start::At(*after), 2)]);
        let config = SimConfig::mixed(16, 1_000_000, trace.block);
        let policy = Policy::find("longest_prefix").unwrap();
        simulate(&policy, &PreparedTrace::new(&trace), &config, &mut |_| {}).unwrap().blocks_hit > 0
    };
    let found = |from: u64, to: u64| (from..to).step_by(20_000).filter(finds).count();
    assert!(found(10_000, 200_000) < 4, "but by chance: 10 came in the middle of the step");
    assert_eq!(found(250_000, 450_000), 10);
}
