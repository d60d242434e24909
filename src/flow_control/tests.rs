mod leaving;
mod new_work;
mod shed;
mod threads;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use routing_core::flow::{BandConfig, FlowConfig, FlowControl, FlowOrder, QueueLimits, Waited};
use routing_exec::{DispatchHost, Timer};
use routing_plugins::flow::{ConcurrencyDetector, ConcurrencyLimits, WorkingSetDetector, WorkingSetLimits};

use super::*;
use crate::llm_request::tests::Bytewise;
use crate::{ApiError, PodSpec, Router, RouterUpdate};

/// Time that a test sets. Sleepers look at it whenever they are polled.
#[derive(Clone)]
struct TestClock(Arc<Mutex<Instant>>);

impl TestClock {
    fn new() -> Self {
        Self(Arc::new(Mutex::new(Instant::now())))
    }

    fn advance(&self, time: Duration) {
        *self.0.lock() += time;
    }
}

impl Timer for TestClock {
    fn now(&self) -> Instant {
        *self.0.lock()
    }

    fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> + Send + 'static {
        let clock = self.clone();
        std::future::poll_fn(move |_| if clock.now() >= at { Poll::Ready(()) } else { Poll::Pending })
    }
}

type Admitting<'t> = Pin<Box<dyn Future<Output = Result<Admitted, ApiError>> + Send + 't>>;

/// A router of pods that take so many requests each.
struct Scene {
    router: Router,
    clock: TestClock,
}

impl Scene {
    fn new(pods: usize, requests: u32, config: FlowConfig) -> Self {
        let clock = TestClock::new();
        let time = clock.clone();
        let pods = (0..pods).map(|at| PodSpec::new(format!("pod-{at}"), format!("http://pod-{at}")));
        let router = Router::builder("m").pods(pods).clock(move || *time.0.lock()).seed(7);
        let router = router.flow_control(move |state| Ok(control(requests, &config, state))).build().unwrap();
        Self { router, clock }
    }

    fn admit(&self, priority: i32, key: &str) -> Admitting<'_> {
        let (parts, ()) = http::Request::post("/v1/completions").body(()).unwrap().into_parts();
        let request = self.router.read(parts, Bytes::from_static(br#"{"model":"m","prompt":"p"}"#)).unwrap();
        let request = request.classify(FlowClass::new(priority, key));
        Box::pin(self.router.admit(request, true, &self.clock))
    }

    /// One that goes at once, and the guard of its attempt.
    fn going(&self) -> Going {
        begin(now(&mut self.admit(0, "first")).unwrap().unwrap())
    }

    fn waiting(&self) -> usize {
        self.router.flow_status(0).iter().map(|band| band.requests).sum()
    }
}

fn control(requests: u32, config: &FlowConfig, state: &PluginState) -> FlowControl {
    let limits = ConcurrencyLimits::default().requests(std::num::NonZeroU32::new(requests).unwrap());
    FlowControl::new(config.clone()).detector(ConcurrencyDetector::new(limits, state))
}

/// What became of it, if anything did.
fn now(admitting: &mut Admitting<'_>) -> Option<Result<Admitted, ApiError>> {
    match admitting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => Some(outcome),
        Poll::Pending => None,
    }
}

/// A request whose attempt began.
struct Going {
    guard: AttemptGuard,
    _host: crate::RouterHost,
}

impl Going {
    fn pod(&self) -> kv_index::Pod {
        self.guard.pod()
    }
}

/// Begins the first attempt, as an executor does.
fn begin(admitted: Admitted) -> Going {
    let Prepared { dispatch, mut host } = admitted.prepared;
    let step = dispatch.plan().steps()[0].clone();
    Going { guard: host.begin_attempt(step.candidates[0].pod, &step), _host: host }
}

#[test]
fn while_pods_have_room_nobody_waits() {
    let scene = Scene::new(2, 2, FlowConfig::default());
    let guards: Vec<_> = (0..4).map(|_| scene.going()).collect();
    let load = scene.router.plugin_state().load.clone();
    assert!(guards.iter().all(|guard| load.in_flight(guard.pod().id()).requests == 2), "two on each");
    let mut fifth = scene.admit(0, "k");
    assert!(now(&mut fifth).is_none());
    drop(guards);
    let admitted = now(&mut fifth).unwrap().unwrap();
    let flow = admitted.flow.clone().unwrap();
    assert_eq!((&*flow.key, flow.why, &*flow.band), ("k", Waited::Saturated, "default"));
    assert!(admitted.trace.is_some());
    let total: u32 = scene.router.pods().iter().map(|pod| load.in_flight(pod.pod.id()).requests).sum();
    assert_eq!(total, 1, "it counts before its attempt begins");
    drop(admitted);
    let total: u32 = scene.router.pods().iter().map(|pod| load.in_flight(pod.pod.id()).requests).sum();
    assert_eq!(total, 0);
}

