//! Invariants of the simulation: tokens and requests are conserved, a single request takes what the cost model says, an infinite
//! cache reaches the hit bound, one seed gives one result.
use crate::compare::{Comparison, Section, compare};
use crate::config::{SimConfig, Slo};
use crate::online_serving::simulate;
use crate::options::Options;
use crate::policy::Policy;
use crate::prepared_trace::PreparedTrace;
use crate::report::json;
use crate::results::PolicyResult;
use clap::Parser;
use pointsman_engine_sim::virtual_time::EngineTotals;
use pointsman_lab::trace::synthetic::Synthetic;
use pointsman_lab::trace::{Request, Start, Trace};
use serde_json::Value;

fn run(policy: &str, trace: &Trace, config: &SimConfig) -> PolicyResult {
    simulate(&Policy::find(policy).unwrap(), &PreparedTrace::new(trace), config, &mut |_| {}).unwrap()
}

fn compared(args: &str) -> Comparison {
    let words = std::iter::once("simulate").chain(args.split_whitespace());
    compare(&Options::try_parse_from(words).unwrap()).unwrap()
}

/// A prompt of so many tokens of its own, in blocks of 512.
fn request(start: Start, session: u32, input: u32, output: u32) -> Request {
    let ids = (0..u64::from(input.div_ceil(512))).map(|at| u64::from(session) * 10_000 + at).collect();
    Request { start, session, input, output, ids }
}

#[test]
fn every_token_is_computed_or_found_and_every_request_answered_or_refused() {
    let mut preempted = 0;
    for (made, policy) in [
        (Synthetic::Conversation, "cache_aware"),
        (Synthetic::Conversation, "round_robin"),
        (Synthetic::Chat, "lmetric"),
        (Synthetic::Rag, "longest_prefix"),
        (Synthetic::Agents, "session_sticky"),
    ] {
        let trace = made.trace(100, 5).at_rate(8.0, 5);
        // So little memory that blocks go all the time and some prompts find no room.
        let config = SimConfig::mixed(3, 24_576, trace.block);
        let result = run(policy, &trace, &config);
        assert_eq!(result.requests + result.refused, 100, "{made} {policy}");
        let room = 24_576 / trace.block;
        let fits = |one: &&Request| ((one.input + one.output) as usize).div_ceil(trace.block) <= room;
        let taken: Vec<&Request> = trace.requests.iter().filter(fits).collect();
        assert_eq!(result.requests, taken.len() as u64, "{made} {policy}: refused only what has no room");
        let prompts: u64 = taken.iter().map(|one| u64::from(one.input)).sum();
        let answers: u64 = taken.iter().map(|one| u64::from(one.output)).sum();
        assert_eq!((result.prompt_tokens, result.output_tokens), (prompts, answers), "{made} {policy}");
        let found = result.blocks_hit * trace.block as u64;
        let preemptions: u64 = result.pods.iter().map(|pod| pod.preemptions).sum();
        let again = result.prefill_tokens + found - result.prompt_tokens;
        assert_eq!(again > 0, preemptions > 0, "{made} {policy}: {again} tokens after {preemptions} preemptions");
        preempted += preemptions;
        assert!(result.blocks_hit <= result.blocks_known, "{made} {policy}");
        // By pod, by time, and as a whole.
        let sum = |figure: fn(&EngineTotals) -> u64| result.pods.iter().map(figure).sum::<u64>();
        assert_eq!(sum(|pod| pod.requests), result.requests);
        assert_eq!(sum(|pod| pod.output_tokens), result.output_tokens);
        assert_eq!(result.series.iter().map(|moment| moment.blocks_hit).sum::<u64>(), result.blocks_hit);
        assert_eq!((result.ttft.len(), result.whole.len()), (result.requests, result.requests));
        assert_eq!(result.between.len(), result.output_tokens - result.requests, "one less than tokens each");
        let busy = result.pods.iter().map(|pod| pod.busy_us).max().unwrap();
        assert!(busy <= result.span_us, "no pod works longer than it takes");
    }
    assert!(preempted > 0);
}

