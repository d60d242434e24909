//! The page of metrics: what dashboards and autoscalers for llm-d's picker find on it, and that it is well formed.

use std::collections::BTreeSet;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Instant;

use pointsman::core::Load;
use pointsman::core::flow::{BandConfig, FlowConfig, FlowControl};
use pointsman::plugins::flow::{ConcurrencyDetector, ConcurrencyLimits};
use pointsman_epp::PickerOptions;
use pointsman_test_support::programs;

use crate::fixture::{BODY, Fixture, builder};

/// A request whose answer tells its usage, streamed.
async fn served(fixture: &Fixture, body: &str, headers: &[(&str, &str)]) {
    let mut exchange = fixture.open().await;
    exchange.post("/v1/completions", headers).await;
    exchange.body(body, true).await;
    exchange.picked().await;
    exchange.request_body().await;
    exchange.answers("200", "text/event-stream", None).await;
    let usage = "data: {\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":10,\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n";
    exchange.passes(usage, false).await;
    exchange.passes("data: [DONE]\n\n", true).await;
    assert!(exchange.message().await.is_none());
}

fn report(fixture: &Fixture, n: usize, running: u32, waiting: u32, kv_used: f32) {
    let mut load = Load::default();
    (load.running, load.waiting, load.kv_used) = (running, waiting, kv_used);
    assert!(fixture.router().report_load(fixture.pod(n), load, Instant::now()));
}

#[track_caller]
fn has(page: &str, line: &str) {
    assert!(page.lines().any(|found| found == line), "{line}\n{page}");
}

