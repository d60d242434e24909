//! Other APIs than OpenAI's completions, and bodies that are not understood.

use std::time::Duration;

use pointsman_gateway::Gateway;
use pointsman_gateway::config::{PodRole, Profile};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::fixture::{CHAT, Client, FakePod, Script, WHOLE, config, gateway, within};

const MESSAGES: &str = r#"{"model":"sim","max_tokens":5,"stream":true,"system":"one two three four five six seven eight nine ten",
    "messages":[{"role":"user","content":[{"type":"text","text":"hello there"}]}]}"#;
const AS_CHAT: &str = r#"{"model":"sim","messages":[{"role":"system","content":"one two three four five six seven eight nine ten"},
    {"role":"user","content":"hello there"}]}"#;
const AS_RESPONSES: &str =
    r#"{"model":"sim","instructions":"one two three four five six seven eight nine ten","input":"hello there"}"#;
const MESSAGE_EVENTS: &[&str] = &[
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":20,\"output_tokens\":0}}}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"input_tokens\":4,\"cache_read_input_tokens\":16,\"output_tokens\":3}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
];

#[tokio::test]
async fn one_prompt_has_the_same_tokens_in_every_api() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let (gateway, client) = gateway(&[&pod]).await;
    for (path, body) in [("/v1/chat/completions", AS_CHAT), ("/v1/responses", AS_RESPONSES), ("/v1/messages", MESSAGES)]
    {
        assert_eq!(client.post(path, body, &[]).await.status, 200, "{path}");
        assert_eq!(pod.seen().last().unwrap().1, body, "{path}: the pod gets what the client wrote");
    }
    let tokens: Vec<u64> = gateway.state().decisions.iter().map(|decision| decision.prompt_tokens).collect();
    assert!(tokens.len() == 3 && tokens[0] > 16 && tokens.iter().all(|count| *count == tokens[0]), "{tokens:?}");
    for (path, body, expected) in [
        ("/v1/embeddings", r#"{"model":"sim","input":"one two three"}"#, 3),
        ("/v1/embeddings", r#"{"model":"sim","input":[1,2,3,4]}"#, 4),
        ("/v1/messages/count_tokens", MESSAGES, 0),
    ] {
        assert_eq!(client.post(path, body, &[]).await.status, 200, "{path}");
        assert_eq!(gateway.state().decisions[0].prompt_tokens, expected, "{path}");
    }
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_stream_of_messages_is_whole_with_its_last_event_and_its_usage_is_read() {
    let pod = FakePod::start("a", Script::Events(MESSAGE_EVENTS)).await;
    let (gateway, client) = gateway(&[&pod]).await;
    assert_eq!(client.post("/v1/messages", MESSAGES, &[]).await.text(), MESSAGE_EVENTS.concat());
    let decision = gateway.state().decisions[0].clone();
    assert_eq!((decision.cached_tokens, &*decision.outcome), (Some(16), "completed 200"), "{decision:?}");
    pod.answers(Script::Events(&MESSAGE_EVENTS[..2]));
    let answer = client.post("/v1/messages", MESSAGES, &[]).await;
    let error = answer.text().strip_prefix(&*MESSAGE_EVENTS[..2].concat()).unwrap();
    let data = error.strip_prefix("event: error\ndata: ").unwrap_or_else(|| panic!("{error}"));
    let data: Value = serde_json::from_str(data.trim_end()).unwrap();
    assert_eq!((&data["type"], &data["error"]["type"]), (&"error".into(), &"api_error".into()));
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn errors_have_the_form_of_the_requests_api() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let (gateway, client) = gateway(&[&pod]).await;
    for (path, is_anthropics) in [("/v1/messages", true), ("/v1/responses", false), ("/v1/embeddings", false)] {
        let answer = client.post(path, r#"{"model":"other"}"#, &[]).await;
        let json = answer.json();
        let kind = if is_anthropics { "not_found_error" } else { "invalid_request_error" };
        assert_eq!((answer.status, &json["error"]["type"]), (404, &kind.into()), "{path}");
        assert_eq!(json["type"] == "error", is_anthropics, "{path}");
    }
    assert_eq!(client.get("/v1/messages").await.json()["type"], "error", "a wrong method, too");
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_model_is_told_of_by_its_name() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let mut config = config(&[&pod]);
    config.model.aliases = vec!["org/some model".to_owned()];
    let gateway = Gateway::start(config).await.unwrap();
    let client = Client::new(gateway.address());
    for path in ["/v1/models/sim", "/v1/models/org/some%20model", "/v1/models/org%2Fsome%20model"] {
        let (status, json) = (client.get(path).await.status, client.get(path).await.json());
        assert_eq!((status, &json["object"]), (200, &"model".into()), "{path}: {json}");
    }
    let none = client.get("/v1/models/org/none").await;
    assert_eq!((none.status, &none.json()["error"]["code"]), (404, &"model_not_found".into()));
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn bodies_that_are_not_understood_get_a_clear_answer() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let (gateway, client) = gateway(&[&pod]).await;
    for (header, says) in [
        (("content-encoding", "gzip"), "Content-Encoding"),
        (("content-type", "multipart/form-data; boundary=x"), "application/json"),
    ] {
        let answer = client.post("/v1/chat/completions", CHAT, &[header]).await;
        let json = answer.json();
        assert_eq!(answer.status, 415, "{json}");
        assert!(json["error"]["message"].as_str().unwrap().contains(says), "{json}");
    }
    let fine =
        client.post("/v1/chat/completions", CHAT, &[("content-encoding", "identity"), ("accept-encoding", "gzip")]);
    assert_eq!(fine.await.status, 200);
    assert_eq!(pod.seen().len(), 1, "a pod sees none of the others");
    assert!(!pod.seen()[0].0.contains_key("accept-encoding"), "answers are read on their way: pods must not compress");
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn a_client_that_waits_to_be_asked_for_its_body_is_asked() {
    let pod = FakePod::start("a", Script::Whole(WHOLE)).await;
    let (gateway, _) = gateway(&[&pod]).await;
    let ask = async |extra: &str| {
        let mut stream = TcpStream::connect(gateway.address()).await.unwrap();
        let head = format!(
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n{extra}content-length: {}\r\n\r\n",
            CHAT.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut first = [0; 12];
        within("a status", stream.read_exact(&mut first)).await.unwrap();
        (stream, String::from_utf8(first.to_vec()).unwrap())
    };
    let (mut stream, first) = ask("connection: close\r\n").await;
    assert_eq!(first, "HTTP/1.1 100");
    stream.write_all(CHAT.as_bytes()).await.unwrap();
    let mut rest = String::new();
    within("an answer", stream.read_to_string(&mut rest)).await.unwrap();
    assert!(rest.contains("HTTP/1.1 200") && rest.ends_with(WHOLE), "{rest}");
    assert_eq!(ask("content-encoding: br\r\n").await.1, "HTTP/1.1 415", "and not where it would be of no use");
    gateway.drain(Duration::ZERO).await;
}

#[tokio::test]
async fn an_embedding_is_never_split_into_prefill_and_decode() {
    let prefill = FakePod::start("p", Script::Whole(WHOLE)).await;
    let decode = FakePod::start("d", Script::Whole(WHOLE)).await;
    let mut config = config(&[&prefill, &decode]);
    (config.pods[0].role, config.pods[1].role) = (PodRole::Prefill, PodRole::Decode);
    config.profile = Profile::stock("prefill_decode");
    let gateway = Gateway::start(config).await.unwrap();
    let body = r#"{"model":"sim","input":"one two three"}"#;
    assert_eq!(Client::new(gateway.address()).post("/v1/embeddings", body, &[]).await.text(), WHOLE);
    assert_eq!((prefill.seen().len(), &decode.seen()[0].1[..]), (0, body.as_bytes()));
    gateway.drain(Duration::ZERO).await;
}
