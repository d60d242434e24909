//! The client's body, whole: bounded in size, and in how long it may stall.
//!
//! What goes wrong here is the client's doing. No pod has been asked yet, so no breaker hears of it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, StatusCode};
use http_body::Body;

use crate::driver::Timer;

/// Why a client's body is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UploadError {
    /// It is larger than the host takes. The client's to mend.
    #[error("the request's body is larger than {limit} bytes")]
    TooLarge {
        /// The most that is taken.
        limit: usize,
    },
    /// Nothing more of it came in time.
    #[error("the request's body stalled for {} ms after {received} bytes", idle.as_millis())]
    Stalled {
        /// What had come of it.
        received: usize,
        /// How long a pause may be.
        idle: Duration,
    },
    /// The client broke it off.
    #[error("the request's body broke off after {received} bytes: {why}")]
    Aborted {
        /// What had come of it.
        received: usize,
        /// What the connection said.
        why: Box<str>,
    },
}

impl UploadError {
    /// The status that the client gets for it, if it is still there: 413, 408 or 400.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        match self {
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Stalled { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Aborted { .. } => StatusCode::BAD_REQUEST,
        }
    }
}

/// Refuses a request by the length that its headers tell, before any of it is read.
///
/// [`collect`] does so too where the body knows its length, as servers' bodies do.
///
/// # Errors
///
/// When the length is above the limit. What is no length is not judged here.
pub fn check_length(headers: &HeaderMap, limit: usize) -> Result<(), UploadError> {
    let length = headers.get(CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    if length.is_some_and(|length| length > limit as u64) { Err(UploadError::TooLarge { limit }) } else { Ok(()) }
}

/// Reads a client's body to its end.
///
/// A body that comes in one piece is not copied. Bytes are progress; frames without any are not.
///
/// # Errors
///
/// When it is larger than `limit`, pauses for longer than `idle`, or breaks off.
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
/// use routing_exec::upload::{UploadError, collect};
///
/// # block_on(async {
/// let body = || String::from(r#"{"model": "m"}"#);
/// let whole = collect(body(), 1 << 20, Duration::from_secs(10), &Clock).await;
/// assert_eq!(whole.unwrap(), body());
///
/// let error = collect(body(), 10, Duration::from_secs(10), &Clock).await.unwrap_err();
/// assert_eq!((error.status().as_u16(), error), (413, UploadError::TooLarge { limit: 10 }));
/// # });
/// ```
pub async fn collect<B, C>(body: B, limit: usize, idle: Duration, timer: &C) -> Result<Bytes, UploadError>
where
    B: Body<Error: fmt::Display>,
    C: Timer,
{
    if body.size_hint().lower() > limit as u64 {
        return Err(UploadError::TooLarge { limit });
    }
    let mut body = pin!(body);
    let mut stall = Stall::new(idle, timer);
    let (mut upload, mut nothing) = (Upload::default(), false);
    loop {
        let received = upload.received();
        let frame = poll_fn(|cx| {
            if std::mem::take(&mut nothing) {
                // A body that always has a frame without bytes is no reason to keep others from their turn, or to forget the time.
                cx.waker().wake_by_ref();
                return stall.poll(cx).map(Err);
            }
            match body.as_mut().poll_frame(cx) {
                Poll::Ready(frame) => Poll::Ready(Ok(frame)),
                Poll::Pending => stall.poll(cx).map(Err),
            }
        });
        let frame = frame.await.map_err(|()| UploadError::Stalled { received, idle })?;
        let Some(frame) = frame else { return Ok(upload.finish()) };
        let frame = frame.map_err(|error| UploadError::Aborted { received, why: error.to_string().into() })?;
        // Trailers are nothing that a pod is sent.
        let Ok(data) = frame.into_data() else {
            nothing = true;
            continue;
        };
        if data.remaining() > limit - received {
            return Err(UploadError::TooLarge { limit });
        }
        nothing = !data.has_remaining();
        if !nothing {
            upload.take(data);
            stall.put_off();
        }
    }
}

/// What has come of a body. The first piece is kept as it is, and copied only if there is another.
#[derive(Default)]
struct Upload {
    first: Bytes,
    rest: BytesMut,
}

impl Upload {
    fn received(&self) -> usize {
        self.first.len() + self.rest.len()
    }

    fn take(&mut self, mut data: impl Buf) {
        if self.received() == 0 {
            self.first = data.copy_to_bytes(data.remaining());
            return;
        }
        if self.rest.is_empty() {
            // As much again as came, and no more on a client's word.
            self.rest.reserve(self.first.len().saturating_mul(2).saturating_add(data.remaining()));
            self.rest.extend_from_slice(&std::mem::take(&mut self.first));
        }
        while data.has_remaining() {
            let piece = data.chunk();
            self.rest.extend_from_slice(piece);
            let length = piece.len();
            data.advance(length);
        }
    }

    fn finish(self) -> Bytes {
        if self.rest.is_empty() { self.first } else { self.rest.freeze() }
    }
}

/// Goes off when nothing came for too long. It is not moved at each piece: when it goes off it sees how things stand.
struct Stall<'t, C> {
    timer: &'t C,
    idle: Duration,
    /// None if that is too far off to be told as a moment.
    due: Option<Instant>,
    sleep: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl<'t, C: Timer> Stall<'t, C> {
    fn new(idle: Duration, timer: &'t C) -> Self {
        Self { timer, idle, due: timer.now().checked_add(idle), sleep: None }
    }

    fn put_off(&mut self) {
        self.due = self.timer.now().checked_add(self.idle);
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
