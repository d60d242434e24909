//! Prefill/decode disaggregation over an HTTP client of your own.
//!
//! The client is a closure and the pods are stubs. vLLM's NIXL handoff requests one token and the location of its blocks from the
//! prefill pod, and the decode pod fetches them from there.
//! `cargo run -p pointsman-embedding --example prefill_decode`

use std::error::Error;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kv_index::{Config, Index};
use routing_core::{PlanStep, Pod, Role, RoutingPlan};
use routing_exec::adapter::TokioTimer;
use routing_exec::handoff::Nixl;
use routing_exec::{
    ClientRequest, Dispatch, DispatchConfig, DispatchOutcome, DispatchReport, Executor, TransportError,
    TransportExecutor,
};
use serde_json::{Value, json};

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let index: Index = Index::new(Config::default());
    let (prefill, decode) = (index.join("prefill-0")?, index.join("decode-0")?);

    // Your client: a pod and a request in, an answer out. This one notes what it was given.
    let seen: Arc<Mutex<Vec<(Pod, Value)>>> = Arc::default();
    let notes = Arc::clone(&seen);
    let client = move |pod: Pod, request: Request<Bytes>| {
        let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let answer = if pod == prefill { prefilled() } else { decoded(&body) };
        if let Ok(mut notes) = notes.lock() {
            notes.push((pod, body));
        }
        async move { Ok::<_, TransportError>(Response::new(Full::new(Bytes::from(answer.to_string())))) }
    };
    let executor: TransportExecutor<_, _> = TransportExecutor::new(client, TokioTimer::new());

    // A plan of two steps, as `profiles::prefill_decode` would decide it, and a client's request.
    let plan = RoutingPlan::new(
        1,
        [PlanStep::new("prefill", Role::Prefill, &[prefill]), PlanStep::new("decode", Role::Decode, &[decode])],
    );
    let body = json!({"model": "llama-8b", "prompt": "Why is the sky blue?", "max_tokens": 64});
    let (parts, body) = Request::post("/v1/completions").body(Bytes::from(body.to_string()))?.into_parts();
    let config = DispatchConfig::new(Arc::new(Nixl::default()), Arc::new(()));
    let dispatch = Dispatch::new(config, ClientRequest::new(&parts, body, 7), plan, Vec::new());

    // The report lists the outcome of every attempt.
    let report: Arc<Mutex<Option<DispatchReport>>> = Arc::default();
    let sink = Arc::clone(&report);
    let on_report = move |report: DispatchReport| {
        if let Ok(mut sink) = sink.lock() {
            *sink = Some(report);
        }
    };
    let answer = respond(&executor, dispatch, on_report).await?;

    let seen = seen.lock().map_err(|_| "nobody panicked with it")?;
    for (pod, body) in seen.iter() {
        println!("to {}:\n{body:#}\n", if *pod == prefill { "prefill-0" } else { "decode-0" });
    }
    println!("to the client:\n{answer:#}");
    let [(first, asked), (second, fetched)] = &seen[..] else { return Err("two pods should have been asked".into()) };
    let in_order = (*first, *second) == (prefill, decode);
    let asks = asked["max_tokens"] == 1 && asked["kv_transfer_params"]["do_remote_decode"] == true;
    let fetches =
        fetched["max_tokens"] == 64 && fetched["kv_transfer_params"]["remote_block_ids"] == json!([[4, 5, 6]]);
    let outcome = report.lock().ok().and_then(|report| report.as_ref().map(|report| report.outcome.clone()));
    if !(in_order && asks && fetches && outcome == Some(DispatchOutcome::Completed(200))) {
        return Err(format!("the handoff was not as it should be; it ended with {outcome:?}").into());
    }
    Ok(())
}

/// Executes a dispatch by any executor, and reads the response.
async fn respond(
    executor: &impl Executor,
    dispatch: Dispatch,
    on_report: impl FnMut(DispatchReport) + Send + 'static,
) -> Result<Value, Box<dyn Error>> {
    let response = executor.execute(dispatch, on_report).await;
    Ok(serde_json::from_slice(&response.into_body().collect().await?.to_bytes())?)
}

/// A prefill pod's answer: one token that is dropped, and the location of the blocks.
fn prefilled() -> Value {
    json!({"choices": [{"text": " Be"}], "usage": {"prompt_tokens": 6}, "kv_transfer_params": {
        "do_remote_prefill": true, "remote_block_ids": [[4, 5, 6]], "remote_engine_id": "engine-p",
        "remote_request_id": "cmpl-1", "remote_host": "10.0.0.5", "remote_port": 5600}})
}

/// A decode pod's answer, with the host that it fetched from.
fn decoded(body: &Value) -> Value {
    let from = &body["kv_transfer_params"]["remote_host"];
    json!({"choices": [{"text": format!(" Because (fetched from {from}).")}], "usage": {"prompt_tokens": 6}})
}
