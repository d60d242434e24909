//! The request's half of an exchange: headers and body are gathered, then it is decided about.

use std::sync::Arc;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::HeaderValueOption;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpBody, HttpHeaders, ProcessingRequest};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, UPGRADE};
use http::request::Parts;
use http::{Method, StatusCode};
use json_edit::{Edit, Object};
use pointsman::exec::handoff::Api;
use pointsman::index::Pod;
use pointsman::{ApiError, Routed};

use super::sent::Sent;
use super::{BodyMode, Exchange, Outbox, Phase};
use crate::endpoints::authority;
use crate::headers::{self, DATA_PARALLEL, DESTINATION, ENCODERS, MODEL_REWRITE, PREFILLER, first};
use crate::messages::{self, Direction};
use crate::metadata;
use crate::picker::Picker;

/// A request, as far as it came.
#[derive(Debug, Default)]
pub(super) struct PendingRequest {
    parts: Option<Parts>,
    body: Vec<u8>,
    /// Where in the picker its bytes count, until it is decided about.
    room: Option<Room>,
    /// The pods that the proxy allows.
    among: Option<Vec<Pod>>,
}

/// Bytes that are held; given back when it is dropped.
#[derive(Debug)]
struct Room {
    picker: Arc<Picker>,
    bytes: usize,
}

impl Drop for Room {
    fn drop(&mut self) {
        self.picker.give_room(self.bytes);
    }
}

/// What a decision makes of a request's headers.
struct Pick {
    /// Where it goes, best first.
    endpoints: String,
    set: Vec<HeaderValueOption>,
    remove: Vec<String>,
}

impl Exchange {
    pub(super) fn request_headers(&mut self, message: &ProcessingRequest, headers: &HttpHeaders, outbox: &mut Outbox) {
        let Phase::Request(pending) = &mut self.phase else { return };
        pending.among = self.picker.allowed(message).or(pending.among.take());
        let parts = headers::request_parts(headers.headers.as_ref());
        if headers.end_of_stream || !self.modes.request.waits_for_body() || never_ends(&parts) {
            return self.without_body(&parts, outbox);
        }
        let announced =
            parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        let forged = forged(&parts);
        pending.parts = Some(parts);
        if announced.is_some_and(|length| length > self.picker.options().max_body_bytes) {
            return self.refuse(&self.too_long(), outbox);
        }
        if self.modes.request == BodyMode::Whole {
            // It sends the body once this is said.
            outbox.push_back(messages::request_headers_without(forged));
        }
    }

    pub(super) async fn request_body(&mut self, message: &ProcessingRequest, body: HttpBody, outbox: &mut Outbox) {
        let Phase::Request(pending) = &mut self.phase else {
            // It went by its headers alone.
            match self.modes.request {
                BodyMode::Duplex => {
                    outbox.push_back(messages::streamed(Direction::Request, body.body, body.end_of_stream))
                }
                BodyMode::Absent => {}
                _ => outbox.push_back(messages::body_passes(Direction::Request)),
            }
            return;
        };
        pending.among = self.picker.allowed(message).or(pending.among.take());
        if pending.body.len().saturating_add(body.body.len()) > self.picker.options().max_body_bytes {
            return self.refuse(&self.too_long(), outbox);
        }
        if !self.picker.take_room(body.body.len()) {
            let error = ApiError::unavailable("out_of_memory", "too many requests are being read; try again");
            return self.refuse(&error, outbox);
        }
        let room = pending.room.get_or_insert_with(|| Room { picker: Arc::clone(&self.picker), bytes: 0 });
        room.bytes += body.body.len();
        if pending.body.is_empty() {
            pending.body = body.body;
        } else {
            pending.body.extend_from_slice(&body.body);
        }
        // In one piece it is all there, even if trailers follow.
        if body.end_of_stream || self.modes.request == BodyMode::Whole {
            self.decide(true, outbox).await;
        }
    }

