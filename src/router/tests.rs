mod handoffs;
mod learning;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kv_index::{ChainHasher, ChainSeed, Event, EventSemantics, Stored};
use routing_core::Load;
use routing_exec::{BreakerState, Failure};

use super::*;
use crate::{BeginError, PodSpec, RouterFault};

fn two_pods() -> RouterBuilder {
    Router::builder("m").pods(["a", "b"].map(|name| PodSpec::new(name, format!("http://{name}"))))
}

/// A router whose clock is moved by hand.
fn with_clock(builder: RouterBuilder) -> (Router, Arc<AtomicU64>) {
    let (start, millis) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let read = Arc::clone(&millis);
    let router = builder.clock(move || start + Duration::from_millis(read.load(Ordering::Relaxed))).build().unwrap();
    (router, millis)
}

fn held_on(router: &Router, pod: &str, tokens: &[u32]) {
    let blocks = ChainHasher::new(ChainSeed::new("m"), router.block_size()).hash(tokens);
    let pod = router.pod(pod).unwrap();
    router.index().apply(pod, EventSemantics::Membership, &Event::Stored(Stored::prompt(&blocks))).unwrap();
}

#[test]
fn a_prompt_goes_where_it_is_held_by_whatever_name() {
    let router = two_pods().alias("other").tokens_given().build().unwrap();
    let tokens: Vec<u32> = (0..4096).collect();
    held_on(&router, "b", &tokens);
    for name in ["m", "other"] {
        let request = Request::new(name, Instant::now()).tokens(&tokens);
        let routed = router.route(&request).unwrap();
        assert_eq!(routed.first_pod(), router.pod("b"));
        assert_eq!(routed.plan().steps()[0].cache.unwrap().held, 256);
        assert_eq!(routed.candidates(0).next().unwrap().1, "http://b");
    }
    let by_hand = ChainHasher::new(ChainSeed::new("m"), router.block_size()).hash(&tokens);
    assert_eq!(router.hashes(&Request::new("other", Instant::now()).tokens(&tokens)), Ok(by_hand));
    let error = router.route(&Request::new("another", Instant::now())).unwrap_err();
    assert_eq!(ApiError::from(error).status, 404);
}

#[test]
fn every_fault_is_told_at_once() {
    let builder = Router::builder("").alias("x").alias("x").profile("cash_aware");
    let error = builder.index_config(kv_index::Config::default().max_pods(257)).build().unwrap_err();
    assert!(matches!(
        &error.faults[..],
        [RouterFault::NoName, RouterFault::NameTwice(_), RouterFault::TooManyPods { .. }, RouterFault::Profile { .. }]
    ));
    assert!(error.to_string().contains("did you mean `cache_aware`?"), "{error}");
    let error = Router::builder("m").block_size(0).build().unwrap_err();
    assert!(matches!(&error.faults[..], [RouterFault::BlockSize]));
    let wide = RouterBuilder::<8>::new("m").index_config(kv_index::Config::default().max_pods(257)).build();
    assert!(wide.is_ok(), "a wider router has room");
}

#[test]
fn pods_join_change_and_leave_while_it_serves() {
    let router = two_pods().tokens_given().build().unwrap();
    let (a, version) = (router.pod("a").unwrap(), router.fleet().version());
    assert_eq!(router.join(PodSpec::new("a", "http://a").label("zone", "x")).unwrap(), a, "the same server");
    assert_eq!(router.fleet().labelled("zone", "x").len(), 1);
    assert_ne!(router.join(PodSpec::new("a", "http://moved")).unwrap(), a, "another one");
    assert_eq!(router.address(a).as_deref(), Some("http://a"), "for requests that were routed before");
    assert!(router.leave("b") && !router.leave("b"));
    assert_eq!(router.fleet().pods().len(), 1);
    assert!(router.fleet().version() > version);
    assert!(!router.set_healthy(a, false) && !router.report_load(a, Load::default(), Instant::now()), "it left");
    let error = router.join(PodSpec::new("c", "no address!")).unwrap_err();
    assert!(error.to_string().contains("no address!"));
    assert_eq!(router.pods().len(), 1, "and nothing changed");
}

