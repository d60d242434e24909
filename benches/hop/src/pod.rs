//! The pod behind every hop: answers at once, and writes into each chunk when it was sent.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::{Body, Frame};
use http_body_util::{BodyExt as _, Either, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::time::{Interval, MissedTickBehavior, interval};

use crate::workload::{CHUNKS, PACE, Workload};

/// Serves until the thread's runtime ends.
pub(crate) async fn serve(listener: TcpListener, start: Instant) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        let service = service_fn(move |request| answer(request, start));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

/// Where it listens.
pub(crate) async fn bind() -> std::io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

type Answer = Response<Either<Full<Bytes>, Chunks>>;

async fn answer(request: Request<Incoming>, start: Instant) -> Result<Answer, Infallible> {
    let path = request.uri().path().to_owned();
    let Ok(body) = request.into_body().collect().await else { return Ok(json(StatusCode::BAD_REQUEST, "{}")) };
    let body = body.to_bytes();
    let is = |workload: Workload| find(&body, workload.mark().as_bytes());
    if !path.ends_with("/completions") {
        // What gateways ask their workers for.
        let models = r#"{"object":"list","data":[{"id":"m","object":"model","created":0,"owned_by":"hop","max_model_len":131072}]}"#;
        let known = ["/health", "/v1/models"].contains(&path.as_str());
        return Ok(json(if known { StatusCode::OK } else { StatusCode::NOT_FOUND }, models));
    }
    if is(Workload::Burst) || is(Workload::Paced) {
        let pace = is(Workload::Paced).then(|| {
            let mut pace = interval(PACE);
            pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
            pace
        });
        let mut response = Response::new(Either::Right(Chunks { start, pace, sent: 0 }));
        response.headers_mut().insert("content-type", http::HeaderValue::from_static("text/event-stream"));
        return Ok(response);
    }
    Ok(json(StatusCode::OK, &whole()))
}

fn json(status: StatusCode, text: &str) -> Answer {
    let mut response = Response::new(Either::Left(Full::new(Bytes::copy_from_slice(text.as_bytes()))));
    *response.status_mut() = status;
    response.headers_mut().insert("content-type", http::HeaderValue::from_static("application/json"));
    response
}

/// A whole answer of about 1 KB.
fn whole() -> String {
    let text = "A hop costs what it reads, what it writes, and what it thinks. ".repeat(12);
    format!(
        r#"{{"id":"chatcmpl-1","object":"chat.completion","created":0,"model":"m","choices":[{{"index":0,"message":{{"role":"assistant","content":"{text}"}},"finish_reason":"stop"}}],"usage":{{"prompt_tokens":200,"completion_tokens":50,"total_tokens":250}}}}"#
    )
}

/// Whether bytes have a text in them; it stands near the front, unless somebody wrote them anew.
fn find(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|window| window == text)
}

/// A stream of chunks.
struct Chunks {
    start: Instant,
    pace: Option<Interval>,
    sent: usize,
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.sent > CHUNKS {
            return Poll::Ready(None);
        }
        if let Some(pace) = &mut self.pace
            && pace.poll_tick(cx).is_pending()
        {
            return Poll::Pending;
        }
        self.sent += 1;
        if self.sent > CHUNKS {
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"data: [DONE]\n\n")))));
        }
        let nanos = self.start.elapsed().as_nanos();
        let chunk = format!(
            "data: {{\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"created\":0,\"model\":\"m\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"@{nanos}@\"}},\"finish_reason\":null}}]}}\n\n"
        );
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(chunk)))))
    }
}
