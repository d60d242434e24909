//! KV transfer between pods (disaggregated prefill): `kv_transfer_params` as vLLM's NixlConnector has them.
//!
//! A pod that prefills for another keeps the blocks under a lease, and its response has their address. The other pod fetches
//! them from its HTTP port before it queues the request; the giving pod takes the time of the transfer, less what the fetching
//! one has cached. A fetch that fails (the lease is over, the pod is another one by now, or gone) is an error of the request, as
//! under vLLM's default policy `fail`. If a field is missing that a fetch needs, the prompt is prefilled as any other.

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::Api;
use super::error::ApiError;
use crate::http::engine::Engine;
use crate::http::request_handle::KeptBlocks;

/// The parameters of a request, every one of which may be missing or null.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct TransferParams {
    do_remote_decode: Option<bool>,
    do_remote_prefill: Option<bool>,
    remote_block_ids: Option<Vec<Value>>,
    remote_engine_id: Option<String>,
    remote_request_id: Option<String>,
    remote_host: Option<String>,
    remote_port: Option<u16>,
}

impl TransferParams {
    /// Whether another pod will decode.
    pub(super) fn keeps(&self) -> bool {
        self.do_remote_decode == Some(true)
    }

    /// Where the prompt was prefilled, if another pod did and all is said that is needed.
    pub(super) fn source(&self) -> Option<Source> {
        if self.do_remote_prefill != Some(true) || self.remote_block_ids.as_ref().is_none_or(Vec::is_empty) {
            return None;
        }
        let (host, port) = (self.remote_host.clone()?, self.remote_port?);
        let request_body =
            FetchRequest { engine: self.remote_engine_id.clone()?, request: self.remote_request_id.clone()?, from: 0 };
        Some(Source { host, port, request_body })
    }
}

/// `kv_transfer_params` of a prefill's response, for the pod that decodes.
pub(super) fn params(engine: &Engine, kept: &KeptBlocks) -> Value {
    let expiry = SystemTime::now() + engine.config.lease;
    let expiry = expiry.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    json!({
        "do_remote_prefill": true,
        "do_remote_decode": false,
        "remote_block_ids": [kept.blocks],
        "remote_engine_id": kept.engine,
        "remote_request_id": kept.name,
        "remote_host": engine.config.listen.ip().to_string(),
        "remote_port": engine.config.listen.port(),
        "tp_size": 1,
        "remote_num_tokens": kept.tokens,
        "remote_blocks_expiry_time": expiry,
    })
}

/// Where blocks are to be fetched.
#[derive(Clone, Debug)]
pub(super) struct Source {
    host: String,
    port: u16,
    request_body: FetchRequest,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FetchRequest {
    engine: String,
    request: String,
    /// Leading tokens that the fetching pod has.
    from: usize,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct FetchResponse {
    tokens: usize,
}

/// Why a fetch failed, for the client to read.
type FetchError = Box<dyn Error + Send + Sync>;

/// Fetches a prompt's blocks, of which the first `cached` tokens are here; the tokens that came.
pub(super) async fn fetch(engine: &Engine, mut source: Source, cached: usize) -> Result<usize, ApiError> {
    source.request_body.from = cached;
    let fetched = tokio::time::timeout(engine.config.lease, request_blocks(&source)).await;
    let fetched = fetched.unwrap_or_else(|_| Err("nothing came for as long as a lease lasts".into()));
    engine.count_fetch(fetched.is_ok());
    let Source { host, port, request_body } = &source;
    fetched.map_err(|error| {
        ApiError::internal(format!(
            "the blocks of `{}` could not be fetched from {host}:{port}: {error}",
            request_body.request
        ))
    })
}

async fn request_blocks(source: &Source) -> Result<usize, FetchError> {
    let stream = TcpStream::connect((source.host.as_str(), source.port)).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::post("/sim/kv")
        .header(header::HOST, &source.host)
        .body(Full::<Bytes>::from(serde_json::to_vec(&source.request_body)?))?;
    let response = async move {
        let response = sender.send_request(request).await?;
        match response.status() {
            StatusCode::OK => Ok(response.into_body().collect().await?.to_bytes()),
            status => Err(FetchError::from(format!("the pod responded with {status}"))),
        }
    };
    // Both in this task: nothing is left behind when the client goes away.
    let (response, _) = tokio::join!(response, connection);
    let body: Result<FetchResponse, _> = serde_json::from_slice(&response?);
    Ok(body.map_err(|error| format!("its response cannot be read: {error}"))?.tokens)
}

/// Gives kept blocks to the pod that asks.
pub(super) async fn give(State(api): State<Arc<Api>>, body: Bytes) -> Result<Json<FetchResponse>, ApiError> {
    let request_body: FetchRequest =
        serde_json::from_slice(&body).map_err(|error| ApiError::bad_request(error.to_string()))?;
    let Some((incarnation, tokens)) = api.engine.claim(&request_body.engine, &request_body.request, Instant::now())
    else {
        let FetchRequest { engine, request, .. } = request_body;
        return Err(ApiError::not_found(format!("engine `{engine}` keeps no blocks of `{request}` here")));
    };
    let _lease = LeaseGuard { engine: &api.engine, incarnation, request: &request_body.request };
    let bytes = tokens.saturating_sub(request_body.from) * BYTES_PER_TOKEN;
    tokio::time::sleep(api.engine.takes(Duration::from_secs_f64(bytes as f64 / BYTES_PER_SECOND))).await;
    Ok(Json(FetchResponse { tokens }))
}

/// Ends a lease when its blocks have gone out, or whoever fetched them has gone away.
struct LeaseGuard<'a> {
    engine: &'a Engine,
    incarnation: u64,
    request: &'a str,
}

impl Drop for LeaseGuard<'_> {
    fn drop(&mut self) {
        self.engine.end_lease(self.incarnation, self.request);
    }
}

/// Keys and values of a Llama-8B: 32 layers, 8 heads of 128, two of each, two bytes.
const BYTES_PER_TOKEN: usize = 128 << 10;

/// A fast network between machines.
const BYTES_PER_SECOND: f64 = 50e9;
