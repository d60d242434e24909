//! The page in headless Chromium: what a person would see of a canned state, at a desk's width and at a phone's.
#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

use pointsman_test_support::programs;
use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use http::StatusCode;
use http::header::CONTENT_TYPE;
use pointsman_gateway::admin_page;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

const STATE: &str = include_str!("fixtures/state.json");
const FRAME: &str = include_str!("fixtures/frame.html");

#[test]
fn the_page_shows_the_whole_state() {
    let Some(found) = look("desk", 1280, |_| whole()) else { return };
    let state: Value = serde_json::from_str(STATE).unwrap();

    let pods = found["pods"].as_array().unwrap();
    assert_eq!(pods.len(), 8);
    for (shown, pod) in pods.iter().zip(state["pods"].as_array().unwrap()) {
        assert_eq!(shown["name"], pod["name"], "a name is shown as it is, whatever it looks like");
        let text = shown["text"].as_str().unwrap();
        let health = if pod["healthy"] == true { "| healthy |" } else { "| unhealthy |" };
        let circuit = format!("circuit {}", pod["circuit"].as_str().unwrap());
        let load = format!("{} in flight", pod["in_flight"]);
        let cache = format!("{}", (pod["kv_used"].as_f64().unwrap() * 100.0).round());
        for part in [health, &circuit, &load, &cache] {
            assert!(text.contains(part), "`{part}` is missing in `{text}`");
        }
        let under_way =
            state["active_requests"].as_array().unwrap().iter().filter(|request| request["pod"] == pod["name"]);
        assert_eq!(shown["dots"], under_way.count(), "one dot for each request on its way to {text}");
        assert_eq!(shown["bars"][1], pod["kv_used"]);
    }
    assert!(pods[3]["text"].as_str().unwrap().contains("zmq replaying | 118 batches, 2 gaps, 0 lost"));

    assert_eq!((&found["facts"][0], &found["facts"][1]), (&"cache_aware".into(), &"sim, other <b>model</b>".into()));
    let findings = found["findings"].as_array().unwrap();
    assert_eq!(findings.len(), 2);
    for (shown, finding) in findings.iter().zip(state["findings"].as_array().unwrap()) {
        let (shown, message) = (shown.as_str().unwrap(), finding["message"].as_str().unwrap());
        let pod = finding["pod"].as_str().map_or_else(String::new, |pod| format!(", pod {pod}"));
        assert_eq!(shown, format!("sim{pod}: {message}"));
    }

    let totals: Vec<&str> = found["totals"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(totals, ["65 %", "2,431", "34", "2,389", "2", "3", "6", "4.81 M", "3.13 M"]);
    let axes = found["axes"].to_string();
    assert!(["100 %", "1,000 ms", "seconds", "now"].iter().all(|label| axes.contains(label)), "{axes}");
    let measured = state["series"].as_array().unwrap().iter().filter(|second| !second["hit_rate"].is_null()).count();
    assert_eq!(found["points"], serde_json::json!([measured, measured, measured]));
}

#[test]
fn a_decision_opens_to_its_scores() {
    let Some(found) = look("scores", 1280, |_| whole()) else { return };
    let state: Value = serde_json::from_str(STATE).unwrap();
    let decisions = state["decisions"].as_array().unwrap();
    assert_eq!(found["decisions"].as_array().unwrap().len(), decisions.len());
    for (shown, decision) in found["decisions"].as_array().unwrap().iter().zip(decisions) {
        let summary = shown["summary"].as_str().unwrap();
        assert!(summary.contains(decision["id"].as_str().unwrap()), "{summary}");
        assert!(summary.contains(decision["outcome"].as_str().unwrap()), "{summary}");
        let steps = decision["steps"].as_array().unwrap();
        // Without reasons there is no table.
        let steps: Vec<_> = steps.iter().filter(|step| step["pods"] != serde_json::json!([])).collect();
        let picked: Vec<&Value> = steps.iter().map(|step| &step["picked"]).collect();
        assert_eq!(shown["picked"], serde_json::json!(picked));
        let rows = shown["rows"].as_array().unwrap();
        assert_eq!(rows.len(), steps.iter().map(|step| 1 + step["pods"].as_array().unwrap().len()).sum::<usize>());
        for pod in steps.iter().flat_map(|step| step["pods"].as_array().unwrap()) {
            let wanted = match pod["removed_by"].as_str() {
                Some(filter) => format!("removed by {filter}"),
                None => format!("{:.3}", pod["total"].as_f64().unwrap()),
            };
            let told = |row: &&Value| row[0] == pod["name"] && row.to_string().contains(&wanted);
            assert!(rows.iter().any(|row| told(&row)), "{} should say `{wanted}`: {rows:?}", pod["name"]);
        }
    }
    let (head, best) = (&found["decisions"][2]["rows"][0], &found["decisions"][2]["rows"][1]);
    assert_eq!(head, &serde_json::json!(["pod", "cost × 0.667", "cache × 0.333", "total", "rank", "result"]));
    assert_eq!(best, &serde_json::json!(["pod-6", "0.93+0.620", "0.93+0.310", "0.930", "1", "picked"]));
}

#[test]
fn what_waits_is_shown_and_why_a_request_did_or_was_shed() {
    let Some(found) = look("flow", 1280, |_| whole()) else { return };
    assert_eq!(found["flow_is_shown"], true);
    let interactive = "interactive1,204 requests, 2.60 M tokens · team <b>a</b> 1,100, nobody in particular 104 · \
                       expired 12, passed 2,300, waited 119";
    assert_eq!(found["flow"], serde_json::json!([interactive, "batch0 requests, 0 tokens"]));
    let shown = |id: &str| {
        let decisions = found["decisions"].as_array().unwrap();
        decisions.iter().find(|shown| shown["summary"].as_str().unwrap().contains(id)).unwrap()
    };
    let shed = shown("req-01fb");
    assert_eq!(shed["waited"], "interactive, team <b>a</b>: waited 10.0 s (saturated), 1,203 before it");
    assert!(["nobody", "shed: expired"].iter().all(|part| shed["summary"].as_str().unwrap().contains(part)), "{shed}");
    let turn = "interactive, nobody in particular: waited 310 ms (program), 0 before it; its program was served 5,000 \
                tokens (level 3), 2 turns follow";
    assert_eq!(shown("req-01f9")["waited"], turn);
    assert_eq!(shown("req-01f8")["waited"], Value::Null, "without flow control there is nothing to tell");
    // Where there is none, there is no panel.
    let found = look("no-flow", 1280, |_| {
        let mut state: Value = serde_json::from_str(STATE).unwrap();
        state["flow"] = serde_json::json!([]);
        Some(state.to_string())
    });
    let Some(found) = found else { return };
    assert_eq!((&found["flow_is_shown"], &found["flow"]), (&Value::from(false), &serde_json::json!([])));
}

#[test]
fn names_stay_text_and_the_policy_holds() {
    let Some(found) = look("names", 1280, |_| whole()) else { return };
    assert_eq!((&found["images"], &found["broken"]), (&Value::from(0), &Value::Null));
    assert_eq!(found["violations"], serde_json::json!([]), "the page does all it does within its own policy");
}

#[test]
fn nothing_overflows_on_a_phone() {
    for width in [320, 390, 768, 1280] {
        let Some(found) = look(&format!("width-{width}"), width, |_| whole()) else { return };
        assert_eq!(found["frame_width"], width);
        assert_eq!(found["scroll_width"], width, "something is wider than the window");
    }
}

#[test]
fn nothing_jumps_when_figures_change() {
    for width in [320, 1280] {
        let found = look(&format!("jumps-{width}"), width, |call| {
            let mut state: Value = serde_json::from_str(STATE).unwrap();
            let grown = |value: &Value| Value::from(value.as_u64().unwrap() * 1000_u64.pow(call as u32 % 3));
            state["totals"].as_object_mut().unwrap().values_mut().for_each(|value| *value = grown(value));
            for pod in state["pods"].as_array_mut().unwrap() {
                for field in ["in_flight", "queued_tokens", "blocks", "waiting"] {
                    pod[field] = grown(&pod[field]);
                }
            }
            Some(state.to_string())
        });
        let Some(found) = found else { return };
        assert_eq!(found["heights"].as_array().unwrap().len(), 1, "{width}: {}", found["heights"]);
    }
}

#[test]
fn a_gateway_that_does_not_answer_is_told_and_asked_again() {
    let found = look("lost", 800, |call| if (1..3).contains(&call) { None } else { whole() });
    let Some(found) = found else { return };
    let statuses: Vec<&str> = found["statuses"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(statuses.ends_with(&["live", "disconnected, retrying", "live"]), "{statuses:?}");
}

fn whole() -> Option<String> {
    Some(STATE.to_owned())
}

/// What a frame of this width shows after five seconds of the browser's time; none without a browser. `state` is what
/// it is told at each of its calls, if anything.
fn look(name: &str, width: u32, state: fn(usize) -> Option<String>) -> Option<Value> {
    if !programs::is_installed("chromium", &["--version"]) {
        return None;
    }
    let runtime = Runtime::new().unwrap();
    let address = runtime.block_on(serve(&runtime, state));
    let folder = programs::temp_folder(env!("CARGO_TARGET_TMPDIR"), name);
    let mut chromium = Command::new("chromium");
    chromium.args("--headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking".split(' '));
    chromium.args("--disable-component-update --disable-sync --hide-scrollbars --window-size=1400,900".split(' '));
    chromium.args(["--virtual-time-budget=8000", "--dump-dom"]).arg(format!("--user-data-dir={}", folder.display()));
    let output = programs::run(chromium.arg(format!("http://{address}/frame?width={width}")), &folder);
    let dom = String::from_utf8(output.stdout).unwrap();
    let report = dom.split("<pre id=\"report\">").nth(1).and_then(|rest| rest.split("</pre>").next());
    let report = report.unwrap_or_else(|| panic!("no report: {dom}\n{}", String::from_utf8_lossy(&output.stderr)));
    let report = report.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", "\u{a0}").replace("&amp;", "&");
    runtime.shutdown_background();
    let _ = std::fs::remove_dir_all(folder);
    Some(serde_json::from_str(&report).unwrap_or_else(|error| panic!("{error}: {report}")))
}

async fn serve(runtime: &Runtime, state: fn(usize) -> Option<String>) -> SocketAddr {
    let calls = Arc::new(AtomicUsize::new(0));
    let state = move || {
        let told = state(calls.fetch_add(1, Ordering::Relaxed));
        let status = if told.is_some() { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        async move { (status, [(CONTENT_TYPE, "application/json")], told.unwrap_or_default()) }
    };
    let routes = admin_page::routes()
        .merge(Router::new().route("/state", get(state)).route("/frame", get(|| async { Html(FRAME) })));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move { axum::serve(listener, routes).await.unwrap() });
    address
}
