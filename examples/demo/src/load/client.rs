//! One request over HTTP: sent, read to its end, timed.

use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http::header::CONTENT_TYPE;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as Pooled;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::{Instant, timeout};

use crate::load::failure::Failure;
use crate::load::ledger::RequestId;
use crate::load::stream::{Reading, Usage, whole};

/// A client of an OpenAI-compatible server. Clones share their connections.
#[derive(Clone, Debug)]
pub struct Client {
    pooled: Pooled<HttpConnector, Full<Bytes>>,
    base: String,
    patience: Duration,
}

impl Client {
    /// A client of the server at `base`, such as `http://127.0.0.1:8080`, that waits so long for the end of an answer.
    #[must_use]
    pub fn new(base: &str, patience: Duration) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        let mut builder = Pooled::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(Duration::from_secs(5));
        // A request is sent once. What a connection's end did to it is for the caller to see.
        builder.retry_canceled_requests(false);
        let base = base.trim_end_matches('/').to_owned();
        Self { pooled: builder.build(connector), base, patience }
    }

    /// Asks for a chat completion and reads it to its end.
    ///
    /// # Errors
    ///
    /// When there is no whole answer.
    pub async fn ask(&self, id: RequestId, body: Bytes) -> Result<Answer, Failure> {
        let begun = Instant::now();
        timeout(self.patience, self.answer(id, body, begun)).await.unwrap_or(Err(Failure::Timeout(self.patience)))
    }

    /// Reads a page whole, as text.
    ///
    /// # Errors
    ///
    /// When there is none.
    pub async fn page(&self, path: &str) -> Result<String, Failure> {
        let request = Request::get(format!("{}{path}", self.base)).body(Full::default());
        let request = request.map_err(|_| Failure::Malformed("an address"))?;
        let read = async {
            let response = self.pooled.request(request).await.map_err(|error| Failure::Connection(causes(&error)))?;
            if !response.status().is_success() {
                return Err(Failure::Status(response.status().as_u16()));
            }
            let bytes = response.into_body().collect().await.map_err(|_| Failure::Cut(0))?.to_bytes();
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        timeout(self.patience, read).await.unwrap_or(Err(Failure::Timeout(self.patience)))
    }

    async fn answer(&self, id: RequestId, body: Bytes, begun: Instant) -> Result<Answer, Failure> {
        let request = Request::post(format!("{}/v1/chat/completions", self.base))
            .header(CONTENT_TYPE, "application/json")
            .header("x-request-id", id.to_string())
            .body(Full::new(body))
            .map_err(|_| Failure::Malformed("an address"))?;
        let response = self.pooled.request(request).await.map_err(|error| Failure::Connection(causes(&error)))?;
        if !response.status().is_success() {
            return Err(Failure::Status(response.status().as_u16()));
        }
        let is_stream = response.headers().get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(STREAM));
        if is_stream {
            return streamed(response.into_body(), begun).await;
        }
        let bytes = response.into_body().collect().await.map_err(|_| Failure::Cut(0))?.to_bytes();
        let (text, usage) = whole(&bytes)?;
        Ok(Answer { text, usage, first: None, gaps: Vec::new(), total: begun.elapsed() })
    }
}

/// A whole answer, and when it came.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Answer {
    /// The text.
    pub text: String,
    /// How many tokens it took.
    pub usage: Usage,
    /// From sending to the first piece of text, if it came in pieces.
    pub first: Option<Duration>,
    /// Between pieces of text.
    pub gaps: Vec<Duration>,
    /// From sending to the end.
    pub total: Duration,
}

async fn streamed(mut body: Incoming, begun: Instant) -> Result<Answer, Failure> {
    let (mut reading, mut first, mut gaps, mut last) = (Reading::default(), None, Vec::new(), begun);
    while let Some(frame) = body.frame().await {
        // A broken connection is a short answer: the reading tells which.
        let Ok(frame) = frame else { break };
        let Some(bytes) = frame.data_ref() else { continue };
        let pieces = reading.push(bytes);
        if pieces == 0 {
            continue;
        }
        let now = Instant::now();
        if first.is_none() {
            first = Some(now - begun);
        } else {
            gaps.push(now - last);
        }
        // Pieces of one packet came at the same time.
        gaps.extend(std::iter::repeat_n(Duration::ZERO, pieces - 1));
        last = now;
    }
    let (text, usage) = reading.end()?;
    Ok(Answer { text, usage, first, gaps, total: begun.elapsed() })
}

fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    text
}

const STREAM: &[u8] = b"text/event-stream";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::body::{Message, chat};
    use crate::load::fake::{FakeServer, Mood, reply};

    async fn ask(mood: Mood, stream: bool, patience: Duration) -> Result<Answer, Failure> {
        let server = FakeServer::start(mood).await;
        let client = Client::new(&server.base(), patience);
        let messages = [Message { role: "user", content: " a day".to_owned() }];
        let answer = client.ask(RequestId(1), chat("sim", &messages, 4, stream)).await;
        server.stop().await;
        answer
    }

    const LONG: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn an_answer_comes_in_pieces_with_times() {
        let answer = ask(Mood::Well, true, LONG).await.unwrap();
        assert_eq!((answer.text.as_str(), answer.usage.generated), (reply(4).as_str(), 4));
        assert_eq!(answer.gaps.len(), 3);
        let first = answer.first.unwrap();
        assert!(first + answer.gaps.iter().sum::<Duration>() <= answer.total);
    }

    #[tokio::test]
    async fn an_answer_comes_in_one_piece() {
        let answer = ask(Mood::Well, false, LONG).await.unwrap();
        assert_eq!((answer.text, answer.first, answer.gaps.len()), (reply(4), None, 0));
    }

    #[tokio::test]
    async fn every_ill_end_has_its_name() {
        assert_eq!(ask(Mood::Status(503), true, LONG).await, Err(Failure::Status(503)));
        assert_eq!(ask(Mood::ErrorEvent, true, LONG).await, Err(Failure::ErrorEvent));
        assert_eq!(ask(Mood::Cut, true, LONG).await, Err(Failure::Cut(2)));
        assert_eq!(ask(Mood::NoUsage, true, LONG).await, Err(Failure::Malformed("no usage")));
        let little = Duration::from_millis(100);
        assert_eq!(ask(Mood::Silent, true, little).await, Err(Failure::Timeout(little)));
    }

    #[tokio::test]
    async fn nobody_there_is_no_connection() {
        let server = FakeServer::start(Mood::Well).await;
        let client = Client::new(&server.base(), LONG);
        server.stop().await;
        assert!(matches!(client.page("/").await, Err(Failure::Connection(_))));
        let end = client.ask(RequestId(1), Bytes::new()).await;
        assert!(matches!(end, Err(Failure::Connection(_))), "{end:?}");
    }
}