#[test]
fn one_request_alone_takes_what_the_costs_say() {
    for (input, output) in [(1, 1), (700, 1), (5_000, 40), (20_000, 300)] {
        let trace = Trace::new(512, vec![request(Start::At(1_000), 1, input, output)]);
        let config = SimConfig::mixed(2, 1_000_000, 512);
        let result = run("round_robin", &trace, &config);
        let us = |time: std::time::Duration| (time.as_secs_f64() * 1e6).ceil() as u64;
        // A step takes up to 8,192 tokens of a prompt.
        let (input, mut prefill, mut done) = (input as usize, 0, 0);
        while done < input {
            let chunk = (input - done).min(8_192);
            prefill += us(config.costs.step(&[(done, chunk)], 0, 0));
            done += chunk;
        }
        let decode: u64 = (1..output as usize).map(|more| us(config.costs.decode(1, input + more))).sum();
        assert_eq!(result.span_us, 1_000 + prefill + decode, "{input} tokens in, {output} out");
        let ttft = result.ttft.quantile(1.0).unwrap();
        assert!(ttft >= prefill as f64 && ttft <= prefill as f64 * 1.02 + 1.0, "{ttft} for {prefill}");
        assert_eq!(result.pods.iter().map(|pod| pod.busy_us).sum::<u64>(), prefill + decode);
    }
}

#[test]
fn the_same_prompt_again_costs_its_last_block_and_the_next_turn_waits_for_the_answer() {
    let first = request(Start::At(0), 1, 5_120, 10);
    let again = Request { start: Start::After(0, 2_000_000), ..first.clone() };
    let result = run("cache_aware", &Trace::new(512, vec![first, again]), &SimConfig::mixed(2, 100_000, 512));
    // One token must be computed to sample from, so the last block is not used.
    assert_eq!((result.blocks, result.blocks_hit, result.prefill_tokens), (20, 9, 5_120 + 512));
    assert_eq!(result.pods.iter().filter(|pod| pod.requests > 0).count(), 1, "both went where the prompt is held");
    assert!(result.arrivals_us >= 2_000_000 + result.whole.quantile(0.0).unwrap() as u64 * 9 / 10);
}

#[test]
fn no_first_token_comes_before_its_own_prefill() {
    let trace = Synthetic::Rag.trace(100, 2).at_rate(4.0, 2);
    let config = SimConfig::mixed(2, 1_000_000, trace.block);
    let result = run("random", &trace, &config);
    // The least that any request has to compute is one token.
    let least = config.costs.prefill(0, 1).as_secs_f64() * 1e6;
    assert!(result.ttft.quantile(0.0).unwrap() >= least.floor());
    // With nothing to be found and nobody else there, it is the whole prompt.
    let alone: Vec<Request> = (0..20).map(|at| request(Start::At(at * 60_000_000), at as u32, 6_000, 5)).collect();
    let result = run("random", &Trace::new(512, alone), &config);
    let own = (config.costs.prefill(0, 6_000).as_secs_f64() * 1e6).ceil();
    let (least, most) = (result.ttft.quantile(0.0).unwrap(), result.ttft.quantile(1.0).unwrap());
    assert!(least == most && least >= own && least <= own * 1.02, "{least} to {most} for {own}");
}

#[test]
fn what_is_told_of_one_that_is_alone_follows_from_the_cost_model() {
    let alone: Vec<Request> = (0..20).map(|at| request(Start::At(at * 60_000_000), at as u32, 6_000, 11)).collect();
    let (trace, mut config) = (Trace::new(512, alone), SimConfig::mixed(2, 1_000_000, 512));
    let result = run("random", &trace, &config);
    let (slowdown, step) = (result.slowdown.quantile(1.0).unwrap(), config.costs.decode(1, 6_000).as_secs_f64() * 1e6);
    assert!((990.0..1_030.0).contains(&slowdown), "{slowdown}");
    let per_token = result.per_token.quantile(0.5).unwrap();
    assert!((per_token / step - 1.0).abs() < 0.03, "{per_token} for {step}");
    let whole = result.ttft.quantile(0.5).unwrap() + 10.0 * per_token;
    assert!((result.mean_whole() / whole - 1.0).abs() < 0.03, "{} for {whole}", result.mean_whole());
    assert_eq!(result.good, 20);
    // Pods that are half as fast take twice as long, and are late by a bound between the two.
    config.pods.iter_mut().for_each(|(engine, _)| engine.speed = 0.5);
    config.slo.per_token_us = (1.5 * step) as u64;
    let slow = run("random", &trace, &config);
    assert!((slow.slowdown.quantile(1.0).unwrap() / slowdown - 2.0).abs() < 0.05);
    assert_eq!((slow.requests, slow.good), (20, 0));
}

