//! A fleet of 256 pods: what `/state` weighs and tells of it, and what a person sees of it in a browser.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use axum::Router;
use axum::extract::RawQuery;
use axum::response::{Html, IntoResponse};
use axum::routing::{get, post};
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use pointsman_gateway::config::PodSettings;
use pointsman_gateway::{Config, Gateway, admin_page};
use pointsman_test_support::programs;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

const PODS: usize = 256;
/// Every so many of them nobody answers for.
const DEAD: usize = 32;
const FRAME: &str = include_str!("fixtures/fleet_frame.html");
/// It was 411 KB before there were pages.
const MOST_BYTES: usize = 100 << 10;

/// One server at many addresses of this machine: as many pods.
async fn gateway() -> Gateway {
    let answer = async || ([(CONTENT_TYPE, "application/json")], r#"{"id":"x","choices":[]}"#);
    let routes = Router::new()
        .route("/v1/chat/completions", post(answer))
        .route("/health", get(async || "ok"))
        .route("/metrics", get(async || "vllm:num_requests_running 3\nvllm:num_requests_waiting 0\n"));
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    let pods = (0..PODS).map(|at| {
        let port = if at % DEAD == 0 { 1 } else { port };
        PodSettings::new(&format!("pod-{at:03}"), &format!("http://127.0.{}.{}:{port}", at / 200, 1 + at % 200))
    });
    let mut config = Config::default_for(pods.collect());
    config.health_check.timeout = Duration::from_secs(10);
    let gateway = Gateway::start(config).await.unwrap();
    // While it is looked at, decisions are traced.
    ask(gateway.address(), "/state", None).await;
    for turn in 0..60 {
        let body = format!(r#"{{"model":"sim","messages":[{{"role":"user","content":"turn {turn}"}}]}}"#);
        ask(gateway.address(), "/v1/chat/completions", Some(body)).await;
    }
    gateway
}

async fn ask(address: SocketAddr, path: &str, body: Option<String>) -> Bytes {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let request = http::Request::builder().uri(format!("http://{address}{path}"));
    let request = match body {
        Some(body) => request.method("POST").body(Full::from(body)).unwrap(),
        None => request.body(Full::default()).unwrap(),
    };
    let answer = tokio::time::timeout(Duration::from_secs(30), client.request(request)).await.unwrap().unwrap();
    answer.into_body().collect().await.unwrap().to_bytes()
}

async fn state(gateway: &Gateway, query: &str) -> Value {
    serde_json::from_slice(&ask(gateway.address(), &format!("/state?{query}"), None).await).unwrap()
}

fn names(state: &Value) -> Vec<&str> {
    state["pods"].as_array().unwrap().iter().map(|pod| pod["name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_state_of_256_pods_is_short_and_nothing_is_left_out_unsaid() {
    let gateway = gateway().await;
    let bytes = ask(gateway.address(), "/state", None).await;
    println!("{} bytes", bytes.len());
    assert!(bytes.len() < MOST_BYTES, "{} bytes", bytes.len());
    let first: Value = serde_json::from_slice(&bytes).unwrap();
    let fleet = &first["fleet"];
    let problems = PODS / DEAD;
    assert_eq!((&fleet["pods"], &fleet["healthy"]), (&PODS.into(), &(PODS - problems).into()));
    assert_eq!((&fleet["problems"], &fleet["matching"]), (&problems.into(), &PODS.into()));
    assert_eq!((fleet["cells"].as_array().unwrap().len(), names(&first).len()), (PODS, 64));
    assert_eq!(first["decisions"].as_array().unwrap().len(), 50);
    let step = &first["decisions"][0]["steps"][0];
    let (told, left_out) = (step["pods"].as_array().unwrap().len(), step["left_out"].as_u64().unwrap());
    assert_eq!((told, &step["pods"][0]["name"]), (2, &step["picked"]), "the best come first");
    assert!(left_out as usize + told >= PODS - problems, "{left_out}");

    // Page by page, all pods once.
    let mut seen: Vec<String> = Vec::new();
    for offset in [0, 100, 200, 300] {
        let page = state(&gateway, &format!("sort=name&limit=100&offset={offset}")).await;
        seen.extend(names(&page).iter().map(|name| (*name).to_owned()));
    }
    assert!(seen.len() == PODS && seen.is_sorted(), "{seen:?}");
    let worst = state(&gateway, "sort=problems&limit=10").await;
    assert!(names(&worst)[..problems].iter().all(|name| name[4..].parse::<usize>().unwrap() % DEAD == 0), "{worst}");
    let only = state(&gateway, "pods=problems").await;
    assert_eq!((names(&only).len(), &only["fleet"]["matching"]), (problems, &problems.into()));
    assert_eq!(names(&state(&gateway, "search=POD-04&limit=3&offset=1").await), ["pod-041", "pod-042", "pod-043"]);
    assert_eq!(names(&state(&gateway, "search=unhealthy").await).len(), problems);
    assert_eq!(names(&state(&gateway, "search=healthy&limit=1000").await).len(), PODS - problems);

    let id = first["decisions"][7]["id"].as_str().unwrap();
    let one = state(&gateway, &format!("decision={id}&scores=1000&limit=0")).await;
    assert_eq!((one["decisions"].as_array().unwrap().len(), names(&one).len()), (1, 0));
    assert!(one["decisions"][0]["steps"][0]["pods"].as_array().unwrap().len() >= PODS - problems);
    assert_eq!(state(&gateway, "sort=sideways").await["error"]["code"], "invalid_query");
    gateway.drain(Duration::ZERO).await;
}

#[test]
fn a_person_finds_their_way_among_256_pods() {
    if !programs::is_installed("chromium", &["--version"]) {
        return;
    }
    let runtime = Runtime::new().unwrap();
    let (gateway, address) = runtime.block_on(async {
        let gateway = gateway().await;
        let target = gateway.address();
        let state = move |RawQuery(query): RawQuery| async move {
            let path = format!("/state?{}", query.unwrap_or_default());
            ([(CONTENT_TYPE, "application/json")], ask(target, &path, None).await).into_response()
        };
        let frame = Router::new().route("/state", get(state)).route("/frame", get(|| async { Html(FRAME) }));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, admin_page::routes().merge(frame)).await.unwrap() });
        (gateway, address)
    });
    let found = browse(address);
    let problems = PODS / DEAD;
    let numbers = |look: &str| -> Vec<usize> {
        let names = found[look]["names"].as_array().unwrap();
        names.iter().map(|name| name.as_str().unwrap()[4..].parse().unwrap()).collect()
    };
    assert_eq!(found["first"]["cells"], serde_json::json!([PODS - problems, 0, problems]), "a cell a pod");
    assert_eq!(found["first"]["fleet"], format!("{PODS} pods, {problems} with problems"));
    assert_eq!((numbers("first").len(), &found["first"]["range"]), (50, &format!("1 to 50 of {PODS}").into()));
    assert!(numbers("first")[..problems].iter().all(|at| at % DEAD == 0), "problems come first");
    assert_eq!((numbers("second").len(), &found["second"]["range"]), (50, &format!("51 to 100 of {PODS}").into()));
    assert!(numbers("second").iter().all(|at| !numbers("first").contains(at)), "the next page has others");
    assert_eq!(numbers("by_name"), (0..50).collect::<Vec<_>>());
    assert_eq!(numbers("problems"), (0..PODS).step_by(DEAD).collect::<Vec<_>>());
    assert_eq!((&found["problems"]["pager"], &found["first"]["pager"]), (&false.into(), &true.into()));
    assert_eq!((numbers("searched"), numbers("clicked")), (vec![7], vec![41]));
    assert!(found["rows"].as_u64().unwrap() as usize >= PODS - problems, "an opened decision has all its scores");
    assert_eq!((&found["scroll_width"], &found["violations"]), (&1280.into(), &serde_json::json!([])));
    runtime.block_on(gateway.drain(Duration::ZERO));
    runtime.shutdown_background();
}

/// What the browser found.
fn browse(address: SocketAddr) -> Value {
    let folder = programs::temp_folder(env!("CARGO_TARGET_TMPDIR"), "wide-fleet");
    let mut chromium = Command::new("chromium");
    chromium.args("--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking".split(' '));
    chromium.args("--disable-component-update --disable-sync --hide-scrollbars --window-size=1400,900".split(' '));
    chromium.args(["--virtual-time-budget=30000", "--dump-dom"]).arg(format!("--user-data-dir={}", folder.display()));
    let output = programs::run(chromium.arg(format!("http://{address}/frame")), &folder);
    let dom = String::from_utf8(output.stdout).unwrap();
    let report = dom.split("<pre id=\"report\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let report = report.unwrap_or_else(|| panic!("no report: {dom}\n{}", String::from_utf8_lossy(&output.stderr)));
    let report = report.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u{a0}").replace("&amp;", "&");
    let _ = std::fs::remove_dir_all(folder);
    serde_json::from_str(&report).unwrap_or_else(|error| panic!("{error}: {report}"))
}
