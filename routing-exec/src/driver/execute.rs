//! The wait for the beginning of a client's answer.

use routing_core::DEFAULT_POD_WORDS;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::{Response, StatusCode};

use super::body::RunBody;
use super::execution::{Event, Execution};
use super::host::{Host, Timer, Transport};

/// Gives a client's answer, once it begins. Dropped before that, it cancels what is under way.
///
/// Nothing is sent before it is first polled. The host hears of the run's end once, even if it never is.
#[must_use = "nothing is sent before it is polled"]
pub struct Execute<T: Transport, C: Timer, H: Host, const W: usize = DEFAULT_POD_WORDS> {
    /// None once the answer has begun.
    execution: Option<Box<Execution<T, C, H, W>>>,
}

impl<T: Transport, C: Timer, H: Host, const W: usize> Execute<T, C, H, W> {
    pub(super) fn new(execution: Execution<T, C, H, W>) -> Self {
        Self { execution: Some(Box::new(execution)) }
    }
}

impl<T: Transport, C: Timer, H: Host, const W: usize> Future for Execute<T, C, H, W> {
    type Output = Response<RunBody<T, C, H, W>>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        loop {
            // Polled again after its end, which no caller may count on, it waits for ever.
            let Some(execution) = &mut self.execution else { return Poll::Pending };
            let Poll::Ready(event) = execution.poll_event(cx) else { return Poll::Pending };
            let answer = match event {
                Event::Head(head) => self.execution.take().map(|execution| {
                    let length = content_length(&head);
                    Response::from_parts(*head, RunBody::streaming(execution, length))
                }),
                Event::Answer(answer) => {
                    self.execution = None;
                    Some(answer.map(RunBody::whole))
                }
                // A run begins its answer before anything else of it.
                Event::Chunk(_) | Event::Trailers(_) => None,
                Event::Broken | Event::Over => {
                    self.execution = None;
                    let mut answer = Response::new(RunBody::whole(bytes::Bytes::new()));
                    *answer.status_mut() = StatusCode::BAD_GATEWAY;
                    Some(answer)
                }
            };
            if let Some(answer) = answer {
                return Poll::Ready(answer);
            }
        }
    }
}

/// How long an answer says that it is.
fn content_length(head: &http::response::Parts) -> Option<u64> {
    head.headers.get(http::header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

impl<T: Transport, C: Timer, H: Host, const W: usize> fmt::Debug for Execute<T, C, H, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execute").field("done", &self.execution.is_none()).finish_non_exhaustive()
    }
}