#[test]
fn an_answer_is_good_within_both_bounds() {
    let slo = Slo { ttft_us: 1_000, per_token_us: 50 };
    assert!(slo.is_met(1_000, 10, Some(50)) && slo.is_met(1_000, 10, None));
    assert!(!slo.is_met(1_001, 10, Some(50)) && !slo.is_met(1_000, 10, Some(51)));
    assert!(slo.is_met(1_400, 700, Some(50)) && !slo.is_met(1_401, 700, Some(50)), "twice what a cold pod takes");
}

#[test]
fn a_crowd_on_a_new_prompt_meets_and_does_not_by_a_rule_that_waits_for_events() {
    let trace = Synthetic::FanOut.trace(800, 3).at_rate(10.0, 3);
    let config = SimConfig::mixed(16, 1_000_000, trace.block);
    let [waiting, meeting] = ["first_token", "total_latency"].map(|policy| run(policy, &trace, &config));
    assert!(meeting.hit_rate() > 0.75 && waiting.hit_rate() < 0.4, "{} {}", meeting.hit_rate(), waiting.hit_rate());
    assert!(meeting.mean_whole() < waiting.mean_whole());
}

#[test]
fn pods_a_third_as_fast_are_found_out_by_a_rule_that_learns() {
    let trace = Synthetic::Rag.trace(2_000, 3).at_rate(200.0, 3);
    let mut config = SimConfig::mixed(16, 1_000_000, trace.block);
    config.pods.iter_mut().step_by(2).for_each(|(engine, _)| engine.speed = 0.33);
    let [fixed, learned] = ["first_token", "total_latency"].map(|policy| run(policy, &trace, &config));
    let late = |result: &PolicyResult| result.ttft.quantile(0.99).unwrap();
    assert!(late(&learned) < 0.6 * late(&fixed), "{} for {}", late(&learned), late(&fixed));
    assert!(learned.mean_whole() < fixed.mean_whole());
}

/// Twice as slow for prompts and one and a half times as fast for answers, as another kind of device may be.
#[test]
fn pods_of_another_kind_get_what_they_are_good_at() {
    let trace = Synthetic::Mixed(0.5).trace(3_000, 3).at_rate(60.0, 3);
    let mut config = SimConfig::mixed(16, 1_000_000, trace.block);
    config.pods.iter_mut().step_by(2).for_each(|(engine, _)| (engine.speed, engine.decode_speed) = (0.5, 3.0));
    let [others, learned] = ["lmetric", "total_latency"].map(|policy| run(policy, &trace, &config).mean_whole());
    assert!(learned < 0.7 * others, "{learned} for {others}");
}

/// Nobody tells pods that do both how many of them should compute prompts: from all cold to mostly warm they answer about as soon as the split that
/// suits the traffic, and where that is none, as pods that each do all.
#[test]
fn pods_that_do_both_part_as_far_as_the_traffic_wants() {
    for (cold, rate, prefill, at_most) in [(1.0, 21.5, 7, 1.2), (0.5, 40.0, 6, 1.1), (0.0, 120.0, 1, 0.95)] {
        let trace = Synthetic::Mixed(cold).trace(2_000, 3).at_rate(rate, 3);
        let config = SimConfig::mixed(8, 1_000_000, trace.block);
        let split = run("prefill_decode", &trace, &config.clone().disaggregated(prefill)).mean_whole();
        let both = run("prefill_decode_conditional", &trace, &config).mean_whole();
        let all = run("total_latency", &trace, &config).mean_whole();
        assert!(both < at_most * split, "{cold} cold: {both} for {split} of {prefill} pods that compute");
        assert!(both < 1.02 * all, "{cold} cold: {both} for {all}");
    }
}

