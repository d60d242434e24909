//! The attempts under way. Dropping one cancels it.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::Response;
use http_body::Body;

use super::host::TransportError;
use crate::action::{AttemptId, Input};
use crate::failure::Failure;

/// Every attempt that may still say something, each asked in its turn.
pub(super) struct Upstream<B> {
    live: Vec<Live<B>>,
    /// Who is asked first, so that one that always has something does not silence another.
    turn: usize,
}

struct Live<B> {
    id: AttemptId,
    stage: Stage<B>,
}

enum Stage<B> {
    Sent(Answer<B>),
    /// Its body, and whether any of it came.
    Answering(Pin<Box<B>>, bool),
}

type Answer<B> = Pin<Box<dyn Future<Output = Result<Response<B>, TransportError>> + Send>>;

impl<B> Default for Upstream<B> {
    fn default() -> Self {
        Self { live: Vec::new(), turn: 0 }
    }
}

impl<B: Body<Data = Bytes, Error: std::fmt::Display>> Upstream<B> {
    pub(super) fn send(&mut self, id: AttemptId, answer: Answer<B>) {
        self.live.push(Live { id, stage: Stage::Sent(answer) });
    }

    pub(super) fn cancel(&mut self, id: AttemptId) {
        self.live.retain(|live| live.id != id);
    }

    pub(super) fn clear(&mut self) {
        self.live.clear();
    }

    /// The next thing that a pod says. Pending only if each was asked and has nothing yet.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(AttemptId, Input)> {
        for nth in 0..self.live.len() {
            let at = (self.turn + nth) % self.live.len();
            let live = &mut self.live[at];
            let Poll::Ready(input) = live.poll(cx) else { continue };
            let id = live.id;
            self.turn = at + 1;
            if matches!(input, Input::End(..) | Input::Failed(..)) {
                self.live.remove(at);
                self.turn = at;
            }
            return Poll::Ready((id, input));
        }
        Poll::Pending
    }

    /// The attempts whose answers have begun, and so may pause.
    pub(super) fn begun(&self) -> impl Iterator<Item = AttemptId> {
        self.live.iter().filter(|live| matches!(live.stage, Stage::Answering(_, true))).map(|live| live.id)
    }
}

impl<B: Body<Data = Bytes, Error: std::fmt::Display>> Live<B> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Input> {
        let id = self.id;
        match &mut self.stage {
            Stage::Sent(answer) => answer.as_mut().poll(cx).map(|answer| match answer {
                Ok(answer) => {
                    let (head, body) = answer.into_parts();
                    self.stage = Stage::Answering(Box::pin(body), false);
                    Input::Head(id, head)
                }
                Err(error) => Input::Failed(id, error.into()),
            }),
            // All of a length that was announced has come. What would say so again may take its time.
            Stage::Answering(body, _) if body.is_end_stream() => Poll::Ready(Input::End(id, None)),
            Stage::Answering(body, begun) => body.as_mut().poll_frame(cx).map(|frame| match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(chunk) => {
                        *begun |= !chunk.is_empty();
                        Input::Chunk(id, chunk)
                    }
                    Err(frame) => Input::End(id, frame.into_trailers().ok()),
                },
                Some(Err(error)) => Input::Failed(id, Failure::Cut(error.to_string().into())),
                None => Input::End(id, None),
            }),
        }
    }
}
