use std::sync::atomic::{AtomicU64, Ordering};

use http_body_util::{BodyExt, Full};
use routing_exec::adapter::TokioTimer;
use routing_exec::{Transport, TransportError};
use serde_json::{Value, json};

use super::*;
use crate::PodSpec;

fn router(model: &str) -> Router {
    let pods = ["a", "b"].map(|name| PodSpec::new(name, format!("http://{model}-{name}")));
    Router::builder(model)
        .alias(format!("{model}-alias"))
        .adapter(format!("{model}-lora"), None)
        .pods(pods)
        .build()
        .unwrap()
}

/// Pods that answer with what they were sent, and with whose they are; the first so many attempts fail.
fn echo(model: &'static str, failures: u64) -> impl Transport {
    let failures = Arc::new(AtomicU64::new(failures));
    move |_, request: Request<Bytes>| {
        let fails = failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        async move {
            if fails {
                return Err(TransportError::Connect("refused".into()));
            }
            let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
            let answer = json!({"served_by": model, "asked": body["model"]}).to_string();
            Ok(Response::new(Full::new(Bytes::from(answer))))
        }
    }
}

type Served<T> = RouterService<routing_exec::TransportExecutor<T, TokioTimer>, TokioTimer>;

async fn send<T: Transport>(service: &Served<T>, method: Method, path: &str, body: &str) -> (u16, Value) {
    let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
    let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
    let response = service.clone().call(request).await.unwrap();
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}

async fn post<T: Transport>(service: &Served<T>, body: &str) -> (u16, Value) {
    send(service, Method::POST, "/v1/completions", body).await
}

fn served<T: Transport>(router: &Router, transport: T) -> Served<T> {
    RouterService::new(router.clone(), router.executor(transport, TokioTimer::new()), TokioTimer::new()).unwrap()
}

#[test]
fn an_executor_of_another_router_is_refused() {
    let (m, n) = (router("m"), router("n"));
    let foreign = RouterService::new(m.clone(), n.executor(echo("n", 0), TokioTimer::new()), TokioTimer::new());
    let error = foreign.unwrap_err();
    assert_eq!(error, ForeignExecutor("m".into()));
    assert!(error.to_string().contains("`m` was made of another router"), "{error}");
    // Of a clone it is the router's own, and one without breakers does not tell.
    served(&m.clone(), echo("m", 0));
    let plain = routing_exec::TransportExecutor::<_, _>::new(echo("m", 0), TokioTimer::new());
    assert!(RouterService::new(m, plain, TokioTimer::new()).is_ok());
}

