//! Bad days of a fleet, through a router with its defaults: pods that fail fast, and faults of all of them at once.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use pointsman::exec::adapter::TokioTimer;
use pointsman::exec::{Transport, TransportError};
use pointsman::plugins::profiles;
use pointsman::plugins::tokenize::{PromptError, PromptTokenizer};
use pointsman::{PodSpec, Router, RouterService};
use tokio::time::{Instant, sleep};
use tower::Service;

/// A byte is a token.
#[derive(Debug)]
struct Bytewise;

impl PromptTokenizer for Bytewise {
    fn tokenize(&self, body: &[u8], tokens: &mut Vec<u32>) -> Result<(), PromptError> {
        tokens.extend(body.iter().map(|byte| u32::from(*byte)));
        Ok(())
    }
}

fn router(profile: &'static str, pods: usize) -> Router {
    let pods = (0..pods).map(|at| PodSpec::new(format!("pod-{at}"), format!("pod-{at}:1")));
    let builder = Router::builder("m").pods(pods).profile(profile).seed(7);
    builder.tokenizer(Arc::new(Bytewise)).clock(|| Instant::now().into_std()).build().unwrap()
}

fn answer(status: u16, headers: &[(&str, &str)], body: &'static str) -> Response<Full<Bytes>> {
    let response =
        headers.iter().fold(Response::builder().status(status), |made, (name, value)| made.header(*name, *value));
    response.body(Full::new(Bytes::from_static(body.as_bytes()))).unwrap()
}

fn served() -> Response<Full<Bytes>> {
    answer(200, &[("content-type", "text/event-stream")], "data: {\"choices\":[]}\n\ndata: [DONE]\n\n")
}

/// Sends a request of its own prompt. Whether its client is served: by a stream that ends as it should.
async fn ask<T: Transport>(router: &Router, transport: T, number: usize) -> bool {
    let service =
        RouterService::new(router.clone(), router.executor(transport, TokioTimer::new()), TokioTimer::new()).unwrap();
    let prompt = format!("{number} {}", "of a prompt that nobody has ".repeat(20));
    let body = serde_json::json!({"model": "m", "stream": true, "prompt": prompt, "user": format!("u{number}")});
    let request = Request::post("/v1/completions").header("content-type", "application/json");
    let response = service.clone().call(request.body(Full::new(Bytes::from(body.to_string()))).unwrap()).await;
    let response = response.unwrap_or_else(|never: Infallible| match never {});
    let is_success = response.status().is_success();
    let body = response.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    is_success && body.ends_with(b"data: [DONE]\n\n") && !body.windows(5).any(|part| part == b"error")
}

type Answer = fn() -> Response<Full<Bytes>>;

/// How the pod that fails fast does.
const FAULTS: [(&str, Answer); 9] = [
    ("500", || answer(500, &[], "{}")),
    ("503", || answer(503, &[], "{}")),
    ("503 with Retry-After", || answer(503, &[("retry-after", "1")], "{}")),
    ("429", || answer(429, &[], "{}")),
    ("404", || answer(404, &[], "{}")),
    ("400", || answer(400, &[], "{}")),
    ("401", || answer(401, &[], "{}")),
    ("307", || answer(307, &[("location", "http://10.0.0.9/")], "")),
    ("no [DONE]", || answer(200, &[("content-type", "text/event-stream")], "data: {\"choices\":[]}\n\n")),
];

/// One of three pods fails at once, all the time, and passes its health checks; the others take 150 ms. Sixteen clients.
#[tokio::test(start_paused = true)]
async fn a_pod_that_fails_fast_is_no_black_hole() {
    let (mut worst_hits, mut worst_failed) = (0, 0);
    for (fault, response) in FAULTS {
        for profile in profiles::NAMES {
            let router = router(profile, 3);
            let _housekeeping = router.spawn_housekeeping();
            let bad = router.pod("pod-0").unwrap();
            let (hits, failed, next) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
            let hits = Arc::new(hits);
            let clients = (0..16).map(|_| async {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= REQUESTS {
                        return;
                    }
                    let hits = Arc::clone(&hits);
                    let transport = move |pod, _: Request<Bytes>| {
                        let is_bad = pod == bad;
                        hits.fetch_add(usize::from(is_bad), Ordering::Relaxed);
                        async move {
                            sleep(Duration::from_millis(if is_bad { 1 } else { 150 })).await;
                            Ok::<_, TransportError>(if is_bad { response() } else { served() })
                        }
                    };
                    failed.fetch_add(usize::from(!ask(&router, transport, number).await), Ordering::Relaxed);
                }
            });
            futures_util::future::join_all(clients).await;
            let (hits, failed) = (hits.load(Ordering::Relaxed), failed.load(Ordering::Relaxed));
            println!("{fault:22} {profile:28} {hits:4} hits {failed:4} failed");
            (worst_hits, worst_failed) = (worst_hits.max(hits), worst_failed.max(failed));
            assert!(failed * 100 <= REQUESTS * 3, "{fault}, {profile}: {failed} of {REQUESTS} clients failed");
            assert!(hits * 100 <= REQUESTS * 5, "{fault}, {profile}: {hits} attempts at the pod that fails");
        }
    }
    println!("at worst {worst_hits} hits, {worst_failed} failed");
}

/// Every pod fails for a while. What is asked a quarter of a second after that is answered.
#[tokio::test(start_paused = true)]
async fn a_fault_of_the_whole_fleet_is_over_when_it_is_over() {
    for seconds in [1, 5, 30] {
        for profile in profiles::NAMES {
            let router = router(profile, 3);
            let _housekeeping = router.spawn_housekeeping();
            let (begin, end) = (Duration::from_secs(2), Duration::from_secs(2 + seconds));
            let start = Instant::now();
            let mut asked = tokio::task::JoinSet::new();
            // Forty a second.
            for number in 0..usize::try_from((seconds + 5) * 40).unwrap() {
                let router = router.clone();
                let at = Duration::from_millis(25 * number as u64);
                asked.spawn(async move {
                    tokio::time::sleep_until(start + at).await;
                    let transport = move |_, _: Request<Bytes>| async move {
                        let is_down = (begin..end).contains(&start.elapsed());
                        sleep(Duration::from_millis(if is_down { 1 } else { 150 })).await;
                        Ok::<_, TransportError>(if is_down { answer(500, &[], "{}") } else { served() })
                    };
                    (at, ask(&router, transport, number).await)
                });
            }
            let answers = asked.join_all().await;
            let after: Vec<_> = answers.iter().filter(|(at, _)| *at >= end + Duration::from_millis(250)).collect();
            let failed = after.iter().filter(|(_, served)| !served).count();
            println!("{seconds:2} s {profile:28} {failed} of {} failed afterwards", after.len());
            assert!(failed * 100 <= after.len(), "{seconds} s, {profile}: {failed} of {}", after.len());
            assert!(
                answers.iter().filter(|(at, _)| *at < begin - Duration::from_millis(200)).all(|(_, served)| *served)
            );
        }
    }
}

const REQUESTS: usize = 480;
