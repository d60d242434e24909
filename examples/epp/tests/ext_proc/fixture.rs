//! A picker's server, and the other end of its streams.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue, Metadata};
use envoy_types::pb::envoy::service::ext_proc::v3::body_mutation::Mutation;
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_client::ExternalProcessorClient;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    CommonResponse, HttpBody, HttpHeaders, HttpTrailers, ImmediateResponse, ProcessingRequest, ProcessingResponse,
    ProtocolConfiguration,
};
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{ListValue, Struct, Value};
use futures_util::stream::unfold;
use pointsman::index::Pod;
use pointsman::{PodSpec, Router, RouterBuilder};
use pointsman_epp::{ExtProc, Objectives, Picker, PickerOptions};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tonic::Streaming;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};

/// A running picker.
pub(crate) struct Fixture {
    pub(crate) picker: Arc<Picker>,
    client: ExternalProcessorClient<Channel>,
}

/// A router of so many pods at `10.0.0.N:8000`, called `pod-N`, of whatever model.
pub(crate) fn builder(pods: usize) -> RouterBuilder {
    let pods = (1..=pods).map(|n| PodSpec::new(format!("pod-{n}"), format!("10.0.0.{n}:8000")));
    Router::builder("model").any_adapter().pods(pods)
}

impl Fixture {
    pub(crate) async fn new(router: RouterBuilder, options: PickerOptions) -> Self {
        Self::of(Arc::new(Picker::new(router.build().unwrap(), options))).await
    }

    pub(crate) async fn with_objectives(router: RouterBuilder, options: PickerOptions, objectives: Objectives) -> Self {
        Self::of(Arc::new(Picker::new(router.build().unwrap(), options).objectives(objectives))).await
    }

    /// The server of a picker.
    pub(crate) async fn of(picker: Arc<Picker>) -> Self {
        let address: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let incoming = TcpIncoming::bind(address).unwrap();
        let address = incoming.local_addr().unwrap();
        tokio::spawn(Server::builder().add_service(ExtProc::new(Arc::clone(&picker))).serve_with_incoming(incoming));
        let client = ExternalProcessorClient::connect(format!("http://{address}")).await.unwrap();
        Self { picker, client }
    }

    /// Two pods, and the defaults.
    pub(crate) async fn plain() -> Self {
        Self::new(builder(2), PickerOptions::default()).await
    }

    pub(crate) fn router(&self) -> &Router {
        self.picker.router()
    }

    pub(crate) fn pod(&self, n: usize) -> Pod {
        self.router().pod(&format!("pod-{n}")).unwrap()
    }

    /// What counts on a pod.
    pub(crate) fn in_flight(&self, n: usize) -> u32 {
        self.router().plugin_state().load.in_flight(self.pod(n).id()).requests
    }

    pub(crate) async fn open(&self) -> Exchange {
        let (to, from) = mpsc::channel(64);
        let requests = unfold(from, |mut from| async move { Some((from.recv().await?, from)) });
        let responses = self.client.clone().process(requests).await.unwrap().into_inner();
        Exchange { to: Some(to), responses }
    }

    /// Sends a request whole, and waits for where it goes.
    pub(crate) async fn picked(&self, body: &str) -> (Exchange, Picked) {
        let mut exchange = self.open().await;
        exchange.post("/v1/completions", &[]).await;
        exchange.body(body, true).await;
        let picked = exchange.picked().await;
        (exchange, picked)
    }

    /// Waits until something holds.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let waits = async {
            while !holds(self) {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, waits).await.unwrap_or_else(|_| panic!("never: {what}"));
    }
}

/// One stream.
pub(crate) struct Exchange {
    to: Option<mpsc::Sender<ProcessingRequest>>,
    responses: Streaming<ProcessingResponse>,
}

/// A destination, as a proxy learns of it.
#[derive(Debug)]
pub(crate) struct Picked {
    pub(crate) endpoints: String,
    pub(crate) set: Vec<(String, String)>,
    pub(crate) removed: Vec<String>,
}

impl Picked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.set.iter().find(|(set, _)| set == name).map(|(_, value)| value.as_str())
    }
}

impl Exchange {
    pub(crate) async fn send(&self, request: Request) {
        self.send_with(ProcessingRequest { request: Some(request), ..ProcessingRequest::default() }).await;
    }

