//! Two models behind one door: the request's `model` picks the router, by the model's name, an alias or a LoRA adapter.
//!
//! Each model has pods, a profile and circuit breakers of its own; the service in front is one.
//! `cargo run -p pointsman-embedding --example two_models`

use std::error::Error;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use pointsman::exec::adapter::TokioTimer;
use pointsman::exec::handoff::PodAddresses;
use pointsman::exec::{Transport, TransportError};
use pointsman::index::Pod;
use pointsman::prelude::*;
use serde_json::{Value, json};
use tower::ServiceExt;

/// Your client. These pods answer with their address, and with the model that they were asked for.
fn client(addresses: Arc<dyn PodAddresses>) -> impl Transport {
    move |pod: Pod, request: Request<Bytes>| {
        let asked: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        let answer = json!({"pod": addresses.address(pod), "model": asked["model"]});
        async move { Ok::<_, TransportError>(http::Response::new(Full::new(Bytes::from(answer.to_string())))) }
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let llama = Router::builder("llama-8b")
        .alias("default")
        .adapter("legal", Some("/adapters/legal"))
        .pods((0..2).map(|at| PodSpec::new(format!("llama-{at}"), format!("10.0.1.{at}:8000")).adapter("legal")))
        .build()?;
    let qwen =
        Router::builder("qwen-32b").profile("least_load").pod(PodSpec::new("qwen-0", "10.0.2.0:8000")).build()?;

    // Pods of two routers have the same ids, so each model's executor is made of its router.
    let executor = |router: &Router| router.executor(client(router.addresses()), TokioTimer::new());
    let door = RouterService::new(llama.clone(), executor(&llama), TokioTimer::new())?.and(qwen, executor)?;
    let ask = |request: Request<Full<Bytes>>| {
        let door = door.clone();
        async move {
            let (head, body) = door.oneshot(request).await?.into_parts();
            let body: Value = serde_json::from_slice(&body.collect().await?.to_bytes())?;
            Ok::<_, Box<dyn Error>>((head.status, body))
        }
    };

    let (_, listed) = ask(Request::get("/v1/models").body(Full::default())?).await?;
    let names = listed["data"].as_array().into_iter().flatten().map(|model| &model["id"]).collect::<Vec<_>>();
    println!("models: {}", listed["data"]);
    if names != ["llama-8b", "default", "legal", "qwen-32b"] {
        return Err("every name should have been listed".into());
    }

    // The name in the request, the pods that it goes to, and the name that these are told.
    let cases = [
        ("llama-8b", "10.0.1.", "llama-8b"),
        ("default", "10.0.1.", "llama-8b"),
        ("legal", "10.0.1.", "legal"),
        ("qwen-32b", "10.0.2.", "qwen-32b"),
    ];
    for (name, pods, told) in cases {
        let body = json!({"model": name, "prompt": "Why is the sky blue?"}).to_string();
        let (_, answer) = ask(Request::post("/v1/completions").body(Full::from(body))?).await?;
        println!("{name} → {answer}");
        if !answer["pod"].as_str().is_some_and(|pod| pod.starts_with(pods)) || answer["model"] != told {
            return Err(format!("`{name}` should have gone to {pods}* as `{told}`").into());
        }
    }
    let (status, error) = ask(Request::post("/v1/completions").body(Full::from(r#"{"model": "gpt-9"}"#))?).await?;
    println!("gpt-9 → {status}: {}", error["error"]["message"]);
    if status != StatusCode::NOT_FOUND {
        return Err("a name that nobody knows should be a 404".into());
    }
    // One name cannot mean two models.
    let taken = Router::builder("default").build()?;
    let error = door.and(taken, executor).err().ok_or("the name was taken")?;
    println!("and: {error}");
    Ok(())
}
