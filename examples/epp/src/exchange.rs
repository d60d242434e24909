//! One exchange: a request and its answer, as Envoy shows them message by message.
//!
//! ```text
//!  request headers ─▶ body … ─▶ decide (may wait) ─▶ headers with the destination, the body
//!  response headers ─▶ body … ─▶ end:  each piece passes and is watched
//! ```
//!
//! The rules: a request is decided about once, when all of it is there (or as soon as it is known that nobody reads its body, or that none is
//! shown in time: what comes of it then passes and is not held); an answer is
//! never held back: what it tells is looked at once it went on (but for headers, where those that go on depend on it); whatever way an exchange ends, what it counted for is given back once,
//! since guards hold it.

mod request;
mod response;
mod sent;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;

use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::BodySendMode;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::{ProcessingRequest, ProcessingResponse, ProtocolConfiguration};

use tonic::{Code, Status};

use self::request::PendingRequest;
use self::response::Passed;
use self::sent::Sent;
use crate::answer_model::AnswerModel;
use crate::messages::{self, Direction};
use crate::picker::Picker;

/// Messages to Envoy, in order.
pub(crate) type Outbox = VecDeque<ProcessingResponse>;

/// An exchange.
#[derive(Debug)]
pub(crate) struct Exchange {
    picker: Arc<Picker>,
    modes: Modes,
    phase: Phase,
    /// What went on already, and is still to be looked at.
    unseen: VecDeque<Passed>,
    /// Where the client called its model otherwise.
    answer_model: Option<AnswerModel>,
}

#[derive(Debug)]
enum Phase {
    /// Its request is not all there.
    Request(Box<PendingRequest>),
    /// It was decided about.
    Sent(Box<Sent>),
    /// Its answer ended, or was our own.
    Over,
}

/// How Envoy sends bodies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Modes {
    request: BodyMode,
    response: BodyMode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyMode {
    /// In pieces, of which it keeps none: what is to go on is sent back.
    Duplex,
    /// In one piece, which it keeps, and headers with it: it asks whether to go on.
    Whole,
    /// In pieces, of which each goes on once that is said. Headers went before.
    Pieces,
    /// Not at all.
    Absent,
}

impl Exchange {
    pub(crate) fn new(picker: Arc<Picker>) -> Self {
        let modes = Modes { request: BodyMode::Duplex, response: BodyMode::Duplex };
        Self { picker, modes, phase: Phase::Request(Box::default()), unseen: VecDeque::new(), answer_model: None }
    }

    /// Whether nothing more is to be said.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// Envoy's stream broke: whether that is answered. A message that is too long is a body that is; all else is an error.
    pub(crate) fn failed(&mut self, status: &Status, outbox: &mut Outbox) -> bool {
        // It may break right behind the end.
        self.look();
        let is_answered = status.code() == Code::OutOfRange && matches!(self.phase, Phase::Request(_));
        if is_answered {
            self.refuse(&self.too_long(), outbox);
        } else if matches!(std::mem::replace(&mut self.phase, Phase::Over), Phase::Sent(_)) {
            self.picker.metrics().cancelled();
        }
        is_answered
    }

    /// Whether something went on that is still to be looked at: [`Self::look`], once it was sent.
    pub(crate) fn is_behind(&self) -> bool {
        !self.unseen.is_empty()
    }

    /// Takes a message, and puts what is to be said to it into the outbox.
    pub(crate) async fn handle(&mut self, mut message: ProcessingRequest, outbox: &mut Outbox) {
        if let Some(config) = &message.protocol_config {
            self.modes = Modes::of(config);
            if !self.modes.request.waits_for_body() {
                self.picker.says_blind();
            }
        }
        let Some(request) = message.request.take() else { return };
        match request {
            Request::RequestHeaders(headers) => self.request_headers(&message, &headers, outbox).await,
            Request::RequestBody(body) => self.request_body(&message, body, outbox).await,
            Request::RequestTrailers(_) => self.request_trailers(outbox).await,
            Request::ResponseHeaders(headers) => self.response_headers(message, headers, outbox),
            Request::ResponseBody(body) => self.response_body(body, outbox),
            Request::ResponseTrailers(_) => self.response_trailers(outbox),
        }
    }
}

/// Has a body go on, or a part of it, in pieces that Envoy takes. `ends` where nothing follows.
fn pass_on(direction: Direction, body: impl AsRef<[u8]> + Into<Vec<u8>>, ends: bool, outbox: &mut Outbox) {
    if body.as_ref().len() <= LONGEST_PIECE {
        return outbox.push_back(messages::streamed(direction, body.into(), ends));
    }
    let mut pieces = body.as_ref().chunks(LONGEST_PIECE).peekable();
    while let Some(piece) = pieces.next() {
        let is_last = pieces.peek().is_none();
        outbox.push_back(messages::streamed(direction, piece.to_vec(), ends && is_last));
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // Envoy may leave as soon as it has the end.
        self.look();
        if matches!(self.phase, Phase::Sent(_)) {
            self.picker.metrics().cancelled();
        }
    }
}

impl Modes {
    fn of(config: &ProtocolConfiguration) -> Self {
        Self { request: BodyMode::of(config.request_body_mode()), response: BodyMode::of(config.response_body_mode()) }
    }
}

impl BodyMode {
    fn of(mode: BodySendMode) -> Self {
        match mode {
            BodySendMode::FullDuplexStreamed | BodySendMode::Grpc => Self::Duplex,
            BodySendMode::Buffered => Self::Whole,
            BodySendMode::Streamed | BodySendMode::BufferedPartial => Self::Pieces,
            BodySendMode::None => Self::Absent,
        }
    }

    /// Whether a request can be looked at before it has to go.
    fn waits_for_body(self) -> bool {
        matches!(self, Self::Duplex | Self::Whole)
    }
}

/// Envoy takes pieces of up to 64 KiB, with what is around them.
const LONGEST_PIECE: usize = 60_000;