#[test]
fn whoever_waits_is_let_go_in_order_of_priority_and_one_for_one() {
    let bands =
        FlowConfig::default().band(BandConfig::new("low").priority(-1)).band(BandConfig::new("high").priority(1));
    let scene = Scene::new(1, 1, bands);
    let mut guard = scene.going();
    let (mut low, mut high) = (scene.admit(-1, "l"), scene.admit(5, "h"));
    assert!(now(&mut low).is_none() && now(&mut high).is_none());
    assert_eq!(scene.waiting(), 2);
    guard.guard.first_token();
    assert!(now(&mut high).is_none(), "it is still on the pod");
    drop(guard);
    assert!(now(&mut low).is_none());
    let guard = begin(now(&mut high).unwrap().unwrap());
    assert!(now(&mut low).is_none(), "one for one");
    drop(guard);
    assert!(now(&mut low).unwrap().is_ok());
    assert_eq!(scene.waiting(), 0);
}

#[test]
fn a_client_that_leaves_leaves_the_queue_and_what_it_was_given_is_the_next_ones() {
    let scene = Scene::new(1, 1, FlowConfig::default());
    let guard = scene.going();
    let (mut first, mut second, mut third) = (scene.admit(0, "a"), scene.admit(0, "b"), scene.admit(0, "c"));
    assert!(now(&mut first).is_none() && now(&mut second).is_none() && now(&mut third).is_none());
    let (load, pod) = (scene.router.plugin_state().clone(), guard.pod().id());
    assert_eq!((load.load.in_flight(pod).requests, load.queued.in_flight(pod).requests), (4, 3), "decisions see them");
    drop(first);
    assert_eq!((scene.waiting(), load.queued.in_flight(pod).requests), (2, 2));
    drop(guard);
    // The second was let go and never learned of it.
    drop(second);
    assert!(now(&mut third).unwrap().is_ok());
    assert_eq!((load.load.in_flight(pod).requests, load.queued.in_flight(pod).requests), (0, 0));
}

#[test]
fn who_waits_too_long_is_told_when_to_come_again() {
    let band = BandConfig::new("all").time_to_live(Duration::from_secs(2)).limits(QueueLimits::default().requests(1));
    let scene = Scene::new(1, 1, FlowConfig::default().band(band));
    let _guard = scene.going();
    let mut waits = scene.admit(0, "k");
    assert!(now(&mut waits).is_none());
    let full = now(&mut scene.admit(0, "k")).unwrap().unwrap_err();
    assert_eq!((full.status.as_u16(), full.code), (429, "band_full"));
    scene.clock.advance(Duration::from_millis(1_999));
    assert!(now(&mut waits).is_none());
    scene.clock.advance(Duration::from_millis(1));
    let late = now(&mut waits).unwrap().unwrap_err();
    assert_eq!((late.status.as_u16(), late.code), (503, "expired"));
    let response = late.response();
    assert!(response.headers()["retry-after"].to_str().unwrap().parse::<u64>().unwrap() >= 1);
    assert_eq!(scene.waiting(), 0);
}