    pub(super) async fn request_trailers(&mut self, outbox: &mut Outbox) {
        if matches!(self.phase, Phase::Request(_)) {
            match self.modes.request {
                BodyMode::Duplex => self.decide(false, outbox).await,
                // Its headers cannot be changed any more.
                _ => {
                    self.refuse(&ApiError::bad_request("missing_body", "the request has trailers and no body"), outbox)
                }
            }
        }
        if !self.is_over() {
            outbox.push_back(messages::trailers_pass(Direction::Request));
        }
    }

    /// A request that has no body goes where anything may go.
    fn without_body(&mut self, parts: &Parts, outbox: &mut Outbox) {
        let Phase::Request(pending) = &mut self.phase else { return };
        let (api, among) = (Api::of(parts.uri.path()), pending.among.take());
        let routed = self.picker.route_bodiless(parts, among);
        let sent = routed.and_then(|routed| {
            let sent = Sent::unwatched();
            Ok((self.pick(&routed, &sent, forged(parts))?, sent))
        });
        match sent {
            Ok((pick, sent)) => {
                let common = messages::picked(&pick.endpoints, pick.set, pick.remove);
                outbox.push_back(messages::request_headers(common, &pick.endpoints));
                self.phase = Phase::Sent(Box::new(sent));
            }
            Err(error) => self.answer(&error, api, outbox),
        }
    }

    /// Decides about a request that is all there. `ends` where no trailers follow.
    async fn decide(&mut self, ends: bool, outbox: &mut Outbox) {
        let Phase::Request(pending) = &mut self.phase else { return };
        let PendingRequest { parts, body, among, room: _room } = *std::mem::take(pending);
        let parts = parts.unwrap_or_else(|| headers::request_parts(None));
        let api = Api::of(parts.uri.path());
        let whole = Bytes::from(body);
        let (pick, sent, body) = match self.route(parts, &whole, among, api).await {
            Ok(decided) => decided,
            Err(error) => return self.answer(&error, api, outbox),
        };
        let common = messages::picked(&pick.endpoints, pick.set, pick.remove);
        if self.modes.request == BodyMode::Whole {
            let edited = (body != whole).then(|| body.into());
            outbox.push_back(messages::buffered_body(common, &pick.endpoints, edited));
        } else {
            outbox.push_back(messages::request_headers(common, &pick.endpoints));
            send_back(&body, ends, outbox);
        }
        self.phase = Phase::Sent(Box::new(sent));
    }

    async fn route(
        &self,
        parts: Parts,
        whole: &Bytes,
        among: Option<Vec<Pod>>,
        api: Api,
    ) -> Result<(Pick, Sent, Bytes), ApiError> {
        let rewritten = first(&parts.headers, &MODEL_REWRITE).and_then(|name| with_model(whole, name));
        let body = rewritten.unwrap_or_else(|| whole.clone());
        let (method, forged) = (parts.method.clone(), forged(&parts));
        let (mut routed, body) = self.picker.route(parts, body, among).await?;
        // Where no circuit breaker lets it through by now it goes all the same: a pod that may fail is better than none.
        let sent = Sent::begin(&mut routed, api, method).unwrap_or_else(Sent::unwatched);
        let mut pick = self.pick(&routed, &sent, forged)?;
        if body.len() != whole.len() {
            pick.set.push(messages::set("content-length", body.len().to_string()));
        }
        Ok((pick, sent.keep(routed), body))
    }

