//! HTTP client of an OpenAI-compatible server: one request, read to its end, with its latencies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Builder;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy::Client as Pooled;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::{Instant, sleep, timeout};

use pointsman_example_common::cli::error_chain;

use super::failure::Failure;
use super::request_tracker::RequestId;
use super::sse_reader::{SseReader, Usage, parse_response};

/// A client of an OpenAI-compatible server. Clones share their connections.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    pooled: Pooled<HttpConnector, Full<Bytes>>,
    base: String,
    timeout: Duration,
    /// Reads slowly while it is set.
    is_slow: Option<Arc<AtomicBool>>,
}

impl Client {
    /// A client of the server at `base`, such as `http://127.0.0.1:8080`, that waits so long for the end of an answer.
    pub(crate) fn new(base: &str, timeout: Duration) -> Self {
        Self::with(HttpConnector::new(), base, timeout)
    }

    /// A client with a small receive buffer, which pauses after each piece of an answer while `is_slow` is set.
    pub(crate) fn slow(&self, is_slow: Arc<AtomicBool>) -> Self {
        let mut connector = HttpConnector::new();
        connector.set_recv_buffer_size(Some(SLOW_BUFFER));
        Self { is_slow: Some(is_slow), ..Self::with(connector, &self.base, self.timeout) }
    }

    fn with(mut connector: HttpConnector, base: &str, timeout: Duration) -> Self {
        connector.set_nodelay(true);
        let mut builder = Pooled::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new()).pool_idle_timeout(Duration::from_secs(5));
        // A request is sent once. The caller decides about retries.
        builder.retry_canceled_requests(false);
        let base = base.trim_end_matches('/').to_owned();
        Self { pooled: builder.build(connector), base, timeout, is_slow: None }
    }

    /// Asks for a chat completion and reads it to its end.
    pub(crate) async fn ask(&self, id: RequestId, body: Bytes) -> Result<Answer, Failure> {
        let begun = Instant::now();
        timeout(self.timeout, self.answer(id, body, begun)).await.unwrap_or(Err(Failure::Timeout(self.timeout)))
    }

    /// Reads a page whole, as text.
    pub(crate) async fn page(&self, path: &str) -> Result<String, Failure> {
        let read = async {
            let response = self.send(Request::get(format!("{}{path}", self.base)), Bytes::new()).await?;
            Ok(String::from_utf8_lossy(&whole(response).await?).into_owned())
        };
        timeout(self.timeout, read).await.unwrap_or(Err(Failure::Timeout(self.timeout)))
    }

    async fn answer(&self, id: RequestId, body: Bytes, begun: Instant) -> Result<Answer, Failure> {
        let request = Request::post(format!("{}/v1/chat/completions", self.base))
            .header(CONTENT_TYPE, "application/json")
            .header("x-request-id", id.to_string());
        let response = self.send(request, body).await?;
        let is_stream = response.headers().get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(STREAM));
        if is_stream {
            return self.streamed(response.into_body(), begun).await;
        }
        let (text, usage) = parse_response(&whole(response).await?)?;
        Ok(Answer { text, usage, ttft: None, inter_token: Vec::new(), total: begun.elapsed() })
    }

    async fn send(&self, request: Builder, body: Bytes) -> Result<Response<Incoming>, Failure> {
        let request = request.body(Full::new(body)).map_err(|_| Failure::Malformed("an address"))?;
        let response = self.pooled.request(request).await.map_err(|error| Failure::Connection(error_chain(&error)))?;
        match response.status() {
            status if status.is_success() => Ok(response),
            status => Err(Failure::Status(status.as_u16())),
        }
    }

    async fn streamed(&self, mut body: Incoming, begun: Instant) -> Result<Answer, Failure> {
        let (mut reader, mut first, mut inter_token, mut last) = (SseReader::default(), None, Vec::new(), begun);
        while let Some(frame) = body.frame().await {
            // A broken connection is a truncated answer, which the reader finds.
            let Ok(frame) = frame else { break };
            let Some(bytes) = frame.data_ref() else { continue };
            let pieces = reader.push(bytes);
            // Relaxed: a wish, and no more.
            if self.is_slow.as_ref().is_some_and(|is_slow| is_slow.load(Ordering::Relaxed)) {
                sleep(SLOW_PAUSE).await;
            }
            if pieces == 0 {
                continue;
            }
            let now = Instant::now();
            if first.is_none() {
                first = Some(now - begun);
            } else {
                inter_token.push(now - last);
            }
            // Pieces of one packet came at the same time.
            inter_token.extend(std::iter::repeat_n(Duration::ZERO, pieces - 1));
            last = now;
        }
        let (text, usage) = reader.end()?;
        Ok(Answer { text, usage, ttft: first, inter_token, total: begun.elapsed() })
    }
}

async fn whole(response: Response<Incoming>) -> Result<Bytes, Failure> {
    Ok(response.into_body().collect().await.map_err(|_| Failure::Truncated(0))?.to_bytes())
}

