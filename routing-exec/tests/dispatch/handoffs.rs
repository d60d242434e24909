//! What pods are told of each other: never by a client, never what is used up, and only of pods that are known.

#![expect(clippy::unwrap_used, reason = "what helps a test may stop it")]

use std::borrow::Cow;
use std::sync::Arc;

use crate::world::*;
use bytes::Bytes;
use http::Request;
use routing_core::{FailurePolicy, Pod, Role, RoutingPlan};
use routing_exec::handoff::{
    Api, Handoff, HandoffError, LegContext, Mooncake, MooncakeEngine, MooncakeEngines, Nixl, Plain, PodAddresses,
    SglangBootstrap, SharedStorage,
};
use routing_exec::{ClientFields, ClientRequest, Dispatch, DispatchConfig, DispatchError, Failure, Input};

fn with(handoff: impl Handoff + 'static, body: &'static str, plan: RoutingPlan) -> World {
    let mut dispatch_config = DispatchConfig::new(Arc::new(handoff), Arc::new(()));
    dispatch_config.policy = Arc::new(patience().max_buffered_bytes(4096));
    let (parts, ()) = Request::post("/v1/chat/completions").body(()).unwrap().into_parts();
    let request = ClientRequest::new(&parts, body.into(), 7);
    let mut world = Setup::new(REUSABLE, plan.clone()).idle();
    world.dispatch = Dispatch::new(dispatch_config, request, plan, Vec::new());
    world.dispatch.start(world.now);
    world.perform();
    world
}

const HANDED: &str = r#"{"kv_transfer_params":{"do_remote_prefill":true,"remote_block_ids":[1],"remote_engine_id":"e",
    "remote_request_id":"r","remote_host":"h","remote_port":1}}"#;

