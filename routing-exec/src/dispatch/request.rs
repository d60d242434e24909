//! The client's request, sanitized, and the request of each leg.

use std::time::Instant;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST, HeaderName};
use http::{HeaderMap, Method, Request, Uri, request};
use json_edit::JsonError;
use routing_core::{Pod, Role};

use super::Dispatch;
use super::headers::strip_hop_by_hop_and;
use super::legs::LegState;
use crate::client_fields::ClientFields;
use crate::handoff::headers::{ROUTING, ensure_request_id, is_own};
use crate::handoff::{Api, HandoffError, LegContext, UsageFix};
use crate::read_body::ReadBody;
use crate::splitmix64;

/// A client's request with its whole body.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    method: Method,
    /// Path and query: the client does not choose the destination.
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    /// Why the body is rejected.
    pub(super) unreadable: Option<JsonError>,
    pub(super) api: Api,
    /// Whether the response is to be streamed.
    pub(super) streams: bool,
    pub(super) deadline: Option<Instant>,
    seed: u64,
    /// A number of 63 bits that the legs of one handoff share.
    transfer: u64,
}

impl ClientRequest {
    /// A request. Hop-by-hop, routing and [own](crate::handoff::headers::OWN) headers are removed, and the fields of handoffs from its body. So is
    /// `accept-encoding`: responses are parsed on their way, and must not be compressed.
    ///
    /// A body that is no JSON object here but that an engine may parse, since engines are lenient, is rejected: its dispatch
    /// ends with a 400. That is every body but an empty one, unless the API is unknown and the content type is not JSON.
    ///
    /// `seed` is random and the request's own: identifiers of handoffs derive from it.
    #[must_use]
    pub fn new(parts: &request::Parts, body: Bytes, seed: u64) -> Self {
        Self::with_fields(parts, body, seed, &ClientFields::default())
    }

    /// The same for clients that may set some of the restricted fields.
    #[must_use]
    pub fn with_fields(parts: &request::Parts, body: Bytes, seed: u64, fields: &ClientFields) -> Self {
        match ReadBody::read(&body, |_| {}) {
            Ok(read) => Self::of_read(parts, &read, seed, fields),
            Err(error) => {
                let request = Self::of_parts(parts, body, seed);
                let is_read = !request.body.is_empty() && (request.api != Api::Other || may_be_json(&request.headers));
                Self { unreadable: is_read.then_some(error), ..request }
            }
        }
    }

    /// The same of a body that was read already, and is not looked through again.
    #[must_use]
    pub fn of_read(parts: &request::Parts, read: &ReadBody, seed: u64, fields: &ClientFields) -> Self {
        // Nor does the client choose where blocks are fetched from, or what is told of them.
        Self { streams: read.streams(), ..Self::of_parts(parts, fields.strip_read(read), seed) }
    }

    fn of_parts(parts: &request::Parts, body: Bytes, seed: u64) -> Self {
        let mut headers = parts.headers.clone();
        strip_hop_by_hop_and(&mut headers, |name| is_own(name) || ROUTING.contains(name) || REMADE.contains(name));
        let path = parts.uri.path_and_query().cloned();
        let uri = path.map_or_else(|| Uri::from_static("/"), Uri::from);
        ensure_request_id(&mut headers, splitmix64::finalize(seed));
        let (method, api) = (parts.method.clone(), Api::of(uri.path()));
        Self { method, uri, headers, body, unreadable: None, api, streams: false, deadline: None, seed, transfer: 0 }
    }

