//! What a router learns of its pods, and of answers.

use routing_core::Role;

use super::*;

#[test]
fn how_fast_each_pod_is_is_learned_from_first_tokens() {
    let (router, millis) = with_clock(two_pods().tokens_given().profile("total_latency"));
    let expected = routing_plugins::CostModel::FUSED.prefill_seconds(8192.0, 0.0);
    let slow = router.pod("a").unwrap();
    let mut sent_to_slow = [0; 2];
    for at in 0..200_u32 {
        let tokens: Vec<u32> = (at * 8192..(at + 1) * 8192).collect();
        let mut routed = router.route(&Request::new("m", router.now()).tokens(&tokens).seed(at.into())).unwrap();
        let pod = routed.first_pod().unwrap();
        let mut attempt = routed.begin(0, pod).unwrap();
        let times = if pod == slow { 3.0 } else { 1.0 };
        millis.fetch_add((times * expected * 1e3) as u64, Ordering::Relaxed);
        attempt.first_token();
        attempt.succeeded();
        millis.fetch_add(1_000, Ordering::Relaxed);
        sent_to_slow[at as usize / 100] += u32::from(pod == slow);
    }
    let [a, b] = [0, 1].map(|pod| router.pods()[pod].pace);
    assert!(a > 1.2 && (0.8..1.2).contains(&b), "{a} and {b}");
    assert!(sent_to_slow[0] > 0 && sent_to_slow[1] < 20, "{sent_to_slow:?}: it is left for the other");
}

/// What is expected of a request is kept from its decision on, whoever is decided about before it is sent.
#[test]
fn a_later_decision_about_a_pod_takes_nothing_from_what_is_learned_of_it() {
    let builder = Router::builder("m").pod(PodSpec::new("a", "http://a")).tokens_given().profile("total_latency");
    let (router, millis) = with_clock(builder);
    let route = |seed: u32| {
        let tokens: Vec<u32> = (seed * 8192..(seed + 1) * 8192).collect();
        router.route(&router.request(router.now()).tokens(&tokens)).unwrap()
    };
    for at in 0..50 {
        let mut first = route(at);
        millis.fetch_add(1, Ordering::Relaxed);
        drop(route(1_000 + at));
        let mut attempt = first.begin(0, router.pod("a").unwrap()).unwrap();
        millis.fetch_add(20_000, Ordering::Relaxed);
        attempt.first_token();
        attempt.succeeded();
        millis.fetch_add(1_000, Ordering::Relaxed);
    }
    assert!(router.pods()[0].pace > 1.5, "{}", router.pods()[0].pace);
}

#[test]
fn how_long_answers_are_and_how_fast_pods_decode_is_learned_from_answers() {
    let (router, millis) = with_clock(two_pods().tokens_given().profile("total_latency"));
    let (slow, tokens) = (router.pod("a").unwrap(), [7; 4096]);
    let begin = |tenant, pod: Option<kv_index::Pod>| {
        let request = router.request(router.now()).tokens(&tokens).tenant(tenant);
        let mut routed = router.route(&request).unwrap();
        routed.begin(0, pod.unwrap_or(routed.first_pod().unwrap())).unwrap()
    };
    let expected = |tenant| {
        let attempt = begin(tenant, Some(slow));
        let output = router.plugin_state().load.in_flight(slow.id()).output_tokens;
        drop(attempt);
        output
    };
    for _ in 0..100 {
        let mut attempt = begin("classifier", None);
        let step = if attempt.pod() == slow { 30 } else { 5 };
        millis.fetch_add(100, Ordering::Relaxed);
        attempt.first_token();
        millis.fetch_add(step * 50, Ordering::Relaxed);
        attempt.generated(51);
        attempt.succeeded();
        // Of who leaves or fails nothing is learned.
        let mut left = begin("classifier", Some(slow));
        left.generated(5_000);
        drop(left);
        let mut failed = begin("classifier", Some(slow));
        failed.generated(5_000);
        failed.failed(routing_exec::Failure::ErrorEvent);
        router.breakers().recovered(slow);
    }
    assert!((50..60).contains(&expected("classifier")), "{}", expected("classifier"));
    assert!((50..200).contains(&expected("somebody")), "such prompts' are short: {}", expected("somebody"));
    let capped = router.request(router.now()).tokens(&tokens).tenant("classifier").most_output(3);
    let attempt = router.route(&capped).unwrap().begin(0, slow).unwrap();
    assert_eq!(router.plugin_state().load.in_flight(slow.id()).output_tokens, 3);
    drop(attempt);
    let [slow, fast] = [0, 1].map(|pod| router.pods()[pod].decode_pace);
    assert!(slow > 2.0 * fast && (0.8..1.3).contains(&fast), "{slow} and {fast}");
}

/// A prefill leg generates one token, whatever the answer will be.
#[test]
fn nothing_is_learned_of_a_prefill_leg() {
    let roles = [("a", Role::Prefill), ("b", Role::Decode)];
    let pods = roles.map(|(name, role)| PodSpec::new(name, format!("http://{name}")).role(role));
    let router = Router::builder("m").pods(pods).tokens_given().profile("prefill_decode").build().unwrap();
    let typical = || router.plugin_state().answer_lengths.typical();
    let mut routed = router.route(&router.request(router.now()).tokens(&[7; 4096])).unwrap();
    assert_eq!(routed.plan().steps().len(), 2);
    for (step, generated, is_learned) in [(0, 1, false), (1, 900, true)] {
        let (pod, before) = (routed.plan().steps()[step].candidates[0].pod, typical());
        let mut attempt = routed.begin(step, pod).unwrap();
        attempt.generated(generated);
        attempt.succeeded();
        assert_eq!(typical() != before, is_learned, "step {step}");
    }
}
