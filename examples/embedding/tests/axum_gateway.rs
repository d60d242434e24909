//! The gateway of forty lines, in front of two engines that publish their events.

#[path = "../axum_gateway.rs"]
#[expect(dead_code, reason = "its `main` reads arguments")]
mod axum_gateway;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use pointsman::Router;
use pointsman_engine_sim::publish::{PublishConfig, ZmqPublisher};
use pointsman_engine_sim::{PodConfig, SimPod};
use pointsman_example_common::words;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::sleep;

#[expect(clippy::unwrap_used, reason = "a test's own client")]
async fn send(method: &str, url: String, body: Value) -> (StatusCode, Value) {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let body = Full::new(Bytes::from(body.to_string()));
    let request = Request::builder().method(method).uri(url).header("content-type", "application/json").body(body);
    let response = client.request(request.unwrap()).await.unwrap();
    let status = response.status();
    (status, serde_json::from_slice(&response.into_body().collect().await.unwrap().to_bytes()).unwrap_or_default())
}

#[test]
fn it_is_no_longer_than_forty_lines() {
    let lines = include_str!("../axum_gateway.rs").lines().count();
    assert!(lines <= 40, "{lines}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_routes_by_what_engines_report() {
    let (mut pods, mut described) = (Vec::new(), Vec::new());
    for name in ["a", "b"] {
        let (sink, publisher) = ZmqPublisher::bind(PublishConfig::new("kv-events", 1000)).await.unwrap();
        let mut config = PodConfig::new(name, "sim");
        config.speed = 1000.0;
        let pod = SimPod::start(config, vec![Box::new(sink)]).await.unwrap();
        described.push(format!("{},{}", pod.address(), publisher.endpoints().events));
        pods.push((pod, publisher));
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let model = Router::builder("sim").alias("default").tokenizer(Arc::new(words::prompts().unwrap()));
    let serving = tokio::spawn(async move {
        axum_gateway::serve(listener, model, &described).await.map_err(|error| error.to_string())
    });

    let ask = |model: &str, text: &str| {
        let body = json!({"model": model, "prompt": text, "max_tokens": 4});
        send("POST", format!("{base}/v1/completions"), body)
    };
    // Health checks take a moment, and so does the subscription: the first prompts may go unheard.
    let mut cached = 0;
    for round in 0..200 {
        let text = format!("round{round} {}", "many words that make a prompt of some blocks ".repeat(20));
        let (status, _) = ask("sim", &text).await;
        if status == StatusCode::OK {
            sleep(Duration::from_millis(20)).await;
            let (again, answer) = ask("default", &text).await;
            assert_eq!(again, StatusCode::OK, "{answer}");
            cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap_or(0);
            if cached > 100 && round > 3 {
                break;
            }
        }
        sleep(Duration::from_millis(20)).await;
    }
    assert!(cached > 100, "the second time most of a prompt is cached: {cached}");

    let (status, answer) = ask("other", "x").await;
    assert_eq!((status, &answer["error"]["code"]), (StatusCode::NOT_FOUND, &json!("model_not_found")));
    let (status, models) = send("GET", format!("{base}/v1/models"), Value::Null).await;
    assert_eq!(
        (status, &models["data"][0]["id"], &models["data"][1]["id"]),
        (StatusCode::OK, &json!("sim"), &json!("default"))
    );
    assert_eq!(send("GET", format!("{base}/elsewhere"), Value::Null).await.0, StatusCode::NOT_FOUND);
    serving.abort();
    for (pod, publisher) in pods {
        pod.stop().await;
        publisher.stop().await;
    }
}
