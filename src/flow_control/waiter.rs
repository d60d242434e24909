//! A request that waits: what it is woken with, and that it leaves the queue when nobody waits for it any more.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use http::StatusCode;
use parking_lot::Mutex;
use routing_core::flow::Ticket;
use routing_exec::Timer;
use routing_plugins::load::LoadGuard;

use super::Decided;
use crate::api_error::ApiError;
use crate::llm_request::LlmRequest;
use crate::router::Router;

/// What is in the queue.
pub(crate) struct Waiter<const W: usize> {
    pub(super) request: Arc<LlmRequest>,
    pub(super) is_traced: bool,
    /// Its shares of the load of the pod that it waits for.
    pub(super) queued: Mutex<Option<[LoadGuard<W>; 2]>>,
    slot: Mutex<Slot<W>>,
}

struct Slot<const W: usize> {
    outcome: Option<Result<Decided<W>, ApiError>>,
    waker: Option<Waker>,
}

impl<const W: usize> Waiter<W> {
    pub(super) fn new(request: Arc<LlmRequest>, is_traced: bool) -> Self {
        let slot = Mutex::new(Slot { outcome: None, waker: None });
        Self { request, is_traced, queued: Mutex::default(), slot }
    }

    /// Says what becomes of it.
    pub(super) fn wake(&self, outcome: Result<Decided<W>, ApiError>) {
        *self.queued.lock() = None;
        let waker = {
            let mut slot = self.slot.lock();
            slot.outcome = Some(outcome);
            slot.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn poll(&self, waker: &Waker) -> Poll<Result<Decided<W>, ApiError>> {
        let mut slot = self.slot.lock();
        match slot.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                slot.waker = Some(waker.clone());
                Poll::Pending
            }
        }
    }
}

/// Whoever waits for it. Dropped, the request is gone.
pub(crate) struct WaitingRequest<const W: usize> {
    pub(super) router: Router<W>,
    pub(super) waiter: Arc<Waiter<W>>,
    pub(super) ticket: Ticket,
    pub(super) expires: Instant,
}

impl<const W: usize> WaitingRequest<W> {
    /// What became of it by now. If nothing did, it is shed.
    pub(crate) fn now(self) -> Result<Decided<W>, ApiError> {
        if let Some(error) = self.router.refuse(self.ticket) {
            return Err(error);
        }
        for _ in 0..ABOUT_TO_SAY {
            if let Some(outcome) = self.waiter.slot.lock().outcome.take() {
                return outcome;
            }
            // Another thread took it out of the queue, and is about to say so.
            std::thread::yield_now();
        }
        let error = ApiError::new(StatusCode::TOO_MANY_REQUESTS, "saturated", "all pods are busy");
        Err(error.retry_after(Duration::from_secs(1)))
    }

    /// Waits until it may go, or is shed.
    pub(crate) async fn outcome(mut self, timer: &impl Timer) -> Result<Decided<W>, ApiError> {
        let mut at = timer.now();
        loop {
            // Now and then somebody has to look, however quiet it is.
            at = (at + LOOK_EVERY).min(self.expires.max(at + SHORTEST));
            let mut looks = pin!(timer.sleep_until(at));
            let outcome = poll_fn(|cx| match self.waiter.poll(cx.waker()) {
                Poll::Ready(outcome) => Poll::Ready(Some(outcome)),
                Poll::Pending => looks.as_mut().poll(cx).map(|()| None),
            });
            match outcome.await {
                Some(outcome) => return outcome,
                None => self.router.look(),
            }
            at = timer.now();
            if at >= self.expires {
                // Requests may wait for longer since there are other settings.
                self.expires = self.router.waits_until(self.ticket).unwrap_or(self.expires);
            }
            if at > self.expires + LOST {
                // Whoever had it in hand broke down.
                return Err(ApiError::unavailable("expired", "the request waited for too long"));
            }
        }
    }
}

impl<const W: usize> Drop for WaitingRequest<W> {
    fn drop(&mut self) {
        self.router.forget(self.ticket);
        // It may have been let go and not be there any more: what it would have taken is others'.
        let left = {
            let mut slot = self.waiter.slot.lock();
            slot.outcome.take()
        };
        *self.waiter.queued.lock() = None;
        drop(left);
        self.router.pump();
    }
}

/// Long after its time it is not in the queue any more.
const LOST: Duration = Duration::from_secs(5);
/// How often one that waits looks for itself, and how soon again at least.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const SHORTEST: Duration = Duration::from_millis(1);
/// How often one looks that another thread has in hand. That thread has nothing else to do between taking it and saying so.
const ABOUT_TO_SAY: u32 = 1_000;
