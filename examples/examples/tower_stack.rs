//! Routing inside a tower stack: a service of yours in front, your pods' client, itself a service, behind.
//!
//! Routing is a service itself, so any layer of yours fits in front of it. Behind it, the layer `Deadline` gives up on a pod
//! that takes too long, and routing goes on to the next one.
//! `cargo run -p pointsman-examples --example tower_stack`

use std::borrow::Cow;
use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kv_index::{Config, Index};
use routing_core::{PlanStep, Pod, Role, RoutingPlan};
use routing_exec::adapter::{TokioTimer, TowerTransport};
use routing_exec::handoff::{Addresses, Plain};
use routing_exec::{ClientRequest, Driver, Report, Run, Settings};
use tower_service::Service;

type Failed = Box<dyn Error + Send + Sync>;
type Answer = Pin<Box<dyn Future<Output = Result<Response<Full<Bytes>>, Failed>> + Send>>;

/// The innermost service: pods on a network. The one at port 1 hangs.
#[derive(Clone)]
struct Network;

impl Service<Request<Full<Bytes>>> for Network {
    type Response = Response<Full<Bytes>>;
    type Error = Failed;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Answer {
        Box::pin(async move {
            let pod = request.uri().authority().map(ToString::to_string).unwrap_or_default();
            if pod.ends_with(":1") {
                std::future::pending::<()>().await;
            }
            Ok(Response::new(Full::new(Bytes::from(format!("{pod} answers {}", request.uri().path())))))
        })
    }
}

/// A layer behind routing: a pod that takes longer has failed.
#[derive(Clone)]
struct Deadline<S>(Duration, S);

impl<S: Service<Request<Full<Bytes>>, Response = Response<Full<Bytes>>, Error = Failed, Future = Answer>>
    Service<Request<Full<Bytes>>> for Deadline<S>
{
    type Response = S::Response;
    type Error = Failed;
    type Future = Answer;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        self.1.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Full<Bytes>>) -> Answer {
        let answer = tokio::time::timeout(self.0, self.1.call(request));
        Box::pin(async move { answer.await? })
    }
}

/// Where the two pods are.
#[derive(Debug)]
struct Ports(Vec<Pod>);

impl Addresses for Ports {
    fn address(&self, pod: Pod) -> Option<Cow<'_, str>> {
        let at = self.0.iter().position(|other| *other == pod)?;
        Some(format!("http://10.0.0.{}:{}", at + 1, at + 1).into())
    }
}

/// Routing as a service: whatever stands in front of it is yours.
#[derive(Clone)]
struct Routing(Driver<TowerTransport<Deadline<Network>, Full<Bytes>>, TokioTimer>, Arc<Ports>);

impl Service<Request<Bytes>> for Routing {
    type Response = Response<Full<Bytes>>;
    type Error = Failed;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Failed>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Bytes>) -> Answer {
        let (parts, body) = request.into_parts();
        // A profile decides this in a gateway; here the pod that hangs is always asked first.
        let plan = RoutingPlan::new(1, [PlanStep::new("serve", Role::Both, &self.1.0)]);
        let settings = Settings::new(Arc::new(Plain::default()), Arc::<Ports>::clone(&self.1));
        let run = Run::new(settings, ClientRequest::new(&parts, body, 7), plan, Vec::new());
        let answer =
            self.0.execute(run, |report: Report| println!("{} attempts, {:?}", report.attempts.len(), report.outcome));
        Box::pin(async move {
            let (head, body) = answer.await.into_parts();
            Ok(Response::from_parts(head, Full::new(body.collect().await?.to_bytes())))
        })
    }
}

#[tokio::main(flavor = "current_thread")]
pub(crate) async fn main() -> Result<(), Box<dyn Error>> {
    let index: Index = Index::new(Config::default());
    let ports = Arc::new(Ports(vec![index.join("pod-a")?, index.join("pod-b")?]));
    let behind = Deadline(Duration::from_millis(100), Network);
    let transport = TowerTransport::new(behind, Arc::<Ports>::clone(&ports));
    let mut stack = Routing(Driver::new(transport, TokioTimer::new()), ports);

    std::future::poll_fn(|cx| stack.poll_ready(cx)).await.map_err(|error| error.to_string())?;
    let request = Request::post("/v1/completions").body(Bytes::from(r#"{"prompt": "Hello"}"#))?;
    let answer = stack.call(request).await.map_err(|error| error.to_string())?;
    let text = String::from_utf8(answer.into_body().collect().await?.to_bytes().to_vec())?;
    println!("{text}");
    if text != "10.0.0.2:2 answers /v1/completions" {
        return Err("the pod that hangs should have been followed by the other one".into());
    }
    Ok(())
}
