//! One request under way: sent, answering, or waiting to be sent again.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use http::header::RETRY_AFTER;
use http::{HeaderMap, StatusCode};
use http_body::Body;
use parking_lot::Mutex;
use routing_core::{InFlightGuard, PlanStep, Pod};

use super::work::BatchHold;
use crate::driver::{Execute, Host, RunBody, Timer, Transport};
use crate::record::{Outcome, Report};

/// One request under way.
pub(super) struct Flight<T: Transport, C: Timer, const W: usize> {
    pub(super) ticket: Ticket,
    pub(super) stage: Stage<T, C, W>,
}

/// What is known of a request under way besides its future.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    pub(super) place: u32,
    /// Whose turn it is in, by number.
    pub(super) lane: usize,
    /// What it was thought to have when it was sent: what it counts for until it ends.
    pub(super) tokens: u64,
    /// The cohort that waits for its answer.
    pub(super) leads: Option<u64>,
    /// How often it was sent, and when first.
    pub(super) sent: u32,
    pub(super) since: Instant,
    /// How often a pod had it and failed.
    pub(super) failures: u32,
}

pub(super) enum Stage<T: Transport, C: Timer, const W: usize> {
    Asking(Execute<T, C, Teller, W>, Told),
    Reading(Reading<T, C, W>),
    Resting(Pin<Box<dyn Future<Output = ()> + Send>>),
}

pub(super) struct Reading<T: Transport, C: Timer, const W: usize> {
    told: Told,
    retry_after: Option<Duration>,
    body: RunBody<T, C, Teller, W>,
    kept: BytesMut,
}

/// What happened to a request under way.
#[derive(Debug)]
pub(super) enum Event {
    /// A pod's answer begins, with this status.
    Begun(StatusCode),
    Ended(Ended),
    /// It has waited long enough.
    Rested,
}

/// How a try ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// None if the answer is longer than is kept.
    pub(super) outcome: Option<Outcome>,
    pub(super) body: Bytes,
    pub(super) retry_after: Option<Duration>,
}

impl<T: Transport, C: Timer, const W: usize> Flight<T, C, W> {
    /// The next thing that happens to it. Of an answer no more than `most` bytes are kept.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Event> {
        match &mut self.stage {
            Stage::Resting(sleep) => sleep.as_mut().poll(cx).map(|()| Event::Rested),
            Stage::Asking(execute, told) => {
                let Poll::Ready(answer) = Pin::new(execute).poll(cx) else { return Poll::Pending };
                let (head, body) = answer.into_parts();
                let told = told.clone();
                let is_ours = told.is_failed();
                let (retry_after, kept) = (retry_after(&head.headers), BytesMut::new());
                self.stage = Stage::Reading(Reading { told, retry_after, body, kept });
                // An error of the run's own making is no pod's answer.
                if is_ours { self.read(cx, most) } else { Poll::Ready(Event::Begun(head.status)) }
            }
            Stage::Reading(_) => self.read(cx, most),
        }
    }

    fn read(&mut self, cx: &mut Context<'_>, most: usize) -> Poll<Event> {
        let Stage::Reading(reading) = &mut self.stage else { return Poll::Pending };
        loop {
            match Pin::new(&mut reading.body).poll_frame(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(Ok(frame))) => {
                    let Ok(data) = frame.into_data() else { continue };
                    if data.len() > most.saturating_sub(reading.kept.len()) {
                        return Poll::Ready(Event::Ended(reading.end(None)));
                    }
                    reading.kept.extend_from_slice(&data);
                }
                Poll::Ready(None | Some(Err(_))) => {
                    // A run tells its end before its answer's.
                    let outcome = reading.told.take().map_or(Outcome::Cancelled, |report| report.outcome);
                    return Poll::Ready(Event::Ended(reading.end(Some(outcome))));
                }
            }
        }
    }
}

impl<T: Transport, C: Timer, const W: usize> Reading<T, C, W> {
    fn end(&mut self, outcome: Option<Outcome>) -> Ended {
        let body = std::mem::take(&mut self.kept).freeze();
        Ended { outcome, body, retry_after: self.retry_after }
    }
}

/// Where a run's report is laid down.
#[derive(Clone, Debug, Default)]
pub(super) struct Told(Arc<Mutex<Option<Report>>>);

impl Told {
    fn take(&self) -> Option<Report> {
        self.0.lock().take()
    }

    fn is_failed(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|report| !matches!(report.outcome, Outcome::Completed(_)))
    }
}

/// Who lays it down, and hands over the request's share of the pod's load.
pub(super) struct Teller {
    pub(super) told: Told,
    /// Until the pod is asked; a run asks one.
    pub(super) hold: Option<BatchHold>,
}

/// A request's share of its pod's load, if the host counts it.
pub(super) struct Held(Option<BatchHold>);

impl InFlightGuard for Held {
    fn first_byte(&mut self) {
        if let Some(hold) = &mut self.0 {
            hold.first_byte();
        }
    }
}

impl Host for Teller {
    type Hold = Held;

    fn hold(&mut self, _: Pod, _: &PlanStep) -> Held {
        Held(self.hold.take())
    }

    fn finished(&mut self, report: Report) {
        *self.told.0.lock() = Some(report);
    }
}

/// How long a pod wants to be left alone. A date is not read.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok().map(Duration::from_secs)
}
