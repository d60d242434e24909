//! A picker that decides nothing: the price of `ext_proc` itself. `trivial-picker PORT ENDPOINT...` answers the endpoints in turn; where
//! there is one, always that.

use std::collections::VecDeque;
use std::error::Error;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use envoy_types::pb::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_server::{
    ExternalProcessor, ExternalProcessorServer,
};
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request as Message;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response as Answer;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    BodyMutation, BodyResponse, CommonResponse, HeaderMutation, HeadersResponse, ProcessingRequest, ProcessingResponse,
    StreamedBodyResponse, TrailersResponse,
};
use futures_util::Stream;
use futures_util::stream::unfold;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

struct Trivial {
    endpoints: Vec<String>,
    answered: AtomicUsize,
}

impl Trivial {
    fn next(&self) -> String {
        // Relaxed: a count that publishes nothing.
        self.endpoints[self.answered.fetch_add(1, Ordering::Relaxed) % self.endpoints.len()].clone()
    }
}

#[tonic::async_trait]
impl ExternalProcessor for Trivial {
    type ProcessStream = Pin<Box<dyn Stream<Item = Result<ProcessingResponse, Status>> + Send>>;

    async fn process(
        &self,
        request: Request<Streaming<ProcessingRequest>>,
    ) -> Result<Response<Self::ProcessStream>, Status> {
        let state = (request.into_inner(), Vec::new(), VecDeque::new(), self.next());
        let responses = unfold(state, |(mut requests, mut pieces, mut outbox, endpoint)| async move {
            loop {
                if let Some(response) = outbox.pop_front() {
                    return Some((Ok(response), (requests, pieces, outbox, endpoint)));
                }
                let message = requests.message().await.ok().flatten()?;
                match message.request? {
                    Message::RequestHeaders(_) => {}
                    Message::RequestBody(body) => {
                        pieces.push(body.body);
                        if body.end_of_stream {
                            outbox.push_back(picked(&endpoint));
                            let last = pieces.len() - 1;
                            let pieces = std::mem::take(&mut pieces).into_iter().enumerate();
                            outbox.extend(pieces.map(|(at, piece)| Answer::RequestBody(streamed(piece, at == last))));
                        }
                    }
                    Message::ResponseHeaders(_) => {
                        outbox.push_back(Answer::ResponseHeaders(HeadersResponse::default()));
                    }
                    Message::ResponseBody(body) => {
                        outbox.push_back(Answer::ResponseBody(streamed(body.body, body.end_of_stream)));
                    }
                    Message::RequestTrailers(_) => {
                        outbox.push_back(Answer::RequestTrailers(TrailersResponse::default()))
                    }
                    Message::ResponseTrailers(_) => {
                        outbox.push_back(Answer::ResponseTrailers(TrailersResponse::default()));
                    }
                }
            }
        });
        let wrap = |answer: Result<Answer, Status>| {
            answer.map(|answer| ProcessingResponse { response: Some(answer), ..ProcessingResponse::default() })
        };
        Ok(Response::new(Box::pin(futures_util::StreamExt::map(responses, wrap))))
    }
}

fn picked(endpoint: &str) -> Answer {
    let key = "x-gateway-destination-endpoint".to_owned();
    let header = HeaderValue { key, raw_value: endpoint.into(), ..HeaderValue::default() };
    let header = HeaderValueOption { header: Some(header), ..HeaderValueOption::default() };
    let header_mutation = Some(HeaderMutation { set_headers: vec![header], remove_headers: Vec::new() });
    let common = CommonResponse { header_mutation, clear_route_cache: true, ..CommonResponse::default() };
    Answer::RequestHeaders(HeadersResponse { response: Some(common) })
}

fn streamed(body: Vec<u8>, end_of_stream: bool) -> BodyResponse {
    let piece = StreamedBodyResponse { body, end_of_stream, ..StreamedBodyResponse::default() };
    let body_mutation = Some(BodyMutation { mutation: Some(Mutation::StreamedResponse(piece)) });
    BodyResponse { response: Some(CommonResponse { body_mutation, ..CommonResponse::default() }) }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (port, endpoints) = (arguments.next().ok_or("no port")?, arguments.collect::<Vec<_>>());
    if endpoints.is_empty() {
        return Err("no endpoint".into());
    }
    let trivial = Trivial { endpoints, answered: AtomicUsize::new(0) };
    let incoming = TcpIncoming::bind(SocketAddr::from(([127, 0, 0, 1], port.parse()?)))?.with_nodelay(Some(true));
    let server = Server::builder().tcp_nodelay(true).add_service(ExternalProcessorServer::new(trivial));
    Ok(server.serve_with_incoming(incoming).await?)
}
