//! Request body: collected with a size limit and an idle timeout.
//!
//! Errors here are the client's: no pod is involved yet, and no breaker is charged.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use http::StatusCode;
use http_body::Body;

use crate::executor::Timer;

/// Why a request's body was not collected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RequestBodyError {
    /// It exceeds the limit. The client can act.
    #[error("the request's body is larger than {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The idle timeout passed.
    #[error("the request's body was idle for {} ms after {received} bytes", timeout.as_millis())]
    IdleTimeout {
        /// Bytes received.
        received: usize,
        /// The idle timeout.
        timeout: Duration,
    },
    /// The client aborted it.
    #[error("the request's body was aborted after {received} bytes: {why}")]
    Aborted {
        /// Bytes received.
        received: usize,
        /// The connection's error.
        why: Box<str>,
    },
}

impl RequestBodyError {
    /// The client's status: 413, 408 or 400.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::IdleTimeout { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Aborted { .. } => StatusCode::BAD_REQUEST,
        }
    }
}

/// Collects a client's body.
///
/// A body of one chunk is not copied. Frames without bytes do not restart the idle timeout.
///
/// # Errors
///
/// When it exceeds `limit`, is idle for longer than `timeout`, or is aborted.
///
/// # Examples
///
/// ```
/// # use std::{future::{Future, pending}, time::{Duration, Instant}};
/// # struct Clock;
/// # impl routing_exec::Timer for Clock {
/// #     fn now(&self) -> Instant { Instant::now() }
/// #     fn sleep_until(&self, _: Instant) -> impl Future<Output = ()> + Send + 'static { pending() }
/// # }
/// # fn block_on<F: Future>(future: F) -> F::Output {
/// #     let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
/// #     let std::task::Poll::Ready(output) = std::pin::pin!(future).poll(&mut cx) else { panic!() };
/// #     output
/// # }
/// use routing_exec::request_body::{RequestBodyError, collect};
///
/// # block_on(async {
/// let body = || String::from(r#"{"model": "m"}"#);
/// let whole = collect(body(), 1 << 20, Duration::from_secs(10), &Clock).await;
/// assert_eq!(whole.unwrap(), body());
///
/// let error = collect(body(), 10, Duration::from_secs(10), &Clock).await.unwrap_err();
/// assert_eq!((error.status().as_u16(), error), (413, RequestBodyError::TooLarge { limit: 10 }));
/// # });
/// ```
pub async fn collect<B, C>(body: B, limit: usize, timeout: Duration, timer: &C) -> Result<Bytes, RequestBodyError>
where
    B: Body<Error: fmt::Display>,
    C: Timer,
{
    if body.size_hint().lower() > limit as u64 {
        return Err(RequestBodyError::TooLarge { limit });
    }
    let mut body = pin!(body);
    let mut idle = IdleTimer::new(timeout, timer);
    let (mut collected, mut is_empty_frame) = (Collected::default(), false);
    loop {
        let received = collected.len();
        let frame = poll_fn(|cx| {
            if std::mem::take(&mut is_empty_frame) {
                // A body that is always ready with an empty frame must not starve other tasks or the timer.
                cx.waker().wake_by_ref();
                return idle.poll(cx).map(Err);
            }
            match body.as_mut().poll_frame(cx) {
                Poll::Ready(frame) => Poll::Ready(Ok(frame)),
                Poll::Pending => idle.poll(cx).map(Err),
            }
        });
        let frame = frame.await.map_err(|()| RequestBodyError::IdleTimeout { received, timeout })?;
        let Some(frame) = frame else { return Ok(collected.finish()) };
        let frame = frame.map_err(|error| RequestBodyError::Aborted { received, why: error.to_string().into() })?;
        // Trailers are not forwarded.
        let Ok(data) = frame.into_data() else {
            is_empty_frame = true;
            continue;
        };
        if data.remaining() > limit - received {
            return Err(RequestBodyError::TooLarge { limit });
        }
        is_empty_frame = !data.has_remaining();
        if !is_empty_frame {
            collected.push(data);
            idle.restart();
        }
    }
}

/// The bytes so far. The first chunk is copied only if there is another.
#[derive(Default)]
struct Collected {
    first: Bytes,
    rest: BytesMut,
}

impl Collected {
    fn len(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    fn push(&mut self, mut data: impl Buf) {
        if self.len() == 0 {
            self.first = data.copy_to_bytes(data.remaining());
            return;
        }
        if self.rest.is_empty() {
            // Twice what arrived, not what the client announces.
            self.rest.reserve(self.first.len().saturating_mul(2).saturating_add(data.remaining()));
            self.rest.extend_from_slice(&std::mem::take(&mut self.first));
        }
        while data.has_remaining() {
            let chunk = data.chunk();
            self.rest.extend_from_slice(chunk);
            let length = chunk.len();
            data.advance(length);
        }
    }

    fn finish(self) -> Bytes {
        if self.rest.is_empty() { self.first } else { self.rest.freeze() }
    }
}

/// An idle timeout. It is not moved at each chunk: when it fires it checks what is due.
struct IdleTimer<'t, C> {
    timer: &'t C,
    timeout: Duration,
    /// `None` beyond the range of `Instant`.
    due: Option<Instant>,
    sleep: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<'t, C: Timer> IdleTimer<'t, C> {
    fn new(timeout: Duration, timer: &'t C) -> Self {
        Self { timer, timeout, due: timer.now().checked_add(timeout), sleep: None }
    }

    fn restart(&mut self) {
        self.due = self.timer.now().checked_add(self.timeout);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let Some(due) = self.due else { return Poll::Pending };
            let sleep = self.sleep.get_or_insert_with(|| Box::pin(self.timer.sleep_until(due)));
            if sleep.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.sleep = None;
            if self.timer.now() >= due {
                return Poll::Ready(());
            }
        }
    }
}