#[test]
fn a_change_is_applied_whole_or_not_at_all() {
    let router = two_pods().tokens_given().build().unwrap();
    let update = RouterUpdate::new().profile("no_such_profile").pods([PodSpec::new("c", "http://c")]);
    router.apply(update).unwrap_err();
    let update = RouterUpdate::new().profile("round_robin").pods([PodSpec::new("c", "")]);
    router.apply(update).unwrap_err();
    assert_eq!((&*router.profile(), router.pods().len()), ("total_latency", 2));
    router.set_profile("round_robin").unwrap();
    assert_eq!(&*router.profile(), "round_robin");
}

#[test]
fn a_pod_gets_requests_once_it_passed_its_first_check() {
    let router = two_pods().tokens_given().health_checked().build().unwrap();
    let route = || router.route(&router.request(Instant::now()).tokens(&[1])).map(|routed| routed.first_pod());
    assert!(matches!(route(), Err(RouteError::Decide(_))));
    let b = router.pod("b").unwrap();
    assert!(router.set_healthy(b, true));
    assert_eq!(route(), Ok(Some(b)));
}

/// What a client or this process is to blame for says nothing of the pod, and one that pushes back is left alone for a moment.
#[test]
fn a_breaker_counts_what_is_the_pods_fault() {
    let failing = |failure: Failure| {
        let (router, _) = with_clock(two_pods().tokens_given().profile("least_load"));
        let a = router.pod("a").unwrap();
        let mut attempts = 0;
        for _ in 0..5 {
            let mut routed = router.route(&router.request(router.now()).tokens(&[0; 100])).unwrap();
            let Ok(attempt) = routed.begin(0, a) else { break };
            attempt.failed(failure.clone());
            attempts += 1;
        }
        let breaker = router.pods()[0].breaker;
        let open = breaker.open_until.map(|until| until.saturating_duration_since(router.now()).as_secs());
        (attempts, breaker.state, open)
    };
    for of_others in [Failure::Status(400), Failure::Status(404), Failure::BreakerOpen] {
        assert_eq!(failing(of_others.clone()), (5, BreakerState::Closed, None), "{of_others:?}");
    }
    for pushed_back in [Failure::Status(429), Failure::Status(503)] {
        let (attempts, state, open) = failing(pushed_back.clone());
        assert_eq!((attempts, state), (1, BreakerState::Open), "{pushed_back:?}");
        assert!(open.is_some_and(|seconds| seconds < 3), "{open:?}");
    }
    assert_eq!(failing(Failure::Status(500)), (5, BreakerState::Open, Some(10)));
}

#[test]
fn attempts_count_while_they_last_and_failures_open_the_breaker() {
    let (router, millis) = with_clock(two_pods().tokens_given().profile("least_load"));
    let tokens = [0; 100];
    let a = router.pod("a").unwrap();
    let attempt = || {
        let mut routed = router.route(&router.request(router.now()).tokens(&tokens)).unwrap();
        routed.begin(0, a)
    };
    let in_flight = || router.plugin_state().load.in_flight(a.id());
    let mut first = attempt().unwrap();
    assert_eq!((in_flight().requests, in_flight().uncached_tokens, in_flight().output_tokens), (1, 100, 256));
    first.generated(1);
    assert_eq!(in_flight().uncached_tokens, 0);
    drop(first);
    assert_eq!(in_flight().requests, 0);
    for _ in 0..5 {
        attempt().unwrap().failed(Failure::FirstByteTimeout);
    }
    assert_eq!(attempt().unwrap_err(), BeginError::BreakerOpen("a".into()));
    let states = || router.pods().iter().map(|pod| pod.breaker.state).collect::<Vec<_>>();
    assert_eq!(states(), [BreakerState::Open, BreakerState::Closed]);
    let others = (0..20).map(|_| router.route(&router.request(router.now()).tokens(&tokens)).unwrap().first_pod());
    assert!(others.into_iter().all(|pod| pod == router.pod("b")));
    millis.store(11_000, Ordering::Relaxed);
    router.tick(router.now());
    assert_eq!(states(), [BreakerState::HalfOpen, BreakerState::Closed]);
    attempt().expect("it is probed").succeeded();
    attempt().expect("and again").succeeded();
    assert!(attempt().is_ok());
}

