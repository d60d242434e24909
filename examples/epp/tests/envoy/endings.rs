//! How an exchange ends that does not come to its answer's end: what Envoy tells of it, which is not why.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3::{HeaderValue, HeaderValueOption};
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_server::{
    ExternalProcessor, ExternalProcessorServer,
};
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request as Shown;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response as Said;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    BodyMutation, BodyResponse, CommonResponse, HeaderMutation, HeadersResponse, ProcessingRequest, ProcessingResponse,
    StreamedBodyResponse, TrailersResponse,
};
use futures_util::{Stream, StreamExt};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use crate::envoy::{Cluster, Envoy, is_there};
use crate::scene::PATIENCE;

/// A processor that sends every request to one pod, and writes down what it is shown.
struct Recorder {
    pod: SocketAddr,
    shown: Arc<Mutex<Vec<String>>>,
    over: mpsc::UnboundedSender<()>,
}

#[tonic::async_trait]
impl ExternalProcessor for Recorder {
    type ProcessStream = Pin<Box<dyn Stream<Item = Result<ProcessingResponse, Status>> + Send>>;

    async fn process(
        &self,
        request: Request<Streaming<ProcessingRequest>>,
    ) -> Result<Response<Self::ProcessStream>, Status> {
        let (pod, shown, over) = (self.pod, Arc::clone(&self.shown), self.over.clone());
        let mut requests = request.into_inner();
        let (to, from) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let said = match requests.message().await {
                    Ok(Some(message)) => match message.request {
                        Some(request) => answer(pod, request, &shown),
                        None => continue,
                    },
                    Ok(None) => break shown.lock().push("the stream ends".to_owned()),
                    Err(status) => break shown.lock().push(format!("the stream breaks: {:?}", status.code())),
                };
                let _ = to.send(Ok(ProcessingResponse { response: Some(said), ..ProcessingResponse::default() }));
            }
            let _ = over.send(());
        });
        let responses = futures_util::stream::unfold(from, |mut from| async move { Some((from.recv().await?, from)) });
        Ok(Response::new(responses.boxed()))
    }
}

fn answer(pod: SocketAddr, request: Shown, shown: &Mutex<Vec<String>>) -> Said {
    match request {
        Shown::RequestHeaders(_) => {
            let header = HeaderValue {
                key: "x-gateway-destination-endpoint".into(),
                raw_value: pod.to_string().into(),
                ..HeaderValue::default()
            };
            let set = HeaderValueOption { header: Some(header), ..HeaderValueOption::default() };
            let header_mutation = Some(HeaderMutation { set_headers: vec![set], remove_headers: Vec::new() });
            let common = CommonResponse { header_mutation, clear_route_cache: true, ..CommonResponse::default() };
            Said::RequestHeaders(HeadersResponse { response: Some(common) })
        }
        Shown::ResponseHeaders(_) => {
            shown.lock().push("headers".to_owned());
            Said::ResponseHeaders(HeadersResponse { response: None })
        }
        Shown::ResponseBody(body) => {
            shown.lock().push(format!("body, end: {}", body.end_of_stream));
            let piece = StreamedBodyResponse {
                body: body.body,
                end_of_stream: body.end_of_stream,
                ..StreamedBodyResponse::default()
            };
            let mutation = BodyMutation { mutation: Some(Mutation::StreamedResponse(piece)) };
            let common = CommonResponse { body_mutation: Some(mutation), ..CommonResponse::default() };
            Said::ResponseBody(BodyResponse { response: Some(common) })
        }
        other => {
            shown.lock().push(format!("{other:?}"));
            Said::ResponseTrailers(TrailersResponse { header_mutation: None })
        }
    }
}

/// A pod that begins an answer, and dies once it is told to.
async fn pod(mut dies: mpsc::UnboundedReceiver<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut head = [0; 4096];
        let _ = stream.read(&mut head).await;
        let begin =
            "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n6\r\ndata: \r\n";
        stream.write_all(begin.as_bytes()).await.unwrap();
        let _ = dies.recv().await;
    });
    address
}

/// What is shown of an answer that does not end, since its pod dies or since its client leaves.
async fn ending(pod_dies: bool) -> Vec<String> {
    let (die, dies) = mpsc::unbounded_channel();
    let (over, mut is_over) = mpsc::unbounded_channel();
    let shown = Arc::new(Mutex::new(Vec::new()));
    let recorder = Recorder { pod: pod(dies).await, shown: Arc::clone(&shown), over };
    let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into()).unwrap();
    let address = incoming.local_addr().unwrap();
    let server = Server::builder().add_service(ExternalProcessorServer::new(recorder)).serve_with_incoming(incoming);
    let server = tokio::spawn(server);
    let envoy = Envoy::start(Cluster::OriginalDst, address, &[], 0).await;
    let mut client = TcpStream::connect(envoy.clients).await.unwrap();
    client.write_all(b"GET /x HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let begun = async {
        let mut read = Vec::new();
        while !read.ends_with(b"data: \r\n") {
            assert_ne!(client.read_buf(&mut read).await.unwrap(), 0, "the answer begins");
        }
    };
    timeout(PATIENCE, begun).await.expect("the answer begins");
    // Whichever does not leave stays until all is seen.
    let kept = match pod_dies {
        true => {
            die.send(()).unwrap();
            Some(client)
        }
        false => {
            drop(client);
            None
        }
    };
    timeout(PATIENCE, is_over.recv()).await.expect("the exchange ends");
    drop((kept, die));
    server.abort();
    Arc::clone(&shown).lock().clone()
}

/// Where this fails, Envoy has begun to tell: then a pod that dies in mid-answer can be charged (`docs/envoy.md`, what is not here).
#[tokio::test(flavor = "multi_thread")]
async fn envoy_does_not_tell_a_pod_that_dies_from_a_client_that_leaves() {
    if !is_there() {
        return;
    }
    let (died, left) = (ending(true).await, ending(false).await);
    assert_eq!(died[..2], ["headers", "body, end: false"]);
    assert_eq!(died, left);
}
