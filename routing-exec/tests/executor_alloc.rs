//! A forwarded chunk allocates nothing, whether it is there at once or has to be waited for.

mod executor_world;

use std::convert::Infallible;
use std::future::{Future, pending, ready};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use executor_world::{Clock, dispatch, pods};
use http::{Request, Response};
use http_body::{Body, Frame};
use pointsman_test_support::alloc::{CountingAllocator, allocations};
use routing_core::Pod;
use routing_exec::{Executor, Timer, TransportError, TransportExecutor};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

/// The same event over and over, after a pause each or not.
struct Events {
    pauses: bool,
    paused: bool,
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.paused = self.pauses && !self.paused;
        if self.paused {
            return Poll::Pending;
        }
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"data: a\n\n")))))
    }
}

struct Still(Clock);

impl Timer for Still {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn sleep_until(&self, _: Instant) -> impl Future<Output = ()> + Send + 'static {
        pending()
    }
}

#[test]
fn a_forwarded_chunk_allocates_nothing() {
    for pauses in [false, true] {
        let transport = move |_: Pod, _: Request<Bytes>| {
            let answer = Response::builder().header("content-type", "text/event-stream");
            ready(Ok::<_, TransportError>(answer.body(Events { pauses, paused: false }).unwrap()))
        };
        let executor: TransportExecutor<_, _> = TransportExecutor::new(transport, Still(Clock::default()));
        let mut answer = executor.execute(dispatch(&pods(1)), ());
        let mut cx = Context::from_waker(Waker::noop());
        let mut body = loop {
            if let Poll::Ready(answer) = Pin::new(&mut answer).poll(&mut cx) {
                break answer.into_body();
            }
        };
        let read = allocations(|| {
            let mut chunks = 0;
            while chunks < 1_000 {
                chunks += u32::from(Pin::new(&mut body).poll_frame(&mut cx).is_ready());
            }
        });
        assert_eq!(read, 0, "pauses: {pauses}");
    }
}
