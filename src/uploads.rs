//! Uploads: bounds on all request bodies that are being read at a time, apart from the requests that are under way.
//!
//! The rule: what is counted is what has arrived. A client that announces much and sends little holds little, and its count
//! goes when its [`Upload`] is dropped, whatever became of it.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use http_body::{Body, Frame, SizeHint};
use routing_exec::Timer;

use crate::api_error::ApiError;
use crate::service::BodyLimits;

/// Bounds on all bodies that are being read at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UploadLimits {
    /// Bodies; 4096 unless given.
    pub max_uploads: usize,
    /// Bytes that have arrived of all of them together; 1 GiB unless given.
    pub max_bytes: usize,
}

impl Default for UploadLimits {
    fn default() -> Self {
        Self { max_uploads: 4096, max_bytes: 1 << 30 }
    }
}

impl UploadLimits {
    /// The same for so many bodies.
    #[must_use]
    pub fn max_uploads(self, uploads: usize) -> Self {
        Self { max_uploads: uploads, ..self }
    }

    /// The same for so many bytes.
    #[must_use]
    pub fn max_bytes(self, bytes: usize) -> Self {
        Self { max_bytes: bytes, ..self }
    }
}

/// Counts the bodies that are being read. Cheap to clone: clones count together.
///
/// # Examples
///
/// ```
/// use pointsman::{UploadLimits, Uploads};
///
/// let (uploads, limits) = (Uploads::default(), UploadLimits::default().max_uploads(1));
/// let first = uploads.begin(limits)?;
/// let refused = uploads.begin(limits).unwrap_err();
/// assert_eq!((refused.status.as_u16(), refused.code, uploads.count()), (503, "too_many_uploads", 1));
/// drop(first);
/// assert!(uploads.begin(limits).is_ok());
/// # Ok::<(), pointsman::ApiError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Uploads(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    uploads: AtomicUsize,
    bytes: AtomicUsize,
    refused: AtomicU64,
}

impl Uploads {
    /// Takes a place for a body.
    ///
    /// # Errors
    ///
    /// 503 where there is none, after which the connection is closed: the body is not read.
    pub fn begin(&self, limits: UploadLimits) -> Result<Upload, ApiError> {
        if add_below(&self.0.uploads, 1, limits.max_uploads) {
            return Ok(Upload { counts: Arc::clone(&self.0), bytes: 0, limits });
        }
        self.0.refuse();
        let message = format!("{} bodies of requests are being read, which is the limit", limits.max_uploads);
        Err(ApiError::unavailable("too_many_uploads", message).closing())
    }

    /// Bodies that are being read.
    #[must_use]
    pub fn count(&self) -> usize {
        // Relaxed, here and below: counters that publish nothing.
        self.0.uploads.load(Ordering::Relaxed)
    }

    /// Bytes that have arrived of them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Bodies that were refused, since there were too many or they had too many bytes together.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }
}

impl Counts {
    fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// A body that is being read; counted until it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Upload {
    counts: Arc<Counts>,
    /// Those that were counted.
    bytes: usize,
    limits: UploadLimits,
}

impl Upload {
    /// Reads a client's body to its end.
    ///
    /// # Errors
    ///
    /// As [`BodyLimits::collect`], and 503 where all bodies together have too many bytes.
    pub async fn collect<B>(&mut self, body: B, limits: BodyLimits, timer: &impl Timer) -> Result<Bytes, ApiError>
    where
        B: Body<Error: fmt::Display>,
    {
        let (mut body, mut is_full) = (pin!(body), false);
        let counted = Counted { body: body.as_mut(), upload: self, is_full: &mut is_full };
        let collected = limits.collect(counted, timer).await;
        if !is_full {
            return collected;
        }
        self.counts.refuse();
        let message =
            format!("the bodies of all requests have {} bytes together, which is the limit", self.limits.max_bytes);
        Err(ApiError::unavailable("too_many_upload_bytes", message).closing())
    }

    /// Counts bytes that arrived, if there is room for them.
    fn add(&mut self, bytes: usize) -> bool {
        let has_room = add_below(&self.counts.bytes, bytes, self.limits.max_bytes);
        self.bytes += if has_room { bytes } else { 0 };
        has_room
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        self.counts.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.counts.uploads.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Adds to a count, unless it would exceed the limit.
fn add_below(count: &AtomicUsize, more: usize, limit: usize) -> bool {
    let sum = |count: usize| count.checked_add(more).filter(|sum| *sum <= limit);
    count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok()
}

/// A body whose bytes are counted as they come.
struct Counted<'u, B> {
    body: Pin<&'u mut B>,
    upload: &'u mut Upload,
    is_full: &'u mut bool,
}

impl<B: Body<Error: fmt::Display>> Body for Counted<'_, B> {
    type Data = B::Data;
    type Error = String;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<B::Data>, String>>> {
        let this = self.get_mut();
        let Some(frame) = ready!(this.body.as_mut().poll_frame(cx)) else { return Poll::Ready(None) };
        let frame = frame.map_err(|error| error.to_string())?;
        let bytes = frame.data_ref().map_or(0, Buf::remaining);
        if this.upload.add(bytes) {
            return Poll::Ready(Some(Ok(frame)));
        }
        *this.is_full = true;
        Poll::Ready(Some(Err("no room".to_owned())))
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
#[cfg(feature = "tokio")]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use http_body_util::Full;
    use routing_exec::adapter::TokioTimer;

    use super::*;

    /// A body in chunks of so many bytes, and perhaps without an end.
    struct Chunks(Vec<usize>, bool);

    impl Body for Chunks {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            match self.0.pop() {
                Some(bytes) => Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b' '; bytes]))))),
                None if self.1 => Poll::Pending,
                None => Poll::Ready(None),
            }
        }
    }

    fn chunks(sizes: &[usize]) -> Chunks {
        Chunks(sizes.to_vec(), false)
    }

    #[tokio::test]
    async fn bytes_count_as_they_arrive_and_until_the_upload_is_dropped() {
        let (uploads, limits) = (Uploads::default(), UploadLimits::default().max_bytes(100));
        let (mut first, mut second) = (uploads.begin(limits).unwrap(), uploads.begin(limits).unwrap());
        let read = first.collect(chunks(&[30, 30]), BodyLimits::default(), &TokioTimer::new()).await;
        assert_eq!((read.unwrap().len(), uploads.bytes(), uploads.count()), (60, 60, 2));
        let full = second.collect(chunks(&[30, 30]), BodyLimits::default(), &TokioTimer::new()).await.unwrap_err();
        assert_eq!((full.status.as_u16(), full.code, full.close), (503, "too_many_upload_bytes", true));
        assert_eq!((uploads.bytes(), uploads.refused()), (90, 1), "what had arrived before");
        drop((first, second));
        assert_eq!((uploads.bytes(), uploads.count()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn errors_of_the_body_itself_stay_what_they_are() {
        let uploads = Uploads::default();
        let mut upload = uploads.begin(UploadLimits::default()).unwrap();
        let limits = BodyLimits::default().max_bytes(10).total_timeout(Duration::from_secs(1));
        let large = upload.collect(Full::new(Bytes::from_static(&[0; 11])), limits, &TokioTimer::new()).await;
        assert_eq!(large.unwrap_err().status.as_u16(), 413);
        assert_eq!(uploads.bytes(), 0, "its length told, and nothing of it was read");
        let late = upload.collect(Chunks(vec![1], true), limits, &TokioTimer::new()).await.unwrap_err();
        assert_eq!((late.status.as_u16(), uploads.refused()), (408, 0));
    }
}
