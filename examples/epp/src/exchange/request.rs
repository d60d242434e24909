//! The request's half of an exchange: headers and body are gathered as far as somebody reads them, then it is decided about.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3::HeaderValueOption;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpBody, HttpHeaders, ProcessingRequest};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, UPGRADE};
use http::request::Parts;
use http::{Method, StatusCode};
use pointsman::exec::handoff::Api;
use pointsman::index::Pod;
use pointsman::{ApiError, Routed};

use super::sent::Sent;
use super::{BodyMode, Exchange, Outbox, Phase, pass_on};
use crate::answer_model::AnswerModel;
use crate::endpoints::authority;
use crate::headers::{self, DATA_PARALLEL, DESTINATION, ENCODERS, PREFILLER, STEERING};
use crate::messages::{self, Direction};
use crate::metadata;
use crate::metrics::{Attempt, RequestLabels};
use crate::picker::Picker;

/// A request, as far as it came.
#[derive(Debug, Default)]
pub(super) struct PendingRequest {
    /// When its headers came.
    received: Option<Instant>,
    parts: Option<Parts>,
    /// Whether anybody reads its body, once that is known.
    is_read: Option<bool>,
    body: Vec<u8>,
    /// Where in the picker its bytes count, until it is decided about.
    room: Option<Room>,
    /// The pods that the proxy allows.
    among: Option<Vec<Pod>>,
}

impl PendingRequest {
    /// Whether its body is read, as far as that is known with one more piece.
    fn is_read(&mut self, piece: &[u8], picker: &Picker) -> Option<bool> {
        if self.is_read.is_none() {
            self.is_read = self.parts.as_ref().and_then(|parts| picker.reads(parts, &self.body, piece));
        }
        self.is_read
    }
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
    pub(super) async fn request_headers(
        &mut self,
        message: &ProcessingRequest,
        headers: &HttpHeaders,
        outbox: &mut Outbox,
    ) {
        let Phase::Request(pending) = &mut self.phase else { return };
        pending.received.get_or_insert_with(Instant::now);
        pending.among = self.picker.allowed(message).or(pending.among.take());
        let parts = headers::request_parts(headers.headers.as_ref());
        if headers.end_of_stream || !self.modes.request.waits_for_body() || never_ends(&parts) {
            return self.without_body(&parts, outbox);
        }
        let announced =
            parts.headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
        let forged = forged(&parts);
        pending.parts = Some(parts);
        // Where the proxy keeps the body itself, there is no point in saying more before it is there.
        let is_read =
            if self.modes.request == BodyMode::Duplex { pending.is_read(&[], &self.picker) } else { Some(true) };
        if is_read == Some(false) {
            return self.decide(false, outbox).await;
        }
        if is_read == Some(true) && announced.is_some_and(|length| length > self.picker.options().max_body_bytes) {
            return self.refuse(&self.too_long(), outbox);
        }
        if self.modes.request == BodyMode::Whole {
            // It sends the body once this is said.
            outbox.push_back(messages::request_headers_without(forged));
        }
    }

    pub(super) async fn request_body(&mut self, message: &ProcessingRequest, body: HttpBody, outbox: &mut Outbox) {
        let pending = match &mut self.phase {
            Phase::Request(pending) => pending,
            // It was decided about before its body, or the rest of that, was there.
            phase => {
                if let Phase::Sent(sent) = phase {
                    sent.request_piece(body.body.len(), body.end_of_stream);
                }
                match self.modes.request {
                    BodyMode::Duplex => pass_on(Direction::Request, body.body, body.end_of_stream, outbox),
                    BodyMode::Absent => {}
                    _ => outbox.push_back(messages::body_passes(Direction::Request)),
                }
                return;
            }
        };
        pending.among = self.picker.allowed(message).or(pending.among.take());
        if self.modes.request == BodyMode::Duplex && pending.is_read(&body.body, &self.picker) == Some(false) {
            pending.body.extend_from_slice(&body.body);
            return self.decide(body.end_of_stream, outbox).await;
        }
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
        if let Phase::Sent(sent) = &mut self.phase {
            sent.request_piece(0, true);
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
            Err(error) => self.answer(&error, api, self.picker.labels(parts), outbox),
        }
    }

