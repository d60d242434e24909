//! A plan of three steps: a preprocessor tokenizes, a prefill pod computes, a decode pod answers.
//!
//! The stock dialects know prefill and decode. A step before those is yours to carry: a [`Handoff`] that makes its request and passes
//! on what came of it, here around vLLM's NIXL. Without one, a router with such a profile is not even built.
//! `cargo run -p pointsman-embedding --example three_step_plan`

use std::error::Error;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use pointsman::core::{Declare, OnEmpty, ProfileBuilder, StepBuilder, WorkflowBuilder};
use pointsman::exec::TransportError;
use pointsman::exec::adapter::TokioTimer;
use pointsman::exec::handoff::{Handoff, HandoffError, HandoffMode, HandoffReuse, LegBody, LegContext, Nixl};
use pointsman::index::Pod;
use pointsman::plugins::filter::{RoleFilter, RoleParameters};
use pointsman::plugins::pick::MaxScorePicker;
use pointsman::prelude::*;
use serde_json::{Value, json};

/// vLLM's NIXL, and before it `/tokenize`: prefill and decode pods are sent tokens in place of the text.
#[derive(Debug, Default)]
struct Tokenized(Nixl);

impl Handoff for Tokenized {
    fn name(&self) -> &str {
        "tokenized"
    }

    fn carries(&self, _: Role) -> bool {
        true
    }

    fn mode(&self) -> HandoffMode {
        self.0.mode()
    }

    fn reuse(&self) -> HandoffReuse {
        self.0.reuse()
    }

    fn leg(&self, leg: &LegContext<'_>) -> Result<LegBody, HandoffError> {
        let mut body: Value = serde_json::from_slice(leg.body).unwrap_or_default();
        if leg.role == Role::Encode {
            let mut made = LegBody::new(json!({"model": body["model"], "prompt": body["prompt"]}).to_string());
            made.path = "/tokenize".parse().ok();
            return Ok(made);
        }
        let said: Value = leg.encoded.and_then(|said| serde_json::from_slice(said).ok()).unwrap_or_default();
        body["prompt"] = said["tokens"].clone();
        let (body, mut leg) = (Bytes::from(body.to_string()), *leg);
        leg.body = &body;
        self.0.leg(&leg)
    }
}

/// One step for each role, on the pods that have it.
fn three_steps(_: &PluginState) -> WorkflowBuilder {
    [("tokenize", Role::Encode), ("prefill", Role::Prefill), ("decode", Role::Decode)].into_iter().fold(
        WorkflowBuilder::new(),
        |workflow, (name, role)| {
            let profile = ProfileBuilder::new(name)
                .filter("role", OnEmpty::Fail, move |d: &mut Declare<'_>| {
                    RoleFilter::declare(d, RoleParameters::new(role))
                })
                .picker("best", |d: &mut Declare<'_>| MaxScorePicker::declare(d, Default::default()));
            workflow.step(StepBuilder::new(name, profile).role(role))
        },
    )
}

/// The pods: what each answers to its part.
fn pod(path: &str, body: &Value) -> Value {
    match (path, body["kv_transfer_params"]["do_remote_decode"] == true) {
        ("/tokenize", _) => json!({"tokens": body["prompt"].as_str().unwrap_or("").bytes().collect::<Vec<u8>>()}),
        (_, true) => json!({"kv_transfer_params": {"do_remote_prefill": true, "remote_block_ids": [[4, 5]],
            "remote_engine_id": "p", "remote_request_id": "1", "remote_host": "10.0.0.2", "remote_port": 5600}}),
        _ => json!({"choices": [{"text": format!(" {} tokens", body["prompt"].as_array().map_or(0, Vec::len))}]}),
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let roles = [("pre", Role::Encode), ("prefill", Role::Prefill), ("decode", Role::Decode)];
    let pods = roles.map(|(name, role)| PodSpec::new(name, format!("http://{name}")).role(role));
    let builder = || Router::builder("llama-8b").pods(pods.clone()).profile(three_steps);
    let refused = builder().build().err().ok_or("NIXL alone carries no such plan")?;
    println!("with NIXL alone: {refused}\n");
    let router = builder().handoff(Arc::new(Tokenized::default())).build()?;

    let (sent, names) = (Arc::new(Mutex::new(Vec::new())), router.addresses());
    let log = Arc::clone(&sent);
    let client = move |to: Pod, request: Request<Bytes>| {
        let body = serde_json::from_slice(request.body()).unwrap_or_default();
        let line = format!("{}{} {body}", names.address(to).unwrap_or_default(), request.uri().path());
        log.lock().map(|mut log| log.push(line)).ok();
        let answer = pod(request.uri().path(), &body).to_string();
        async move { Ok::<_, TransportError>(Response::new(Full::new(Bytes::from(answer)))) }
    };
    let executor = router.executor(client, TokioTimer::new());
    let body = json!({"model": "llama-8b", "prompt": "Why is the sky blue?"}).to_string();
    let answer = router.execute(Request::post("/v1/completions").body(Bytes::from(body))?, &executor).await;
    let answer = answer.into_body().collect().await?.to_bytes();

    let sent = sent.lock().map_err(|_| "nobody panicked with it")?;
    println!("{}\n\nto the client: {}", sent.join("\n"), String::from_utf8_lossy(&answer));
    let [tokenize, prefill, decode] = &sent[..] else { return Err("three pods should have been asked".into()) };
    let in_order = tokenize.starts_with("http://pre/tokenize ")
        && prefill.starts_with("http://prefill/v1/completions ")
        && decode.starts_with("http://decode/v1/completions ");
    let passed_on = prefill.contains("[87,104,121,") && decode.contains(r#""remote_block_ids":[[4,5]]"#);
    let answered = serde_json::from_slice::<Value>(&answer)?["choices"][0]["text"] == " 20 tokens";
    if in_order && passed_on && answered { Ok(()) } else { Err("the steps were not as they should be".into()) }
}
