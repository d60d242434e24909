//! Keys that pods ask for: sent to them, and shown to nobody.

use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::StatusCode;
use http::header::AUTHORIZATION;
use pointsman_gateway::config::{PodSettings, Secret};
use pointsman_gateway::{Config, Gateway};

use super::fixture::{CHAT, Client, FakePod, Script, WHOLE, config, gateway, until};

const KEY: &str = "k-3f9a-pod";

/// A pod that answers nobody without the key, as vLLM with `--api-key` where health and metrics are behind it, too.
async fn locked() -> PodSettings {
    let check = async |request: Request, next: Next| -> Response {
        let is_right = request.headers().get(AUTHORIZATION).is_some_and(|key| key == format!("Bearer {KEY}").as_str());
        if is_right { next.run(request).await } else { StatusCode::UNAUTHORIZED.into_response() }
    };
    let routes = Router::new()
        .route("/v1/chat/completions", post(async || WHOLE))
        .route("/health", get(async || StatusCode::OK))
        .route("/metrics", get(async || "vllm:num_requests_running 0\nvllm:num_requests_waiting 7\n"))
        .layer(middleware::from_fn(check));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    PodSettings::new("locked", &format!("http://{address}"))
}

#[tokio::test]
async fn a_pod_gets_its_key_with_requests_health_checks_and_metrics_and_nobody_else_sees_it() {
    let mut config = Config::default_for(vec![locked().await]);
    config.health_check.interval = Duration::from_millis(50);
    config.pods[0].api_key = Some(Secret::new(KEY));
    let gateway = Gateway::start(config.clone()).await.unwrap();
    let client = Client::new(gateway.address());
    let asked = [("authorization", "Bearer client"), ("x-pointsman-explain", "1")];
    let answer = client.post("/v1/chat/completions", CHAT, &asked).await;
    assert_eq!((answer.status, answer.text()), (200, WHOLE));
    until("the engine's load", || gateway.state().pods[0].waiting == 7).await;
    let mut shown = vec![format!("{config:?}"), format!("{:?}", answer.headers)];
    for path in ["/state", "/metrics", "/health", "/v1/models", "/"] {
        shown.push(client.get(path).await.text().to_owned());
    }
    // With a wrong key the pod refuses, and what is told of that has no key either.
    let mut wrong = config;
    wrong.pods[0].api_key = Some(Secret::new("k-3f9a-wrong"));
    gateway.reload(wrong).unwrap();
    let refused = client.chat().await;
    assert!(refused.status >= 400, "{}", refused.text());
    shown.push(refused.text().to_owned());
    shown.push(format!("{:?}", gateway.state()));
    assert!(!shown.iter().any(|text| text.contains("k-3f9a")), "{shown:?}");
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn the_clients_own_key_is_passed_on_unless_told_otherwise() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let (gateway, client) = gateway(&[&pod]).await;
    let own = [("authorization", "Bearer client"), ("x-api-key", "client")];
    let last = |name: &str| pod.seen().last().unwrap().0.get(name).map(|value| value.to_str().unwrap().to_owned());
    client.post("/v1/chat/completions", CHAT, &own).await;
    assert_eq!(
        (last("authorization").as_deref(), last("x-api-key").as_deref()),
        (Some("Bearer client"), Some("client"))
    );

    let mut changed = config(&[&pod]);
    changed.pod_auth.forward_client = false;
    gateway.reload(changed.clone()).unwrap();
    client.post("/v1/chat/completions", CHAT, &own).await;
    assert_eq!((last("authorization"), last("x-api-key")), (None, None));

    let file = std::env::temp_dir().join(format!("pointsman-pod-key-{}", std::process::id()));
    for key in ["first", "second"] {
        // A file is read again at each reload.
        std::fs::write(&file, format!("{key}\n")).unwrap();
        changed.pod_auth.api_key_file = Some(file.clone());
        gateway.reload(changed.clone()).unwrap();
        client.post("/v1/chat/completions", CHAT, &own).await;
        assert_eq!((last("authorization"), last("x-api-key")), (Some(format!("Bearer {key}")), None));
    }
    std::fs::remove_file(&file).unwrap();
    let error = gateway.reload(changed).unwrap_err().to_string();
    assert!(error.contains("api_key_file") && !error.contains("second"), "{error}");
    gateway.drain(Duration::ZERO).await;
}
