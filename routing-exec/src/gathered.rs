//! Gathered body: chunks that arrive together leave together.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Body, Frame, SizeHint};

/// A body whose chunks, where several are there at once, leave as one: written one by one, each would cost its own system call.
///
/// A chunk that comes alone is handed on where it lies. At most 16 KiB are gathered, and none is held back: whoever reads from
/// the network has one turn to bring more, and fewer turns the longer they bring nothing.
pub struct GatheredBody<B: Body> {
    body: B,
    chunks: Vec<Bytes>,
    len: usize,
    /// Polls in vain since the last chunk, that others may have their turn.
    waits: u8,
    /// Chunks that get no such turn, since it was in vain before; and how many of them are left.
    skipped: u8,
    to_skip: u8,
    /// What comes behind the chunks: trailers, an error, or the end.
    next: Option<Option<Result<Frame<Bytes>, B::Error>>>,
}

/// Bytes that are gathered at most before they are handed on.
const MAX_GATHERED: usize = 16 << 10;
/// Polls in vain that make a turn of others: a server may poll twice in one of its own, as hyper's does.
const WAITS: u8 = 2;
/// Chunks in a row that are handed on without another turn, at most.
const MAX_SKIPPED: u8 = 15;

impl<B: Body<Data = Bytes>> GatheredBody<B> {
    /// Gathers what a body gives.
    pub fn new(body: B) -> Self {
        Self { body, chunks: Vec::new(), len: 0, waits: 0, skipped: 0, to_skip: 0, next: None }
    }

    fn add(&mut self, chunk: Bytes) {
        self.len += chunk.len();
        if std::mem::take(&mut self.waits) > 0 {
            self.skipped = 0;
        }
        self.chunks.push(chunk);
    }

    /// Whether whoever reads from the network has its turn before chunks are handed on: it may have more, and was not asked before.
    fn gives_a_turn(&mut self) -> bool {
        match self.waits {
            0 if self.to_skip > 0 => self.to_skip -= 1,
            waits if waits < WAITS => {
                self.waits += 1;
                return true;
            }
            _ => {
                // In vain.
                self.skipped = (2 * self.skipped + 1).min(MAX_SKIPPED);
                (self.waits, self.to_skip) = (0, self.skipped);
            }
        }
        false
    }

    /// All chunks as one; a single one as it came.
    fn take(&mut self) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let len = std::mem::take(&mut self.len);
        let all = match &mut self.chunks[..] {
            [one] => std::mem::take(one),
            chunks => {
                let mut all = BytesMut::with_capacity(len);
                chunks.iter().for_each(|chunk| all.extend_from_slice(chunk));
                all.freeze()
            }
        };
        self.chunks.clear();
        Poll::Ready(Some(Ok(Frame::data(all))))
    }
}

// Nothing but the body is ever polled.
impl<B: Body + Unpin> Unpin for GatheredBody<B> {}

impl<B: Body<Data = Bytes> + Unpin> Body for GatheredBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if let Some(next) = self.next.take() {
            return Poll::Ready(next);
        }
        loop {
            let frame = match Pin::new(&mut self.body).poll_frame(cx) {
                Poll::Ready(frame) => frame,
                Poll::Pending if self.chunks.is_empty() => return Poll::Pending,
                Poll::Pending if self.gives_a_turn() => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Poll::Pending => return self.take(),
            };
            let other = match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(chunk))) => {
                    self.add(chunk);
                    if self.len >= MAX_GATHERED || self.body.is_end_stream() {
                        return self.take();
                    }
                    continue;
                }
                Some(Ok(Err(trailers))) => Some(Ok(trailers)),
                Some(Err(error)) => Some(Err(error)),
                None => None,
            };
            if self.chunks.is_empty() {
                return Poll::Ready(other);
            }
            self.next = Some(other);
            return self.take();
        }
    }

    fn is_end_stream(&self) -> bool {
        let is_behind = matches!(self.next, Some(None)) || self.next.is_none() && self.body.is_end_stream();
        self.chunks.is_empty() && is_behind
    }

    fn size_hint(&self) -> SizeHint {
        let (inner, gathered) = (self.body.size_hint(), self.len as u64);
        let mut hint = SizeHint::new();
        hint.set_lower(inner.lower().saturating_add(gathered));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(gathered));
        }
        hint
    }
}

