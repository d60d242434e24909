//! Prefetched body: a response body that was read to its end before its head is sent.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;

/// Frames that were read, and the body that they were read of.
pub(super) struct Prefetched<B: Body> {
    /// The error apart: it need not be `Unpin`, and comes last.
    frames: VecDeque<Frame<Bytes>>,
    error: Option<Box<B::Error>>,
    body: B,
}

impl<B: Body<Data = Bytes> + Unpin> Prefetched<B> {
    /// A body of which nothing was read.
    pub(super) fn none(body: B) -> Self {
        Self { frames: VecDeque::new(), error: None, body }
    }

    /// Reads all of a body, up to its end or its error. Its length must be bounded.
    pub(super) async fn all(mut body: B) -> Self {
        let mut frames = VecDeque::new();
        while let Some(frame) = body.frame().await {
            match frame {
                Ok(frame) => frames.push_back(frame),
                Err(error) => return Self { frames, error: Some(Box::new(error)), body },
            }
        }
        Self { frames, error: None, body }
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Prefetched<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(frame) = self.frames.pop_front() {
            return Poll::Ready(Some(Ok(frame)));
        }
        match self.error.take() {
            Some(error) => Poll::Ready(Some(Err(*error))),
            None => Pin::new(&mut self.body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && self.error.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let read: u64 = self.frames.iter().filter_map(Frame::data_ref).map(|data| data.len() as u64).sum();
        let rest = self.body.size_hint();
        let mut hint = SizeHint::new();
        hint.set_lower(read + rest.lower());
        if let Some(upper) = rest.upper() {
            hint.set_upper(read + upper);
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    #[tokio::test]
    async fn what_was_read_is_what_is_sent() {
        let body = Prefetched::all(Full::new(Bytes::from_static(b"abc"))).await;
        assert_eq!((body.size_hint().exact(), body.is_end_stream()), (Some(3), false));
        assert_eq!(body.collect().await.expect("whole").to_bytes(), "abc");
        let body = Prefetched::none(Full::new(Bytes::from_static(b"abc")));
        assert_eq!(body.collect().await.expect("whole").to_bytes(), "abc");
    }
}
