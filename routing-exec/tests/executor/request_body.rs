//! A client's upload: what it may be, and what its client is told when it is not.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll};
use std::time::Duration;

use crate::executor_world::*;
use bytes::Bytes;
use http::HeaderMap;
use http_body::Body;
use http_body_util::Full;
use routing_exec::request_body::{RequestBodyError, collect};

const IDLE: Duration = Duration::from_secs(10);

/// Uploads these acts with a limit: what is made of them, and how much of them was read.
fn upload(acts: Vec<Act>, limit: usize) -> (Result<Bytes, RequestBodyError>, usize) {
    let clock = Clock::default();
    let pods = Pods::new(&clock, |_, _| vec![]);
    let whole = block_on(&clock, collect(pods.play(acts), limit, IDLE, &clock));
    assert_eq!((pods.seen.live.load(SeqCst), clock.asleep()), (0, 0));
    (whole, pods.seen.acts.load(SeqCst))
}

#[test]
fn pieces_are_put_together_in_order() {
    let wait = || Act::Wait(IDLE - Duration::from_millis(1));
    let acts = vec![chunk("{\"a"), wait(), chunk(""), chunk("\":"), wait(), chunk("1}"), wait()];
    assert_eq!(upload(acts, 7).0.unwrap(), "{\"a\":1}");
    assert_eq!(upload(vec![], 0).0.unwrap(), "");
    assert_eq!(upload(vec![Act::Trailers(HeaderMap::new())], 0).0.unwrap(), "");
}

#[test]
fn one_piece_is_not_copied() {
    let piece = Bytes::from("{}".repeat(100));
    let (whole, _) = upload(vec![Act::Chunk(piece.clone())], 1_000);
    assert_eq!(whole.unwrap().as_ptr(), piece.as_ptr());
}

#[test]
fn oversize_is_413_as_soon_as_it_is_seen() {
    let (whole, read) = upload(vec![chunk("1234"), chunk("5"), chunk("6"), chunk("7")], 5);
    let error = whole.unwrap_err();
    assert_eq!((error.status().as_u16(), read), (413, 3));
    assert_eq!(error, RequestBodyError::TooLarge { limit: 5 });
}

#[test]
fn a_length_above_the_limit_is_refused_before_anything_is_read() {
    struct Unread;
    impl Body for Unread {
        type Data = Bytes;
        type Error = std::convert::Infallible;
        fn poll_frame(
            self: std::pin::Pin<&mut Self>,
            _: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
            panic!("it is not to be read")
        }
        fn size_hint(&self) -> http_body::SizeHint {
            http_body::SizeHint::with_exact(6)
        }
    }
    let clock = Clock::default();
    assert_eq!(block_on(&clock, collect(Unread, 5, IDLE, &clock)), Err(RequestBodyError::TooLarge { limit: 5 }));
    assert_eq!(block_on(&clock, collect(Full::new(Bytes::from("12345")), 5, IDLE, &clock)).unwrap(), "12345");
}

#[test]
fn a_stall_is_408_and_empty_frames_are_no_progress() {
    let (whole, _) = upload(vec![chunk("12"), Act::Hang], 5);
    let error = whole.unwrap_err();
    assert_eq!((error.status().as_u16(), &error), (408, &RequestBodyError::IdleTimeout { received: 2, timeout: IDLE }));
    let drips = (0..100).flat_map(|_| [Act::Wait(IDLE / 3), chunk("")]);
    assert!(matches!(upload(drips.collect(), 5).0, Err(RequestBodyError::IdleTimeout { received: 0, .. })));
}

/// Time that passes by a second whenever it is asked for.
struct Hasty(std::time::Instant, std::sync::atomic::AtomicU64);

impl routing_exec::Timer for Hasty {
    fn now(&self) -> std::time::Instant {
        self.0 + Duration::from_secs(self.1.fetch_add(1, SeqCst))
    }

    fn sleep_until(&self, at: std::time::Instant) -> impl Future<Output = ()> + Send + 'static {
        let is_over = self.now() >= at;
        std::future::poll_fn(move |_| if is_over { Poll::Ready(()) } else { Poll::Pending })
    }
}

/// A client that always has an empty frame.
struct Empty;

impl Body for Empty {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, Self::Error>>> {
        Poll::Ready(Some(Ok(http_body::Frame::data(Bytes::new()))))
    }
}

#[test]
fn empty_frames_without_end_let_others_have_their_turn_and_are_a_stall() {
    #[expect(clippy::disallowed_methods, reason = "some instant to count from")]
    let begun = std::time::Instant::now();
    let clock = Hasty(begun, 0.into());
    let mut cx = Context::from_waker(std::task::Waker::noop());
    let mut collecting = std::pin::pin!(collect(Empty, 5, IDLE, &clock));
    assert!(collecting.as_mut().poll(&mut cx).is_pending(), "one at a time");
    let late = Hasty(begun, 3_600.into());
    let mut collecting = std::pin::pin!(collect(Empty, 5, Duration::ZERO, &late));
    let stalled = RequestBodyError::IdleTimeout { received: 0, timeout: Duration::ZERO };
    assert_eq!(collecting.as_mut().poll(&mut cx), Poll::Ready(Err(stalled)));
}

#[test]
fn a_pause_may_be_too_long_to_be_told_as_a_moment() {
    let clock = Clock::default();
    let body = Full::new(Bytes::from("12"));
    assert_eq!(block_on(&clock, collect(body, 5, Duration::MAX, &clock)).unwrap(), "12");
}

#[test]
fn a_client_that_breaks_off_is_400() {
    let error = upload(vec![chunk("12"), Act::Cut], 5).0.unwrap_err();
    assert_eq!(error.status().as_u16(), 400);
    assert!(matches!(error, RequestBodyError::Aborted { received: 2, .. }));
}