#[test]
fn gateways_share_the_traffic_and_hear_all_events() {
    let trace = Synthetic::Documents.trace(400, 3).at_rate(4.0, 3);
    let mut config = SimConfig::mixed(4, 1_000_000, trace.block);
    let one = run("cache_aware", &trace, &config);
    config.gateways = 4;
    let four = run("cache_aware", &trace, &config);
    assert_eq!((four.requests, four.decisions), (400, 400));
    assert_ne!(four.ttft.quantile(0.9), one.ttft.quantile(0.9), "each knows less of the load");
    // What one gateway's requests left, those of the others find.
    assert!(four.hit_rate() > 0.9 * one.hit_rate(), "{} for {}", four.hit_rate(), one.hit_rate());
}

#[test]
fn gateways_that_tell_each_other_do_about_as_well_as_one() {
    let trace = Synthetic::FanOut.trace(800, 3).at_rate(32.0, 3);
    let mut config = SimConfig::mixed(16, 1_000_000, trace.block);
    let one = run("total_latency", &trace, &config);
    config.gateways = 4;
    let apart = run("total_latency", &trace, &config);
    config.share_every_us = Some(100_000);
    let told = run("total_latency", &trace, &config);
    let late = |result: &PolicyResult| result.ttft.quantile(0.99).unwrap();
    assert_eq!(told.requests, 800);
    assert!(late(&told) < 1.1 * late(&one), "{} for {}, and {} apart", late(&told), late(&one), late(&apart));
    assert!(late(&told) < 0.9 * late(&apart) && told.hit_rate() > apart.hit_rate());
}

#[test]
fn one_pod_with_room_for_everything_reaches_the_bound() {
    // Whole turns one after the other, so that what will be held is held when it is asked for.
    let trace = Synthetic::Chat.trace(150, 9);
    let tokens: usize = trace.requests.iter().map(|one| (one.input + one.output) as usize).sum();
    let block = trace.block;
    let result = run("round_robin", &trace.at_rate(0.02, 9), &SimConfig::mixed(1, tokens + 150 * block, block));
    let share = result.share_of_bound().unwrap();
    // A prompt that is all known still computes its last block.
    assert!((0.97..=1.0).contains(&share), "{share}");
}

#[test]
fn round_robin_finds_what_it_does_on_the_real_trace() {
    // By hand, on the trace that `conversation` imitates: 7.1% of all blocks at 16 pods with 1M tokens each, of 36.6% that
    // an infinite cache finds. A twelfth of the requests is near.
    let trace = Synthetic::Conversation.trace(1_000, 4).at_rate(2.0, 4);
    let result = run("round_robin", &trace, &SimConfig::mixed(16, 1_000_000, trace.block));
    let (hits, bound) = (result.hit_rate(), result.bound());
    assert!((0.02..0.12).contains(&hits) && (0.2..0.5).contains(&bound), "{hits} of {bound}");
    let aware = run("longest_prefix", &trace, &SimConfig::mixed(1, 100_000_000, trace.block));
    assert!(aware.share_of_bound().unwrap() > 0.9);
}

/// What a comparison found, without real time.
fn found(comparison: &Comparison) -> Vec<Value> {
    fn forget(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.remove("decision_us");
                map.values_mut().for_each(forget);
            }
            Value::Array(values) => values.iter_mut().for_each(forget),
            _ => {}
        }
    }
    let one = |section: &Section| {
        let mut value = json::value(&section.report);
        forget(&mut value);
        value
    };
    comparison.sections.iter().map(one).collect()
}

