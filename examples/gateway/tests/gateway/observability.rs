//! Observability: health, metrics, and their listeners.

use std::time::Duration;

use pointsman_gateway::config::TlsFiles;
use pointsman_gateway::{Gateway, StartError};

use super::fixture::{Client, FakePod, Script, WHOLE, config, gateway, until};

#[tokio::test]
async fn health_follows_the_pods() {
    let mut a = FakePod::start("a", Script::Whole(WHOLE)).await;
    let (gateway, client) = gateway(&[&a]).await;
    let health = client.get("/health").await;
    assert_eq!((health.status, &health.json()["healthy"]), (200, &1.into()));
    until("the load to be scraped", || gateway.state().pods[0].kv_used == 0.25).await;
    a.is_healthy(false);
    until("the pod to be ill", || !gateway.state().pods[0].healthy).await;
    let health = client.get("/health").await;
    assert_eq!((health.status, &health.json()["status"]), (503, &"no healthy pod".into()));
    assert_eq!(client.get("/readyz").await.status, 503);
    assert_eq!(client.chat().await.status, 200, "there is none better, and it was well a moment ago");
    a.is_healthy(true);
    until("the pod to be well", || gateway.state().pods[0].healthy).await;
    assert_eq!(client.chat().await.status, 200);
    a.die().await;
    until("the pod to be gone", || !gateway.state().pods[0].healthy).await;
    gateway.drain(Duration::ZERO).await;
}

/// The pods are back before a health check says so.
#[tokio::test]
async fn a_fault_of_all_pods_is_over_when_it_is_over() {
    let pods = [FakePod::start("a", Script::Whole(WHOLE)).await, FakePod::start("b", Script::Whole(WHOLE)).await];
    let (gateway, client) = gateway(&[&pods[0], &pods[1]]).await;
    let answers = |script: Script| pods.iter().for_each(|pod| pod.answers(script.clone()));
    answers(Script::Status(500));
    pods.iter().for_each(|pod| pod.is_healthy(false));
    until("both to be ill", || gateway.state().pods.iter().all(|pod| !pod.healthy)).await;
    for _ in 0..20 {
        assert_eq!(client.chat().await.status, 500, "they are asked all the same");
    }
    answers(Script::Whole(WHOLE));
    for _ in 0..20 {
        assert_eq!(client.chat().await.status, 200);
    }
    assert!(gateway.state().pods.iter().all(|pod| !pod.healthy));
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn metrics_are_prometheus_text() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let (gateway, client) = gateway(&[&pod]).await;
    client.chat().await;
    let page = client.get("/metrics").await;
    assert!(page.header("content-type").unwrap().starts_with("text/plain"));
    let mut families = std::collections::BTreeSet::new();
    for line in page.text().lines().filter(|line| !line.is_empty()) {
        if let Some(about) = line.strip_prefix("# TYPE ") {
            let (name, kind) = about.split_once(' ').unwrap();
            assert!(["counter", "gauge", "histogram", "summary"].contains(&kind), "{line}");
            assert_eq!(name.ends_with("_total"), kind == "counter", "{line}");
            assert!(page.text().contains(&format!("# HELP {name} ")), "{name} is not explained");
            assert!(families.insert(name.to_owned()), "{name} is there twice");
        } else if !line.starts_with('#') {
            let (series, value) = line.rsplit_once(' ').unwrap();
            value.parse::<f64>().unwrap_or_else(|_| panic!("{line}"));
            let name = series.split('{').next().unwrap();
            assert!(name.chars().all(|letter| letter.is_ascii_alphanumeric() || "_:".contains(letter)), "{line}");
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            assert!(families.contains(name) || families.contains(family.unwrap_or(name)), "{line} has no type");
        }
    }
    for line in [
        "pointsman_gateway_requests_total 1",
        "pointsman_gateway_pod_healthy{pod=\"a\"} 1",
        "pointsman_gateway_requests_in_flight 0",
        "pointsman_gateway_decisions_total{model=\"sim\",profile=\"total_latency\"} 1",
        "pointsman_gateway_time_to_first_token_seconds_count 1",
        "pointsman_gateway_tokenize_failures_total 0",
    ] {
        assert!(page.text().lines().any(|found| found == line), "{line} is not in\n{}", page.text());
    }
    for name in ["gen_ai_server_request_duration_seconds", "gen_ai_server_time_to_first_token_seconds"] {
        assert!(page.text().contains(&format!("# TYPE {name} histogram")), "{name}, as OpenTelemetry is translated");
    }
    assert!(page.text().contains("pointsman_exec_dispatches_total"), "what routing-exec counts is there too");
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn an_internal_listener_takes_the_internal_endpoints_with_it() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let mut config = config(&[&pod]);
    config.internal.listen = Some("127.0.0.1:0".parse().unwrap());
    let gateway = Gateway::start(config).await.unwrap();
    let (public, internal) = (Client::new(gateway.address()), Client::new(gateway.internal_address().unwrap()));
    for path in ["/metrics", "/state"] {
        assert_eq!((public.get(path).await.status, internal.get(path).await.status), (404, 200), "{path}");
    }
    assert_eq!((public.get("/v1/models").await.status, internal.get("/v1/models").await.status), (200, 404));
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_gateway_that_cannot_start_says_why() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let taken = Gateway::start(config(&[&pod])).await.unwrap();
    let mut wrong = config(&[&pod]);
    wrong.listen = taken.address();
    let error = Gateway::start(wrong).await.unwrap_err();
    assert!(matches!(error, StartError::Listen { address, .. } if address == taken.address()), "{error}");
    let mut wrong = config(&[&pod]);
    wrong.internal.token_file = Some("/does/not/exist".into());
    assert!(Gateway::start(wrong).await.unwrap_err().to_string().starts_with("internal.token_file"));
    let mut wrong = config(&[&pod]);
    wrong.tls = Some(TlsFiles::new("none.pem", "none.key"));
    let error = Gateway::start(wrong).await.unwrap_err();
    if cfg!(feature = "tls") {
        assert!(error.to_string().contains("none.pem"), "{error}");
    } else {
        assert_eq!(error, StartError::Feature { setting: "tls", feature: "tls" });
    }
    taken.drain(Duration::ZERO).await;
}
