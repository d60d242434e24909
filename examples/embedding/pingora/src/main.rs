//! Routing inside a Pingora proxy: `upstream_peer` selects the pod by a profile.
//!
//! There is no tokenizer and engines report nothing here, so prompts that begin alike go to one pod, by their text. With a
//! tokenizer, and events of your engines fed to the router, they go where they are held.
//!
//! `cargo run -- 127.0.0.1:8080 127.0.0.1:8001 127.0.0.1:8002` listens on the first and has two pods behind it.

use std::collections::VecDeque;
use std::error::Error;
use std::time::Instant;

use async_trait::async_trait;
use pingora::prelude::{HttpPeer, Opt, ProxyHttp, Server, Session, http_proxy_service};
use pingora::{ErrorType, OrErr};
use pointsman::exec::Failure;
use pointsman::index::Pod;
use pointsman::prelude::*;

struct Proxy(Router);

/// The context of one request: its plan, the candidates that are left, and its attempt on the current pod.
#[derive(Default)]
struct InProxy {
    routed: Option<(Routed, VecDeque<(Pod, String)>)>,
    attempt: Option<Attempt>,
}

#[async_trait]
impl ProxyHttp for Proxy {
    type CTX = InProxy;

    fn new_ctx(&self) -> InProxy {
        InProxy::default()
    }

    async fn upstream_peer(&self, session: &mut Session, own: &mut InProxy) -> pingora::Result<Box<HttpPeer>> {
        if own.routed.is_none() {
            let body = whole_body(session).await?;
            let routed = self.0.route(&self.0.request(Instant::now()).body(&body));
            let routed = routed.or_err(ErrorType::HTTPStatus(503), "no pod for this request")?;
            let candidates = routed.candidates(0).collect();
            own.routed = Some((routed, candidates));
        }
        let Some((routed, candidates)) = &mut own.routed else { unreachable!("it was just routed") };
        while let Some((pod, address)) = candidates.pop_front() {
            // Counted on this pod until the request is over, however it ends: Pingora drops the context then.
            if let Ok(attempt) = routed.begin(0, pod) {
                own.attempt = Some(attempt);
                return Ok(Box::new(HttpPeer::new(address, false, String::new())));
            }
        }
        Err(pingora::Error::explain(ErrorType::HTTPStatus(503), "no candidate is left"))
    }

    /// The pod answered: its circuit breaker learns of it.
    async fn logging(&self, _: &mut Session, error: Option<&pingora::Error>, own: &mut InProxy) {
        match (own.attempt.take(), error) {
            (Some(attempt), None) => attempt.succeeded(),
            (Some(attempt), Some(error)) if error.esource() == &pingora::ErrorSource::Upstream => {
                attempt.failed(Failure::Truncated(error.to_string().into()));
            }
            _ => {}
        }
    }

    /// There was no connection, so nothing was sent: the next pod of the plan can be tried.
    fn fail_to_connect(
        &self,
        _: &mut Session,
        _: &HttpPeer,
        own: &mut InProxy,
        mut error: Box<pingora::Error>,
    ) -> Box<pingora::Error> {
        if let Some(attempt) = own.attempt.take() {
            attempt.failed(Failure::Connect(error.to_string().into()));
        }
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
    let router = Router::builder("any").pods(pods.iter().map(|address| PodSpec::new(address, address))).build()?;
    let mut server = Server::new(None::<Opt>)?;
    server.bootstrap();
    let mut proxy = http_proxy_service(&server.configuration, Proxy(router));
    proxy.add_tcp(listen);
    server.add_service(proxy);
    server.run_forever()
}
