//! Metrics by pod, and the page of metrics as a whole: as Prometheus' own tool takes it, and as the docs list it.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use pointsman_gateway::Gateway;
use pointsman_test_support::programs::is_installed;
use routing_exec::Failure;

use super::fixture::{CHAT, Client, EVENTS, FakePod, STREAMED, Script, WHOLE, config, gateway, until};

/// Whether the page has a line of the gateway's own.
async fn has(client: &Client, line: &str) -> bool {
    let page = client.get("/metrics").await;
    page.text().lines().any(|found| found.strip_prefix("pointsman_gateway_") == Some(line))
}

#[tokio::test]
async fn attempts_count_by_pod_and_outcome_and_first_tokens_where_there_were_any() {
    let (a, b) = (FakePod::start("a", Script::Events(EVENTS)).await, FakePod::start("b", Script::Status(422)).await);
    let mut config = config(&[&a, &b]);
    config.profile = pointsman_gateway::config::Profile::stock("round_robin");
    // Each pod's own answer is the client's.
    config.retry.retry_on.rejected = false;
    let gateway = Gateway::start(config).await.unwrap();
    let client = Client::new(gateway.address());
    for _ in 0..4 {
        client.post("/v1/chat/completions", STREAMED, &[]).await;
    }
    until("all requests to be over", || gateway.state().active_requests.is_empty()).await;
    for line in [
        "pod_attempts_total{pod=\"a\",outcome=\"completed\"} 2",
        "pod_attempts_total{pod=\"b\",outcome=\"client_error\"} 2",
        "pod_attempt_duration_seconds_count{pod=\"a\"} 2",
        "pod_attempt_duration_seconds_count{pod=\"b\"} 0",
        "pod_attempt_duration_seconds_bucket{pod=\"a\",le=\"600\"} 2",
        "pod_time_to_first_token_seconds_count{pod=\"a\"} 2",
        "pod_time_to_first_token_seconds_count{pod=\"b\"} 0",
        "time_to_first_token_seconds_count 2",
        "requests_completed_total 2",
        "requests_client_errors_total 2",
        "pod_breaker_state{pod=\"a\",state=\"closed\"} 1",
        "pod_breaker_state{pod=\"a\",state=\"open\"} 0",
    ] {
        assert!(has(&client, line).await, "{line} is not in\n{}", client.get("/metrics").await.text());
    }
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_pods_pace_is_learned_from_streams_alone() {
    let pod = FakePod::start("a", Script::Events(EVENTS)).await;
    let mut config = config(&[&pod]);
    config.profile = pointsman_gateway::config::Profile::stock("total_latency");
    let gateway = Gateway::start(config).await.unwrap();
    let client = Client::new(gateway.address());
    client.post("/v1/chat/completions", CHAT, &[]).await;
    until("all requests to be over", || gateway.state().active_requests.is_empty()).await;
    assert!(has(&client, "pod_pace{pod=\"a\"} 1").await, "the first byte of a whole answer comes at its end");
    // At once, or later on a machine that is busy: each says something, and one may say what was expected.
    let mut streams = 0;
    while gateway.state().pods[0].pace == 1.0 && streams < 100 {
        streams += 1;
        client.post("/v1/chat/completions", STREAMED, &[]).await;
        until("all requests to be over", || gateway.state().active_requests.is_empty()).await;
    }
    assert_ne!(gateway.state().pods[0].pace, 1.0, "{streams} streams");
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_breakers_state_is_told_and_pods_that_left_are_not() {
    let (a, b) = (FakePod::start("a", Script::Status(503)).await, FakePod::start("b", Script::Status(500)).await);
    let (gateway, client) = gateway(&[&a, &b]).await;
    for _ in 0..20 {
        client.chat().await;
    }
    let page = client.get("/metrics").await;
    let is_in = |pod: &str, state: &str| {
        page.text().contains(&format!("pointsman_gateway_pod_breaker_state{{pod=\"{pod}\",state=\"{state}\"}} 1"))
    };
    assert!(is_in("a", "cooling"), "{}", page.text());
    assert!(is_in("b", "open"), "{}", page.text());
    // Overloaded where the other was tried next; where it was the last, its own answer is the client's.
    assert!(page.text().contains("pod_attempts_total{pod=\"a\",outcome=\""), "{}", page.text());
    let mut next = gateway.config();
    next.pods.truncate(1);
    gateway.reload(next).unwrap();
    let page = client.get("/metrics").await;
    assert!(page.text().contains("{pod=\"a\"") && !page.text().contains("{pod=\"b\""), "{}", page.text());
    gateway.drain(Duration::ZERO).await;
}

/// A page with something in every family.
async fn full_page() -> String {
    let (a, b) = (FakePod::start("a", Script::Whole(WHOLE)).await, FakePod::start("b", Script::Status(500)).await);
    let (gateway, client) = gateway(&[&a, &b]).await;
    for _ in 0..4 {
        client.chat().await;
    }
    let page = client.get("/metrics").await.text().to_owned();
    gateway.drain(Duration::ZERO).await;
    page
}

/// Prometheus' own tool finds nothing to complain of: names, types, help, units.
#[tokio::test]
async fn promtool_has_nothing_to_say_about_the_page() {
    if !is_installed("promtool", &["--version"]) {
        return;
    }
    let page = full_page().await;
    let mut tool = Command::new("promtool");
    tool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tool = tool.spawn().unwrap();
    tool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = tool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}\n{page}");
}

/// `docs/operating.md` has a row for every family, of the right type, and no other.
#[tokio::test]
async fn the_docs_list_every_metric() {
    let page = full_page().await;
    let families: BTreeSet<(&str, &str)> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    let docs = include_str!("../../../../docs/operating.md");
    let rows = docs.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| `")?.split(" | ");
        let (name, kind) = (cells.next()?.strip_suffix('`')?, cells.next()?);
        ["counter", "gauge", "histogram"].contains(&kind).then_some((name, kind))
    });
    let rows: BTreeSet<(&str, &str)> = rows.collect();
    // Written down where it happens, which it does not here.
    let rare = BTreeSet::from([
        ("pointsman_exec_skipped_steps_total", "counter"),
        ("gen_ai_server_time_to_first_token_seconds", "histogram"),
    ]);
    let missing: Vec<_> = families.difference(&rows).collect();
    assert!(missing.is_empty(), "docs/operating.md lacks {missing:?}");
    let gone: Vec<_> = rows.difference(&families).filter(|row| !rare.contains(*row)).collect();
    assert!(gone.is_empty(), "docs/operating.md has what there is not: {gone:?}");
}

/// `docs/operating.md` names every way in which an attempt fails.
#[test]
fn the_docs_name_every_outcome_of_an_attempt() {
    let docs = include_str!("../../../../docs/operating.md");
    let listed = docs.split("Outcomes of an attempt:").nth(1).and_then(|rest| rest.split("\n\n").next()).unwrap();
    let text = || "why".into();
    let statuses = [500, 503, 404, 400].map(Failure::Status);
    let [connect, truncated, local] =
        [Failure::Connect(text()), Failure::Truncated(text()), Failure::LocalResources(text())];
    let [first, idle] = [Failure::FirstByteTimeout, Failure::IdleTimeout];
    let rest =
        [connect, truncated, local, first, idle, Failure::ErrorEvent, Failure::ResponseTooLarge, Failure::BreakerOpen];
    for name in statuses.iter().chain(&rest).map(Failure::name) {
        assert!(listed.contains(&format!("`{name}`")), "{name} is not in {listed}");
    }
}