/// A whole answer, and when it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The text.
    pub(crate) text: String,
    /// How many tokens it elapsed.
    pub(crate) usage: Usage,
    /// From sending to the first piece of text, if it came in pieces.
    pub(crate) ttft: Option<Duration>,
    /// Between pieces of text.
    pub(crate) inter_token: Vec<Duration>,
    /// From sending to the end.
    pub(crate) total: Duration,
}

const STREAM: &[u8] = b"text/event-stream";
/// Bytes that a slow reader's socket takes ahead.
const SLOW_BUFFER: usize = 4 << 10;
/// A slow reader's pause after each piece: longer than a pod takes for a token.
const SLOW_PAUSE: Duration = Duration::from_millis(40);

#[cfg(test)]
mod tests {
    use pointsman_engine_sim::{CompletionOracle, PodConfig, SimPod};

    use super::*;
    use crate::load_generator::chat_request::{Message, chat};
    use crate::load_generator::request_tracker::RequestTracker;
    use crate::load_generator::testing::{Behavior, MockServer, reply};

    async fn ask(behavior: Behavior, stream: bool, timeout: Duration) -> Result<Answer, Failure> {
        let server = MockServer::start(behavior).await;
        let client = Client::new(&server.base(), timeout);
        let messages = [Message { role: "user", content: " a day".to_owned() }];
        let answer = client.ask(RequestId(1), chat("sim", &messages, 4, stream)).await;
        server.stop().await;
        answer
    }

    const LONG: Duration = Duration::from_secs(10);

    #[tokio::test]
    async fn an_answer_comes_in_pieces_with_times() {
        let answer = ask(Behavior::Healthy, true, LONG).await.unwrap();
        assert_eq!((answer.text.as_str(), answer.usage.generated), (reply(4).as_str(), 4));
        assert_eq!(answer.inter_token.len(), 3);
        let first = answer.ttft.unwrap();
        assert!(first + answer.inter_token.iter().sum::<Duration>() <= answer.total);
    }

    #[tokio::test]
    async fn a_slow_reader_gets_the_same_answer_later() {
        let server = MockServer::start(Behavior::Healthy).await;
        let is_slow = Arc::new(AtomicBool::new(true));
        let client = Client::new(&server.base(), LONG).slow(Arc::clone(&is_slow));
        let body = chat("sim", &[Message { role: "user", content: " a day".to_owned() }], 4, true);
        let answer = client.ask(RequestId(1), body.clone()).await.unwrap();
        assert_eq!(answer.text, reply(4));
        assert!(answer.total >= SLOW_PAUSE);
        is_slow.store(false, Ordering::Relaxed);
        assert_eq!(client.ask(RequestId(2), body).await.unwrap().text, reply(4));
        server.stop().await;
    }

    #[tokio::test]
    async fn an_answer_comes_in_one_piece() {
        let answer = ask(Behavior::Healthy, false, LONG).await.unwrap();
        assert_eq!((answer.text, answer.ttft, answer.inter_token.len()), (reply(4), None, 0));
    }

    #[tokio::test]
    async fn every_ill_end_has_its_name() {
        assert_eq!(ask(Behavior::Status(503), true, LONG).await, Err(Failure::Status(503)));
        assert_eq!(ask(Behavior::ErrorEvent, true, LONG).await, Err(Failure::ErrorEvent));
        assert_eq!(ask(Behavior::Truncated, true, LONG).await, Err(Failure::Truncated(2)));
        assert_eq!(ask(Behavior::NoUsage, true, LONG).await, Err(Failure::Malformed("no usage")));
        let little = Duration::from_millis(100);
        assert_eq!(ask(Behavior::Silent, true, little).await, Err(Failure::Timeout(little)));
    }

    #[tokio::test]
    async fn nobody_there_is_no_connection() {
        let server = MockServer::start(Behavior::Healthy).await;
        let client = Client::new(&server.base(), LONG);
        server.stop().await;
        assert!(matches!(client.page("/").await, Err(Failure::Connection(_))));
        let end = client.ask(RequestId(1), Bytes::new()).await;
        assert!(matches!(end, Err(Failure::Connection(_))), "{end:?}");
    }

    #[tokio::test]
    async fn a_pod_answers_what_the_oracle_says() {
        let mut config = PodConfig::new("a", "sim");
        config.speed = 1_000.0;
        let pod = SimPod::start(config, Vec::new()).await.unwrap();
        let client = Client::new(&format!("http://{}", pod.address()), LONG);
        let (oracle, tracker) = (CompletionOracle::default(), RequestTracker::default());
        for (says, tokens, stream) in [(" a day", 7, true), (" a day", 12, false), (" by and by", 500, true)] {
            let body = chat("sim", &[Message { role: "user", content: says.to_owned() }], tokens, stream);
            let answer = client.ask(tracker.begin(), body.clone()).await.unwrap();
            assert_eq!(answer.text, oracle.completion(&body));
        }
        assert_eq!(oracle.completion(b"{}"), "");
        pod.stop().await;
    }
}
