//! A request in flight: awaiting its response, reading it, or backing off before a retry.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::header::RETRY_AFTER;
use http::{HeaderMap, Response, StatusCode};
use http_body::Body;
use parking_lot::Mutex;
use routing_core::batch::NextRequest;
use routing_core::{InFlightGuard, PlanStep, Pod};

use super::source::BatchGuard;
use crate::executor::{DispatchHost, Executor};
use crate::report::{DispatchOutcome, DispatchReport};

/// A request in flight.
pub(super) struct InFlight<E: Executor> {
    pub(super) info: RequestInfo,
    pub(super) stage: Stage<E>,
}

/// What is known of a request in flight besides its future.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestInfo {
    pub(super) index: u32,
    /// The index of its pod's queue.
    pub(super) queue: usize,
    /// The id of the cohort that waits for its response.
    pub(super) leader_of: Option<u32>,
    pub(super) attempts: Attempts,
}

impl RequestInfo {
    /// As lists know it.
    pub(super) fn next(&self) -> NextRequest {
        NextRequest { request: self.index, leader_of: self.leader_of }
    }
}

/// The attempts of a request, over all its pods.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempts {
    pub(super) sent: u32,
    /// Those that a pod processed and failed.
    pub(super) failed: u32,
    /// When the first one was sent.
    pub(super) since: Instant,
}

pub(super) enum Stage<E: Executor> {
    AwaitingHead(BoxFuture<Response<E::Body<RunnerHost>>>, ReportCell),
    ReadingBody(BodyReader<E>),
    BackingOff(BoxFuture<()>),
}

type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

pub(super) struct BodyReader<E: Executor> {
    report: ReportCell,
    retry_after: Option<Duration>,
    body: E::Body<RunnerHost>,
    buffer: BytesMut,
}

/// What happened to a request in flight.
#[derive(Debug)]
pub(super) enum Event {
    /// The head of a pod's response, with this status.
    Head(StatusCode),
    End(AttemptEnd),
    BackoffElapsed,
}

/// How an attempt ended.
#[derive(Debug)]
pub(super) struct AttemptEnd {
    /// `None` if the response is too large.
    pub(super) outcome: Option<DispatchOutcome>,
    pub(super) body: Bytes,
    pub(super) retry_after: Option<Duration>,
}

impl<E: Executor> InFlight<E> {
    /// The next event. At most `limit` bytes of a response are buffered.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, limit: usize) -> Poll<Event> {
        match &mut self.stage {
            Stage::BackingOff(sleep) => sleep.as_mut().poll(cx).map(|()| Event::BackoffElapsed),
            Stage::AwaitingHead(response, report) => {
                let Poll::Ready(response) = response.as_mut().poll(cx) else { return Poll::Pending };
                let (head, body) = response.into_parts();
                let report = report.clone();
                let is_no_pods = report.is_failed();
                let (retry_after, buffer) = (retry_after(&head.headers), BytesMut::new());
                self.stage = Stage::ReadingBody(BodyReader { report, retry_after, body, buffer });
                // The dispatch's own error response is no pod's.
                if is_no_pods { self.read(cx, limit) } else { Poll::Ready(Event::Head(head.status)) }
            }
            Stage::ReadingBody(_) => self.read(cx, limit),
        }
    }

    fn read(&mut self, cx: &mut Context<'_>, limit: usize) -> Poll<Event> {
        let Stage::ReadingBody(reader) = &mut self.stage else { return Poll::Pending };
        loop {
            match Pin::new(&mut reader.body).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    if data.len() > limit.saturating_sub(reader.buffer.len()) {
                        return Poll::Ready(Event::End(reader.end(None)));
                    }
                    reader.buffer.extend_from_slice(&data);
                }
                Poll::Ready(None | Some(Err(_))) => {
                    // A dispatch is reported before its body ends.
                    let outcome = reader.report.take().map_or(DispatchOutcome::Cancelled, |report| report.outcome);
                    return Poll::Ready(Event::End(reader.end(Some(outcome))));
                }
            }
        }
    }
}

impl<E: Executor> BodyReader<E> {
    fn end(&mut self, outcome: Option<DispatchOutcome>) -> AttemptEnd {
        let body = std::mem::take(&mut self.buffer).freeze();
        AttemptEnd { outcome, body, retry_after: self.retry_after }
    }
}

/// The report of a dispatch, once there is one.
#[derive(Clone, Debug, Default)]
pub(super) struct ReportCell(Arc<Mutex<Option<DispatchReport>>>);

impl ReportCell {
    fn take(&self) -> Option<DispatchReport> {
        self.0.lock().take()
    }

    fn is_failed(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|report| !matches!(report.outcome, DispatchOutcome::Completed(_)))
    }
}

/// The host of a batch request's dispatch.
pub(super) struct RunnerHost {
    pub(super) report: ReportCell,
    /// Until its one attempt begins.
    pub(super) guard: Option<BatchGuard>,
}

/// A request's share of its pod's load, if the source counts it.
pub(super) struct AttemptGuard(Option<BatchGuard>);

impl InFlightGuard for AttemptGuard {
    fn first_byte(&mut self) {
        if let Some(guard) = &mut self.0 {
            guard.first_byte();
        }
    }
}

impl DispatchHost for RunnerHost {
    type Guard = AttemptGuard;

    fn begin_attempt(&mut self, _: Pod, _: &PlanStep) -> AttemptGuard {
        AttemptGuard(self.guard.take())
    }

    fn finished(&mut self, report: DispatchReport) {
        *self.report.0.lock() = Some(report);
    }
}

/// A response's `Retry-After` in seconds. Dates are ignored.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}