#[test]
fn an_attempt_that_cannot_begin_says_why() {
    let router = two_pods().index_config(kv_index::Config::default().max_pods(2)).tokens_given().build().unwrap();
    let a = router.pod("a").unwrap();
    let mut routed = router.route(&router.request(Instant::now()).tokens(&[1])).unwrap();
    let error = routed.begin(7, a).unwrap_err();
    assert_eq!(error, BeginError::NoStep { step: 7, steps: 1 });
    assert!(router.leave("a"));
    assert!(routed.begin(0, a).is_ok(), "what was routed to it before may end there");
    // Its place is free once it was swept.
    router.tick(Instant::now());
    let c = router.join(PodSpec::new("c", "http://c")).unwrap();
    assert_eq!(c.id(), a.id());
    let error = routed.begin(0, a).unwrap_err();
    assert_eq!(error, BeginError::PodLeft("a".into()));
    assert!(error.to_string().contains("left") && error.to_string().contains("route the request again"), "{error}");
}

#[test]
fn seeds_differ_unless_one_is_set_and_a_trace_tells_them() {
    let seeds = |builder: RouterBuilder| {
        let router = builder.pod(PodSpec::new("a", "http://a")).tokens_given().build().unwrap();
        let seed = |_| {
            let mut trace = Trace::default();
            // No seed of the caller's.
            let request = Request::new("m", Instant::now()).tokens(&[1]);
            router.route_with(&request, &[], Some(&mut trace)).unwrap();
            trace.seed
        };
        (0..3).map(seed).collect::<Vec<u64>>()
    };
    assert_eq!(seeds(Router::builder("m").seed(3)), seeds(Router::builder("m").seed(3)));
    assert_ne!(seeds(Router::builder("m")), seeds(Router::builder("m")));
}

