//! Streaming workload: 64-byte events from memory, read to their end: as it is, copied into a buffer, and through the executor.

use std::convert::Infallible;
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use kv_index::{Config, Index};
use routing_core::{PlanStep, Pod, Role, RoutingPlan};
use routing_exec::handoff::Plain;
use routing_exec::{ClientRequest, Dispatch, DispatchConfig, Executor, Timer, TransportError, TransportExecutor};

/// Chunks of a stream.
pub const CHUNKS: usize = 10_000;

/// The same event over and over and then the one that ends a stream, at once or only when asked a second time.
#[derive(Clone, Debug)]
pub struct Events {
    event: Bytes,
    end: Bytes,
    left: usize,
    pauses: bool,
    paused: bool,
}

impl Events {
    /// A whole stream, that pauses before every chunk or never.
    #[must_use]
    pub fn new(pauses: bool) -> Self {
        let event = format!("data: {:056}\n\n", 7);
        debug_assert_eq!(event.len(), 64);
        // Without it the stream would be one that was cut off, and end with an error event of the executor's.
        let end = Bytes::from_static(b"data: [DONE]\n\n");
        Self { event: event.into(), end, left: CHUNKS, pauses, paused: false }
    }

    /// Whether the executor passes on all chunks of this stream, and the same memory.
    #[must_use]
    pub fn pass_uncopied(&self) -> bool {
        let (mut same, own) = (true, [&self.event, &self.end].map(|chunk| chunk.as_ptr()));
        read(begun(self), |chunk| same &= own.contains(&chunk.as_ptr())) == CHUNKS && same
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.paused = self.pauses && !self.paused;
        if self.paused {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        let chunk = if self.left == 0 { &self.end } else { &self.event };
        Poll::Ready(Some(Ok(Frame::data(chunk.clone()))))
    }
}

struct Clock;

impl Timer for Clock {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep_until(&self, _: Instant) -> impl Future<Output = ()> + Send + 'static {
        std::future::pending()
    }
}

/// The body of a response that has begun, as the executor returns it.
///
/// # Panics
///
/// If the executor returns none.
pub fn begun(events: &Events) -> impl Body<Data = Bytes> + Unpin + use<> {
    let events = events.clone();
    let transport = move |_: Pod, _: Request<Bytes>| {
        let mut answer = Response::new(events.clone());
        answer.headers_mut().insert("content-type", http::HeaderValue::from_static("text/event-stream"));
        std::future::ready(Ok::<_, TransportError>(answer))
    };
    let executor: TransportExecutor<_, _> = TransportExecutor::new(transport, Clock);
    let index: Index = Index::new(Config::default());
    let pod = index.join("pod").expect("room");
    let plan = RoutingPlan::new(1, [PlanStep::new("serve", Role::Both, &[pod])]);
    let (parts, body) = Request::post("/v1/chat/completions").body(Bytes::from("{}")).expect("sound").into_parts();
    let config = DispatchConfig::new(Arc::new(Plain::default()), Arc::new(()));
    let dispatch = Dispatch::new(config, ClientRequest::new(&parts, body, 7), plan, Vec::new());
    let mut response = executor.execute(dispatch, ());
    loop {
        if let Poll::Ready(response) = Pin::new(&mut response).poll(&mut Context::from_waker(Waker::noop())) {
            return response.into_body();
        }
    }
}

/// Reads a body to its end; how many chunks there were.
///
/// # Panics
///
/// If it has trailers.
pub fn read(mut body: impl Body<Data = Bytes> + Unpin, mut each: impl FnMut(&Bytes)) -> usize {
    let mut cx = Context::from_waker(Waker::noop());
    let mut chunks = 0;
    loop {
        match Pin::new(&mut body).poll_frame(&mut cx) {
            Poll::Pending => {}
            Poll::Ready(Some(Ok(frame))) => {
                each(frame.data_ref().expect("there are no trailers"));
                chunks += 1;
            }
            Poll::Ready(_) => return chunks,
        }
    }
}

/// The same into a buffer.
pub fn copy(body: impl Body<Data = Bytes> + Unpin, buffer: &mut Vec<u8>) -> usize {
    read(body, |chunk| {
        buffer.clear();
        buffer.extend_from_slice(black_box(chunk));
        black_box(&*buffer);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_executor_passes_every_chunk_and_copies_none() {
        assert!(Events::new(false).pass_uncopied() && Events::new(true).pass_uncopied());
    }
}
