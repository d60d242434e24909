//! Server-sent events of a completion, each when its tokens are there.
//!
//! Invariant: the parts, put together, are the whole completion.

use std::io;
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::stream;
use serde_json::Value;
use tokio::sync::watch;

use super::named_events;
use super::response_body::{Reply, Usage};
use crate::http::completion::Completion;
use crate::http::engine::Condition;
use crate::http::request_handle::RequestHandle;

/// A stream under way. Dropped, its request is given up.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) reply: Reply,
    pub(super) completion: Completion,
    pub(super) handle: RequestHandle,
    pub(super) condition: watch::Receiver<Condition>,
    pub(super) prompt: usize,
    pub(super) wants_usage: bool,
}

impl Stream {
    /// The body that sends it.
    pub(super) fn into_body(self) -> Body {
        let cuts = self.condition.borrow().cuts;
        let sending = Sending { stream: self, cuts, sent: 0, next: Next::Opening };
        Body::from_stream(stream::unfold(sending, Sending::next))
    }
}

struct Sending {
    stream: Stream,
    /// Cuts of streams that there had been before this one.
    cuts: u64,
    /// Tokens sent.
    sent: usize,
    next: Next,
}

enum Next {
    Opening,
    Part,
    Usage,
    Done,
    /// Half an event went out, and now the connection breaks.
    Break,
    End,
}

impl Sending {
    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        let event = match self.next {
            Next::Opening | Next::Part => self.part().await,
            Next::Usage => {
                self.next = Next::Done;
                event(self.stream.reply.usage(self.usage()))
            }
            Next::Done if self.stream.reply.kind.is_named() => {
                self.next = Next::End;
                let Stream { reply, completion, .. } = &self.stream;
                Ok(named_events::closing(reply, &completion.words.concat(), completion.finish, self.usage()).into())
            }
            Next::Done => {
                self.next = Next::End;
                Ok(Bytes::from_static(b"data: [DONE]\n\n"))
            }
            Next::Break => {
                // Time for what went before to leave the machine: the client is to see half an event.
                tokio::time::sleep(FLUSH).await;
                self.next = Next::End;
                Err(io::Error::other("cut on demand"))
            }
            Next::End => return None,
        };
        Some((event, self))
    }

    /// Waits for tokens and makes an event of them.
    async fn part(&mut self) -> io::Result<Bytes> {
        let cuts = self.cuts;
        let Stream { handle, condition, reply, completion, wants_usage, prompt } = &mut self.stream;
        let cut = async { _ = condition.wait_for(|condition| condition.cuts != cuts).await };
        let progress = tokio::select! {
            biased;
            () = cut => None,
            progress = handle.beyond(self.sent) => match progress {
                Some(progress) => Some(progress),
                None => {
                    self.next = Next::End;
                    return Err(io::Error::other("the pod died"));
                }
            },
        };
        let Some(progress) = progress else {
            self.next = Next::Break;
            let whole = event(reply.part(" ", None))?;
            return Ok(whole.slice(..whole.len() / 2));
        };
        if reply.kind.is_named() {
            let text = completion.words[self.sent..progress.tokens].concat();
            let opening = matches!(self.next, Next::Opening).then(|| named_events::opening(reply, *prompt));
            self.sent = progress.tokens;
            self.next = if progress.done { Next::Done } else { Next::Part };
            return Ok((opening.unwrap_or_default() + &named_events::part(reply, &text)).into());
        }
        if let (Next::Opening, Some(opening)) = (&self.next, reply.opening()) {
            self.next = Next::Part;
            return event(without_usage(opening, *wants_usage));
        }
        let text = completion.words[self.sent..progress.tokens].concat();
        self.sent = progress.tokens;
        self.next = match (progress.done, *wants_usage) {
            (false, _) => Next::Part,
            (true, true) => Next::Usage,
            (true, false) => Next::Done,
        };
        let part = reply.part(&text, progress.done.then_some(completion.finish));
        event(without_usage(part, *wants_usage))
    }

    fn usage(&self) -> Usage {
        let cached = self.stream.handle.progress.borrow().cached;
        Usage { prompt: self.stream.prompt, cached, completion: self.stream.completion.words.len() }
    }
}

/// A chunk before the last: to a client that wants the usage, OpenAI says that it has not come yet.
fn without_usage(mut chunk: Value, wanted: bool) -> Value {
    if wanted {
        chunk["usage"] = Value::Null;
    }
    chunk
}

fn event(value: Value) -> io::Result<Bytes> {
    Ok(Bytes::from(format!("data: {value}\n\n")))
}

const FLUSH: Duration = Duration::from_millis(5);