#[tokio::test]
async fn a_name_an_alias_or_an_adapter_picks_the_model() {
    let (m, n) = (router("m"), router("n"));
    // One type of transport for both.
    let transports = ["m", "n"].map(|model| echo(model, 0));
    let [of_m, of_n] = transports;
    let service = served(&m, of_m).and(n, |n| n.executor(of_n, TokioTimer::new())).unwrap();
    for (asked, served_by, sent) in
        [("m", "m", "m"), ("m-alias", "m", "m"), ("m-lora", "m", "m-lora"), ("n", "n", "n"), ("n-lora", "n", "n-lora")]
    {
        let (status, answer) = post(&service, &json!({"model": asked, "prompt": "x"}).to_string()).await;
        assert_eq!((status, answer), (200, json!({"served_by": served_by, "asked": sent})));
    }
    for (body, status, code) in
        [(r#"{"model":"x"}"#, 404, "model_not_found"), ("{}", 400, "missing_model"), ("[1", 400, "invalid_json")]
    {
        let (got, answer) = post(&service, body).await;
        assert_eq!((got, answer["error"]["code"].as_str()), (status, Some(code)), "{body}");
    }
    let (status, models) = send(&service, Method::GET, "/v1/models", "").await;
    let names: Vec<_> = models["data"].as_array().unwrap().iter().map(|model| model["id"].as_str().unwrap()).collect();
    assert_eq!((status, names), (200, vec!["m", "m-alias", "m-lora", "n", "n-alias", "n-lora"]));
    assert_eq!(send(&service, Method::DELETE, "/v1/models", "").await.0, 404);
    let (status, one) = send(&service, Method::GET, "/v1/models/n%2Dlora", "").await;
    assert_eq!((status, &one["id"], &one["object"]), (200, &"n-lora".into(), &"model".into()));
    let (status, none) = send(&service, Method::GET, "/v1/models/org/none", "").await;
    assert_eq!((status, &none["error"]["code"]), (404, &"model_not_found".into()));
    let admin = |service: Served<_>| async move { send(&service, Method::POST, "/v1/x", r#"{"model":"m"}"#).await.0 };
    assert_eq!(admin(service.clone()).await, 404, "an engine's other paths are its operator's");
    assert_eq!(admin(service.clone().path("/v1/x")).await, 200);
    let again = service.and(router("m"), |m| m.executor(echo("m", 0), TokioTimer::new()));
    assert_eq!(again.unwrap_err(), NameTaken("m".into()));
}

/// Pods that stream an answer of so many tokens, with its usage.
fn streams(tokens: u64) -> impl Transport {
    move |_, _: Request<Bytes>| async move {
        let end = json!({"usage": {"prompt_tokens": 1, "completion_tokens": tokens}});
        let answer = format!("data: {{}}\n\ndata: {end}\n\ndata: [DONE]\n\n");
        let answer = Response::builder().header("content-type", "text/event-stream").body(Full::new(answer.into()));
        Ok::<_, TransportError>(answer.unwrap())
    }
}

#[tokio::test]
async fn how_long_answers_are_is_learned_of_whole_ones_that_end() {
    let router = router("m");
    let expected = || router.plugin_state().answer_lengths.typical();
    let (service, refusing) = (
        served(&router, streams(2)),
        served(&router, |_, _: Request<Bytes>| async {
            let told = json!({"usage": {"completion_tokens": 9_000}}).to_string();
            Ok::<_, TransportError>(Response::builder().status(400).body(Full::new(Bytes::from(told))).unwrap())
        }),
    );
    let mut before = expected();
    for body in [r#"{"model":"m","prompt":"x","stream":true}"#, r#"{"model":"m","prompt":"x"}"#] {
        assert_eq!(post(&service, body).await.0, 200);
        assert!(expected() < before, "{body}: {} of {before}", expected());
        before = expected();
    }
    post(&service, r#"{"model":"m","prompt":"x","n":4}"#).await;
    post(&refusing, r#"{"model":"m","prompt":"x"}"#).await;
    assert_eq!(expected(), before, "several answers are told as one, and a refusal is none");
}

#[tokio::test]
async fn a_pod_that_refuses_costs_a_retry_and_no_load_is_left() {
    let router = router("m");
    let service = served(&router, echo("m", 1));
    let (status, answer) = post(&service, r#"{"model":"m","prompt":"x"}"#).await;
    assert_eq!((status, answer["served_by"].as_str()), (200, Some("m")));
    let in_flight =
        router.pods().iter().map(|pod| router.plugin_state().load.in_flight(pod.pod.id()).requests).sum::<u32>();
    assert_eq!(in_flight, 0);
    let service = served(&router, echo("m", u64::MAX));
    let (status, answer) = post(&service, r#"{"model":"m","prompt":"x"}"#).await;
    assert!(status >= 500 && answer["error"]["message"].is_string(), "{status} {answer}");
}

#[tokio::test]
async fn bodies_have_a_bound_and_a_fleet_without_pods_is_unavailable() {
    let router = router("m");
    let service = served(&router, echo("m", 0)).limits(BodyLimits::default().max_bytes(10));
    assert_eq!(post(&service, r#"{"model":"m","prompt":"x"}"#).await.0, 413);
    router.apply(crate::RouterUpdate::new().pods([])).unwrap();
    let (status, answer) = post(&served(&router, echo("m", 0)), r#"{"model":"m","prompt":"x"}"#).await;
    assert_eq!((status, answer["error"]["code"].as_str()), (503, Some("no_pod_available")));
}

/// What a client says in the gateway's name reaches neither plugins nor pods, and what a pod says in it reaches no client.
#[tokio::test]
async fn headers_in_the_gateways_name_are_neither_passed_on_nor_trusted() {
    use kv_index::PodSet;
    use routing_core::{Declare, Filter, OnEmpty, PluginError, RoutingContext};

    struct Spy;
    impl Filter for Spy {
        fn filter(&self, context: &RoutingContext<'_>, candidates: PodSet) -> Result<PodSet, PluginError> {
            let request = context.request();
            let (own, other) = (request.header("x-pointsman-pod"), request.header("x-tenant"));
            assert_eq!((own, other), (None, Some(&b"t"[..])));
            Ok(candidates)
        }
    }
    let profile = |state: &crate::plugins::PluginState| {
        crate::plugins::profiles::least_load(state).filter("spy", OnEmpty::Fail, |_: &mut Declare<'_>| Spy)
    };
    let router = Router::builder("m").pod(PodSpec::new("a", "http://a")).profile(profile).build().unwrap();
    let seen = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&seen);
    let pod = move |_, request: Request<Bytes>| {
        let own = request.headers().keys().filter(|name| name.as_str().starts_with("x-pointsman-")).count();
        count.fetch_add(1 + 100 * own as u64, Ordering::Relaxed);
        async move {
            let response = Response::builder().header("x-pointsman-pod", "forged").header("x-engine", "vllm");
            Ok::<_, TransportError>(response.body(Full::new(Bytes::from_static(b"{}"))).unwrap())
        }
    };
    let request = Request::post("/v1/completions").header("X-Pointsman-Pod", "b").header("x-pointsman-explain", "1");
    let request = request.header("x-tenant", "t").body(Full::new(Bytes::from_static(br#"{"model":"m"}"#))).unwrap();
    let response = served(&router, pod).call(request).await.unwrap();
    assert_eq!((response.status().as_u16(), seen.load(Ordering::Relaxed)), (200, 1));
    assert_eq!(
        (response.headers().get("x-pointsman-pod"), &response.headers()["x-engine"]),
        (None, &HeaderValue::from_static("vllm"))
    );
}

/// Gateways of one seed decide alike and bring no two requests into one bootstrap room.
#[tokio::test]
async fn one_seed_gives_the_same_decisions_and_never_the_same_rooms() {
    use parking_lot::Mutex;
    use routing_core::{Role, Trace};
    use routing_exec::handoff::SglangBootstrap;

    let mut seen = Vec::new();
    for _ in 0..2 {
        let roles = [("p", Role::Prefill), ("d", Role::Decode)];
        let pods = roles.map(|(name, role)| PodSpec::new(name, format!("http://{name}")).role(role));
        let builder = Router::builder("m").pods(pods).tokens_given().profile("prefill_decode").seed(7);
        let router = builder.build().unwrap();
        let handoff = Arc::new(SglangBootstrap::default());
        router.apply(crate::RouterUpdate::new().handoff(handoff)).unwrap();
        let rooms = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&rooms);
        let pod = move |_, request: Request<Bytes>| {
            let body: Value = serde_json::from_slice(request.body()).unwrap();
            heard.lock().push(body["bootstrap_room"].as_u64().unwrap());
            async move { Ok::<_, TransportError>(Response::new(Full::new(Bytes::from_static(b"{}")))) }
        };
        assert_eq!(post(&served(&router, pod), r#"{"model":"m","prompt":"x"}"#).await.0, 200);
        let mut trace = Trace::default();
        router.route_with(&router.request(std::time::Instant::now()).tokens(&[1]), &[], Some(&mut trace)).unwrap();
        let rooms = rooms.lock().clone();
        assert!(rooms.len() == 2 && rooms[0] == rooms[1], "both legs meet: {rooms:?}");
        seen.push((trace.seed, rooms[0]));
    }
    assert_eq!(seen[0].0, seen[1].0, "decisions are seeded");
    assert_ne!(seen[0].1, seen[1].1);
}

/// Pods that do both are a fleet for `prefill_decode`, too: where one is picked for both steps, it is sent one plain request.
#[tokio::test]
async fn a_pod_that_prefills_for_itself_is_sent_one_plain_request() {
    let pod = PodSpec::new("a", "http://a");
    let router = Router::builder("m").pod(pod).tokens_given().profile("prefill_decode").build().unwrap();
    let sent = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&sent);
    let transport = move |_, request: Request<Bytes>| {
        count.fetch_add(1, Ordering::Relaxed);
        async move { Ok::<_, TransportError>(Response::new(Full::new(request.into_body()))) }
    };
    let body = json!({"model": "m", "prompt": "x", "max_tokens": 9});
    let (status, heard) = post(&served(&router, transport), &body.to_string()).await;
    assert_eq!((status, heard, sent.load(Ordering::Relaxed)), (200, body, 1));
    let plan = router.route(&router.request(std::time::Instant::now()).tokens(&[1])).unwrap();
    assert_eq!(plan.plan().steps().len(), 2, "the decision stays as it was");
}

/// What engines say of a failure is worth more than that there was one.
#[tokio::test]
async fn where_all_pods_fail_the_last_ones_own_answer_is_passed_on() {
    let router = router("m");
    let tried = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&tried);
    let transport = move |_, _: Request<Bytes>| {
        let at = count.fetch_add(1, Ordering::Relaxed) + 1;
        async move {
            let body = json!({"detail": format!("engine {at} is out of memory")}).to_string();
            Ok::<_, TransportError>(Response::builder().status(500).body(Full::new(Bytes::from(body))).unwrap())
        }
    };
    let (status, answer) = post(&served(&router, transport), r#"{"model":"m","prompt":"x"}"#).await;
    assert_eq!((status, tried.load(Ordering::Relaxed)), (500, 2), "both pods");
    assert_eq!(answer, json!({"detail": "engine 2 is out of memory"}));
}

#[tokio::test]
async fn bodies_that_are_being_read_have_bounds_of_their_own() {
    let service = served(&router("m"), echo("m", 0)).upload_limits(UploadLimits::default().max_uploads(1));
    let slow = Request::post("/v1/completions").body(Never).unwrap();
    let mut slow = service.clone().call(slow);
    poll_fn(|cx| {
        assert!(slow.as_mut().poll(cx).is_pending());
        Poll::Ready(())
    })
    .await;
    assert_eq!(service.uploads().count(), 1, "clones count together");
    let (status, answer) = post(&service, r#"{"model":"m","prompt":"x"}"#).await;
    assert_eq!((status, answer["error"]["code"].as_str()), (503, Some("too_many_uploads")));
    drop(slow);
    assert_eq!(post(&service, r#"{"model":"m","prompt":"x"}"#).await.0, 200);
    assert_eq!((service.uploads().count(), service.uploads().refused()), (0, 1));
}

#[tokio::test]
async fn every_api_is_executed_and_its_errors_have_its_form() {
    let service = served(&router("m"), echo("m", 0));
    for path in ["/v1/embeddings", "/v1/responses", "/v1/messages", "/v1/messages/count_tokens"] {
        let (status, answer) = send(&service, Method::POST, path, r#"{"model":"m","input":"x","messages":[]}"#).await;
        assert_eq!((status, &answer["served_by"]), (200, &"m".into()), "{path}");
        let (status, answer) = send(&service, Method::POST, path, r#"{"model":"x"}"#).await;
        let is_anthropics = answer["type"] == "error" && answer["error"]["type"] == "not_found_error";
        let is_openais = answer["error"]["code"] == "model_not_found";
        let expected = path.starts_with("/v1/messages");
        assert_eq!((status, is_anthropics, is_openais), (404, expected, !expected), "{path}: {answer}");
    }
}

#[tokio::test]
async fn bodies_that_are_not_understood_are_told_so_before_they_are_read() {
    let service = served(&router("m"), echo("m", 0));
    for (name, value) in [("content-encoding", "gzip"), ("content-type", "text/plain")] {
        let request = Request::post("/v1/completions").header(name, value);
        let response = service.clone().call(request.body(Never).unwrap()).await.unwrap();
        assert_eq!(response.status(), 415, "{name}: {value}");
    }
}

/// A body that never comes.
struct Never;

impl Body for Never {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Infallible>>> {
        Poll::Pending
    }
}