    /// The destination of what was routed, and the headers that sidecars read, in place of what a client forged.
    fn pick(&self, routed: &Routed, sent: &Sent, forged: Vec<String>) -> Result<Pick, ApiError> {
        let router = self.picker.router();
        let (step, first) = (super::sent::answering_step(routed), sent.pod());
        let mut named: Vec<(Pod, String)> = routed.candidates(step).collect();
        // Stable: the others stay in their order.
        named.sort_by_key(|(pod, _)| first.is_some_and(|first| first != *pod));
        let mut endpoints: Vec<&str> = named.iter().map(|(_, address)| authority(address)).collect();
        endpoints.truncate(self.picker.options().endpoints.max(1));
        let Some(best) = endpoints.first().copied() else {
            return Err(ApiError::unavailable("no_endpoints", "no pod is left for the request"));
        };
        let mut set = Vec::new();
        let mut remove = forged;
        remove.retain(|name| name != DESTINATION);
        let mut say = |name: &str, value: &str| {
            remove.retain(|removed| removed != name);
            set.push(messages::set(name, value));
        };
        if let Some(address) = sent.prefill_pod().and_then(|pod| router.address(pod)) {
            say(PREFILLER, authority(&address));
        }
        let encoders = sent.encoders(routed);
        if !encoders.is_empty() {
            say(ENCODERS, &encoders.iter().map(|address| authority(address)).collect::<Vec<_>>().join(","));
        }
        let endpoints = match (self.picker.options().data_parallel_port, best.rsplit_once(':')) {
            (Some(port), Some((host, _))) => {
                say(DATA_PARALLEL, best);
                format!("{host}:{port}")
            }
            _ => endpoints.join(","),
        };
        Ok(Pick { endpoints, set, remove })
    }

    pub(super) fn too_long(&self) -> ApiError {
        let most = self.picker.options().max_body_bytes;
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", format!("bodies may have {most} bytes"))
    }

    pub(super) fn refuse(&mut self, error: &ApiError, outbox: &mut Outbox) {
        let Phase::Request(pending) = &self.phase else { return };
        let api = pending.parts.as_ref().map_or(Api::Other, |parts| Api::of(parts.uri.path()));
        self.answer(error, api, outbox);
    }

    /// Answers in the pods' place.
    fn answer(&mut self, error: &ApiError, api: Api, outbox: &mut Outbox) {
        self.picker.metrics().refused(error);
        outbox.push_back(messages::error(error, api));
        self.phase = Phase::Over;
    }
}

impl Picker {
    /// The pods that a message's subset hint allows.
    fn allowed(&self, message: &ProcessingRequest) -> Option<Vec<Pod>> {
        let subset = metadata::subset(message).filter(|_| self.options().subsets);
        subset.map(|endpoints| self.pods_at(endpoints))
    }
}

/// A body for another model; none if it is no object, which whoever reads it says.
fn with_model(body: &[u8], name: &str) -> Option<Bytes> {
    let object = Object::parse(body).ok()?;
    Some(Edit::new(object).set("model", name).finish().into())
}

/// Sends a body back, in pieces that Envoy takes.
fn send_back(body: &[u8], ends: bool, outbox: &mut Outbox) {
    let mut pieces = body.chunks(LONGEST_PIECE).peekable();
    if pieces.peek().is_none() {
        outbox.push_back(messages::streamed(Direction::Request, Vec::new(), ends));
    }
    while let Some(piece) = pieces.next() {
        let is_last = pieces.peek().is_none();
        outbox.push_back(messages::streamed(Direction::Request, piece.to_vec(), ends && is_last));
    }
}

/// The headers of a request that only a picker may set, and its client did.
fn forged(parts: &Parts) -> Vec<String> {
    let ours = [DESTINATION, PREFILLER, ENCODERS, DATA_PARALLEL];
    ours.iter().filter(|name| parts.headers.contains_key(**name)).map(|name| (*name).to_owned()).collect()
}

/// Whether a request's body may last for as long as its answer: it goes by its headers alone.
fn never_ends(parts: &Parts) -> bool {
    let kind = parts.headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes());
    let is_grpc = kind.is_some_and(|kind| kind.starts_with(b"application/grpc"));
    is_grpc || parts.method == Method::CONNECT || parts.headers.contains_key(UPGRADE)
}

/// Envoy takes pieces of up to 64 KiB, with what is around them.
const LONGEST_PIECE: usize = 60_000;
