use pointsman_lab::trace::synthetic::Synthetic;

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
