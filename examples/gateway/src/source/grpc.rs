//! Reports over a gRPC stream: `pointsman.v1.Events/Report`, each message answered in order.
//!
//! The rule: a refused message ends its stream with a status and changes nothing; a worker opens the next stream.

mod connection;

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use http::{Request as HttpRequest, Response as HttpResponse, StatusCode};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service};
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::{Request, Response, Status, Streaming};

use crate::source::push::Token;
use connection::Connection;
use pointsman_reporter::event_ingest::{EventIngest, Refusal};
use pointsman_reporter::wire::Message;
use pointsman_reporter::wire::proto::codec::{METHOD, MOST_BYTES, ProstCodec};
use pointsman_reporter::wire::proto::{Answer, Frame};

pub use connection::GRACE;

/// Serves workers until `stop`; then open streams are ended, and it returns when all connections are gone: those whose peers
/// do not take their leave are cut after [`GRACE`].
///
/// # Errors
///
/// When the server fails as a whole; failures of connections are theirs.
pub async fn serve(
    inbox: Arc<EventIngest>,
    listener: TcpListener,
    token: Token,
    stop: CancellationToken,
) -> Result<(), tonic::transport::Error> {
    let incoming = stream::unfold((listener, stop.clone()), async |(listener, stop)| {
        loop {
            match listener.accept().await {
                Ok((socket, _)) => break Some((Ok::<_, Infallible>(Connection::new(socket, &stop)), (listener, stop))),
                // Too many open files, mostly: asking again at once would only keep a core busy.
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        }
    });
    tonic::transport::Server::builder()
        .max_concurrent_streams(MOST_STREAMS)
        .http2_keepalive_interval(Some(Duration::from_secs(20)))
        .serve_with_incoming_shutdown(Events { inbox, token, stop: stop.clone() }, incoming, stop.cancelled_owned())
        .await
}

/// The service, written out.
#[derive(Clone, Debug)]
struct Events {
    inbox: Arc<EventIngest>,
    token: Token,
    stop: CancellationToken,
}

impl NamedService for Events {
    const NAME: &'static str = "pointsman.v1.Events";
}

impl Service<HttpRequest<Body>> for Events {
    type Response = HttpResponse<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: HttpRequest<Body>) -> Self::Future {
        let events = self.clone();
        Box::pin(async move {
            if request.uri().path() != METHOD {
                return Ok(Status::unimplemented("the only method is pointsman.v1.Events/Report").into_http());
            }
            if !events.token.is_borne_by(request.headers()) {
                return Ok(Status::unauthenticated("the token is missing or wrong").into_http());
            }
            let mut grpc = Grpc::new(ProstCodec::<Answer, Frame>::default()).max_decoding_message_size(MOST_BYTES);
            Ok(grpc.streaming(events, request).await)
        })
    }
}

impl StreamingService<Frame> for Events {
    type Response = Answer;
    type ResponseStream = BoxStream<'static, Result<Answer, Status>>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, request: Request<Streaming<Frame>>) -> Self::Future {
        let events = self.clone();
        let frames = request.into_inner();
        Box::pin(async move {
            let answers = stream::unfold(Some((events, frames)), async |open| {
                let (events, mut frames) = open?;
                let frame = tokio::select! {
                    frame = frames.message() => frame,
                    () = events.stop.cancelled() => Err(Status::unavailable("the gateway is stopping")),
                };
                let answer = match frame.transpose()? {
                    Ok(frame) => events.answer(frame).await,
                    Err(status) => Err(status),
                };
                match answer {
                    Ok(answer) => Some((Ok(answer), Some((events, frames)))),
                    Err(status) => Some((Err(status), None)),
                }
            });
            Ok(Response::new(answers.boxed()))
        })
    }
}

impl Events {
    async fn answer(&self, frame: Frame) -> Result<Answer, Status> {
        let message = Message::try_from(frame).map_err(|malformed| status(&Refusal::Malformed(malformed)))?;
        Ok(self.inbox.take(message).await.map_err(|refusal| status(&refusal))?.into())
    }
}

/// A refusal as gRPC has it.
fn status(refusal: &Refusal) -> Status {
    let code = match refusal.status() {
        StatusCode::NOT_FOUND => tonic::Code::NotFound,
        StatusCode::CONFLICT => tonic::Code::Aborted,
        StatusCode::PAYLOAD_TOO_LARGE => tonic::Code::ResourceExhausted,
        StatusCode::UNPROCESSABLE_ENTITY => tonic::Code::FailedPrecondition,
        _ => tonic::Code::InvalidArgument,
    };
    Status::new(code, refusal.to_string())
}

/// Streams of one connection; a worker needs one.
const MOST_STREAMS: u32 = 16;
/// How long nobody is let in after that failed.
const PAUSE: Duration = Duration::from_millis(100);
