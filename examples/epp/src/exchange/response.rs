//! The answer's half of an exchange: each piece passes and is watched.

use envoy_types::pb::envoy::service::ext_proc::v3::{HttpBody, HttpHeaders, ProcessingRequest};

use super::{BodyMode, Exchange, Outbox, Phase};
use crate::headers;
use crate::messages::{self, Direction};
use crate::metadata;

impl Exchange {
    pub(super) fn response_headers(&mut self, message: &ProcessingRequest, headers: &HttpHeaders, outbox: &mut Outbox) {
        outbox.push_back(messages::headers_pass(Direction::Response));
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
        }
        if headers.end_of_stream {
            self.end();
        } else if self.modes.response == BodyMode::Absent {
            if let Phase::Sent(sent) = std::mem::replace(&mut self.phase, Phase::Over) {
                self.picker.metrics().ended(&sent.end_unseen());
            }
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
            self.end();
        }
    }

    pub(super) fn response_trailers(&mut self, outbox: &mut Outbox) {
        outbox.push_back(messages::trailers_pass(Direction::Response));
        self.end();
    }

    fn end(&mut self) {
        if let Phase::Sent(sent) = std::mem::replace(&mut self.phase, Phase::Over) {
            self.picker.metrics().ended(&sent.end());
        }
    }
}

/// Whether Envoy says that no pod's answer is behind this one.
fn is_own_answer(details: &str) -> bool {
    details.starts_with("upstream_reset_before_response_started") || details == "no_healthy_upstream"
}