#[test]
fn one_seed_gives_one_outcome_however_many_run_at_once() {
    let args = "--synthetic conversation --synthetic agents --requests 60 --pods 3 --rate 5 --event-loss 5 --seeds 2 \
                --compare cache_aware,random,lmetric,preble_e2 --sweep cache_aware:cache=1,4";
    let alone = found(&compared(&format!("{args} --jobs 1 --seed 3")));
    assert_eq!(alone.len(), 2);
    assert_eq!(alone, found(&compared(&format!("{args} --jobs 4 --seed 3"))));
    assert_ne!(alone, found(&compared(&format!("{args} --jobs 1 --seed 4"))));
}

#[test]
fn a_load_is_a_share_of_what_the_fleet_takes_and_each_has_a_section() {
    let both = compared("--synthetic rag --requests 80 --pods 1 --load 50,100 --compare lmetric");
    let names: Vec<&str> = both.sections.iter().map(|section| section.name.as_str()).collect();
    assert_eq!(names, ["rag-50", "rag-100"]);
    let span = |at: usize| both.sections[at].report.results[0].arrivals_us as f64;
    assert!((span(0) / span(1) - 2.0).abs() < 0.05, "{} and {}", span(0), span(1));
    let text = both.to_string();
    assert!(text.contains("rag on 1 pods at 50% of what they take") && text.contains("lmetric"), "{text}");
}

#[test]
fn split_fleets_run_the_policies_for_them_and_mixed_ones_the_others() {
    let names = |args: &str| {
        let compared = compared(&format!("--synthetic rag --requests 20 --rate 2 {args}"));
        compared.sections[0].report.results.iter().map(|one| one.policy.clone()).collect::<Vec<_>>()
    };
    let (split, mixed) = (names("--pods 4 --prefill-pods 1"), names("--pods 2"));
    assert!(split.len() >= 2 && split.iter().all(|name| name.starts_with("prefill_decode")), "{split:?}");
    assert!(mixed.len() >= 15 && !mixed.iter().any(|name| name.starts_with("prefill_decode")), "{mixed:?}");
    assert_eq!(names("--pods 3 --prefill-pods 1 --compare random"), ["random"], "unless asked");
}

#[test]
fn what_is_too_long_for_a_pod_is_refused_counted_and_said() {
    let compared = compared("--synthetic rag --requests 60 --rate 2 --pods 2 --kv-tokens 8192 --compare random");
    let Section { report, notes, .. } = &compared.sections[0];
    let refused = report.results[0].refused;
    assert!(refused > 0, "the test should have a prompt that is too long");
    let said = format!("{refused} of 60 requests are longer than 8192 tokens: a pod of that size refuses them.");
    assert!(notes.contains(&said), "{notes:?}");
    assert!(compared.to_string().contains(&said));
}

#[test]
fn whoever_foresees_all_that_is_under_way_answers_sooner() {
    let trace = Synthetic::SharedPrompts.trace(300, 3).at_rate(30.0, 3);
    let config = SimConfig::mixed(4, 100_000, trace.block);
    let clairvoyant = run("clairvoyant", &trace, &config);
    assert_eq!(clairvoyant.requests, 300);
    for policy in ["round_robin", "cache_aware", "total_latency"] {
        let other = run(policy, &trace, &config);
        assert!(clairvoyant.whole_us < other.whole_us, "{policy}: {} {}", clairvoyant.whole_us, other.whole_us);
    }
}

#[test]
fn pods_come_and_go_and_no_request_is_lost() {
    let trace = Synthetic::Conversation.trace(400, 7).at_rate(4.0, 7);
    let mut config = SimConfig::mixed(4, 1_000_000, trace.block);
    let stays = run("cache_aware", &trace, &config);
    config.churn_us = Some(10_000_000);
    let changes = run("cache_aware", &trace, &config);
    assert_eq!((stays.pods.len(), changes.requests, changes.refused), (4, 400, 0));
    let replaced = changes.pods.len() - 4;
    assert!((8..=14).contains(&replaced), "{replaced} in 100 s and the last answers");
    assert!(changes.pods.iter().filter(|pod| pod.requests > 0).count() > 8, "those that come are used");
    assert!(changes.hit_rate() < stays.hit_rate(), "{} {}", changes.hit_rate(), stays.hit_rate());
    config.gateways = 3;
    assert_eq!(run("total_latency", &trace, &config).requests, 400);
}
