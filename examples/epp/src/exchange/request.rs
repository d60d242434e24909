//! The request's half of an exchange: headers and body are gathered, then it is decided about.

use std::time::Instant;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::HeaderValueOption;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpBody, HttpHeaders, ProcessingRequest};
use http::request::Parts;
use http::{Method, StatusCode};
use json_edit::{Edit, Object};
use pointsman::exec::handoff::Api;
use pointsman::index::Pod;
use pointsman::{ApiError, Routed};

use super::sent::Sent;
use super::{BodyMode, Exchange, Outbox, Phase};
use crate::headers::{self, DATA_PARALLEL, ENCODERS, MODEL_REWRITE, PREFILLER, first};
use crate::messages::{self, Direction};
use crate::metadata;

/// A request, as far as it came.
#[derive(Debug, Default)]
pub(super) struct PendingRequest {
    parts: Option<Parts>,
    /// The pieces of its body, as they came.
    pieces: Vec<Vec<u8>>,
    bytes: usize,
    /// The pods that the proxy allows.
    among: Option<Vec<Pod>>,
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
        if headers.end_of_stream || !self.modes.request.waits_for_body() {
            return self.without_body(&parts, outbox);
        }
        let announced =
            parts.headers.get(http::header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse().ok());
        pending.parts = Some(parts);
        if announced.is_some_and(|length: usize| length > self.picker.options().max_body_bytes) {
            return self.refuse(&self.too_long(), outbox);
        }
        if self.modes.request == BodyMode::Whole {
            // It sends the body once this is said.
            outbox.push_back(messages::headers_pass(Direction::Request));
        }
    }

    pub(super) async fn request_body(&mut self, message: &ProcessingRequest, body: HttpBody, outbox: &mut Outbox) {
        let Phase::Request(pending) = &mut self.phase else {
            if self.modes.request == BodyMode::Pieces {
                outbox.push_back(messages::body_passes(Direction::Request));
            }
            return;
        };
        pending.among = self.picker.allowed(message).or(pending.among.take());
        pending.bytes = pending.bytes.saturating_add(body.body.len());
        if pending.bytes > self.picker.options().max_body_bytes {
            return self.refuse(&self.too_long(), outbox);
        }
        pending.pieces.push(body.body);
        // In one piece it is all there, even if trailers follow.
        if body.end_of_stream || self.modes.request == BodyMode::Whole {
            self.decide(true, outbox).await;
        }
    }

    pub(super) async fn request_trailers(&mut self, outbox: &mut Outbox) {
        if matches!(self.phase, Phase::Request(_)) && self.modes.request == BodyMode::Duplex {
            self.decide(false, outbox).await;
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
            let pick = self.pick(&routed, None, None, parts)?;
            Ok((pick, Sent::unwatched()))
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
        let PendingRequest { parts, pieces, among, .. } = *std::mem::take(pending);
        let parts = parts.unwrap_or_else(|| headers::request_parts(None));
        let (api, method) = (Api::of(parts.uri.path()), parts.method.clone());
        let began = Instant::now();
        let decided = self.route(&parts, &pieces, among, api, method).await;
        self.picker.metrics().decided(began.elapsed());
        let (pick, sent, edited) = match decided {
            Ok(decided) => decided,
            Err(error) => return self.answer(&error, api, outbox),
        };
        let common = messages::picked(&pick.endpoints, pick.set, pick.remove);
        if self.modes.request == BodyMode::Whole {
            outbox.push_back(messages::buffered_body(common, &pick.endpoints, edited.map(Into::into)));
        } else {
            outbox.push_back(messages::request_headers(common, &pick.endpoints));
            let pieces = edited.map_or(pieces, |edited| vec![edited.into()]);
            send_back(pieces, ends, outbox);
        }
        self.phase = Phase::Sent(Box::new(sent));
    }

    async fn route(
        &self,
        parts: &Parts,
        pieces: &[Vec<u8>],
        among: Option<Vec<Pod>>,
        api: Api,
        method: Method,
    ) -> Result<(Pick, Sent, Option<Bytes>), ApiError> {
        let whole = Bytes::from(pieces.concat());
        let rewritten = first(&parts.headers, &MODEL_REWRITE).and_then(|name| with_model(&whole, name));
        let body = rewritten.unwrap_or_else(|| whole.clone());
        let (mut routed, body) = self.picker.route(parts.clone(), body, among).await?;
        // Where no circuit breaker lets it through by now it goes all the same: a pod that may fail is better than none.
        let sent = Sent::begin(&mut routed, api, method).unwrap_or_else(Sent::unwatched);
        let edited = (body != whole).then_some(body);
        let mut pick = self.pick(&routed, sent.pod(), sent.prefill_pod(), parts)?;
        if let Some(edited) = &edited {
            pick.set.push(messages::set("content-length", edited.len().to_string()));
        }
        Ok((pick, sent.keep(routed), edited))
    }

    /// The destination of what was routed, and the headers that sidecars read.
    fn pick(&self, routed: &Routed, first: Option<Pod>, prefill: Option<Pod>, parts: &Parts) -> Result<Pick, ApiError> {
        let router = self.picker.router();
        let step = super::sent::answering_step(routed);
        let named: Vec<(Pod, String)> = routed.candidates(step).collect();
        let chosen = named.iter().filter(|(pod, _)| first == Some(*pod));
        let others = named.iter().filter(|(pod, _)| first != Some(*pod));
        let mut endpoints: Vec<&str> =
            chosen.chain(others).map(|(_, address)| crate::endpoints::authority(address)).collect();
        endpoints.truncate(self.picker.options().endpoints.max(1));
        let Some(best) = endpoints.first().copied() else {
            return Err(ApiError::unavailable("no_endpoints", "no pod is left for the request"));
        };
        let mut set = Vec::new();
        // What a client says in these would be taken for ours.
        let mut remove: Vec<String> = [PREFILLER, ENCODERS, DATA_PARALLEL].map(str::to_owned).into();
        remove.retain(|name| parts.headers.contains_key(name));
        let mut say = |name: &str, value: &str| {
            remove.retain(|removed| removed != name);
            set.push(messages::set(name, value));
        };
        if let Some(address) = prefill.and_then(|pod| router.address(pod)) {
            say(PREFILLER, crate::endpoints::authority(&address));
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

    fn too_long(&self) -> ApiError {
        let most = self.picker.options().max_body_bytes;
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, "body_too_large", format!("bodies may have {most} bytes"))
    }

    fn refuse(&mut self, error: &ApiError, outbox: &mut Outbox) {
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

impl crate::picker::Picker {
    /// The pods that a message's subset hint allows.
    fn allowed(&self, message: &ProcessingRequest) -> Option<Vec<Pod>> {
        metadata::subset(message).map(|endpoints| self.pods_at(endpoints))
    }
}

/// A body for another model; none if it is no object, which whoever reads it says.
fn with_model(body: &[u8], name: &str) -> Option<Bytes> {
    let object = Object::parse(body).ok()?;
    Some(Edit::new(object).set("model", name).finish().into())
}

/// Sends a body back as it came, in pieces that Envoy takes.
fn send_back(pieces: Vec<Vec<u8>>, ends: bool, outbox: &mut Outbox) {
    let mut pieces: Vec<Vec<u8>> = pieces.into_iter().flat_map(split).collect();
    if pieces.is_empty() {
        pieces.push(Vec::new());
    }
    let last = pieces.len() - 1;
    let pieces = pieces.into_iter().enumerate();
    outbox.extend(pieces.map(|(at, piece)| messages::streamed(Direction::Request, piece, ends && at == last)));
}

fn split(piece: Vec<u8>) -> Vec<Vec<u8>> {
    if piece.len() <= LONGEST_PIECE {
        return vec![piece];
    }
    piece.chunks(LONGEST_PIECE).map(<[u8]>::to_vec).collect()
}

/// Envoy takes pieces of up to 64 KiB, with what is around them.
const LONGEST_PIECE: usize = 60_000;