#[tokio::test]
async fn requests_are_counted_under_llmds_names() {
    let fixture = Fixture::plain().await;
    served(&fixture, BODY, &[("x-llm-d-inference-fairness-id", "tenant")]).await;
    served(&fixture, BODY, &[("x-llm-d-model-name-rewrite", "sql")]).await;
    let (running, _) = fixture.picked(BODY).await;
    let page = fixture.picker.metrics_page();
    let by_tenant = r#"{model_name="model",target_model_name="model",priority="0",fairness_id="tenant"}"#;
    has(&page, &format!("llm_d_epp_request_total{by_tenant} 1"));
    let older = r#"{model_name="model",target_model_name="model",priority="0"}"#;
    has(&page, &format!("inference_objective_request_total{older} 2"));
    let renamed = r#"{model_name="model",target_model_name="sql",priority="0",fairness_id="default-flow"}"#;
    has(&page, &format!("llm_d_epp_request_total{renamed} 1"));
    has(&page, r#"inference_objective_running_requests{model_name="model"} 1"#);
    let older = r#"{model_name="model",target_model_name="model"}"#;
    has(&page, &format!("inference_objective_input_tokens_sum{older} 7"));
    has(&page, &format!("inference_objective_output_tokens_sum{older} 10"));
    has(&page, &format!("inference_objective_prompt_cached_tokens_sum{older} 4"));
    has(&page, &format!("inference_objective_request_duration_seconds_count{older} 1"));
    let bucket = r#"{model_name="model",target_model_name="model",le="128"}"#;
    has(&page, &format!("inference_objective_request_sizes_bucket{bucket} 2"));
    has(&page, "inference_extension_scheduler_e2e_duration_seconds_count 3");
    assert!(page.contains(r#",streaming="true"} 1"#), "{page}");
    drop(running);
    let idle = r#"inference_objective_running_requests{model_name="model"} 0"#;
    fixture.until("nothing runs", |fixture| fixture.picker.metrics_page().contains(idle)).await;
}

#[tokio::test]
async fn refusals_and_failures_are_errors_by_llmds_codes() {
    let fixture = Fixture::plain().await;
    let mut refused = fixture.open().await;
    refused.post("/v1/completions", &[]).await;
    refused.body("{nonsense", true).await;
    refused.refused().await;
    let (mut failed, _) = fixture.picked(BODY).await;
    failed.request_body().await;
    failed.answers("500", "application/json", None).await;
    failed.passes("{}", true).await;
    assert!(failed.message().await.is_none());
    let page = fixture.picker.metrics_page();
    let nameless = r#"{model_name="",target_model_name="",error_code="BadRequest"}"#;
    has(&page, &format!("inference_objective_request_error_total{nameless} 1"));
    let named = r#"{model_name="model",target_model_name="model",error_code="ModelServerError"}"#;
    has(&page, &format!("inference_objective_request_error_total{named} 1"));
}

#[tokio::test]
async fn the_pool_is_the_mean_of_its_healthy_pods() {
    let fixture = Fixture::new(builder(3), PickerOptions::default()).await;
    let page = fixture.picker.metrics_page();
    has(&page, r#"inference_pool_ready_pods{name="pool"} 3"#);
    assert!(!page.contains("inference_pool_average_queue_size{"), "nobody knows yet");
    report(&fixture, 1, 3, 1, 0.25);
    report(&fixture, 2, 5, 3, 0.75);
    report(&fixture, 3, 100, 100, 1.0);
    fixture.router().set_healthy(fixture.pod(3), false);
    let page = fixture.picker.metrics_page();
    has(&page, r#"inference_pool_ready_pods{name="pool"} 2"#);
    has(&page, r#"llm_d_epp_ready_endpoints{name="pool"} 2"#);
    has(&page, r#"inference_pool_average_queue_size{name="pool"} 2"#);
    has(&page, r#"inference_pool_average_kv_cache_utilization{name="pool"} 0.5"#);
    has(&page, r#"llm_d_epp_average_running_requests{name="pool"} 4"#);
    has(&page, r#"inference_pool_per_pod_queue_size{name="pool",model_server_pod="pod-3"} 100"#);
}

/// Something of everything there is, what waits for a pod with room among it.
async fn full_page() -> String {
    let router = builder(1).flow_control(|state| {
        let limits = ConcurrencyLimits::default().requests(std::num::NonZeroU32::MIN);
        let config = FlowConfig::default().band(BandConfig::new("all"));
        Ok(FlowControl::new(config).detector(ConcurrencyDetector::new(limits, state)))
    });
    let fixture = Fixture::new(router, PickerOptions::default()).await;
    served(&fixture, &BODY.replace("\"model\",", "\"a\\\"}\\n\\\\ b\","), &[]).await;
    let mut refused = fixture.open().await;
    refused.post("/v1/completions", &[]).await;
    refused.body("{}", true).await;
    refused.refused().await;
    let (_first, _) = fixture.picked(BODY).await;
    let second = fixture.open().await;
    second.post("/v1/completions", &[]).await;
    second.body(BODY, true).await;
    let waits = r#"inference_extension_flow_control_queue_size{priority="0",inference_pool="pool"} 1"#;
    fixture.until("one waits", |fixture| fixture.picker.metrics_page().contains(waits)).await;
    report(&fixture, 1, 1, 2, 0.5);
    fixture.picker.metrics_page()
}

/// Prometheus' own tool can read it, and has nothing to say but of the prefix that is llm-d's.
#[tokio::test]
async fn promtool_reads_the_page() {
    if !programs::is_installed("promtool", &["--version"]) {
        return;
    }
    let page = full_page().await;
    let mut tool = Command::new("promtool");
    tool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tool = tool.spawn().unwrap();
    tool.stdin.take().unwrap().write_all(page.as_bytes()).unwrap();
    let output = tool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    // It ends with 3 where it has something to say of style. The `d` is a day's to it.
    let is_read = matches!(output.status.code(), Some(0 | 3));
    let is_known =
        |line: &str| line.starts_with("llm_d_epp_") && line.ends_with(" should not contain abbreviated units");
    assert!(is_read && said.lines().all(is_known), "{said}\n{page}");
}

/// `docs/envoy.md` has a row for every family, of the right type, and no other.
#[tokio::test]
async fn the_docs_list_every_metric() {
    let page = full_page().await;
    let families: BTreeSet<(&str, &str)> =
        page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')).collect();
    assert_eq!(families.len(), page.matches("# TYPE ").count(), "each is written once");
    let mut listed = BTreeSet::new();
    for line in include_str!("../../../../docs/envoy.md").lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<&str> = line.split(" | ").map(|cell| cell.trim_start_matches("| ")).collect();
        let Some(kind) = cells.iter().find(|cell| ["counter", "gauge", "histogram"].contains(cell)) else { continue };
        let names = cells.iter().filter_map(|cell| cell.strip_prefix('`')?.strip_suffix('`'));
        listed.extend(names.filter(|name| PREFIXES.iter().any(|own| name.starts_with(own))).map(|name| (name, *kind)));
    }
    assert_eq!(families, listed);
}

const PREFIXES: [&str; 5] =
    ["pointsman_epp_", "llm_d_epp_", "inference_objective_", "inference_pool_", "inference_extension_"];
