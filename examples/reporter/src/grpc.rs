//! gRPC sink: messages over a bidirectional stream to a gateway.
//!
//! The rule: acknowledgements come in the order of messages. So a message whose acknowledgement is late ends its stream, lest
//! it be taken for that of the next message.

use std::time::Duration;

use futures_util::stream;
use tokio::sync::mpsc;
use tonic::client::Grpc;
use tonic::metadata::{Ascii, MetadataValue};
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status, Streaming};

use crate::message_sink::{MessageSink, SinkError};
use crate::wire::proto::codec::{MAX_BYTES, METHOD, ProstCodec};
use crate::wire::proto::{Ack as AckFrame, Frame};
use crate::wire::{Ack, Message};

/// Sends to `pointsman.v1.Events/Report` of one gateway.
#[derive(Debug)]
pub struct GrpcSink {
    channel: Channel,
    authorization: MetadataValue<Ascii>,
    open: Option<Open>,
    timeout: Duration,
}

#[derive(Debug)]
struct Open {
    frames: mpsc::Sender<Frame>,
    answers: Streaming<AckFrame>,
}

/// Why a sink cannot be made. The worker's operator can act.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Not a URL.
    #[error("not a URL of a gateway")]
    Url(#[from] tonic::transport::Error),
    /// Not a token that a header can carry.
    #[error("not a token that a header can carry")]
    Token(#[from] tonic::metadata::errors::InvalidMetadataValue),
}

impl GrpcSink {
    /// An sink to `url` (`http://host:port`) with the gateway's token. Connects with the first message, and
    /// again whenever it must.
    ///
    /// # Errors
    ///
    /// When `url` is not one, or the token is not one of a header.
    pub fn connect(url: &str, token: &str) -> Result<Self, ConnectError> {
        let endpoint = Endpoint::from_shared(url.to_owned())?.connect_timeout(Duration::from_secs(5));
        let mut authorization: MetadataValue<Ascii> = format!("Bearer {token}").parse()?;
        authorization.set_sensitive(true);
        Ok(Self { channel: endpoint.connect_lazy(), authorization, open: None, timeout: Duration::from_secs(10) })
    }

    async fn exchange(&mut self, message: &Message) -> Result<Ack, Status> {
        // Taken out: if anything goes wrong, also if this future is dropped, the stream is not used again.
        let mut open = match self.open.take() {
            Some(open) => {
                open.frames.send(message.into()).await.map_err(|_| Status::unavailable("the stream has ended"))?;
                open
            }
            None => self.stream(message.into()).await?,
        };
        let answer = open.answers.message().await?.ok_or_else(|| Status::unavailable("the stream has ended"))?;
        self.open = Some(open);
        answer.try_into().map_err(|malformed: crate::wire::Malformed| Status::unavailable(malformed.to_string()))
    }

    /// Opens a stream with its first message.
    async fn stream(&mut self, first: Frame) -> Result<Open, Status> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(MAX_BYTES);
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        let (frames, queue) = mpsc::channel(1);
        let _ = frames.try_send(first);
        let queue = stream::unfold(queue, async |mut queue| Some((queue.recv().await?, queue)));
        let mut request = Request::new(queue);
        request.metadata_mut().insert("authorization", self.authorization.clone());
        let codec = ProstCodec::<Frame, AckFrame>::default();
        let answers = grpc.streaming(request, http::uri::PathAndQuery::from_static(METHOD), codec).await?.into_inner();
        Ok(Open { frames, answers })
    }
}

impl MessageSink for GrpcSink {
    async fn send(&mut self, message: &Message) -> Result<Ack, SinkError> {
        match tokio::time::timeout(self.timeout, self.exchange(message)).await {
            Ok(answer) => answer.map_err(|status| sink_error(&status)),
            Err(late) => Err(SinkError::unacknowledged(late)),
        }
    }
}

fn sink_error(status: &Status) -> SinkError {
    let http = match status.code() {
        Code::InvalidArgument => 400,
        Code::Unauthenticated => 401,
        Code::NotFound => 404,
        Code::ResourceExhausted => 413,
        Code::FailedPrecondition => 422,
        Code::Unimplemented => 501,
        _ => return SinkError::Unacknowledged(format!("{:?}: {}", status.code(), status.message())),
    };
    SinkError::Rejected { status: http, reason: status.message().to_owned() }
}
