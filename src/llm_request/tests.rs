use std::sync::Arc;

use super::*;

fn router() -> Router {
    Router::builder("sim").alias("default").adapter("sql", None).build().unwrap()
}

fn read(body: &'static str) -> Result<LlmRequest, ApiError> {
    let (parts, ()) = http::Request::post("/v1/completions").body(()).unwrap().into_parts();
    router().read(parts, Bytes::from_static(body.as_bytes()))
}

#[test]
fn where_the_prompt_is_is_known_of_the_body_that_pods_get() {
    for body in [
        r#"{"model":"sim","system":"Be brief.","messages":[{"role":"user","content":"Why?"}]}"#,
        r#"{"model":"default","prompt":"Why is the sky blue?","tools":[]}"#,
        r#"{"model":"sql","max_tokens":1}"#,
    ] {
        let request = read(body).unwrap();
        let spans = request.request("sim", Instant::now()).prompt.cloned();
        assert_eq!(spans, Some(PromptFinder::find(&request.body)), "{body}");
    }
    let alias = read(r#"{"model":"default","prompt":"Why is the sky blue?"}"#).unwrap();
    let spans = alias.request("sim", Instant::now()).prompt.cloned().unwrap();
    assert_eq!(&alias.body[spans.text], b"\"Why is the sky blue?");
}

#[test]
fn what_clients_may_not_say_is_gone_from_what_pods_get_however_it_was_read() {
    let (parts, ()) = http::Request::post("/v1/completions").body(()).unwrap().into_parts();
    for (body, left) in [
        (r#"{"model":"sim","n":1,"kv_transfer_params":{"remote_host":"evil"}}"#, r#"{"model":"sim","n":1}"#),
        (r#"{"bootstrap_host":"evil","model":"default"}"#, r#"{"model":"sim"}"#),
        (r#"{"model":"sim","sampling_params":{"n":1}}"#, r#"{"model":"sim","sampling_params":{"n":1}}"#),
    ] {
        let router = Router::builder("sim").alias("default").pod(crate::PodSpec::new("a", "a:1")).build().unwrap();
        let request = router.read(parts.clone(), Bytes::from_static(body.as_bytes())).unwrap();
        let prepared = router.prepare(request, None).unwrap();
        assert_eq!(prepared.dispatch.request().body(), left, "{body}");
    }
    let router = Router::builder("sim").pod(crate::PodSpec::new("a", "a:1")).build().unwrap();
    let unread = router.read_opaque(parts, Bytes::from_static(br#"{"bootstrap_host":"evil"}"#));
    assert_eq!(router.prepare(unread, None).unwrap().dispatch.request().body(), "{}");
}

#[test]
fn a_body_that_is_not_read_may_be_anything_and_is_routed_all_the_same() {
    let router = Router::builder("sim").pod(crate::PodSpec::new("a", "a:1")).build().unwrap();
    let (parts, ()) = http::Request::post("/v1/audio/transcriptions").body(()).unwrap().into_parts();
    let request = router.read_opaque(parts, Bytes::from_static(b"--boundary"));
    assert_eq!((&request.body()[..], request.adapter()), (&b"--boundary"[..], None));
    assert!(router.prepare(request, None).is_ok());
}

#[test]
fn a_body_stays_as_it_is() {
    let body = r#"{ "model":"sim",  "max_tokens": 7, "cache_salt":"s", "user": "u", "temperature":1.0}"#;
    let request = read(body).unwrap();
    assert_eq!(request.body, body);
    let seen = request.request("sim", Instant::now());
    assert_eq!((seen.salt, seen.tenant, seen.most_output), (Some("s"), Some("u"), Some(7)));
}

#[test]
fn an_alias_is_replaced_and_nothing_else() {
    assert_eq!(read(r#"{"n": 1.0, "model":"default" }"#).unwrap().body, r#"{"n": 1.0, "model":"sim" }"#);
}

#[test]
fn an_adapter_is_named_as_a_model() {
    let body = r#"{"model":"sql"}"#;
    let request = read(body).unwrap();
    assert_eq!((request.adapter(), &request.body[..]), (Some("sql"), body.as_bytes()));
    assert_eq!(read(r#"{"model":"sim"}"#).unwrap().adapter(), None);
}

/// One token a byte of the prompt's body.
#[derive(Debug)]
pub(crate) struct Bytewise;

impl PromptTokenizer for Bytewise {
    fn tokenize(&self, body: &[u8], out: &mut Vec<u32>) -> Result<(), routing_plugins::tokenize::PromptError> {
        out.extend(body.iter().copied().map(u32::from));
        Ok(())
    }
}

#[test]
fn each_api_has_its_prompt_and_the_pod_gets_the_clients_own_body() {
    let router = Router::builder("sim").tokenizer(Arc::new(Bytewise)).build().unwrap();
    let text = |tokens: &[u32]| tokens.iter().filter_map(|token| char::from_u32(*token)).collect::<String>();
    for (path, body, prompt) in [
        ("/v1/embeddings", r#"{"model":"sim","input":["a","b"]}"#, r#"{"prompt":"a"}"#),
        (
            "/v1/messages",
            r#"{"model":"sim","max_tokens":7,"system":"s","messages":[{"role":"user","content":"u"}],"metadata":{"user_id":"u"}}"#,
            r#"{"messages":[{"role":"system","content":"s"},{"role":"user","content":"u"}]}"#,
        ),
        (
            "/v1/responses",
            r#"{"model":"sim","max_output_tokens":7,"input":"u","user":"u"}"#,
            r#"{"messages":[{"role":"user","content":"u"}],"add_special_tokens":true}"#,
        ),
        ("/v1/messages/count_tokens", r#"{"model":"sim","messages":[]}"#, ""),
    ] {
        let (parts, ()) = http::Request::post(path).body(()).unwrap().into_parts();
        let request = router.read(parts, Bytes::from_static(body.as_bytes())).unwrap();
        assert_eq!((text(request.tokens()), &request.body[..]), (prompt.to_owned(), body.as_bytes()), "{path}");
        let seen = request.request("sim", Instant::now());
        let is_limited = body.contains(":7");
        assert_eq!((seen.most_output, seen.tenant), (is_limited.then_some(7), is_limited.then_some("u")), "{path}");
        assert_eq!(request.has_samples(), path == "/v1/embeddings");
    }
}

#[test]
fn what_is_not_served_is_refused() {
    for (body, status, code) in [
        (r#"{"model":"other"}"#, 404, "model_not_found"),
        (r#"{"messages":[]}"#, 400, "missing_model"),
        (r#"{"model":7}"#, 400, "missing_model"),
        ("[]", 400, "invalid_json"),
        ("", 400, "invalid_json"),
    ] {
        let error = read(body).unwrap_err();
        assert_eq!((error.status.as_u16(), error.code), (status, code), "{body}");
    }
}

/// What its body says of its user is no client's.
#[test]
fn who_the_host_says_it_is_of_is_its_client() {
    let body = r#"{"model":"sim","prompt":"p","user":"ann"}"#;
    let client = |request: &LlmRequest| request.request("sim", Instant::now()).client.map(str::to_owned);
    assert_eq!(client(&read(body).unwrap()), None);
    assert_eq!(client(&read(body).unwrap().classify(FlowClass::new(0, ""))), None, "nobody in particular");
    assert_eq!(client(&read(body).unwrap().classify(FlowClass::new(0, "team-a"))).as_deref(), Some("team-a"));
}
