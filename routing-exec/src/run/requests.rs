//! The client's request, and what each leg makes of it.

use std::time::Instant;

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST};
use http::{HeaderMap, Method, Request, Uri, request};
use json_edit::{JsonError, Object};
use routing_core::Pod;
use routing_core::Role;

use super::Run;
use super::headers::strip_hop_by_hop;
use super::legs::LegState;
use crate::handoff::headers::{ensure_request_id, strip_routing_headers};
use crate::handoff::{Api, HandoffError, LegContext, UsageFix, strip_handoff_fields};

/// What the client asked, body and all.
#[derive(Clone, Debug)]
pub struct ClientRequest {
    method: Method,
    /// Path and query; where the request goes is not the client's to say.
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
    /// Why the body cannot be read, where that is a reason to send it to nobody.
    pub(super) unreadable: Option<JsonError>,
    pub(super) api: Api,
    /// Whether the answer is to come as a stream.
    pub(super) streams: bool,
    pub(super) deadline: Option<Instant>,
    seed: u64,
    /// A number of 63 bits that the legs of one try share.
    transfer: u64,
}

impl ClientRequest {
    /// A request. Its headers are cleared of what concerns the connection it came by and of what only routers may say, and so
    /// is its body. What it says of encodings goes too: answers are read on their way, and must not come packed.
    ///
    /// A body that is no JSON object and that a pod may read all the same, since engines take for JSON what is none, is sent
    /// to nobody: its run ends with a 400. That is, any but an empty one, unless the API is none that we know of and the
    /// content type says that it is something else.
    ///
    /// `seed` is the request's own, random one: numbers that engines meet by are drawn from it.
    #[must_use]
    pub fn new(parts: &request::Parts, body: Bytes, seed: u64) -> Self {
        let mut headers = parts.headers.clone();
        strip_hop_by_hop(&mut headers);
        strip_routing_headers(&mut headers);
        headers.remove(HOST);
        headers.remove(EXPECT);
        headers.remove(CONTENT_LENGTH);
        headers.remove(ACCEPT_ENCODING);
        let path = parts.uri.path_and_query().cloned();
        let uri = path.map_or_else(|| Uri::from_static("/"), Uri::from);
        ensure_request_id(&mut headers, mix(seed));
        // Where blocks are fetched from is not the client's to say either.
        let body = strip_handoff_fields(&body);
        let api = Api::of(uri.path());
        let stream = Object::find(&body, "stream");
        let is_read = !body.is_empty() && (api != Api::Other || may_be_json(&headers));
        let unreadable = stream.err().filter(|_| is_read);
        let streams = stream.ok().flatten().and_then(|stream| stream.as_bool()).unwrap_or(false);
        let (method, deadline) = (parts.method.clone(), None);
        Self { method, uri, headers, body, unreadable, api, streams, deadline, seed, transfer: 0 }
    }

    /// The same with a time at which it is of no use any more.
    #[must_use]
    pub fn deadline(self, deadline: Instant) -> Self {
        Self { deadline: Some(deadline), ..self }
    }

    pub(super) fn body(&self) -> &[u8] {
        &self.body
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    /// Draws the number that the legs of the next try share.
    pub(super) fn new_transfer(&mut self) {
        self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.transfer = mix(self.seed) >> 1;
    }
}

/// Whether a pod may take a body for JSON by what its headers say: that it is, or nothing.
fn may_be_json(headers: &HeaderMap) -> bool {
    let mut kinds = headers.get_all(CONTENT_TYPE).iter().map(|kind| kind.as_bytes().to_ascii_lowercase()).peekable();
    let names_json = |kind: Vec<u8>| kind.is_empty() || kind.windows(4).any(|part| part == b"json");
    kinds.peek().is_none() || kinds.any(names_json)
}

/// The finalizer of SplitMix64.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Run {
    /// What a pod is sent for a leg.
    pub(super) fn leg_request(&mut self, leg: usize, pod: Pod) -> Result<Request<Bytes>, HandoffError> {
        let step = &self.plan.steps()[leg];
        let context = LegContext::new(self.request.api, &self.request.body, &*self.settings.addresses)
            .step(&step.name, step.role, self.is_last(leg))
            .pods(pod, self.prefill_pod(leg))
            .transfer(self.request.transfer)
            .prefilled(self.prefilled(leg))
            .probing(self.probing);
        let made = self.settings.handoff.leg(&context)?;
        self.log.handoffs_dropped += u32::from(made.dropped.is_some());
        self.handed_over = made.dropped.is_none();
        let mut request = Request::new(made.body);
        *request.method_mut() = self.request.method.clone();
        *request.uri_mut() = self.request.uri.clone();
        *request.headers_mut() = self.request.headers.clone();
        for (name, value) in &made.headers {
            request.headers_mut().insert(name, value.clone());
        }
        Ok(request)
    }

    /// Who prefills for a leg: the pod that did or will, unless that was left out.
    pub(super) fn prefill_pod(&self, leg: usize) -> Option<Pod> {
        let prefill = self.prefill_leg(leg).filter(|_| !self.probing)?;
        match &self.legs[prefill].state {
            LegState::Skipped => None,
            LegState::Asked(attempt) => Some(attempt.pod),
            LegState::Done(pod, _) => Some(*pod),
            LegState::Open => self.candidate(prefill),
        }
    }

    pub(super) fn prefill_leg(&self, leg: usize) -> Option<usize> {
        self.plan.steps()[..leg].iter().rposition(|step| step.role == Role::Prefill)
    }

    /// What the leg that prefilled answered.
    fn prefilled(&self, leg: usize) -> Option<&[u8]> {
        match &self.legs[self.prefill_leg(leg)?].state {
            LegState::Done(_, answer) => Some(answer),
            _ => None,
        }
    }

    /// What puts the client's answer right, if anything has to.
    pub(super) fn usage_fix(&self, events: bool) -> Option<UsageFix> {
        // A pod that was handed nothing knows best what it had.
        let last = self.legs.len().checked_sub(1).filter(|_| self.handed_over)?;
        self.settings.handoff.usage(self.request.api, events, self.prefilled(last))
    }
}
