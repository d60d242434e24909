//! The answer's half of an exchange: each piece passes and is watched.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use envoy_types::pb::envoy::config::core::v3::HeaderValueOption;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpBody, HttpHeaders, ProcessingRequest};
use pointsman::exec::Failure;

use super::sent::Sent;
use super::{BodyMode, Exchange, Outbox, Phase, pass_on};
use crate::answer_model::AnswerModel;
use crate::headers;
use crate::messages::{self, Direction};
use crate::metadata;
use crate::picker::Picker;
use crate::picker_config::SessionToken;

/// A part of an answer that went on.
#[derive(Debug)]
pub(super) enum Passed {
    /// Headers, with what Envoy said beside them.
    Head { message: Box<ProcessingRequest>, headers: HttpHeaders },
    /// A piece of its body.
    Piece { bytes: Vec<u8>, ends: bool },
    /// Its end, in trailers.
    End,
}

impl Exchange {
    pub(super) fn response_headers(&mut self, message: ProcessingRequest, headers: HttpHeaders, outbox: &mut Outbox) {
        if self.picker.options().session_tokens.is_empty() {
            outbox.push_back(messages::headers_pass(Direction::Response));
            return self.pass(Passed::Head { message: Box::new(message), headers });
        }
        // What is said depends on who served.
        self.saw_head(&message, &headers);
        let tokens = match &self.phase {
            Phase::Sent(sent) => self.picker.session_tokens(sent),
            _ => Vec::new(),
        };
        outbox.push_back(messages::response_headers(tokens));
        self.end_with_head(&headers);
    }

    pub(super) fn response_body(&mut self, body: HttpBody, outbox: &mut Outbox) {
        let HttpBody { body: bytes, end_of_stream: ends, .. } = body;
        let mode = self.modes.response;
        if mode != BodyMode::Duplex && self.answer_model.is_none() {
            self.pass(Passed::Piece { bytes, ends });
            return outbox.push_back(messages::body_passes(Direction::Response));
        }
        let seen = if self.is_watched() { bytes.clone() } else { Vec::new() };
        // In other modes trailers would come in between what is held back and the rest of it.
        let may_hold = mode == BodyMode::Duplex && !ends;
        let passed = match &mut self.answer_model {
            Some(model) => model.pass(bytes, may_hold),
            None => bytes,
        };
        match mode {
            // It may be longer than what came, by what was held back and by the client's name.
            BodyMode::Duplex => pass_on(Direction::Response, passed, ends, outbox),
            _ if passed == seen => outbox.push_back(messages::body_passes(Direction::Response)),
            _ => outbox.push_back(messages::response_body(passed, mode == BodyMode::Whole)),
        }
        self.pass(Passed::Piece { bytes: seen, ends });
    }

    pub(super) fn response_trailers(&mut self, outbox: &mut Outbox) {
        let held = self.answer_model.as_mut().map(AnswerModel::rest).filter(|held| !held.is_empty());
        if let Some(held) = held {
            pass_on(Direction::Response, held, false, outbox);
        }
        outbox.push_back(messages::trailers_pass(Direction::Response));
        self.pass(Passed::End);
    }

    fn pass(&mut self, passed: Passed) {
        if self.unseen.len() >= MOST_UNSEEN {
            self.look();
        }
        self.unseen.push_back(passed);
    }

    /// Looks at what went on.
    pub(crate) fn look(&mut self) {
        while let Some(passed) = self.unseen.pop_front() {
            match passed {
                Passed::Head { message, headers } => {
                    self.saw_head(&message, &headers);
                    self.end_with_head(&headers);
                }
                Passed::Piece { bytes, ends } => {
                    if let Phase::Sent(sent) = &mut self.phase {
                        sent.chunk(&bytes);
                    }
                    if ends {
                        self.end(true);
                    }
                }
                Passed::End => self.end(true),
            }
        }
    }

    /// Whether anybody wants to know what an answer says.
    fn is_watched(&self) -> bool {
        matches!(&self.phase, Phase::Sent(sent) if sent.is_watched())
    }

    fn saw_head(&mut self, message: &ProcessingRequest, headers: &HttpHeaders) {
        if let Phase::Sent(sent) = &mut self.phase {
            let (status, map) = headers::response_head(headers.headers.as_ref());
            let details = metadata::code_details(message).filter(|details| *details != "via_upstream");
            match (details, metadata::served(message)) {
                (Some(details), _) => sent.unserved(failure(details)),
                // With ranks behind one port the address says nothing of them.
                (_, Some(served)) if self.picker.options().data_parallel_port.is_none() => {
                    let first = sent.pod().filter(|pod| !self.picker.is_at(*pod, served));
                    if let Some(pod) = first.and_then(|_| self.picker.pods_at([served]).first().copied()) {
                        sent.served_by(pod, metadata::attempts(message).is_some_and(|attempts| attempts > 1.0));
                    }
                }
                _ => {}
            }
            if let Some(status) = status {
                sent.head(status, &map);
            }
        }
    }

    /// Ends with the headers, where no body follows that is shown.
    fn end_with_head(&mut self, headers: &HttpHeaders) {
        if headers.end_of_stream || self.modes.response == BodyMode::Absent {
            self.end(headers.end_of_stream);
        }
    }

    /// Nothing more is heard of the answer: it ended, or its body is not shown.
    fn end(&mut self, was_seen: bool) {
        if let Phase::Sent(sent) = std::mem::replace(&mut self.phase, Phase::Over) {
            self.picker.metrics().ended(&if was_seen { sent.end() } else { sent.end_unseen() });
        }
    }
}

impl Picker {
    /// The headers that tell a client its session's pods.
    fn session_tokens(&self, sent: &Sent) -> Vec<HeaderValueOption> {
        let fleet = self.router().fleet();
        let token = |SessionToken { header, step, .. }: &SessionToken| {
            let pod = sent.pod_of(step.as_deref())?;
            let name = &fleet.pod(pod.id()).filter(|info| info.pod == pod)?.name;
            // Names without a namespace are of the default one.
            let name = if name.contains('/') { name.to_string() } else { format!("default/{name}") };
            Some(messages::set(header, STANDARD.encode(name)))
        };
        self.options().session_tokens.iter().filter_map(token).collect()
    }
}

/// How the pod failed, by Envoy's words for an answer of its own; none where it is not the pod's fault, as when Envoy's own limits are
/// reached.
fn failure(details: &str) -> Option<Failure> {
    let reason = details.strip_prefix("upstream_reset_before_response_started{");
    match reason {
        Some(reason) if OF_THE_POD.iter().any(|known| reason.starts_with(known)) => {
            Some(Failure::Connect(details.into()))
        }
        None if details.contains("timeout") => Some(Failure::FirstByteTimeout),
        _ => None,
    }
}

/// Parts of an answer that are kept to be looked at, at most.
const MOST_UNSEEN: usize = 8;

/// Reasons of a stream's end that are the pod's.
const OF_THE_POD: [&str; 6] = [
    "remote_connection_failure",
    "connection_failure",
    "connection_timeout",
    "connection_termination",
    "remote_reset",
    "protocol_error",
];
