//! gRPC event source: a bidirectional stream, `pointsman.v1.Events/Report`, each message acknowledged in order.
//!
//! The rule: a rejected message ends its stream with a status and changes nothing; a worker opens the next stream.

mod connection;

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use http::{Request as HttpRequest, Response as HttpResponse, StatusCode};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Service};
use tonic::server::{Grpc, NamedService, StreamingService};
use tonic::{Request, Response, Status, Streaming};

use crate::LAST_BYTES_TIMEOUT;
use crate::app_state::AppState;
use crate::config::GrpcSource;
use crate::error::StartError;
use connection::Connection;
use pointsman_example_common::bearer_token::Token;
use pointsman_reporter::event_ingest::{EventIngest, IngestError};
use pointsman_reporter::wire::Message;
use pointsman_reporter::wire::proto::codec::{MAX_BYTES, METHOD, ProstCodec};
use pointsman_reporter::wire::proto::{Ack, Frame};

/// Binds the listener and serves workers until the gateway stops.
///
/// # Errors
///
/// When the address cannot be bound.
pub(super) fn start(app: &Arc<AppState>, settings: &GrpcSource, token: &str) -> Result<(), StartError> {
    let failed = |error: std::io::Error| StartError::Listen { address: settings.listen, kind: error.kind() };
    let listener = std::net::TcpListener::bind(settings.listen).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let listener = TcpListener::from_std(listener).map_err(failed)?;
    let server = GrpcServer::new(Arc::clone(&app.ingest), Token::new(token)).max_connections(settings.max_connections);
    let stop = app.tasks.token();
    app.tasks.spawn_closing(async move {
        // A silent peer would be waited for without end.
        let deadline = async {
            stop.cancelled().await;
            tokio::time::sleep(LAST_BYTES_TIMEOUT).await;
        };
        tokio::select! {
            () = deadline => {}
            served = server.serve(listener, stop.clone()) => {
                if let Err(error) = served {
                    tracing::warn!(%error, "the gRPC event source has ended");
                }
            }
        }
    });
    Ok(())
}

/// A server of workers, with a bound on their connections.
#[derive(Debug)]
pub struct GrpcServer {
    ingest: Arc<EventIngest>,
    token: Token,
    max_connections: usize,
}

impl GrpcServer {
    /// A server for workers that have the token, of 1024 connections.
    #[must_use]
    pub fn new(ingest: Arc<EventIngest>, token: Token) -> Self {
        Self { ingest, token, max_connections: 1024 }
    }

    /// The same with so many connections at a time; more wait to be accepted.
    #[must_use]
    pub fn max_connections(self, connections: usize) -> Self {
        Self { max_connections: connections, ..self }
    }

    /// Serves workers until `stop`; then open streams are ended, and it returns when all connections are closed: by force after
    /// one second.
    ///
    /// # Errors
    ///
    /// When the server fails as a whole; failures of connections are theirs.
    pub async fn serve(self, listener: TcpListener, stop: CancellationToken) -> Result<(), tonic::transport::Error> {
        let Self { ingest, token, max_connections } = self;
        let permits = Arc::new(Semaphore::new(max_connections.min(Semaphore::MAX_PERMITS)));
        let incoming = stream::unfold((listener, permits, stop.clone()), async |(listener, permits, stop)| {
            let permit = Arc::clone(&permits).acquire_owned().await.ok()?;
            let socket = loop {
                match listener.accept().await {
                    Ok((socket, _)) => break socket,
                    // Too many open files, mostly: a retry at once would only keep a core busy.
                    Err(_) => tokio::time::sleep(ACCEPT_RETRY).await,
                }
            };
            Some((Ok::<_, Infallible>(Connection::new(socket, permit, &stop)), (listener, permits, stop)))
        });
        let events = Events { ingest, token, stop: stop.clone() };
        tonic::transport::Server::builder()
            .max_concurrent_streams(MAX_STREAMS)
            .http2_keepalive_interval(Some(Duration::from_secs(20)))
            .serve_with_incoming_shutdown(events, incoming, stop.cancelled_owned())
            .await
    }
}

/// The service, written out.
#[derive(Clone, Debug)]
struct Events {
    ingest: Arc<EventIngest>,
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
            let mut grpc = Grpc::new(ProstCodec::<Ack, Frame>::default()).max_decoding_message_size(MAX_BYTES);
            Ok(grpc.streaming(events, request).await)
        })
    }
}

impl StreamingService<Frame> for Events {
    type Response = Ack;
    type ResponseStream = BoxStream<'static, Result<Ack, Status>>;
    type Future = BoxFuture<Response<Self::ResponseStream>, Status>;

    fn call(&mut self, request: Request<Streaming<Frame>>) -> Self::Future {
        let events = self.clone();
        let frames = request.into_inner();
        Box::pin(async move {
            let acks = stream::unfold(Some((events, frames)), async |open| {
                let (events, mut frames) = open?;
                let frame = tokio::select! {
                    frame = frames.message() => frame,
                    () = events.stop.cancelled() => Err(Status::unavailable("the gateway is stopping")),
                };
                let ack = match frame.transpose()? {
                    Ok(frame) => events.ingest(frame).await,
                    Err(status) => Err(status),
                };
                match ack {
                    Ok(ack) => Some((Ok(ack), Some((events, frames)))),
                    Err(status) => Some((Err(status), None)),
                }
            });
            Ok(Response::new(acks.boxed()))
        })
    }
}

impl Events {
    async fn ingest(&self, frame: Frame) -> Result<Ack, Status> {
        let message = Message::try_from(frame).map_err(|malformed| status(&IngestError::Malformed(malformed)))?;
        Ok(self.ingest.message_async(message).await.map_err(|error| status(&error))?.into())
    }
}

/// An ingestion error as a gRPC status.
fn status(error: &IngestError) -> Status {
    let code = match error.status() {
        StatusCode::NOT_FOUND => tonic::Code::NotFound,
        StatusCode::CONFLICT => tonic::Code::Aborted,
        StatusCode::TOO_MANY_REQUESTS => tonic::Code::Unavailable,
        StatusCode::PAYLOAD_TOO_LARGE => tonic::Code::ResourceExhausted,
        StatusCode::UNPROCESSABLE_ENTITY => tonic::Code::FailedPrecondition,
        _ => tonic::Code::InvalidArgument,
    };
    Status::new(code, error.to_string())
}

/// Streams of one connection; a worker needs one.
const MAX_STREAMS: u32 = 16;
/// Delay after `accept` failed.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
