//! Routing inside a Pingora proxy: `upstream_peer` selects the pod by a profile.
//!
//! Engines report nothing here, so what a pod holds is speculated from where requests went: prompts that begin alike go to
//! one pod, and new ones to the least loaded. With events of your engines, feed them to the same index.
//!
//! `cargo run -- 127.0.0.1:8080 127.0.0.1:8001 127.0.0.1:8002` listens on the first and has two pods behind it.

use std::collections::VecDeque;
use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use kv_index::{BlockSize, Config, Index};
use pingora::prelude::{HttpPeer, Opt, ProxyHttp, Server, Session, http_proxy_service};
use pingora::{ErrorType, OrErr};
use routing_core::{Fleet, Pod, PodInfo, Request, RoutingInput, RoutingPlan, Selector};
use routing_plugins::load::{LoadGuard, Work};
use routing_plugins::{Hashing, PluginState, profiles};

struct Router {
    state: PluginState,
    selector: Selector,
    fleet: Fleet,
}

/// The context of one request: remaining candidates, best first, and its load on the current pod.
#[derive(Default)]
struct Routed {
    pods: Option<VecDeque<Pod>>,
    work: u64,
    load: Option<LoadGuard>,
}

impl Router {
    fn new(pods: &[String]) -> Result<Self, Box<dyn Error>> {
        let index: Arc<Index> = Arc::new(Index::new(Config::default()));
        let size = BlockSize::new(64).ok_or("a block has tokens")?;
        let state = PluginState::new(Arc::clone(&index), Hashing::Native(size));
        let selector = profiles::sticky_least_loaded(&state).build()?;
        // A pod's name is its address.
        let pods = pods.iter().map(|address| index.join(address).map(|pod| PodInfo::new(pod, address)));
        Ok(Self { state, selector, fleet: Fleet::new(1, pods.collect::<Result<Vec<_>, _>>()?) })
    }

    /// Candidate pods for this body, best first. Bytes stand in for tokens: use the model's tokenizer instead.
    fn decide(&self, body: &[u8]) -> pingora::Result<Routed> {
        let tokens: Vec<u32> = body.iter().map(|&byte| byte.into()).collect();
        let request = Request::new("any", Instant::now()).body(body).tokens(&tokens);
        let mut plan = RoutingPlan::default();
        self.selector
            .decide(&mut self.selector.workspace(), RoutingInput::new(&request, &self.fleet), &mut plan)
            .or_err(ErrorType::HTTPStatus(503), "no pod for this request")?;
        let pods = plan.steps()[0].candidates.iter().map(|candidate| candidate.pod).collect();
        Ok(Routed { pods: Some(pods), work: tokens.len() as u64, load: None })
    }
}

#[async_trait]
impl ProxyHttp for Router {
    type CTX = Routed;

    fn new_ctx(&self) -> Routed {
        Routed::default()
    }

    async fn upstream_peer(&self, session: &mut Session, routed: &mut Routed) -> pingora::Result<Box<HttpPeer>> {
        if routed.pods.is_none() {
            *routed = self.decide(&whole_body(session).await?)?;
        }
        let pod = routed.pods.as_mut().and_then(VecDeque::pop_front);
        let pod = pod.ok_or_else(|| pingora::Error::explain(ErrorType::HTTPStatus(503), "no candidate is left"))?;
        // Counted on this pod until the request is over, however it ends: Pingora drops the context then.
        routed.load = Some(self.state.load.begin(pod, Work::of(routed.work)));
        let address = self.fleet.pod(pod.id()).map(|info| &*info.name).unwrap_or_default();
        Ok(Box::new(HttpPeer::new(address, false, String::new())))
    }

    /// There was no connection, so nothing was sent: the next pod of the plan can be tried.
    fn fail_to_connect(
        &self,
        _: &mut Session,
        _: &HttpPeer,
        routed: &mut Routed,
        mut error: Box<pingora::Error>,
    ) -> Box<pingora::Error> {
        routed.load = None;
        error.set_retry(true);
        error
    }
}

/// A request's body, before it is known where it goes. Pingora keeps what is read and sends it on, up to 64 KiB; a proxy
/// for longer prompts keeps them itself and sends them by `request_body_filter`.
async fn whole_body(session: &mut Session) -> pingora::Result<Vec<u8>> {
    session.enable_retry_buffering();
    let mut body = Vec::new();
    while let Some(piece) = session.read_request_body().await? {
        body.extend_from_slice(&piece);
        if session.retry_buffer_truncated() {
            return Err(pingora::Error::explain(ErrorType::HTTPStatus(413), "the prompt is longer than 64 KiB"));
        }
    }
    Ok(body)
}

fn main() -> Result<(), Box<dyn Error>> {
    let addresses: Vec<String> = std::env::args().skip(1).collect();
    let [listen, pods @ ..] = &addresses[..] else { return Err("usage: LISTEN POD...".into()) };
    let mut server = Server::new(None::<Opt>)?;
    server.bootstrap();
    let mut proxy = http_proxy_service(&server.configuration, Router::new(pods)?);
    proxy.add_tcp(listen);
    server.add_service(proxy);
    server.run_forever()
}