    /// Decides about a request that is all there, or the rest of which nobody reads. `ends` where nothing follows.
    async fn decide(&mut self, ends: bool, outbox: &mut Outbox) {
        let Phase::Request(pending) = &mut self.phase else { return };
        let PendingRequest { received, parts, is_read, body, among, room: _room } = *std::mem::take(pending);
        let is_all = ends || is_read != Some(false);
        let parts = parts.unwrap_or_else(|| headers::request_parts(None));
        let (api, received) = (Api::of(parts.uri.path()), received.unwrap_or_else(Instant::now));
        let whole = Bytes::from(body);
        let given = match self.picker.client_body(&parts, &whole).await {
            Ok(given) => given,
            Err(error) => return self.answer(&error, api, self.picker.labels(&parts), outbox),
        };
        let labels = RequestLabels { model: given.model, target: given.target, ..self.picker.labels(&parts) };
        let routed = self.route(parts, given.body, among, api).await;
        self.picker.metrics().scheduling.processed(received.elapsed());
        self.picker.attempted(&labels, routed.as_ref().ok().and_then(|(_, sent, _)| sent.pod()));
        let (mut pick, sent, body) = match routed {
            Ok(decided) => decided,
            Err(error) => return self.answer(&error, api, labels, outbox),
        };
        if body.len() != whole.len() {
            pick.set.push(messages::set("content-length", body.len().to_string()));
        }
        self.answer_model = AnswerModel::new(&labels.target, &labels.model);
        let mut sent = sent.metered(self.picker.metrics().requests.begin(labels, received));
        sent.request_piece(body.len(), is_all);
        let common = messages::picked(&pick.endpoints, pick.set, pick.remove);
        if self.modes.request == BodyMode::Whole {
            let edited = (body != whole).then(|| body.into());
            outbox.push_back(messages::buffered_body(common, &pick.endpoints, edited));
        } else {
            outbox.push_back(messages::request_headers(common, &pick.endpoints));
            if ends || !body.is_empty() {
                pass_on(Direction::Request, body, ends, outbox);
            }
        }
        self.phase = Phase::Sent(Box::new(sent));
    }

    async fn route(
        &self,
        parts: Parts,
        body: Bytes,
        among: Option<Vec<Pod>>,
        api: Api,
    ) -> Result<(Pick, Sent, Bytes), ApiError> {
        let (method, forged) = (parts.method.clone(), forged(&parts));
        let (mut routed, body) = self.picker.route(parts, body, among).await?;
        // Where no circuit breaker lets it through by now it goes all the same: a pod that may fail is better than none.
        let sent = Sent::begin(&mut routed, api, method).unwrap_or_else(Sent::unwatched);
        let pick = self.pick(&routed, &sent, forged)?;
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
        let parts = pending.parts.as_ref();
        let api = parts.map_or(Api::Other, |parts| Api::of(parts.uri.path()));
        let labels = parts.map(|parts| self.picker.labels(parts)).unwrap_or_default();
        self.answer(error, api, labels, outbox);
    }

    /// Answers in the pods' place.
    fn answer(&mut self, error: &ApiError, api: Api, labels: RequestLabels, outbox: &mut Outbox) {
        self.picker.metrics().refused(error, labels);
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

    /// Counts a decision, and the pod that it named first.
    fn attempted(&self, labels: &RequestLabels, pod: Option<Pod>) {
        let fleet = self.router().fleet();
        let info = pod.and_then(|pod| fleet.pod(pod.id()).filter(|info| info.pod == pod));
        let address = pod.and_then(|pod| self.router().address(pod)).unwrap_or_default();
        let port = authority(&address).rsplit_once(':').map_or("", |(_, port)| port);
        let pod = info.map(|info| ((*info.name).into(), port.into()));
        self.metrics().scheduling.attempted(Attempt { target: labels.target.clone(), pod });
    }
}

/// The headers of a request that would steer it, and that its client set.
fn forged(parts: &Parts) -> Vec<String> {
    STEERING.iter().filter(|name| parts.headers.contains_key(**name)).map(|name| (*name).to_owned()).collect()
}

/// Whether a request's body may last for as long as its answer: it goes by its headers alone.
fn never_ends(parts: &Parts) -> bool {
    let kind = parts.headers.get(CONTENT_TYPE).map(|kind| kind.as_bytes());
    let is_grpc = kind.is_some_and(|kind| kind.starts_with(b"application/grpc"));
    is_grpc || parts.method == Method::CONNECT || parts.headers.contains_key(UPGRADE)
}
