//! Pods, a picker and an Envoy in front of both, and requests to it.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use pointsman::{PodSpec, Router, RouterBuilder};
use pointsman_epp::PickerOptions;
use tokio::time::timeout;

use crate::echo_pod::EchoPod;
use crate::envoy::{Cluster, Envoy};
use crate::picker_server::PickerServer;

pub(crate) struct Scene {
    pub(crate) pods: Vec<EchoPod>,
    pub(crate) picker: PickerServer,
    pub(crate) envoy: Envoy,
}

/// A router of pods that are called by their addresses.
pub(crate) fn router(pods: &[SocketAddr]) -> RouterBuilder {
    let pods = pods.iter().map(|pod| PodSpec::new(pod.to_string(), pod.to_string()));
    Router::builder("sim").any_adapter().pods(pods)
}

impl Scene {
    /// So many pods that echo.
    pub(crate) async fn echo(pods: usize, cluster: Cluster, options: PickerOptions) -> Self {
        let mut started = Vec::new();
        for _ in 0..pods {
            started.push(EchoPod::start().await);
        }
        let addresses: Vec<_> = started.iter().map(|pod| pod.address).collect();
        let router = router(&addresses).build().unwrap();
        let picker = PickerServer::start(router, options, ([127, 0, 0, 1], 0).into()).await;
        let envoy = Envoy::start(cluster, picker.address, &addresses, 0).await;
        Self { pods: started, picker, envoy }
    }

    pub(crate) fn address(&self, pod: usize) -> String {
        self.pods[pod].address.to_string()
    }

    /// Posts a request with headers, and reads what the pod says.
    pub(crate) async fn ask(&self, headers: &[(&str, &str)]) -> serde_json::Value {
        let (status, body) = post(&client(), self.envoy.clients, "/v1/completions", headers, BODY).await;
        assert_eq!(status, 200, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    pub(crate) async fn settles(&self) {
        settled(&self.picker).await;
    }
}

/// Waits until nothing is in flight.
pub(crate) async fn settled(picker: &PickerServer) {
    let waits = async {
        while picker.in_flight() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, waits).await.expect("nothing counts any more");
}

pub(crate) type TestClient = Client<HttpConnector, Full<Bytes>>;

pub(crate) fn client() -> TestClient {
    Client::builder(TokioExecutor::new()).build_http()
}

pub(crate) fn http2_client() -> TestClient {
    Client::builder(TokioExecutor::new()).http2_only(true).build_http()
}

/// What a `GET` answers, whole.
pub(crate) async fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let request = Request::get(format!("http://{address}{path}")).body(Full::default()).unwrap();
    let response = client().request(request).await.ok()?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.ok()?.to_bytes();
    Some((status, String::from_utf8_lossy(&body).into_owned()))
}

/// Posts a body; the status and the answer, whole.
pub(crate) async fn post(
    client: &TestClient,
    address: SocketAddr,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> (u16, String) {
    let mut request = Request::post(format!("http://{address}{path}")).header("content-type", "application/json");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::from(body.to_owned())).unwrap();
    let answer = async {
        let response = client.request(request).await.map_err(|error| error.to_string())?;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        Ok::<_, String>((status, String::from_utf8_lossy(&body).into_owned()))
    };
    match timeout(PATIENCE, answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(error)) => (0, error),
        Err(_) => (0, "no answer in time".to_owned()),
    }
}

pub(crate) const BODY: &str =
    r#"{"model":"sim","prompt":"Write as if you were a critic: San Francisco","max_tokens":4}"#;

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