#[test]
fn without_a_tokenizer_prompts_that_begin_alike_go_to_one_pod() {
    let router = two_pods().build().unwrap();
    assert_eq!(&*router.profile(), "approximate_prefix");
    let bodies: Vec<String> = (0..20)
        .map(|at| format!(r#"{{"model":"m","prompt":"{}{at}"}}"#, "the same beginning of all prompts ".repeat(40)))
        .collect();
    let pods = bodies.iter().map(|body| {
        let request = router.request(Instant::now()).body(body.as_bytes());
        router.route(&request).unwrap().first_pod().unwrap()
    });
    let pods: Vec<Pod> = pods.collect();
    assert!(pods.iter().all(|pod| *pod == pods[0]), "{pods:?}");
}

/// What an engine reports is found by requests, whatever it is hashed by; nothing is said twice.
#[cfg(feature = "vllm")]
#[test]
fn a_feed_cannot_disagree_with_the_hashing_of_requests() {
    use kv_index::engine::vllm::VllmHashing;
    use kv_index::engine::{
        Dialect, DialectHasher, EngineBatch, EngineEvent, EngineHash, EngineStored, Prompt, TokenIds, Version,
    };

    let dialect = Dialect::vllm(VllmHashing::new(Version::new(0, 31, 0))).unwrap();
    let tokens: Vec<u32> = (0..64).collect();
    let hashes = DialectHasher::new(dialect.clone(), kv_index::BlockSize::new(32).unwrap()).hash(&Prompt::new(&tokens));
    let stored = EngineStored {
        hashes: hashes.unwrap().iter().map(|hash| EngineHash::new(hash.get())).collect(),
        tokens: TokenIds::Plain(tokens.clone()),
        block_size: 32,
        ..EngineStored::default()
    };
    let mut batch = EngineBatch::default();
    batch.events.push(EngineEvent::Stored(stored));
    let builders = [two_pods(), two_pods().engine_hashes(dialect)];
    for builder in builders {
        let router = builder.block_size(32).tokens_given().build().unwrap();
        let pod = router.pod("b").unwrap();
        router.feed(pod).unwrap().receive_batch(0, &batch).unwrap();
        let routed = router.route(&router.request(Instant::now()).tokens(&tokens)).unwrap();
        assert_eq!((routed.first_pod(), routed.plan().steps()[0].cache.unwrap().held), (Some(pod), 2));
    }
    let guessing = two_pods().build().unwrap();
    assert_eq!(guessing.feed(guessing.pod("a").unwrap()).unwrap_err(), FeedError::Predicted);
}

#[test]
fn a_profile_that_guesses_is_known_however_it_is_given() {
    let router = two_pods().profile(routing_plugins::profiles::approximate_prefix).build().unwrap();
    assert!(router.live().is_predicted);
    assert_eq!(&*router.profile(), "approximate_prefix", "by its step");
    let handed_off = two_pods().tokens_given().profile(routing_plugins::profiles::prefill_decode).build().unwrap();
    assert_eq!(&*handed_off.profile(), "prefill+decode");
    let named = two_pods().tokens_given().profile(crate::named("mine", routing_plugins::profiles::cache_aware));
    assert_eq!(&*named.build().unwrap().profile(), "mine");
    // And does not come while pods are fed.
    let router = two_pods().tokens_given().build().unwrap();
    let _fed = router.cache_audit().change_log(router.pod("a").unwrap());
    let error = router.set_profile("approximate_prefix").unwrap_err();
    assert!(matches!(&error.faults[..], [RouterFault::FedByEvents]));
    // It may come with other pods in place of those, or of the one that is fed.
    let guessing = || RouterUpdate::new().profile("approximate_prefix");
    let refused = router.check(&guessing().pods([PodSpec::new("a", "http://a"), PodSpec::new("c", "http://c")]));
    assert!(matches!(&refused.unwrap_err().faults[..], [RouterFault::FedByEvents]), "it stays");
    router.check(&guessing().pods([PodSpec::new("c", "http://c")])).unwrap();
    router.apply(guessing().pods([PodSpec::new("a", "http://a").event_source("none")])).unwrap();
}

#[test]
fn breakers_and_the_retry_budget_change_while_requests_are_served() {
    use routing_exec::{BreakerConfig, BreakerSample, BreakerState, Failure, RetryBudget};

    let (router, now) = (two_pods().tokens_given().build().unwrap(), Instant::now());
    let update = RouterUpdate::new().breakers(BreakerConfig::default().failure_threshold(1));
    router.apply(update.retry_budget(RetryBudget::new(0.0, 0.0, 1.0))).unwrap();
    let pod = router.pod("a").unwrap();
    let admission = router.breakers().admit(pod, now).unwrap().admission();
    router.breakers().record(admission, &BreakerSample::Failure(Failure::FirstByteTimeout), now);
    assert_eq!(router.pods()[0].breaker.state, BreakerState::Open, "one failure is enough");
    assert!(!router.live().dispatch.retry_budget.as_ref().unwrap().withdraw(now), "it is empty");
    router.apply(RouterUpdate::new().pods([PodSpec::new("a", "http://a")])).unwrap();
    assert_eq!(router.breakers().config().failure_threshold, 1, "what is not mentioned stays");
}

#[test]
fn a_profile_that_guesses_does_not_come_where_the_host_feeds_the_index_itself() {
    use kv_index::{Batch, Consumer, Feed, FeedConfig};

    let is_refused = |router: &Router| match router.set_profile("approximate_prefix") {
        Ok(()) => false,
        Err(error) => matches!(&error.faults[..], [RouterFault::FedByEvents]),
    };
    let router = two_pods().tokens_given().build().unwrap();
    let b = router.pod("b").unwrap();
    let blocks = [kv_index::BlockHash::new(1)];
    let (stored, cleared) = ([Event::Stored(Stored::prompt(&blocks))], [Event::Cleared]);
    let feed = Feed::new(router.index(), b, FeedConfig::default());
    for (sequence, events) in [(0, &stored), (1, &cleared)] {
        feed.consume(&Batch { incarnation: 1, sequence, events }).unwrap();
        assert!(is_refused(&router), "also while the pod holds nothing");
    }
    assert_eq!(&*router.profile(), "total_latency");
    // Single events, without numbers.
    let router = two_pods().tokens_given().build().unwrap();
    held_on(&router, "a", &(0..64).collect::<Vec<u32>>());
    assert!(is_refused(&router));
    // What was guessed and speculated is nobody's word.
    let router = two_pods().build().unwrap();
    let body = format!(r#"{{"model":"m","prompt":"{}"}}"#, "a prompt ".repeat(400));
    let routed = router.route(&router.request(Instant::now()).body(body.as_bytes())).unwrap();
    let pod = routed.first_pod().unwrap();
    assert!(router.index().pod_stats(pod).unwrap().blocks > 0);
    router.set_profile("least_load").unwrap();
    router.index().speculate(pod, &blocks, Instant::now() + Duration::from_secs(5)).unwrap();
    assert!(!is_refused(&router));
    assert_eq!(&*router.profile(), "approximate_prefix");
}

#[test]
fn a_profile_may_ask_the_router_while_it_is_built() {
    let router = two_pods().tokens_given().build().unwrap();
    let asked = router.clone();
    let profile = move |state: &PluginState| {
        assert_eq!(asked.pods().len(), 2);
        routing_plugins::profiles::least_load(state)
    };
    router.set_profile(profile).unwrap();
}

#[test]
fn of_a_restored_index_only_the_routers_pods_stay() {
    let index = Arc::new(Index::new(kv_index::Config::default()));
    let (a, gone) = (index.join("a").unwrap(), index.join("gone").unwrap());
    let router = two_pods().index(Arc::clone(&index)).tokens_given().build().unwrap();
    assert_eq!((router.pod("a"), index.name(gone)), (Some(a), None));
}

#[test]
fn a_change_can_be_checked_and_changes_nothing() {
    let router = two_pods().tokens_given().build().unwrap();
    let before = (router.fleet().version(), router.index().alive());
    let pods = || [PodSpec::new("a", "elsewhere:1"), PodSpec::new("c", "c:1")];
    router.check(&RouterUpdate::new().profile("least_load").pods(pods())).unwrap();
    router.check(&RouterUpdate::new().pods([PodSpec::new("a", "a:1"), PodSpec::new("a", "b:1")])).unwrap_err();
    router.check(&RouterUpdate::new().profile("nothing").pods(pods())).unwrap_err();
    let _fed = router.cache_audit().change_log(router.pod("a").unwrap());
    router.check(&RouterUpdate::new().profile("approximate_prefix")).unwrap_err();
    assert_eq!((router.fleet().version(), router.index().alive()), before);
    assert_eq!((&*router.profile(), router.pods().len()), ("total_latency", 2));
}

#[test]
fn what_is_odd_about_a_profile_is_told() {
    use routing_core::{Role, StepBuilder, WorkflowBuilder};
    let router = two_pods().tokens_given().build().unwrap();
    assert!(router.warnings().is_empty());
    let reversed = |state: &PluginState| {
        let step = |name: &str, role| StepBuilder::new(name, routing_plugins::profiles::round_robin(state)).role(role);
        WorkflowBuilder::new().step(step("decode", Role::Decode)).step(step("prefill", Role::Prefill))
    };
    router.set_profile(reversed).unwrap();
    assert!(router.warnings().iter().any(|warning| warning.to_string().contains("prefill")), "{:?}", router.warnings());
}