/// The first decode pod may have fetched the blocks, or let their lease run out: the prefill pod has freed them, and whoever
/// reads them now reads another request's.
#[test]
fn a_handoff_that_may_have_been_used_is_not_used_again() {
    for failure in [Failure::FirstByteTimeout, cut(), Failure::Status(500)] {
        let mut world = with(Nixl::default(), r#"{"stream":true}"#, two(&[0, 1], &[2, 3]));
        world.head(0, 200).chunk(0, HANDED).end(0);
        assert_eq!(world.pods(), [0, 2]);
        match failure {
            Failure::FirstByteTimeout => drop(world.pass(seconds(5))),
            Failure::Status(status) => drop(world.head(1, status)),
            _ => drop(world.fails(1, failure.clone())),
        }
        assert_eq!(world.sent[2].step, 0, "after {failure:?}: sent {}", world.request(2));
    }
}

/// Between a gateway and its clients: a pod neither hears nor says anything in the gateway's name.
#[test]
fn headers_in_the_gateways_name_go_no_further() {
    let request = Request::post("/v1/chat/completions").header("X-Pointsman-Pod", "a").header("x-tenant", "t");
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let client = ClientRequest::new(&parts, Bytes::from_static(b"{}"), 7);
    assert!(!client.headers().contains_key("x-pointsman-pod") && client.headers().contains_key("x-tenant"));
    let mut world = Setup::new(REUSABLE, single(&[0])).start();
    let mut headers = http::HeaderMap::new();
    headers.insert("x-pointsman-pod", "forged".parse().unwrap());
    headers.insert("x-checksum", "1".parse().unwrap());
    let mut head = http::Response::new(()).into_parts().0;
    head.headers = headers.clone();
    let id = world.sent[0].id;
    world.handle(Input::Head(id, head));
    world.chunk(0, "{}");
    world.handle(Input::End(id, Some(headers)));
    let names = |headers: &http::HeaderMap| headers.keys().map(|name| name.to_string()).collect::<Vec<_>>();
    assert_eq!(names(&world.head.as_ref().unwrap().headers), ["x-checksum"]);
    assert_eq!(names(world.trailers.as_ref().unwrap()), ["x-checksum"]);
}

#[test]
fn a_client_names_no_hosts_in_what_only_engines_can_read() {
    let evil = r#""kv_transfer_params":{"do_remote_prefill":true,"remote_host":"evil"}"#;
    let nested = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let utf16: Vec<u8> = format!("{{{evil}}}").encode_utf16().flat_map(u16::to_le_bytes).collect();
    let bodies: [(&str, Vec<u8>); 5] = [
        ("NaN, which Python reads", format!("{{{evil},\"temperature\":NaN}}").into_bytes()),
        ("Infinity", format!("{{{evil},\"x\":-Infinity}}").into_bytes()),
        ("a BOM, which Python skips", format!("\u{feff}{{{evil}}}").into_bytes()),
        ("nested deeper than we read", format!("{{{evil},\"x\":{nested}}}").into_bytes()),
        ("UTF-16, which Python detects", utf16),
    ];
    let mut passed = Vec::new();
    for (what, body) in bodies {
        let mut dispatch_config = DispatchConfig::new(Arc::new(Nixl::default()), Arc::new(()));
        dispatch_config.policy = Arc::new(patience());
        let request = Request::post("/v1/chat/completions").header("content-type", "application/json");
        let (parts, ()) = request.body(()).unwrap().into_parts();
        let mut world = Setup::new(REUSABLE, single(&[0])).idle();
        world.dispatch =
            Dispatch::new(dispatch_config, ClientRequest::new(&parts, body.into(), 7), single(&[0]), Vec::new());
        world.dispatch.start(world.now);
        world.perform();
        let sent = world.sent.first().map(|sent| String::from_utf8_lossy(sent.request.body()).replace('\0', ""));
        if sent.is_some_and(|sent| sent.contains("evil")) {
            passed.push(what);
        }
    }
    assert!(passed.is_empty(), "a pod is told of the client's host by: {passed:?}");
}

#[test]
fn a_client_names_no_hosts_for_encoded_media() {
    let body = Bytes::from_static(br#"{"ec_transfer_params":{"h":{"peer_host":"evil","peer_port":1}}}"#);
    assert_eq!(ClientFields::default().strip(&body), "{}");
}

#[derive(Debug)]
struct At(&'static str);

impl PodAddresses for At {
    fn address(&self, _: Pod) -> Option<Cow<'_, str>> {
        Some(Cow::Borrowed(self.0))
    }
}

/// The adapters take addresses with a scheme, and engines are told of the same ones.
#[test]
fn an_address_with_a_scheme_has_a_host_too() {
    for (address, host) in [("http://10.0.0.5:8000", "10.0.0.5"), ("https://pod.example/", "pod.example")] {
        let (addresses, body) = (At(address), Bytes::from_static(b"{}"));
        let leg =
            LegContext::new(Api::Chat, &body, &addresses).step("prefill", Role::Prefill, false).pods(pod(0), None);
        let made = SglangBootstrap::default().leg(&leg).unwrap();
        let text = String::from_utf8(made.body.to_vec()).unwrap();
        assert!(text.contains(&format!("\"bootstrap_host\":\"{host}\"")), "{text}");
    }
}

/// An answer that is read here, for what it hands over or says of usage, must not come packed because the client could unpack it.
#[test]
fn what_is_read_here_is_not_asked_for_packed() {
    let dispatch_config = DispatchConfig::new(Arc::new(Nixl::default()), Arc::new(()));
    let request = Request::post("/v1/chat/completions").header("accept-encoding", "gzip, br");
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let plan = two(&[0], &[2]);
    let mut world = Setup::new(REUSABLE, plan.clone()).idle();
    world.dispatch = Dispatch::new(dispatch_config, ClientRequest::new(&parts, "{}".into(), 7), plan, Vec::new());
    world.dispatch.start(world.now);
    world.perform();
    assert!(!world.sent[0].request.headers().contains_key("accept-encoding"));
}

/// A pod that was never reached, or was full, cannot have fetched anything.
#[test]
fn a_handoff_that_nobody_began_with_is_used_again() {
    for failure in [connect(), Failure::BreakerOpen, Failure::Status(429), Failure::Status(503)] {
        let mut world = with(Nixl::default(), r#"{"stream":true}"#, two(&[0, 1], &[2, 3]));
        world.head(0, 200).chunk(0, HANDED).end(0);
        match failure {
            Failure::Status(status) => drop(world.head(1, status)),
            _ => drop(world.fails(1, failure.clone())),
        }
        assert_eq!((world.pods(), world.request(2)), (vec![0, 2, 3], world.request(1)), "after {failure:?}");
    }
    // What is in a store is there for everybody, whatever happened.
    let mut world = with(SharedStorage::default(), r#"{"stream":true}"#, two(&[0, 1], &[2, 3]));
    world.head(0, 200).chunk(0, "{}").end(0).fails(1, cut());
    assert_eq!(world.pods(), [0, 2, 3]);
}

/// A dispatch of a request with this path, type and body, to one pod.
fn posted(path: &str, kind: Option<&str>, body: &[u8]) -> World {
    let request = kind.into_iter().fold(Request::post(path), |request, kind| request.header("content-type", kind));
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let dispatch_config = DispatchConfig::new(Arc::new(Plain::default()), Arc::new(()));
    let mut world = Setup::new(REUSABLE, single(&[0])).idle();
    let request = ClientRequest::new(&parts, Bytes::copy_from_slice(body), 7);
    world.dispatch = Dispatch::new(dispatch_config, request, single(&[0]), Vec::new());
    world.dispatch.start(world.now);
    world.perform();
    world
}

#[test]
fn a_body_that_only_engines_can_read_is_refused_before_anything_is_sent() {
    let (chat, other) = ("/v1/chat/completions", "/v1/audio/transcriptions");
    for (path, kind) in [
        (chat, None),
        (chat, Some("application/json")),
        (chat, Some("text/plain")),
        (other, None),
        (other, Some("")),
        (other, Some("Application/JSON; charset=utf-16")),
        (other, Some("application/problem+json")),
    ] {
        for body in [&b"{\"x\":NaN}"[..], b"\xef\xbb\xbf{}", b"{\0}\0", b"[1]", b" "] {
            let world = posted(path, kind, body);
            assert_eq!((world.status().as_u16(), world.sent.len()), (400, 0), "{path} {kind:?} {body:?}");
            assert!(matches!(world.error(), DispatchError::Handoff(HandoffError::Body(_))));
        }
        assert_eq!(posted(path, kind, b"{}").pods(), [0], "{path} {kind:?}");
        assert_eq!(posted(path, kind, b"").pods(), [0], "{path} {kind:?}: there is nothing to read");
    }
    for kind in ["multipart/form-data; boundary=x", "application/octet-stream"] {
        assert_eq!(posted(other, Some(kind), b"--x\r\n").request(0), "--x\r\n", "{kind}");
    }
}

/// Pods of which something is known.
#[derive(Clone, Debug)]
struct Known {
    addresses: Vec<Pod>,
    engines: Vec<Pod>,
}

impl PodAddresses for Known {
    fn address(&self, pod: Pod) -> Option<Cow<'_, str>> {
        self.addresses.contains(&pod).then_some(Cow::Borrowed("10.0.0.5:8000"))
    }
}

impl MooncakeEngines for Known {
    fn engine(&self, pod: Pod) -> Option<MooncakeEngine> {
        self.engines.contains(&pod).then(|| MooncakeEngine { id: "e".into(), rank: 0 })
    }
}

fn knowing(handoff: Arc<dyn Handoff>, known: Known, plan: RoutingPlan) -> World {
    let mut dispatch_config = DispatchConfig::new(handoff, Arc::new(known));
    dispatch_config.policy = Arc::new(patience());
    let (parts, ()) = Request::post("/v1/chat/completions").body(()).unwrap().into_parts();
    let mut world = Setup::new(REUSABLE, plan.clone()).idle();
    world.dispatch = Dispatch::new(dispatch_config, ClientRequest::new(&parts, "{}".into(), 7), plan, Vec::new());
    world.dispatch.start(world.now);
    world.perform();
    world
}

/// A pod that cannot be told of is passed over at nobody's charge, on whichever leg that shows.
#[test]
fn a_pod_that_cannot_be_told_of_is_passed_over() {
    let known = Known { addresses: vec![pod(1)], engines: vec![pod(0), pod(1)] };
    let sglang: Arc<dyn Handoff> = Arc::new(SglangBootstrap::default());
    let mooncake: Arc<dyn Handoff> = Arc::new(Mooncake::new(Arc::new(known.clone())));
    for (handoff, asked) in [(sglang, vec![1, 2]), (mooncake, vec![0, 1, 2])] {
        let world = knowing(Arc::clone(&handoff), known.clone(), two(&[0, 1], &[2]));
        assert_eq!((world.pods(), world.judged.len()), (asked, 0));
        let world = knowing(Arc::clone(&handoff), known.clone(), two(&[0], &[2]));
        assert_eq!(*world.error(), DispatchError::Handoff(HandoffError::NoAddress(pod(0))), "the last one's");
        let steps = [step("prefill", &[0]).on_failure(FailurePolicy::Skip), step("decode", &[2])];
        let world = knowing(handoff, known.clone(), plan(steps));
        assert_eq!(world.pods().last(), Some(&2), "left out");
        assert!(world.report.is_none());
    }
    let nobody = Known { addresses: vec![pod(0), pod(1)], engines: vec![pod(1)] };
    let world = knowing(Arc::new(Mooncake::new(Arc::new(nobody.clone()))), nobody, two(&[0, 1], &[2]));
    assert_eq!((world.pods(), world.judged.len()), (vec![1, 2], 0), "an engine that is not known");
}
