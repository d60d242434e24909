//! Response future: drives a dispatch to the head of the client's response.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Response, StatusCode};
use parking_lot::Mutex;
use routing_core::DEFAULT_POD_WORDS;

use super::body::DispatchBody;
use super::execution::{Event, Execution};
use super::host::DispatchHost;
use super::transport::{Timer, Transport};

/// Resolves to a client's response at its head. Dropped before that, it cancels what is in flight.
///
/// Nothing is sent before the first poll. The host gets its report even if there is none.
#[must_use = "nothing is sent before it is polled"]
pub struct DispatchFuture<T: Transport, C: Timer, H: DispatchHost, const W: usize = DEFAULT_POD_WORDS> {
    /// `None` once resolved.
    execution: Option<Arc<Mutex<Execution<T, C, H, W>>>>,
}

impl<T: Transport, C: Timer, H: DispatchHost, const W: usize> DispatchFuture<T, C, H, W> {
    pub(super) fn new(execution: Execution<T, C, H, W>) -> Self {
        Self { execution: Some(Arc::new(Mutex::new(execution))) }
    }
}

impl<T: Transport, C: Timer, H: DispatchHost, const W: usize> Future for DispatchFuture<T, C, H, W> {
    type Output = Response<DispatchBody<T, C, H, W>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            // Polled again after it resolved, which is a caller's bug, it is pending for ever.
            let Some(execution) = &self.execution else { return Poll::Pending };
            let Poll::Ready(event) = execution.lock().poll_event(cx) else { return Poll::Pending };
            let response = match event {
                Event::Head(head) => self.execution.take().map(|execution| {
                    let length = content_length(&head);
                    Response::from_parts(*head, DispatchBody::streaming(execution, length))
                }),
                Event::Respond(response) => {
                    self.execution = None;
                    Some(response.map(DispatchBody::whole))
                }
                // The head precedes all else.
                Event::Chunk(_) | Event::Trailers(_) => None,
                Event::Abort | Event::Over => {
                    self.execution = None;
                    let mut response = Response::new(DispatchBody::whole(bytes::Bytes::new()));
                    *response.status_mut() = StatusCode::BAD_GATEWAY;
                    Some(response)
                }
            };
            if let Some(response) = response {
                return Poll::Ready(response);
            }
        }
    }
}

/// The announced length of a response.
fn content_length(head: &http::response::Parts) -> Option<u64> {
    head.headers.get(http::header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

impl<T: Transport, C: Timer, H: DispatchHost, const W: usize> fmt::Debug for DispatchFuture<T, C, H, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DispatchFuture").field("done", &self.execution.is_none()).finish_non_exhaustive()
    }
}
