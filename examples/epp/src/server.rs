//! The gRPC server: Envoy's external processing service, a stream for each request.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_server::{
    ExternalProcessor, ExternalProcessorServer,
};
use envoy_types::pb::envoy::service::ext_proc::v3::{ProcessingRequest, ProcessingResponse};
use futures_util::stream::unfold;
use futures_util::{FutureExt, Stream};
use tonic::{Request, Response, Status, Streaming};

use crate::exchange::{Exchange, Outbox};
use crate::picker::Picker;

/// The service.
#[derive(Clone, Debug)]
pub struct ExtProc(Arc<Picker>);

impl ExtProc {
    /// The service of a picker, for a tonic server.
    #[must_use]
    pub fn new(picker: Arc<Picker>) -> ExternalProcessorServer<Self> {
        // A body of any length comes in pieces; where it does not, it is in one. A piece is what Envoy's buffer held, whether anybody reads it or not.
        let most = picker.options().max_body_bytes.max(ENVOY_BUFFER).saturating_add(MESSAGE_AROUND);
        ExternalProcessorServer::new(Self(picker)).max_decoding_message_size(most)
    }
}

#[tonic::async_trait]
impl ExternalProcessor for ExtProc {
    type ProcessStream = Pin<Box<dyn Stream<Item = Result<ProcessingResponse, Status>> + Send>>;

    async fn process(
        &self,
        request: Request<Streaming<ProcessingRequest>>,
    ) -> Result<Response<Self::ProcessStream>, Status> {
        let exchange = Exchange::new(Arc::clone(&self.0));
        // All of an exchange is in the stream of its responses: when Envoy leaves, it is dropped, and what it counted for with it.
        let responses = unfold(
            (exchange, request.into_inner(), Outbox::new()),
            |(mut exchange, mut requests, mut outbox)| async move {
                loop {
                    if let Some(response) = outbox.pop_front() {
                        return Some((Ok(response), (exchange, requests, outbox)));
                    }
                    // What is there already goes on first.
                    let ready = exchange.is_behind().then(|| requests.message().now_or_never()).flatten();
                    if ready.is_none() && exchange.is_behind() {
                        sent_first().await;
                        exchange.look();
                    }
                    if exchange.is_over() {
                        return None;
                    }
                    let next = match ready {
                        Some(next) => next,
                        None => requests.message().await,
                    };
                    let message = match next {
                        Ok(Some(message)) => message,
                        Ok(None) => return None,
                        // Never a clean end: Envoy would send the request on, wherever its client wants it.
                        Err(status) => match exchange.failed(&status, &mut outbox) {
                            true => continue,
                            false => return Some((Err(status), (exchange, requests, outbox))),
                        },
                    };
                    exchange.handle(message, &mut outbox).await;
                }
            },
        );
        Ok(Response::new(Box::pin(responses)))
    }
}

/// Waits until what was said is on its way. A body is asked again for more before its frame is sent, twice: by tonic, which gathers
/// messages, and by hyper; then it is the connection's turn.
async fn sent_first() {
    let mut turns = 2;
    poll_fn(|context| {
        if turns == 0 {
            return Poll::Ready(());
        }
        turns -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Bytes that Envoy buffers of a connection unless told otherwise (`per_connection_buffer_limit_bytes`), and then some.
const ENVOY_BUFFER: usize = 1 << 20;
/// What is around a body in a message, at most.
const MESSAGE_AROUND: usize = 1 << 20;