    /// Sets the time at which the dispatch ends, complete or not.
    #[must_use]
    pub fn deadline(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    /// The sanitized body.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The method.
    #[must_use]
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Path and query.
    #[must_use]
    pub fn uri(&self) -> &Uri {
        &self.uri
    }

    /// The sanitized headers.
    #[must_use]
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Draws the number that the legs of the next handoff share.
    pub(super) fn new_transfer(&mut self) {
        self.seed = self.seed.wrapping_add(splitmix64::GAMMA);
        self.transfer = splitmix64::finalize(self.seed) >> 1;
    }
}

/// Headers of a connection to this end, and of a body or a response that may be another on the way.
const REMADE: [HeaderName; 4] = [HOST, EXPECT, CONTENT_LENGTH, ACCEPT_ENCODING];

/// Whether a pod may parse a body as JSON: by its content type it is, or it has none.
fn may_be_json(headers: &HeaderMap) -> bool {
    let mut kinds = headers.get_all(CONTENT_TYPE).iter().map(|kind| kind.as_bytes().to_ascii_lowercase()).peekable();
    let names_json = |kind: Vec<u8>| kind.is_empty() || kind.windows(4).any(|part| part == b"json");
    kinds.peek().is_none() || kinds.any(names_json)
}

impl Dispatch {
    /// The request of a leg to a pod.
    pub(super) fn leg_request(&mut self, leg: usize, pod: Pod) -> Result<Request<Bytes>, HandoffError> {
        let step = &self.plan.steps()[leg];
        // What a pod prefilled itself is in its cache: there is nothing to hand off.
        let prefill = self.prefill_pod(leg).filter(|prefill| *prefill != pod);
        let context = LegContext::new(self.request.api, &self.request.body, &*self.config.addresses)
            .step(&step.name, step.role, self.is_last(leg))
            .pods(pod, prefill)
            .transfer(self.request.transfer)
            .prefilled(self.prefilled(leg))
            .encoded(self.encoded(leg))
            .probing(self.probing);
        let made = self.config.handoff.leg(&context)?;
        self.log.handoffs_dropped += u32::from(made.dropped.is_some());
        self.handed_off = made.dropped.is_none() && prefill.is_some();
        let mut request = Request::new(made.body);
        *request.method_mut() = self.request.method.clone();
        *request.uri_mut() = made.path.map_or_else(|| self.request.uri.clone(), Uri::from);
        *request.headers_mut() = self.request.headers.clone();
        for (name, value) in &made.headers {
            request.headers_mut().insert(name, value.clone());
        }
        Ok(request)
    }

    /// The pod that prefilled or will prefill for a leg, unless that was skipped.
    pub(super) fn prefill_pod(&self, leg: usize) -> Option<Pod> {
        let prefill = self.prefill_leg(leg).filter(|_| !self.probing)?;
        match &self.legs[prefill].state {
            LegState::Skipped | LegState::Merged => None,
            LegState::InFlight(attempt) => Some(attempt.pod),
            LegState::Done(pod, _) => Some(*pod),
            LegState::Pending => self.candidate(prefill),
        }
    }

    pub(super) fn prefill_leg(&self, leg: usize) -> Option<usize> {
        self.plan.steps()[..leg].iter().rposition(|step| step.role == Role::Prefill)
    }

    /// The prefill leg's response.
    fn prefilled(&self, leg: usize) -> Option<&[u8]> {
        self.response(self.prefill_leg(leg)?)
    }

    /// The response of the latest encode leg before this one.
    fn encoded(&self, leg: usize) -> Option<&[u8]> {
        self.response(self.plan.steps()[..leg].iter().rposition(|step| step.role == Role::Encode)?)
    }

    /// What a leg's pod responded, if that is complete.
    fn response(&self, leg: usize) -> Option<&[u8]> {
        match &self.legs[leg].state {
            LegState::Done(_, answer) => Some(answer),
            _ => None,
        }
    }

    /// The correction of the client's `usage`, if it needs one.
    pub(super) fn usage_fix(&self, events: bool) -> Option<UsageFix> {
        // Without a handoff the decode pod's own figure is right.
        let last = self.legs.len().checked_sub(1).filter(|_| self.handed_off)?;
        self.config.handoff.usage(self.request.api, events, self.prefilled(last))
    }
}
