//! W3C trace context towards pods, and spans that a collector gets by OTLP.

use std::time::Duration;

use super::fixture::{CHAT, FakePod, Script, WHOLE, gateway};

const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const STATE: &str = "vendor=opaque";

#[tokio::test]
async fn without_an_exporter_a_clients_trace_context_passes_unchanged() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let (gateway, client) = gateway(&[&pod]).await;
    client.post("/v1/chat/completions", CHAT, &[("traceparent", PARENT), ("tracestate", STATE)]).await;
    let (headers, _) = pod.seen().remove(0);
    assert_eq!((&headers["traceparent"], &headers["tracestate"]), (&PARENT.parse().unwrap(), &STATE.parse().unwrap()));
    client.chat().await;
    assert!(!pod.seen()[1].0.contains_key("traceparent"), "nobody traces this one");
    gateway.drain(Duration::ZERO).await;
}

#[cfg(feature = "otlp")]
mod otlp {
    use std::collections::HashMap;
    use std::net::SocketAddr;
    use std::sync::Arc;

    use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{TraceService, TraceServiceServer};
    use opentelemetry_proto::tonic::collector::trace::v1::{ExportTraceServiceRequest, ExportTraceServiceResponse};
    use opentelemetry_proto::tonic::common::v1::any_value::Value;
    use opentelemetry_proto::tonic::trace::v1::Span;
    use parking_lot::Mutex;
    use pointsman_gateway::Gateway;
    use pointsman_gateway::config::{OtlpSettings, Profile};
    use tonic::{Request, Response, Status};

    use super::super::fixture::{Client, EVENTS, STREAMED, config, within};
    use super::*;

    /// A collector that keeps what it gets.
    #[derive(Clone, Default)]
    struct Collector(Arc<Mutex<Vec<Span>>>);

    #[tonic::async_trait]
    impl TraceService for Collector {
        async fn export(
            &self,
            request: Request<ExportTraceServiceRequest>,
        ) -> Result<Response<ExportTraceServiceResponse>, Status> {
            let resources = request.into_inner().resource_spans.into_iter();
            let spans = resources.flat_map(|of| of.scope_spans).flat_map(|of| of.spans);
            self.0.lock().extend(spans);
            Ok(Response::new(ExportTraceServiceResponse::default()))
        }
    }

    impl Collector {
        /// Serves on a free port for as long as the test's runtime lives.
        fn start(&self) -> SocketAddr {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            listener.set_nonblocking(true).unwrap();
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            let address = listener.local_addr().unwrap();
            let incoming = futures_util::stream::unfold(listener, async |listener| {
                let accepted = listener.accept().await.map(|(socket, _)| socket);
                Some((accepted, listener))
            });
            let (server, service) = (tonic::transport::Server::builder(), TraceServiceServer::new(self.clone()));
            tokio::spawn(async move {
                server.serve_with_incoming_shutdown(service, incoming, std::future::pending()).await
            });
            address
        }

        fn spans(&self) -> HashMap<String, Span> {
            self.0.lock().iter().map(|span| (span.name.clone(), span.clone())).collect()
        }
    }