    pub(crate) async fn send_with(&self, message: ProcessingRequest) {
        self.to.as_ref().unwrap().send(message).await.unwrap();
    }

    /// The same, where the stream may be over. False if it is.
    pub(crate) async fn try_send(&self, message: ProcessingRequest) -> bool {
        self.to.as_ref().unwrap().send(message).await.is_ok()
    }

    /// Headers of a request with a body.
    pub(crate) async fn post(&self, path: &str, headers: &[(&str, &str)]) {
        self.send(Request::RequestHeaders(request_headers("POST", path, headers, false))).await;
    }

    pub(crate) async fn body(&self, body: impl AsRef<[u8]>, end_of_stream: bool) {
        let body = HttpBody { body: body.as_ref().into(), end_of_stream, ..HttpBody::default() };
        self.send(Request::RequestBody(body)).await;
    }

    pub(crate) async fn trailers(&self) {
        self.send(Request::RequestTrailers(HttpTrailers::default())).await;
    }

    /// An answer's headers, with the endpoint that served where that is said.
    pub(crate) async fn answers(&mut self, status: &str, kind: &str, served: Option<&str>) {
        self.answers_after(1, status, kind, served).await;
    }

    /// The same, after so many attempts of the proxy.
    pub(crate) async fn answers_after(&mut self, attempts: u32, status: &str, kind: &str, served: Option<&str>) {
        let headers = [(":status", status), ("content-type", kind)];
        let request =
            Request::ResponseHeaders(HttpHeaders { headers: Some(header_map(&headers)), ..HttpHeaders::default() });
        let metadata_context =
            served.map(|served| metadata("envoy.lb", "x-gateway-destination-endpoint-served", text(served)));
        let attributes = attributes("upstream.request_attempt_count", Kind::NumberValue(attempts.into()));
        let message =
            ProcessingRequest { request: Some(request), metadata_context, attributes, ..ProcessingRequest::default() };
        self.send_with(message).await;
        assert!(matches!(self.next().await, Some(Response::ResponseHeaders(_))));
    }

    /// A piece of an answer, which must pass as it is.
    pub(crate) async fn passes(&mut self, piece: &str, end_of_stream: bool) {
        let body = HttpBody { body: piece.into(), end_of_stream, ..HttpBody::default() };
        self.send(Request::ResponseBody(body)).await;
        let Some(Response::ResponseBody(answer)) = self.next().await else { panic!("no body") };
        assert_eq!(streamed(answer.response.unwrap()), (piece.as_bytes().to_vec(), end_of_stream));
    }

    pub(crate) async fn message(&mut self) -> Option<ProcessingResponse> {
        timeout(PATIENCE, self.responses.message()).await.expect("an answer in time").unwrap()
    }

    pub(crate) async fn next(&mut self) -> Option<Response> {
        self.message().await.and_then(|message| message.response)
    }

    /// Where it goes, by header and metadata alike.
    pub(crate) async fn picked(&mut self) -> Picked {
        let message = self.message().await.expect("a message");
        let mut metadata = message.dynamic_metadata.expect("metadata").fields;
        let Some(Kind::StructValue(mut lb)) = metadata.remove("envoy.lb").unwrap().kind else { panic!("no metadata") };
        let endpoints = lb.fields.remove("x-gateway-destination-endpoint").unwrap().kind;
        let Some(Response::RequestHeaders(headers)) = message.response else {
            panic!("no headers: {:?}", message.response)
        };
        let common = headers.response.unwrap();
        let picked = mutation(common);
        assert_eq!(endpoints, Some(Kind::StringValue(picked.endpoints.clone())), "the two must not differ");
        picked
    }

    /// The body that goes on, and whether it ends.
    pub(crate) async fn request_body(&mut self) -> (String, bool) {
        let mut whole = Vec::new();
        loop {
            let Some(Response::RequestBody(body)) = self.next().await else { panic!("no body") };
            let (piece, is_last) = streamed(body.response.unwrap());
            assert!(piece.len() <= 64_000, "Envoy takes no more at a time");
            whole.extend(piece);
            if is_last {
                return (String::from_utf8(whole).unwrap(), true);
            }
        }
    }

