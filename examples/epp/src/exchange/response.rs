//! The answer's half of an exchange: each piece passes and is watched.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use envoy_types::pb::envoy::config::core::v3::HeaderValueOption;
use envoy_types::pb::envoy::service::ext_proc::v3::{HttpBody, HttpHeaders, ProcessingRequest};

use super::sent::Sent;
use super::{BodyMode, Exchange, Outbox, Phase};
use crate::headers;
use crate::messages::{self, Direction};
use crate::metadata;
use crate::picker::Picker;
use crate::picker_config::SessionToken;

impl Exchange {
    pub(super) fn response_headers(&mut self, message: &ProcessingRequest, headers: &HttpHeaders, outbox: &mut Outbox) {
        let mut passes = messages::headers_pass(Direction::Response);
        if let Phase::Sent(sent) = &mut self.phase {
            let (status, map) = headers::response_head(headers.headers.as_ref());
            let details = metadata::code_details(message).filter(|details| is_own_answer(details));
            match (details, metadata::served(message)) {
                (Some(details), _) => sent.unreachable(details),
                // With ranks behind one port the address says nothing of them.
                (_, Some(served)) if self.picker.options().data_parallel_port.is_none() => {
                    let first = sent.pod().filter(|pod| !self.picker.is_at(*pod, served));
                    if let Some(pod) = first.and_then(|_| self.picker.pods_at([served]).first().copied()) {
                        sent.served_by(pod);
                    }
                }
                _ => {}
            }
            if let Some(status) = status {
                sent.head(status, &map);
            }
            if let Some(token) = self.picker.session_token(sent) {
                passes = messages::response_headers(token);
            }
        }
        outbox.push_back(passes);
        if headers.end_of_stream || self.modes.response == BodyMode::Absent {
            self.end(headers.end_of_stream);
        }
    }

    pub(super) fn response_body(&mut self, body: HttpBody, outbox: &mut Outbox) {
        if let Phase::Sent(sent) = &mut self.phase {
            sent.chunk(&body.body);
        }
        let ends = body.end_of_stream;
        outbox.push_back(match self.modes.response {
            BodyMode::Duplex => messages::streamed(Direction::Response, body.body, ends),
            _ => messages::body_passes(Direction::Response),
        });
        if ends {
            self.end(true);
        }
    }

    pub(super) fn response_trailers(&mut self, outbox: &mut Outbox) {
        outbox.push_back(messages::trailers_pass(Direction::Response));
        self.end(true);
    }

    /// Nothing more is heard of the answer: it ended, or its body is not shown.
    fn end(&mut self, was_seen: bool) {
        if let Phase::Sent(sent) = std::mem::replace(&mut self.phase, Phase::Over) {
            self.picker.metrics().ended(&if was_seen { sent.end() } else { sent.end_unseen() });
        }
    }
}

impl Picker {
    /// The header that tells a client its session's pod.
    fn session_token(&self, sent: &Sent) -> Option<HeaderValueOption> {
        let SessionToken { header, step, .. } = self.options().session_token.as_ref()?;
        let pod = sent.pod_of(step.as_deref())?;
        let name = self.router().pods().into_iter().find(|entry| entry.pod == pod)?.spec.name;
        // Names without a namespace are of the default one.
        let name = if name.contains('/') { name } else { format!("default/{name}") };
        Some(messages::set(header, STANDARD.encode(name)))
    }
}

/// Whether Envoy says that no pod's answer is behind this one.
fn is_own_answer(details: &str) -> bool {
    details.starts_with("upstream_reset_before_response_started") || details == "no_healthy_upstream"
}