    fn hex(id: &[u8]) -> String {
        id.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn attribute(span: &Span, name: &str) -> Option<String> {
        let found = span.attributes.iter().find(|attribute| attribute.key == name)?;
        match found.value.as_ref()?.value.as_ref()? {
            Value::StringValue(text) => Some(text.clone()),
            Value::IntValue(number) => Some(number.to_string()),
            Value::DoubleValue(number) => Some(number.to_string()),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_collector_gets_request_decision_and_attempts_and_pods_are_their_children() {
        let (a, b) =
            (FakePod::start("a", Script::Status(500)).await, FakePod::start("b", Script::Events(EVENTS)).await);
        let collector = Collector::default();
        let mut config = config(&[&a, &b]);
        config.profile = Profile::stock("round_robin");
        config.otlp = Some(OtlpSettings::new(&format!("http://{}", collector.start())));
        let gateway = Gateway::start(config).await.unwrap();
        let client = Client::new(gateway.address());
        // One of two requests begins at the pod that fails, and is tried again.
        for _ in 0..2 {
            client.post("/v1/chat/completions", STREAMED, &[("traceparent", PARENT), ("tracestate", STATE)]).await;
            if !a.seen().is_empty() {
                break;
            }
            collector.0.lock().clear();
        }
        within("the last spans to be sent", gateway.drain(Duration::from_secs(1))).await;
        let failed = &a.seen()[0].0;
        let served = &b.seen().pop().unwrap().0;
        let trace = |span: &Span| (hex(&span.trace_id), hex(&span.parent_span_id));

        let all = collector.0.lock().clone();
        let request = all.iter().rfind(|span| span.name == "chat sim").unwrap_or_else(|| panic!("{all:?}"));
        let [_, trace_id, client_span, _] = PARENT.split('-').collect::<Vec<_>>()[..] else { panic!() };
        assert_eq!(trace(request), (trace_id.to_owned(), client_span.to_owned()), "the client's span is the parent");
        for (name, value) in [
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.request.model", "sim"),
            ("http.response.status_code", "200"),
            ("pointsman.outcome", "completed"),
            ("pointsman.attempts", "2"),
        ] {
            assert_eq!(attribute(request, name).as_deref(), Some(value), "{name}");
        }
        assert!(attribute(request, "gen_ai.server.time_to_first_token").is_some());
        let children: HashMap<String, &Span> = all
            .iter()
            .filter(|span| span.parent_span_id == request.span_id)
            .map(|span| (span.name.clone(), span))
            .collect();
        let mut names: Vec<&str> = children.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["attempt a", "attempt b", "decision"], "{:?}", collector.spans().keys());
        assert_eq!(attribute(children["decision"], "pointsman.profile").as_deref(), Some("round_robin"));
        for (pod, outcome, status, headers) in [("a", "status", "500", failed), ("b", "completed", "200", served)] {
            let attempt = children[&format!("attempt {pod}")];
            assert_eq!(attribute(attempt, "pointsman.pod").as_deref(), Some(pod));
            assert_eq!(attribute(attempt, "pointsman.outcome").as_deref(), Some(outcome));
            assert_eq!(attribute(attempt, "http.response.status_code").as_deref(), Some(status));
            let expected = format!("00-{trace_id}-{}-01", hex(&attempt.span_id));
            assert_eq!(headers["traceparent"], expected, "the attempt is the parent of what pod {pod} does");
            assert_eq!(headers["tracestate"], STATE);
            assert!(attempt.end_time_unix_nano >= attempt.start_time_unix_nano);
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_a_client_does_not_sample_is_not_sent_and_a_collector_that_is_gone_costs_nothing() {
        let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
        let collector = Collector::default();
        let mut config = config(&[&pod]);
        config.otlp = Some(OtlpSettings::new(&format!("http://{}", collector.start())));
        let gateway = Gateway::start(config.clone()).await.unwrap();
        let unsampled = PARENT.replace("-01", "-00");
        let client = Client::new(gateway.address());
        client.post("/v1/chat/completions", CHAT, &[("traceparent", &unsampled)]).await;
        within("the last spans to be sent", gateway.drain(Duration::from_secs(1))).await;
        assert!(collector.0.lock().is_empty());
        let passed = pod.seen()[0].0["traceparent"].to_str().unwrap().to_owned();
        assert!(passed.starts_with(&unsampled[..36]) && passed.ends_with("-00"), "{passed}");

        config.otlp = Some(OtlpSettings::new("http://127.0.0.1:1"));
        let gateway = Gateway::start(config).await.unwrap();
        assert_eq!(Client::new(gateway.address()).chat().await.status, 200);
        within("a drain without a collector", gateway.drain(Duration::ZERO)).await;
    }
}
