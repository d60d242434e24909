//! Routing inside a tower stack: layers in front of it, and a service as the client of pods behind it.
//!
//! In front, a concurrency limit of two. Behind, a timeout for each pod, after which routing retries the next one.
//! `cargo run -p pointsman-embedding --example tower_stack`

use std::borrow::Cow;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::try_join_all;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kv_index::{Config, Index};
use routing_core::{PlanStep, Pod, Role, RoutingPlan};
use routing_exec::adapter::{TokioTimer, TowerTransport};
use routing_exec::handoff::{Plain, PodAddresses};
use routing_exec::{ClientRequest, Dispatch, DispatchConfig, DispatchReport, Executor, TransportExecutor};
use tower::{BoxError, ServiceBuilder, ServiceExt};

/// The innermost service: pods on a network. The one at port 1 hangs.
async fn network(request: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, BoxError> {
    let pod = request.uri().authority().map(ToString::to_string).unwrap_or_default();
    if pod.ends_with(":1") {
        std::future::pending::<()>().await;
    }
    Ok(Response::new(Full::new(Bytes::from(format!("{pod} answers {}", request.uri().path())))))
}

/// Where the two pods are.
#[derive(Debug)]
struct Ports(Vec<Pod>);

impl PodAddresses for Ports {
    fn address(&self, pod: Pod) -> Option<Cow<'_, str>> {
        let at = self.0.iter().position(|other| *other == pod)?;
        Some(format!("http://10.0.0.{}:{}", at + 1, at + 1).into())
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let index: Index = Index::new(Config::default());
    let ports = Arc::new(Ports(vec![index.join("pod-a")?, index.join("pod-b")?]));
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));

    // Behind routing: any service that answers requests.
    let behind = ServiceBuilder::new().timeout(Duration::from_millis(100)).service_fn(network);
    let transport = TowerTransport::new(behind, Arc::<Ports>::clone(&ports));
    let executor: TransportExecutor<_, _> = TransportExecutor::new(transport, TokioTimer::new());

    // Routing is a service itself, so any layer fits in front of it.
    let seen = Arc::clone(&most);
    let stack = ServiceBuilder::new().concurrency_limit(2).service_fn(move |request: Request<Bytes>| {
        most.fetch_max(inside.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        let (parts, body) = request.into_parts();
        // A profile decides this in a gateway; here the pod that hangs is always first.
        let plan = RoutingPlan::new(1, [PlanStep::new("serve", Role::Both, &ports.0)]);
        let config = DispatchConfig::new(Arc::new(Plain::default()), Arc::<Ports>::clone(&ports));
        let dispatch = Dispatch::new(config, ClientRequest::new(&parts, body, 7), plan, Vec::new());
        let report = |report: DispatchReport| println!("{} attempts, {:?}", report.attempts.len(), report.outcome);
        let (answer, inside) = (executor.execute(dispatch, report), Arc::clone(&inside));
        async move {
            // Read to its end in here, so that the limit counts a request until then.
            let whole = answer.await.into_body().collect().await.map(|body| body.to_bytes());
            inside.fetch_sub(1, Ordering::Relaxed);
            whole
        }
    });

    let requests: Vec<_> = (0..4)
        .map(|_| Request::post("/v1/completions").body(Bytes::from_static(br#"{"prompt": "Hello"}"#)))
        .collect::<Result<_, _>>()?;
    let answers = requests.into_iter().map(|request| stack.clone().oneshot(request));
    for answer in try_join_all(answers).await.map_err(|error| error.to_string())? {
        println!("{}", String::from_utf8_lossy(&answer));
        if answer != "10.0.0.2:2 answers /v1/completions" {
            return Err("the pod that hangs should have been followed by the other one".into());
        }
    }
    match seen.load(Ordering::Relaxed) {
        2 => Ok(()),
        most => Err(format!("two requests at a time should have been let in, not {most}").into()),
    }
}