impl<B: Body + fmt::Debug> fmt::Debug for GatheredBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GatheredBody").field("body", &self.body).field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::task::Waker;

    use http::HeaderMap;

    use super::*;

    /// What each poll gives.
    struct Script(VecDeque<Poll<Result<Frame<Bytes>, &'static str>>>);

    impl Body for Script {
        type Data = Bytes;
        type Error = &'static str;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, &'static str>>> {
            self.0.pop_front().map_or(Poll::Ready(None), |next| next.map(Some))
        }

        fn is_end_stream(&self) -> bool {
            self.0.is_empty()
        }

        fn size_hint(&self) -> SizeHint {
            let bytes = |next: &Poll<Result<Frame<Bytes>, _>>| match next {
                Poll::Ready(Ok(frame)) => frame.data_ref().map_or(0, Bytes::len),
                _ => 0,
            };
            SizeHint::with_exact(self.0.iter().map(bytes).sum::<usize>() as u64)
        }
    }

    fn chunk(text: &'static str) -> Poll<Result<Frame<Bytes>, &'static str>> {
        Poll::Ready(Ok(Frame::data(Bytes::from_static(text.as_bytes()))))
    }

    /// What each poll gives until the end: `.` for nothing yet.
    fn read(script: impl IntoIterator<Item = Poll<Result<Frame<Bytes>, &'static str>>>) -> Vec<String> {
        let mut body = GatheredBody::new(Script(script.into_iter().collect()));
        let (mut read, mut cx) = (Vec::new(), Context::from_waker(Waker::noop()));
        loop {
            let before = body.size_hint().exact();
            read.push(match Pin::new(&mut body).poll_frame(&mut cx) {
                Poll::Pending => ".".into(),
                Poll::Ready(None) => {
                    assert!(body.is_end_stream());
                    return read;
                }
                Poll::Ready(Some(Err(error))) => error.into(),
                Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                    Ok(data) => {
                        let after = body.size_hint().exact();
                        assert_eq!(before.zip(after).map(|(before, after)| before - after), Some(data.len() as u64));
                        String::from_utf8_lossy(&data).into_owned()
                    }
                    Err(_) => "trailers".into(),
                },
            });
        }
    }

    #[test]
    fn what_comes_together_leaves_together() {
        assert_eq!(read([chunk("a"), chunk("b"), chunk("c")]), ["abc"]);
        assert_eq!(read([chunk("a"), Poll::Pending, chunk("b"), chunk("c")]), [".", "abc"], "a turn to bring more");
        assert_eq!(
            read([chunk("a"), Poll::Pending, Poll::Pending, chunk("b")]),
            [".", ".", "ab"],
            "polled twice in it"
        );
        let apart = [chunk("a"), Poll::Pending, Poll::Pending, Poll::Pending, chunk("b")];
        assert_eq!(read(apart), [".", ".", "a", "b"], "and no more");
        assert_eq!(read([Poll::Pending, chunk("a")]), [".", "a"]);
    }

    #[test]
    fn turns_that_bring_nothing_become_rare_until_one_does() {
        let mut body = GatheredBody::new(Script(VecDeque::new()));
        let given: Vec<bool> = (0..40)
            .map(|_| {
                body.add(Bytes::from_static(b"a"));
                let given = body.gives_a_turn();
                assert!(!given || body.gives_a_turn() && !body.gives_a_turn(), "it is one turn");
                drop(body.take());
                given
            })
            .collect();
        let at: Vec<usize> = (0..40).filter(|at| given[*at]).collect();
        assert_eq!(at, [0, 2, 6, 14, 30]);
        body.to_skip = 0;
        body.add(Bytes::from_static(b"a"));
        assert!(body.gives_a_turn());
        body.add(Bytes::from_static(b"b"));
        assert!(body.gives_a_turn(), "one that brought more is worth another");
    }

    #[test]
    fn nothing_behind_the_chunks_is_lost() {
        let trailers = || Poll::Ready(Ok(Frame::trailers(HeaderMap::new())));
        assert_eq!(read([chunk("a"), chunk("b"), trailers()]), ["ab", "trailers"]);
        assert_eq!(read([chunk("a"), chunk("b"), Poll::Ready(Err("broken"))]), ["ab", "broken"]);
        assert_eq!(read([trailers()]), ["trailers"]);
        assert_eq!(read([]), [""; 0]);
    }

    #[test]
    fn no_more_than_a_bound_is_gathered() {
        let event: &'static str = "x".repeat(1_000).leak();
        let read = read((0..40).map(|_| chunk(event)));
        assert_eq!(read.iter().map(String::len).collect::<Vec<_>>(), [17_000, 17_000, 6_000]);
    }

    #[test]
    fn a_chunk_that_comes_alone_is_handed_on_where_it_lies() {
        let alone = Bytes::from("data: a\n\n".repeat(9));
        let script = [Poll::Ready(Ok(Frame::data(alone.clone())))];
        let mut body = GatheredBody::new(Script(script.into_iter().collect()));
        let frame = Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop()));
        let Poll::Ready(Some(Ok(frame))) = frame else { panic!("it is there") };
        assert_eq!(frame.into_data().unwrap().as_ptr(), alone.as_ptr());
    }
}
