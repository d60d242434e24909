//! A chunk that comes alone is forwarded without an allocation; those that come together cost one between them.

mod executor_world;

use std::convert::Infallible;
use std::future::{Future, pending, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Instant;

use bytes::Bytes;
use executor_world::{Clock, dispatch, pods};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};
use http_body::{Body, Frame};
use pointsman_test_support::alloc::{CountingAllocator, allocations};
use routing_core::Pod;
use routing_exec::{Executor, GatheredBody, Timer, TransportError, TransportExecutor};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator::new();

const EVENT: &[u8] = b"data: a\n\n";

/// The same event over and over, each after so many polls in vain.
struct Events {
    pauses: u32,
    paused: u32,
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.paused < self.pauses {
            self.paused += 1;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.paused = 0;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(EVENT)))))
    }
}

/// A task that is polled on and on.
struct Task;

impl Wake for Task {
    fn wake(self: Arc<Self>) {}
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

/// Frames that a client reads of such a stream, events in them, and allocations that this took.
fn read_frames(pauses: u32, is_gathered: bool) -> (usize, usize, usize) {
    const FRAMES: usize = 1_000;
    let transport = move |_: Pod, _: Request<Bytes>| {
        let mut answer = Response::new(Events { pauses, paused: 0 });
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        ready(Ok::<_, TransportError>(answer))
    };
    let executor: TransportExecutor<_, _> = TransportExecutor::new(transport, Still(Clock::default()));
    let mut answer = executor.execute(dispatch(&pods(1)), ());
    // One that is its clones', as those of runtimes are.
    let waker = Waker::from(Arc::new(Task));
    let mut cx = Context::from_waker(&waker);
    let body = loop {
        if let Poll::Ready(answer) = Pin::new(&mut answer).poll(&mut cx) {
            break answer.into_body();
        }
    };
    let mut body: Box<dyn Body<Data = Bytes, Error = _> + Unpin> =
        if is_gathered { Box::new(GatheredBody::new(body)) } else { Box::new(body) };
    let mut events = 0;
    let mut read = |frames| {
        let mut left = frames;
        while left > 0 {
            if let Poll::Ready(Some(Ok(frame))) = Pin::new(&mut body).poll_frame(&mut cx) {
                events += frame.data_ref().map_or(0, Bytes::len) / EVENT.len();
                left -= 1;
            }
        }
    };
    // The list of what came together grows once.
    read(1);
    let allocations = allocations(|| read(FRAMES));
    (FRAMES, events, allocations)
}

#[test]
fn a_forwarded_chunk_allocates_nothing() {
    for pauses in [0, 1] {
        let (frames, events, allocations) = read_frames(pauses, false);
        assert_eq!((events, allocations), (frames + 1, 0), "pauses: {pauses}");
    }
    // Whoever reads from the pod has its turn between a chunk and what follows: more polls in vain keep them apart.
    let (frames, events, allocations) = read_frames(3, true);
    assert_eq!((events, allocations), (frames + 1, 0), "gathered");
}

#[test]
fn chunks_that_come_together_allocate_once() {
    let (frames, events, allocations) = read_frames(0, true);
    assert!(events >= frames * 1_000, "{events} events in {frames} frames");
    assert_eq!(allocations, frames);
}