    /// An answer in the pods' place.
    pub(crate) async fn refused(&mut self) -> ImmediateResponse {
        let Some(Response::ImmediateResponse(immediate)) = self.next().await else { panic!("no immediate answer") };
        assert!(self.message().await.is_none(), "nothing follows");
        immediate
    }

    /// The client leaves.
    pub(crate) fn leave(self) {}

    pub(crate) fn half_close(&mut self) {
        self.to = None;
    }
}

pub(crate) fn status(immediate: &ImmediateResponse) -> i32 {
    immediate.status.as_ref().unwrap().code
}

pub(crate) fn immediate_header(immediate: &ImmediateResponse, name: &str) -> Option<String> {
    let headers = &immediate.headers.as_ref()?.set_headers;
    let header = headers.iter().filter_map(|header| header.header.as_ref()).find(|header| header.key == name)?;
    Some(String::from_utf8(header.raw_value.clone()).unwrap())
}

pub(crate) fn mutation(common: CommonResponse) -> Picked {
    assert!(common.clear_route_cache);
    let mutation = common.header_mutation.unwrap();
    let set = mutation.set_headers.into_iter().map(|option| {
        assert_eq!(option.append_action, 2, "what a client said is replaced");
        let header = option.header.unwrap();
        (header.key, String::from_utf8(header.raw_value).unwrap())
    });
    let set: Vec<_> = set.collect();
    let endpoints = set.iter().find(|(name, _)| name == "x-gateway-destination-endpoint").unwrap().1.clone();
    Picked { endpoints, set, removed: mutation.remove_headers }
}

pub(crate) fn streamed(common: CommonResponse) -> (Vec<u8>, bool) {
    let Some(Mutation::StreamedResponse(piece)) = common.body_mutation.unwrap().mutation else {
        panic!("not streamed")
    };
    (piece.body, piece.end_of_stream)
}

pub(crate) fn request_headers(method: &str, path: &str, headers: &[(&str, &str)], end_of_stream: bool) -> HttpHeaders {
    let pseudo = [(":method", method), (":path", path), (":authority", "gateway")];
    let all: Vec<_> = pseudo.into_iter().chain(headers.iter().copied()).collect();
    HttpHeaders { headers: Some(header_map(&all)), end_of_stream, ..HttpHeaders::default() }
}

pub(crate) fn header_map(headers: &[(&str, &str)]) -> HeaderMap {
    let header = |(key, value): &(&str, &str)| HeaderValue {
        key: (*key).into(),
        raw_value: value.as_bytes().into(),
        ..HeaderValue::default()
    };
    HeaderMap { headers: headers.iter().map(header).collect() }
}

pub(crate) fn text(text: &str) -> Kind {
    Kind::StringValue(text.into())
}

/// An attribute, as Envoy tells it.
pub(crate) fn attributes(name: &str, kind: Kind) -> HashMap<String, Struct> {
    let fields = [(name.into(), Value { kind: Some(kind) })].into();
    [("envoy.filters.http.ext_proc".into(), Struct { fields })].into()
}

/// A subset hint.
pub(crate) fn subset(endpoints: &[&str]) -> Option<Metadata> {
    let values = endpoints.iter().map(|endpoint| Value { kind: Some(text(endpoint)) }).collect();
    Some(metadata(
        "envoy.lb.subset_hint",
        "x-gateway-destination-endpoint-subset",
        Kind::ListValue(ListValue { values }),
    ))
}

pub(crate) fn metadata(namespace: &str, name: &str, kind: Kind) -> Metadata {
    let fields = [(name.into(), Value { kind: Some(kind) })].into();
    Metadata { filter_metadata: [(namespace.into(), Struct { fields })].into(), ..Metadata::default() }
}

pub(crate) fn modes(request: i32, response: i32) -> Option<ProtocolConfiguration> {
    Some(ProtocolConfiguration {
        request_body_mode: request,
        response_body_mode: response,
        ..ProtocolConfiguration::default()
    })
}

/// A request that any picker takes.
pub(crate) const BODY: &str = r#"{"model":"model","prompt":"Once upon a time","max_tokens":5}"#;

const PATIENCE: Duration = Duration::from_secs(20);