#[test]
fn what_does_not_wait_is_refused() {
    let scene = Scene::new(1, 1, FlowConfig::default());
    let read = || {
        let (parts, ()) = http::Request::post("/v1/completions").body(()).unwrap().into_parts();
        scene.router.read(parts, Bytes::from_static(br#"{"model":"m","prompt":"p"}"#)).unwrap()
    };
    let first = scene.router.prepare(read(), None).unwrap();
    let error = scene.router.prepare(read(), None).unwrap_err();
    assert_eq!((error.status.as_u16(), error.code), (429, "saturated"));
    assert_eq!(error.retry_after, Some(Duration::from_secs(1)));
    let waits = &mut scene.admit(0, "k");
    assert!(now(waits).is_none());
    scene.clock.advance(Duration::from_secs(20));
    let error = scene.router.prepare(read(), None).unwrap_err();
    assert_eq!(error.retry_after, Some(Duration::from_secs(20)), "as long as another has waited");
    drop(first);
    assert!(now(waits).unwrap().is_ok());
    assert!(scene.router.prepare(read(), None).is_ok());
}

#[test]
fn settings_change_while_requests_wait() {
    let scene = Scene::new(1, 1, FlowConfig::default());
    let guard = scene.going();
    let (mut first, mut second) = (scene.admit(0, "a"), scene.admit(0, "b"));
    assert!(now(&mut first).is_none() && now(&mut second).is_none());
    let wrong = FlowConfig::default().lookahead(0);
    let update = RouterUpdate::new().flow_control(move |state| Ok(control(9, &wrong, state)));
    let error = scene.router.apply(update).unwrap_err();
    assert!(error.to_string().contains("lookahead of 0"), "{error}");
    assert_eq!(scene.waiting(), 2, "nothing changed");
    scene
        .router
        .apply(RouterUpdate::new().flow_control(|state| Ok(control(2, &FlowConfig::default(), state))))
        .unwrap();
    assert!(now(&mut first).unwrap().is_ok_and(|admitted| admitted.flow.is_some()));
    let mut second_guard = None;
    if let Some(Ok(admitted)) = now(&mut second) {
        second_guard = Some(begin(admitted));
    }
    drop((guard, second_guard));
    let guards: Vec<_> = (0..2).map(|_| scene.going()).collect();
    let mut third = scene.admit(0, "c");
    assert!(now(&mut third).is_none());
    scene.router.apply(RouterUpdate::new().no_flow_control()).unwrap();
    assert!(now(&mut third).unwrap().is_ok(), "nobody waits any more");
    assert!(scene.router.flow_status(1).is_empty());
    drop(guards);
}

#[test]
fn pods_that_join_take_those_that_wait() {
    let scene = Scene::new(1, 1, FlowConfig::default());
    let guard = scene.going();
    let mut waits = scene.admit(0, "k");
    assert!(now(&mut waits).is_none());
    scene.router.join(PodSpec::new("new", "http://new")).unwrap();
    // It waits for its own pod first, and is decided again after a while.
    scene.clock.advance(Duration::from_millis(150));
    let admitted = now(&mut waits).unwrap().unwrap();
    assert_ne!(begin(admitted).pod(), guard.pod());
}

/// With headroom, who has how much in flight is kept: a tenant that floods leaves room for another.
#[test]
fn a_flood_leaves_headroom() {
    let band = BandConfig::new("all").headroom(0.5);
    let scene = Scene::new(1, 4, FlowConfig::default().band(band));
    let quiet = begin(now(&mut scene.admit(0, "quiet")).unwrap().unwrap());
    let mut noisy: Vec<_> = (0..4).map(|_| scene.admit(0, "noisy")).collect();
    let went: Vec<_> = noisy.iter_mut().filter_map(now).map(|admitted| begin(admitted.unwrap())).collect();
    assert_eq!(went.len(), 2, "with the second it has more than its share, and the last place is left");
    assert!(now(&mut scene.admit(0, "other")).is_some_and(|admitted| admitted.is_ok()), "room for another");
    drop((quiet, went, noisy));
    let (parts, ()) = http::Request::post("/v1/completions").body(()).unwrap().into_parts();
    let request = scene.router.read(parts, Bytes::from_static(br#"{"model":"m","prompt":"p"}"#)).unwrap();
    assert!(scene.router.prepare(request, None).is_ok(), "who does not wait is let go as well");
    assert_eq!(scene.waiting(), 0);
}

/// Whoever is let go and has left already was not served: it leaves nothing behind that counts against its key.
#[test]
fn what_was_given_to_who_left_is_not_charged() {
    let scene = Scene::new(1, 4, FlowConfig::default().band(BandConfig::new("all").headroom(0.5)));
    let mut busy: Vec<_> = (0..4).map(|_| begin(now(&mut scene.admit(0, "busy")).unwrap().unwrap())).collect();
    for _ in 0..5 {
        let mut leaves = scene.admit(0, "leaves");
        assert!(now(&mut leaves).is_none());
        busy.pop();
        drop(leaves);
        assert_eq!(scene.waiting(), 0);
        busy.push(begin(now(&mut scene.admit(0, "busy")).unwrap().unwrap()));
    }
    busy.pop();
    assert!(now(&mut scene.admit(0, "leaves")).is_some_and(|admitted| admitted.is_ok()), "it has nothing in flight");
}

#[test]
fn nobody_waits_for_pods_that_are_gone() {
    let scene = Scene::new(1, 1, FlowConfig::default());
    let guard = scene.going();
    let mut waits = scene.admit(0, "k");
    assert!(now(&mut waits).is_none());
    assert!(scene.router.leave("pod-0"));
    let error = now(&mut waits).unwrap().unwrap_err();
    assert_eq!((error.status.as_u16(), error.code), (503, "no_pod_available"));
    drop(guard);
}

/// Nobody is shed for one that does not wait.
#[test]
fn who_does_not_wait_displaces_nobody() {
    let limits = QueueLimits::default().requests(1);
    let bands =
        FlowConfig::default().band(BandConfig::new("high").priority(9)).band(BandConfig::new("low")).limits(limits);
    let scene = Scene::new(1, 1, bands);
    let guard = scene.going();
    let mut low = scene.admit(0, "k");
    assert!(now(&mut low).is_none());
    let (parts, ()) = http::Request::post("/v1/completions").body(()).unwrap().into_parts();
    let request = scene.router.read(parts, Bytes::from_static(br#"{"model":"m","prompt":"p"}"#)).unwrap();
    let error = scene.router.prepare(request.classify(FlowClass::new(9, "h")), None).unwrap_err();
    assert_eq!(error.status.as_u16(), 429);
    drop(guard);
    assert!(now(&mut low).unwrap().is_ok());
}

/// A program whose context does not fit waits until another is over, and a turn of one that is there does not.
#[test]
fn programs_wait_for_room_in_a_cache() {
    let clock = TestClock::new();
    let time = clock.clone();
    let pod = PodSpec::new("pod", "http://pod").kv_tokens(4_000);
    let router = Router::builder("m")
        .pods([pod])
        .profile("programs")
        .tokenizer(Arc::new(Bytewise))
        .clock(move || *time.0.lock())
        .seed(7);
    let detector = |state: &PluginState| WorkingSetDetector::new(WorkingSetLimits::default(), state);
    let router =
        router.flow_control(move |state| Ok(FlowControl::new(FlowConfig::default()).detector(detector(state))));
    let router = router.build().unwrap();
    let admit = |letter: &str, tokens: usize| -> Admitting<'_> {
        let (parts, ()) = http::Request::post("/v1/completions").body(()).unwrap().into_parts();
        let body = format!(r#"{{"model":"m","prompt":"{}"}}"#, letter.repeat(tokens));
        Box::pin(router.admit(router.read(parts, Bytes::from(body)).unwrap(), true, &clock))
    };
    let first = begin(now(&mut admit("a", 3_000)).unwrap().unwrap());
    let programs = Arc::clone(&router.plugin_state().programs);
    assert_eq!((programs.stats().contexts, programs.stats().running), (1, 1));
    let mut second = admit("b", 2_000);
    assert!(now(&mut second).is_none(), "3,000 and 2,000 are more than 4,000");
    assert!(now(&mut admit("c", 300)).is_some_and(|admitted| admitted.is_ok()), "a short one fits");
    drop(first);
    assert_eq!(programs.stats().running, 1, "the first is over, and the second goes");
    let admitted = now(&mut second).unwrap().unwrap();
    assert_eq!(admitted.flow.clone().unwrap().why, Waited::Program);
    assert!(admitted.trace.is_some());
    // A host that routes by itself says what becomes of a turn by its attempt.
    let tokens: Vec<u32> = (50_000..50_300).collect();
    let request = routing_core::Request::new("m", clock.now()).tokens(&tokens).seed(1);
    let running = programs.stats().running;
    let mut routed = router.route(&request).unwrap();
    assert_eq!(programs.stats().running, running + 1);
    let pod = routed.first_pod().unwrap();
    let attempt = routed.begin(0, pod).unwrap();
    drop(routed);
    assert_eq!(programs.stats().running, running + 1, "the attempt has it");
    attempt.succeeded();
    assert_eq!(programs.stats().running, running);
    drop(router.route(&request).unwrap());
    assert_eq!(programs.stats().running, running, "routed, and not sent");
}

#[test]
fn a_turn_that_was_given_to_who_left_is_over() {
    let clock = TestClock::new();
    let time = clock.clone();
    let pod = PodSpec::new("pod", "http://pod").kv_tokens(4_000);
    let router = Router::builder("m").pods([pod]).profile("programs").tokenizer(Arc::new(Bytewise));
    let router = router.clock(move || *time.0.lock()).seed(7);
    let router = router.flow_control(|state| Ok(control(1, &FlowConfig::default(), state))).build().unwrap();
    let admit = |letter: &str| -> Admitting<'_> {
        let (parts, ()) = http::Request::post("/v1/completions").body(()).unwrap().into_parts();
        let body = format!(r#"{{"model":"m","prompt":"{}"}}"#, letter.repeat(300));
        Box::pin(router.admit(router.read(parts, Bytes::from(body)).unwrap(), false, &clock))
    };
    let running = || router.plugin_state().programs.stats().running;
    let first = begin(now(&mut admit("a")).unwrap().unwrap());
    let mut second = admit("b");
    assert!(now(&mut second).is_none());
    assert_eq!(running(), 1);
    drop(first);
    // The second was let go, and never learned of it.
    assert_eq!(running(), 1);
    drop(second);
    assert_eq!(running(), 0);
}
